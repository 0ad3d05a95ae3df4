"""Programs that run in a process of their own under a budget of 64 MB: what operators make of elements on the side.

python copy_children.py <name>: see COPIES at the end. Each prints one line of JSON.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, D, settled, warm_up

BUDGET = 64 * MB
COUNT = 6
NAMES = [f"column {k}" for k in range(100)]


def distinct(size: int) -> ps.Dataset:
    """Half of the numbers in each are NaN: a form for all that is equal must be found."""

    def made(i: Any) -> np.ndarray:
        numbers = np.full(28 * size, float(i))
        numbers[::2] = np.nan
        return numbers

    return D.range(COUNT).map(made).unique()


def distinct_strings(size: int) -> ps.Dataset:
    return D.range(COUNT).map(lambda i: b"%d" % i + b"x" * 220 * size).unique()


def sparse_tables(size: int) -> ps.Dataset:
    return D.range(COUNT).map(lambda i: np.full((2 * size, 8), i, np.uint8)).sparse_batch(1, [None, None])


def turned_tables(size: int) -> ps.Dataset:
    return D.range(COUNT).map(lambda i: np.full((8, 14 * size // 8), float(i)).T).ragged_batch(2)


def turned_sparse_tables(size: int) -> ps.Dataset:
    return D.range(COUNT).map(lambda i: np.full((8, 5 * size // 8), float(i)).T).sparse_batch(2, [None, None])


def stacked_sparse(size: int) -> ps.Dataset:
    def made(i: Any) -> ps.Sparse:
        return ps.Sparse(np.arange(5 * size)[:, None].copy(), np.full(5 * size, i), np.array([5 * size]))

    return D.range(COUNT).map(made).batch(2)


def wide(size: int) -> ps.Dataset:
    """Rows of a hundred numbers, each an object of its own, through stages that each have some on their way."""

    def one_more(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value + 1 for name, value in row.items()}

    rows = D.range(size // 80).map(lambda i: dict.fromkeys(NAMES, i)).map(one_more, stateful=True)
    return rows.filter(lambda row: True).map(one_more).filter(lambda row: True).batch(size // 80)


def wide_table(size: int) -> ps.Dataset:
    rows = D.from_tensor_slices({name: np.zeros(size // 40) for name in NAMES})
    return rows.filter(lambda row: True).map(lambda row: {"sum": sum(row.values())}).batch(size // 40)


def short_strings(size: int) -> ps.Dataset:
    """Each string takes more than its bytes and its object's head."""

    def made(i: Any) -> np.ndarray:
        strings = np.empty(2000, object)
        strings[:] = [b"%02d" % (k % 100) for k in range(2000)]
        return strings

    return D.range(1 + size // 250).map(made).window(1 + size // 250)


COPIES: dict[str, Callable[[int], ps.Dataset]] = {
    build.__name__: build
    for build in (
        distinct,
        distinct_strings,
        sparse_tables,
        turned_tables,
        turned_sparse_tables,
        stacked_sparse,
        wide,
        wide_table,
        short_strings,
    )
}


def under_watch(build: Callable[[int], ps.Dataset]) -> dict[str, Any]:
    warm_up()
    for _ in build(100).run(memory=BUDGET):
        pass
    dataset = build(MB // 8)
    before = settled()
    count = 0
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory=BUDGET) as run:
        for element in run:
            count += 1
            del element
        ledger_peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": count}


if __name__ == "__main__":
    print(json.dumps(under_watch(COPIES[sys.argv[1]])))
