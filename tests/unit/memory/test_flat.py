"""Strings as flat arrays: what laying them out and cutting them takes beside them."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import BadType
from penstock.memory.flat import cut_bytes, ends, flat_bytes
from penstock.memory.leaves import leaf_of

COUNT = 100_000


def strings(count: int, width: int = 24) -> np.ndarray:
    array = np.empty(count, object)
    array[:] = [b"%0*d" % (width, i) for i in range(count)]
    return array


def views(buffer: Any, dtype: np.dtype[Any], count: int) -> np.ndarray:
    return np.frombuffer(buffer, dtype, count)


def peak_of(function: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count, width", [(0, 1), (1, 5), (4095, 4), (4096, 4), (4097, 4), (9000, 100), (5, 200_000)])
@pytest.mark.parametrize("kind", [list, np.asarray])
def test_strings_come_back_as_they_were(count: int, width: int, kind: Callable[[Any], Any]) -> None:
    items = strings(count, width)
    lengths, data = flat_bytes(kind(items))
    assert lengths.tolist() == [width] * count
    assert cut_bytes(data, ends(lengths)).tolist() == items.tolist()


def test_what_is_no_string_is_refused_wherever_it_is() -> None:
    items = strings(10_000)
    items[9_999] = "text"
    with pytest.raises(BadType, match="an array that holds str"):
        flat_bytes(items)


def test_laying_out_an_array_of_strings_takes_what_lies_on_disk_and_little_more() -> None:
    items = strings(COUNT)
    _, peak = peak_of(lambda: flat_bytes(items))
    assert peak < COUNT * (24 + 8) + 650_000  # lists of them, and of their lengths, took 8 bytes each more


def test_large_strings_are_laid_out_without_another_copy() -> None:
    items = strings(16, 500_000)
    _, peak = peak_of(lambda: flat_bytes(items))
    assert peak < 16 * 500_000 + 300_000


def test_an_array_of_strings_is_read_with_few_of_them_in_a_list() -> None:
    items = strings(COUNT)
    leaf = leaf_of(items)
    columns = leaf.columns([items])

    def read() -> list[Any]:
        remaining: Iterator[pa.Array] = iter(columns)
        return leaf.read(remaining, 1, views)

    (found,), peak = peak_of(read)
    assert found.tolist() == items.tolist()
    made = COUNT * (24 + 33 + 7)  # each an object, in blocks of 16 bytes
    assert peak < made + COUNT * 2 * 8 + 500_000  # the array that they are in, and once more; there was a list, too


def test_no_strings_are_read_as_none() -> None:
    none = np.empty((0, 3), object)
    leaf = leaf_of(none)
    (found,) = leaf.read(iter(leaf.columns([none])), 1, views)
    assert found.shape == (0, 3)
