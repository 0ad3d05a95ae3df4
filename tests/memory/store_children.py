"""Programs that run in a process of their own under a budget of 16 MB: 200 MB that are read from a store, or made text.

python store_children.py <name>: see PROGRAMS at the end. Each prints one line of JSON.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import zarr

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
COUNT, WIDTH = 8_000, 25_000


class Store:
    """Numbers that are made when they are sliced."""

    shape, dtype = (COUNT, WIDTH), np.dtype(np.uint8)

    def __getitem__(self, part: slice) -> np.ndarray:
        rows = np.arange(part.start, part.stop) % 251
        return np.repeat(rows.astype(np.uint8)[:, None], WIDTH, 1)


def in_hdf5(folder: Path) -> Any:
    stored = h5py.File(folder / "rows.h5", "w").create_dataset("rows", Store.shape, Store.dtype)
    for start in range(0, COUNT, 100):
        stored[start : start + 100] = Store()[start : start + 100]
    return stored


def in_zarr(folder: Path) -> Any:
    stored = zarr.create_array(str(folder / "rows"), shape=Store.shape, dtype=Store.dtype, chunks=(20, WIDTH))
    for start in range(0, COUNT, 100):
        stored[start : start + 100] = Store()[start : start + 100]
    return stored


def text(folder: Path) -> Any:
    return np.array([b"%d" % (i % 251) + b"x" * 20_000 for i in range(COUNT)])


SOURCES = {"a store": lambda folder: Store(), "h5py": in_hdf5, "zarr": in_zarr, "text": text}
ORDERS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda d: d,
    "nearly in order": lambda d: d.shuffle(4, seed=1),
}


def first(x: Any) -> Any:
    return np.int64(x[0]) if isinstance(x, np.ndarray) else np.int64(x.partition(b"x")[0])


def under_watch(source: str, order: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        dataset = ORDERS[order](D.from_tensor_slices(SOURCES[source](Path(folder)))).map(first).batch(COUNT)
        warm_up()
        for _ in dataset.take(0):
            pass
        before = settled()
        with PeakMemory(period_s=0.001) as watch, dataset.run(memory=16 * MB) as run:
            total = sum(int(batch.sum()) for batch in run)
        return {
            "growth": watch.peak_bytes - before,
            "equal": total == int((np.arange(COUNT) % 251).sum()),
            "ledger_peak": run.ledger.peak_bytes,
        }


PROGRAMS = [f"{source}, {order}" for source in SOURCES for order in ORDERS]

if __name__ == "__main__":
    print(json.dumps(under_watch(*sys.argv[1].split(", "))))
