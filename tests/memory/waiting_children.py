"""Programs that run in a process of their own under a budget of 32 MB: what waits there keeps more alive than it is.

python waiting_children.py <name>: see WAITING at the end. Each prints one line of JSON.
"""

import json
import sys
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import D, settled, warm_up

COUNT = 100
SIZE = 4_000_000


def fails(i: Any) -> None:
    in_hand = np.ones(SIZE, np.uint8)
    raise ValueError(f"{i}: {in_hand[0]}")


def undecoded(i: Any) -> Any:
    """Half of them are errors, each with the whole string in it."""
    return (b"x" * SIZE + b"\xff" * (int(i) % 2)).decode()


def carrying(i: Any) -> None:
    error = ValueError("bad", np.ones(SIZE, np.uint8))
    error.data = [np.ones(SIZE, np.uint8)]  # type: ignore[attr-defined]
    raise error


class Sample:
    def __init__(self, data: Any) -> None:
        self.data = data


def behind_an_object(i: Any) -> None:
    raise ValueError("bad", Sample(np.ones(SIZE, np.uint8)))


def behind_a_closure(i: Any) -> None:
    data = np.ones(SIZE, np.uint8)
    raise ValueError("bad", lambda: data)


def crop(i: Any) -> np.ndarray:
    return np.ones((2000, 2000), np.uint8)[100:132, 100:132]


def failures(dataset: ps.Dataset) -> ps.Dataset:
    """One element at the end, so that what waited before it is all there."""
    return dataset.concatenate(D.range(1)).ignore_errors()


def under_watch(dataset: ps.Dataset, memory: str) -> dict[str, Any]:
    warm_up()
    before = settled()
    count = 0
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory=memory) as run:
        for _ in run:
            count += 1
            watch._look()
    return {"growth": watch.peak_bytes - before, "count": count}


WAITING = {
    "parallel_failures": lambda: failures(D.range(COUNT).map(fails, num_parallel_calls=4)),
    "failures_ahead": lambda: failures(D.range(COUNT).map(fails).prefetch(COUNT)),
    "failures_at_once": lambda: failures(D.range(COUNT).map(fails)),
    "undecoded_in_a_shuffle": lambda: (
        D.range(COUNT).map(undecoded).filter(lambda x: True).shuffle(COUNT).ignore_errors()
    ),
    "carrying_in_a_shuffle": lambda: failures(D.range(COUNT).map(carrying).filter(lambda x: True).shuffle(COUNT)),
    "carrying_ahead": lambda: failures(D.range(COUNT).map(carrying, num_parallel_calls=2).prefetch(64)),
    "carrying_in_windows": lambda: failures(D.range(COUNT).map(carrying).window(40, 20)),
    "objects_in_a_shuffle": lambda: failures(
        D.range(COUNT).map(behind_an_object).filter(lambda x: True).shuffle(COUNT)
    ),
    "closures_in_windows": lambda: failures(D.range(COUNT).map(behind_a_closure).window(40, 20)),
    "crops_ahead": lambda: D.range(COUNT).map(crop).prefetch(COUNT),
    "parallel_crops": lambda: D.range(COUNT).map(lambda i: {"a": (crop(i), i)}, num_parallel_calls=8),
    "crops_in_a_shuffle": lambda: D.range(COUNT).map(crop).filter(lambda x: True).shuffle(COUNT, seed=1),
    "padded_crops": lambda: D.range(COUNT).map(crop).padded_batch(32),
    "windows_of_crops": lambda: D.range(COUNT).map(crop).window(60),
    "states": lambda: D.range(COUNT).scan(np.ones(16_000_000, np.uint8), lambda state, i: (state + 1, i)),
    "states_ahead": lambda: (
        D.range(COUNT).scan(np.ones(16_000_000, np.uint8), lambda state, i: (state + 1, i)).prefetch(COUNT)
    ),
    "interleaved_failures": lambda: failures(D.range(COUNT).interleave(lambda i: D.range(3).map(fails), 30)),
}

if __name__ == "__main__":
    print(json.dumps(under_watch(WAITING[sys.argv[1]](), "32MB")))
