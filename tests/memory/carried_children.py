"""Programs that run in a process of their own: inner datasets that have arrays, or caches, of 4 MB to themselves.

python carried_children.py <name>: see PIPELINES. Each prints one line of JSON.
"""

import json
import sys
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
NUM_MADE = 24
NUM_ROWS = 40
NUM_SMALL = 2 * NUM_MADE * NUM_ROWS


def made(*_: Any) -> Any:
    return D.from_tensor_slices(np.ones((NUM_ROWS, 4 * MB // NUM_ROWS), np.uint8))


def cached(*_: Any) -> Any:
    return D.range(NUM_ROWS).map(lambda i: np.ones(4 * MB // NUM_ROWS, np.uint8)).cache()


def large() -> Any:
    return D.range(NUM_MADE).map(lambda i: np.ones((NUM_ROWS, 4 * MB // NUM_ROWS), np.uint8))


def small(*_: Any) -> Any:
    """As large as is left out of account: all of them together are 96 MB."""
    return D.from_tensors(np.ones(50_000, np.uint8))


def generated() -> Any:
    for _ in range(NUM_MADE):
        yield made()


def opened(datasets: Any) -> Any:
    return datasets.flat_map(lambda dataset: dataset)


#: The budget in MB, and the pipeline.
PIPELINES: dict[str, tuple[int, Any]] = {
    "flat_mapped": (16, lambda: D.range(NUM_MADE).flat_map(made)),
    "interleaved": (24, lambda: D.range(NUM_MADE).interleave(made, cycle_length=4)),
    "in_threads": (24, lambda: D.range(NUM_MADE).interleave(made, cycle_length=4, num_parallel_calls=4)),
    "grouped": (16, lambda: D.range(NUM_MADE).group_by_window(lambda i: 0, made, window_size=1)),
    "shuffled": (24, lambda: D.range(NUM_MADE).flat_map(made).shuffle(NUM_MADE * NUM_ROWS, seed=1)),
    "caches_shuffled": (24, lambda: D.range(NUM_MADE).flat_map(cached).shuffle(NUM_MADE * NUM_ROWS, seed=1)),
    "caches_cached": (24, lambda: D.range(NUM_MADE).interleave(cached, cycle_length=2).cache()),
    "given_shuffled": (24, lambda: large().flat_map(D.from_tensor_slices).shuffle(NUM_MADE * NUM_ROWS, seed=1)),
    "given_cached": (24, lambda: large().interleave(D.from_tensor_slices, cycle_length=2).cache()),
    "small_shuffled": (24, lambda: D.range(NUM_SMALL).flat_map(small).shuffle(NUM_SMALL, seed=1)),
    "small_grouped": (
        24,
        lambda: D.range(NUM_SMALL).group_by_window(lambda i: 0, small, window_size=1).shuffle(NUM_SMALL, seed=1),
    ),
    "elements_cached": (24, lambda: opened(D.range(NUM_MADE).map(made).cache())),
    "pairs_cached": (24, lambda: D.range(NUM_MADE).map(lambda i: (i, made())).cache().flat_map(lambda i, d: d)),
    "elements_of_what_was_given": (
        24,
        lambda: opened(large().filter(lambda x: True).map(D.from_tensor_slices).cache()),
    ),
    "elements_in_threads": (24, lambda: opened(D.range(NUM_MADE).map(made, num_parallel_calls=8))),
    "elements_generated": (24, lambda: opened(D.from_generator(generated).cache())),
    "elements_opened_shuffled": (24, lambda: opened(D.range(NUM_MADE).map(made)).shuffle(NUM_MADE * NUM_ROWS, seed=1)),
}


def under_watch(name: str) -> dict[str, Any]:
    budget, make = PIPELINES[name]
    warm_up()
    before = settled()
    with PeakMemory(period_s=0.001) as watch, make().run(memory=budget * MB) as run:
        count = sum(1 for _ in run)
    growth = watch.peak_bytes - before
    expected = NUM_SMALL if name.startswith("small") else NUM_MADE * NUM_ROWS
    return {"growth": growth, "most": budget * MB, "count": count, "expected": expected}


if __name__ == "__main__":
    print(json.dumps(under_watch(sys.argv[1])))
