"""Programs that write a Parquet file in a process of their own: `python writing_children.py <kind>=<path>`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet  # noqa: F401  loaded before the watch begins

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import settled, warm_up

D = ps.Dataset


def drawn(make: Callable[[np.random.Generator], Any]) -> Callable[[int], Any]:
    """So many rows of numbers that hardly ever come twice: a dictionary of them is of no use."""

    def rows(count: int) -> Any:
        return D.range(count).random_map(lambda _, rng: make(rng), seed=1)

    return rows


def table(count: int) -> Any:
    def some(rows: np.ndarray) -> Any:
        return {f"c{number}": np.sin(rows * (number + 0.5)) for number in range(8)}

    return D.range(count).map(some, vectorized=True)


def of_any_length(make: Callable[[np.random.Generator, int], Any], shortest: float, longest: float) -> Any:
    """Rows of lengths between powers of ten, behind a shuffle that takes all the memory which it gets."""

    def rows(count: int) -> Any:
        def row(x: Any, rng: np.random.Generator) -> Any:
            return {"x": make(rng, int(10 ** rng.uniform(shortest, longest))), "n": x}

        stream = D.range(count).filter(lambda x: True)  # which has no order to be shuffled by
        return stream.random_map(row, seed=1, num_parallel_calls=4).shuffle(count // 8, seed=1)

    return rows


#: Rows of each kind, and how many of them make a file that is larger than the budget.
KINDS: dict[str, tuple[Callable[[int], Any], int]] = {
    "columns of floats": (table, 3_000_000),
    "vectors": (drawn(lambda rng: {"x": rng.random(2_000, np.float32)}), 25_000),
    "vectors of any length": (drawn(lambda rng: {"x": rng.random(rng.integers(1, 4_000), np.float32)}), 25_000),
    "large vectors": (drawn(lambda rng: {"x": rng.random(500_000, np.float32)}), 100),
    "images": (drawn(lambda rng: {"x": rng.integers(0, 256, (224, 224, 3), np.uint8), "y": 1}), 1_300),
    "shuffled vectors": (of_any_length(lambda rng, size: rng.random(size, np.float32), 4, 5.3), 700),
    "shuffled strings": (of_any_length(lambda rng, size: rng.bytes(size), 4, 5.5), 1500),
    "strings": (drawn(lambda rng: {"s": rng.bytes(100)}), 400_000),
}


def main(kind: str, path: str) -> dict[str, Any]:
    warm_up()
    rows, count = KINDS[kind]
    options = ps.Options(memory="32MB")
    small = str(Path(path).with_name("small.parquet"))
    D.range(20).random_map(lambda x, _: {"x": x}, seed=1).with_options(options).to_parquet(small)
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        rows(count).with_options(options).to_parquet(path)
    return {"growth": watch.peak_bytes - before, "nbytes": Path(path).stat().st_size}


if __name__ == "__main__":
    kind, _, path = sys.argv[1].partition("=")
    print(json.dumps(main(kind, path)))
