"""write_row against NumPy's own assignment: what is like is written, what is unlike is left to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock._native import write_row


def _write(column: np.ndarray, leaf: Any, row: int = 1) -> bool:
    return write_row((column,), (type(leaf),), row, (leaf,))


@pytest.mark.parametrize(
    "leaf",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(12, dtype=np.int16)[::2],
        np.arange(6).reshape(2, 3).T,
        np.array(["2020-01-01", "2021-01-01"], "M8[D]"),
        np.array([(1, 2.0)], [("a", np.int8), ("b", np.float64)]),
        np.zeros((0, 3)),
        np.ones((1, 1, 1)),
        np.arange(40_000),
        np.array([b"a", b"bc"], object),
        np.arange(3, dtype=">i4"),
        np.int64(7),
        np.float16(0.5),
        np.bool_(True),
        np.complex128(1 + 2j),
        np.datetime64("2020-01-01"),
        np.array([(1, 2.0)], [("a", np.int8), ("b", np.float64)])[0],
    ],
    ids=lambda leaf: f"{leaf.dtype}{leaf.shape}",
)
@pytest.mark.parametrize("num_rows", [1, 3])
def test_like_leaves_are_written_to_their_row_alone(leaf: Any, num_rows: int) -> None:
    column = np.zeros((num_rows, *leaf.shape), leaf.dtype)
    twin = column.copy()
    row = num_rows - 1
    assert _write(column, leaf, row)
    twin[row] = leaf
    np.testing.assert_array_equal(column, twin)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros((3, 1))),
        (np.zeros(3), np.zeros(3, np.int64)),
        (np.zeros(3, "<i4"), np.zeros(3, ">i4")),
        (np.zeros(3), np.float64(0)),
        (np.float64(0), np.float32(0)),
        (np.datetime64("2020-01-01", "D"), np.datetime64("2020-01-01", "s")),
        (np.zeros(3), [0.0, 0.0, 0.0]),
        (np.zeros(3), None),
        (np.zeros(3), np.zeros(3).view(np.recarray)),
    ],
)
def test_an_unlike_leaf_is_told_and_not_written(first: Any, other: Any) -> None:
    column = np.full((2, *first.shape), first)
    twin = column.copy()
    assert not write_row((column,), (type(first),), 1, (other,))
    np.testing.assert_array_equal(column, twin)


def test_equal_dtypes_need_not_be_one_object() -> None:
    dtype = np.dtype(np.float64, metadata={"unit": "m"})
    column = np.zeros((2, 3))
    assert _write(column, np.ones(3, dtype))
    np.testing.assert_array_equal(column[1], np.ones(3))


def test_columns_may_lie_apart() -> None:
    whole = np.zeros((4, 6))
    assert _write(whole[::2, ::2], np.ones(3))
    assert whole.sum() == whole[2, ::2].sum() == 3


@pytest.mark.parametrize("row", [-1, 2])
def test_a_row_outside_is_refused(row: int) -> None:
    with pytest.raises(IndexError, match=f"row {row} is outside"):
        _write(np.zeros((2, 3)), np.zeros(3), row)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="columns must be arrays"):
        write_row(([0],), (np.ndarray,), 0, (np.zeros(1),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as many types and leaves"):
        write_row((np.zeros(1),), (), 0, (np.float64(1),))
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        _write(fixed, np.zeros(3))
