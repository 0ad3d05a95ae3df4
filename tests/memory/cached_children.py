"""Programs that run in a process of their own: caches of 44 MB that nobody reads any more, under a budget of 64.

python cached_children.py <name>: see PIPELINES and PROGRAMS. Each prints one line of JSON.
"""

import gc
import json
import sys
import time
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
BUDGET = 64 * MB
NUM_CACHED = 11


def large(i: Any) -> np.ndarray:
    return np.full(1_000_000, i, np.float32)


def slowly(element: Any) -> Any:
    time.sleep(0.01)
    return element


def cached() -> Any:
    return D.range(NUM_CACHED).map(large).cache()


def made_ahead() -> Any:
    return D.range(60).map(large).batch(2).prefetch(6).unbatch()


def one_after_the_other() -> Any:
    first, second = cached(), made_ahead()
    return D.range(2).flat_map(lambda i: second if i else first)


#: How many elements come, and the pipeline.
PIPELINES: dict[str, tuple[int, Any]] = {
    "concatenated": (NUM_CACHED + 60, lambda: cached().concatenate(made_ahead())),
    "of_a_function": (NUM_CACHED + 60, one_after_the_other),
    "made_for_each": (8 * NUM_CACHED, lambda: D.range(8).flat_map(lambda _: cached())),
    "in_windows": (3 * NUM_CACHED, lambda: cached().repeat(3).window(6).flat_map(lambda window: window)),
}


def in_turn() -> int:
    """Ten datasets that were cached, read one after the other: runs that share a pool."""
    ps.set_memory(BUDGET)
    datasets = [cached() for _ in range(10)]
    return sum(len(list(map(np.shape, dataset))) for dataset in datasets)


def below_a_cache() -> int:
    """A cache that nobody reads any more, since all is in the one above it; in a second run that holds much else."""
    above = cached().map(lambda x: x + 1).cache()
    count = 0
    with above.run(memory=BUDGET) as run:
        count += sum(1 for _ in run)
    with above.concatenate(made_ahead()).run(memory=BUDGET) as run:
        count += sum(1 for _ in map(slowly, run))
    return count


#: How many elements come, and the program.
PROGRAMS: dict[str, tuple[int, Any]] = {
    "in_turn": (10 * NUM_CACHED, in_turn),
    "below_a_cache": (2 * NUM_CACHED + 60, below_a_cache),
}


def under_watch(name: str) -> dict[str, Any]:
    expected, make = {**PIPELINES, **PROGRAMS}[name]
    warm_up()
    gc.disable()  # what nobody has any more is gone without it
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        if name in PROGRAMS:
            count = make()
        else:
            with make().run(memory=BUDGET) as run:
                count = sum(1 for _ in map(slowly, run))
    return {"growth": watch.peak_bytes - before, "most": BUDGET, "count": count, "expected": expected}


if __name__ == "__main__":
    print(json.dumps(under_watch(sys.argv[1])))
