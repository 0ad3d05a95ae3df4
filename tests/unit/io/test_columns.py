"""Columns: the same rows however an array is laid out, and the indices behind a batch passed on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.element import LEAF
from penstock.indexed import IndexCursor
from penstock.io.columns import Column, column_of
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.order import Index, PermutationOrder, RangeOrder, as_array

INDEX = np.array([5, 0, 7, 7, 3, 2, 6, 1])
WITH_OBJECTS = np.dtype([("number", "f8"), ("object", object)])


def column(array: Any) -> Column:
    ledger = Ledger(10_000_000)
    return column_of(array, Arena(Slots(ledger), ledger.share("test")))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape)


ARRAYS: dict[str, Callable[[], np.ndarray]] = {
    "scalars": lambda: numbers(8),
    "rows": lambda: numbers(8, 600),
    "images": lambda: numbers(8, 30, 20, 3),
    "every second row": lambda: numbers(16, 600)[::2],
    "backwards": lambda: numbers(8, 600)[::-1],
    "Fortran order": lambda: np.asfortranarray(numbers(8, 600)),
    "one row again and again": lambda: np.broadcast_to(numbers(600), (8, 600)),
    "dates": lambda: numbers(8, 600).astype("M8[s]"),
    "big-endian": lambda: numbers(8, 600).astype(">f8"),
    "fields": lambda: np.array([(i, b"x" * 600) for i in range(8)], "i4,S600"),
    "fields with objects": lambda: np.array([(i, [i]) for i in range(8)], WITH_OBJECTS),
    "no bytes": lambda: np.empty((8, 0)),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_any_rows_of_any_layout(make: Callable[[], np.ndarray]) -> None:
    array = make()
    rows = column(array)
    for start, size in [(0, 8), (2, 4), (7, 1), (3, 0)]:
        picked = rows.pick(INDEX, start, size)
        assert picked.dtype == array.dtype
        assert picked.flags.writeable
        assert not np.shares_memory(picked, array)
        assert np.array_equal(picked, array[INDEX[start : start + size]])
    assert np.array_equal(rows.view(slice(2, 5)), array[2:5])


@pytest.mark.parametrize("n", [1, 3, 7, 100])
def test_a_reader_that_gathers_is_told_what_comes_next(n: int) -> None:
    order = PermutationOrder(RangeOrder(100), 7)
    places = as_array(order.slice(0, 100))

    class Gatherer:
        def read(self, index: Index) -> Block:
            raise AssertionError("gather is asked instead")

        def gather(self, index: np.ndarray, start: int, size: int) -> Block:
            assert np.array_equal(index[start:], places[seen:])
            return Block.of_columns(LEAF, [index[start : start + size]], size)

    cursor, seen = IndexCursor(Gatherer(), order), 0
    while (block := cursor.pull(n)) is not None:
        assert block.columns is not None
        assert np.array_equal(block.columns[0], places[seen : seen + n])
        seen += block.size
    assert seen == 100
