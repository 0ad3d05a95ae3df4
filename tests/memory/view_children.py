"""Programs that run in a process of their own under a budget of 16 MB: 64 MB of read-only views that functions make.

python view_children.py <name>: see VIEWS at the end. Each prints one line of JSON.
"""

import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

COUNT = 64


def sealed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Lender:
    """Lends memory the way that libraries without NumPy do."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, True)}


def arrow_halves(array: np.ndarray) -> Any:
    column = pa.array(array).to_numpy()
    return column[: len(column) // 2], column[len(column) // 2 :]


def held(view: Any, size: int, memory: Any) -> list[Any]:
    """The first numbers of elements that a cache, and then a shuffle, has held."""
    found: list[Any] = []
    made = ps.Dataset.range(COUNT).map(lambda i: np.full(size, i % 251, np.uint8), stateful=True).map(view)
    for dataset in (made.cache(), made.map(lambda *parts: parts, stateful=True).shuffle(COUNT, seed=1)):
        with dataset.run(memory=memory) as run:
            # Everything is there when the last element comes: it is held until the run ends.
            found += [int(element[0].flat[0]) if type(element) is tuple else int(element[0]) for element in run]
    return found


def under_watch(view: Any) -> dict[str, Any]:
    warm_up()
    expected = held(view, 1_000, "16MB")
    held(view, 10_000, 400_000)  # and with files
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        found = held(view, MB, "16MB")
    return {"growth": watch.peak_bytes - before, "equal": found == expected}


VIEWS = {
    "arrow": lambda array: pa.array(array).to_numpy(),
    "arrow_halves": arrow_halves,
    "arrow_buffer": lambda array: np.frombuffer(pa.py_buffer(array.tobytes()), np.uint8),
    "dlpack": lambda array: sealed(np.from_dlpack(array.copy())),
    "array_interface": lambda array: np.asarray(Lender(array.copy())),
    "read_only_part": lambda array: sealed(np.concatenate([array, array])[: len(array)]),
    "read_only_halves": lambda array: tuple(map(sealed, np.array_split(array.copy(), 2))),
    "read_only_argument": lambda array: sealed(array[:]),
    "repeated": lambda array: np.broadcast_to(array.copy(), (1, len(array)))[0],
}

if __name__ == "__main__":
    print(json.dumps(under_watch(VIEWS[sys.argv[1]])))
