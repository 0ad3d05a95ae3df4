"""Batches of numbered elements: what was written comes back, whatever stands beside it."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.element import Failed
from penstock.leaf import Ragged, dtype_of
from penstock.memory.batches import BatchFiles
from penstock.memory.spill import SpillSpace

MIXED = [
    np.arange(3),
    np.arange(3, 6),
    np.arange(6).reshape(2, 3),
    np.arange(3, dtype=">i8"),
    np.arange(3, dtype="<i8"),
    np.arange(6, dtype=">f4").reshape(2, 3),
    np.arange(3).astype(">M8[D]"),
    np.arange(3).astype(">c8"),
    np.array([(1, 2.5)] * 2, [("a", ">i4"), ("b", "<f8")]),
    np.array([(1, 2.5)] * 2, [("a", ">i4"), ("b", "<f8")])[0],
    Ragged(np.arange(3, dtype=">i2"), np.array([0, 1, 3])),
    np.arange(3, dtype=np.float32),
    np.array(7),
    np.array(8),
    np.int64(9),
    np.empty((0, 4), np.int64),
    np.arange(6).reshape(2, 3).T,
    (np.arange(2), np.float64(1.5)),
    ((np.arange(2), np.float64(2.5)), ()),
    {"a": b"text", "b": np.array([b"x", b"yz"], object)},
    np.arange(3),
]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[BatchFiles]:
    space = SpillSpace(str(tmp_path))
    yield BatchFiles(space)
    space.close()


def same(a: Any, b: Any) -> bool:
    """Whether two elements are equal, classes and dtypes too."""
    if isinstance(b, (tuple, dict)):
        parts = zip(a.values(), b.values(), strict=True) if isinstance(b, dict) else zip(a, b, strict=True)
        return type(a) is type(b) and all(same(x, y) for x, y in parts)
    if isinstance(b, Ragged):
        return type(a) is Ragged and same(a.values, b.values) and same(a.row_splits, b.row_splits)
    if not isinstance(b, np.ndarray):
        return type(a) is type(b) and dtype_of(a) == dtype_of(b) and bool(a == b)
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def read_all(files: BatchFiles, written: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for file, batches in written.files:
        for batch in batches:
            numbers, rows = files.read(file, batch.stored)
            assert numbers[0] == batch.first
            found.update(zip(numbers, rows, strict=True))
    return found


def test_elements_of_all_kinds_come_back_under_their_numbers(files: BatchFiles) -> None:
    elements = MIXED * 3
    found = read_all(files, files.write(((i * 5, row, 100) for i, row in enumerate(elements)), batch_bytes=700))
    assert sorted(found) == [i * 5 for i in range(len(elements))]
    assert all(same(found[i * 5], row) for i, row in enumerate(elements))
    assert len(files) == 0  # files go when all was read


def test_what_cannot_be_stored_is_named(files: BatchFiles) -> None:
    rows = [(4, np.arange(3), 24), (5, Failed(ValueError("no")), 0), (6, np.arange(3), 24)]
    written = files.write(rows, batch_bytes=1000)
    assert written.left_out == [5]
    assert sorted(read_all(files, written)) == [4, 6]


def test_no_more_elements_are_held_than_a_batch_has(files: BatchFiles) -> None:
    made: list[weakref.ref[np.ndarray]] = []
    most = 0

    def rows() -> Iterator[tuple[int, Any, int]]:
        nonlocal most
        for i in range(1000):
            row = np.full(13, i)
            made.append(weakref.ref(row))
            most = max(most, sum(one() is not None for one in made))
            yield i, row, 104

    written = files.write(rows(), batch_bytes=104 * 50)
    assert [batch.stored.num_rows for _, batches in written.files for batch in batches] == [50] * 20
    assert most <= 53
