"""Programs on arrays that come from the heap: too small to be mapped one by one, many, and of varying sizes.

python heap_children.py <name>: see PROGRAMS at the end. Each prints one line of JSON.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow.ipc  # loaded when something goes to disk: not to be measured

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
EPOCHS = 3


def varying(i: Any, nbytes: int) -> np.ndarray:
    """From a quarter of so many bytes to all of them."""
    size = nbytes // 4
    return np.full(size // 4 + int(i) * 7919 % (size * 3 // 4), float(i), np.float32)


def generated(count: int, nbytes: int) -> Any:
    def elements() -> Iterator[np.ndarray]:
        for i in range(count):
            yield varying(i * 31, nbytes)

    return D.from_generator(elements)


def shuffled(count: int, nbytes: int) -> Any:
    return generated(count, nbytes).shuffle(count // 3, seed=1).padded_batch(2).prefetch(2)


def padded(count: int, nbytes: int) -> Any:
    return D.range(count).filter(lambda i: True).map(lambda i: varying(i, nbytes)).padded_batch(4).prefetch(2)


def images(count: int, nbytes: int) -> Any:
    made = D.range(count).map(lambda i: np.full(nbytes, i % 251, np.uint8), num_parallel_calls=4)
    return made.filter(lambda image: image[0] < 255).shuffle(64, seed=1).batch(4).prefetch(2)


def all_together(count: int, nbytes: int) -> Any:
    return (
        D.range(4)
        .interleave(lambda i: generated(count // 4, nbytes), cycle_length=4)
        .map(lambda x: x + 1, num_parallel_calls=16)
        .cache()
        .shuffle(count // 3, seed=1)
        .padded_batch(2)
        .prefetch(8)
    )


def under_watch(build: Callable[[int, int], Any], nbytes: int, budget: int) -> dict[str, Any]:
    """The growth of this process in each of some epochs, the last left early, and what it keeps after each."""
    # Under no smaller budget than the one that is measured: malloc would be set up for that one, and stay so.
    warm_up()
    for _ in build(99, 1000).run(memory=budget):
        pass
    dataset = build(5 * budget // nbytes, nbytes)
    before = settled()
    growth, left, ledger_peak = [], [], 0
    for epoch in range(EPOCHS):
        with PeakMemory(period_s=0.001) as watch, dataset.run(memory=budget) as run:
            for i, _batch in enumerate(run):
                watch._look()
                if epoch == EPOCHS - 1 and i == 20:
                    break
            ledger_peak = max(ledger_peak, run.ledger.peak_bytes)
        del run, _batch
        growth.append(watch.peak_bytes - before)
        left.append(settled() - before)
    return {"growth": growth, "left": left, "ledger_peak": ledger_peak, "budget": budget}


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": functools.partial(under_watch, shuffled, 400_000, 40 * MB),
    "padded": functools.partial(under_watch, padded, 600_000, 10 * MB),
    "images": functools.partial(under_watch, images, 600_000, 40 * MB),
    "all_together": functools.partial(under_watch, all_together, 400_000, 40 * MB),
}

if __name__ == "__main__":
    assert pyarrow.ipc
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
