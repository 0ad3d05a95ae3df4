"""Batches of every kind of leaf, put together and taken apart."""

from typing import Any

import numpy as np
import pytest

from penstock.errors import BadType, SpecMismatch
from penstock.leaf import Ragged, Sparse
from penstock.ops.stacking import collate, join, num_rows, ragged_of, slice_rows, split_rows, stack

INT64 = np.dtype(np.int64)


def nested(leaf: Any) -> Any:
    if not isinstance(leaf, Ragged):
        return leaf.tolist()
    rows = nested(leaf.values)
    return [rows[a:b] for a, b in zip(leaf.row_splits[:-1].tolist(), leaf.row_splits[1:].tolist(), strict=True)]


def deep() -> list[np.ndarray]:
    return [np.arange(a * b * c).reshape(a, b, c) for a, b, c in ((1, 2, 3), (2, 0, 1), (0, 4, 2), (3, 1, 2))]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_ragged_levels(rank: int) -> None:
    arrays = deep() if rank == 3 else [np.arange(n * 2 * 3).reshape(n, 2, 3) for n in (1, 0, 2, 3)]
    batch = ragged_of(arrays, rank, INT64, np.empty)
    assert nested(batch) == [array.tolist() for array in arrays]
    assert nested(slice_rows(batch, 1, 3)) == [array.tolist() for array in arrays[1:3]]
    assert [nested(row) for row in split_rows(batch, 1, 4)] == [array.tolist() for array in arrays[1:]]
    parts = [slice_rows(batch, a, b) for a, b in ((0, 1), (1, 1), (1, 4))]
    assert nested(join(parts, np.empty)) == nested(batch)
    assert nested(stack([batch, batch], np.empty)) == [nested(batch)] * 2
    assert num_rows([batch, np.zeros(4), None]) == 4


def test_row_splits_that_cannot_count_so_far() -> None:
    huge = np.broadcast_to(np.zeros(1, np.int8), (2**31, 1))[:, :0]
    with pytest.raises(SpecMismatch, match="int32 cannot count the 2,147,483,648 values"):
        ragged_of([huge], 1, np.dtype(np.int32), np.empty)


def test_sparse() -> None:
    rows = [Sparse(np.array([[i]]), np.array([i]), np.array([i + 1])) for i in range(3)]
    batch = stack(rows, np.empty)
    assert batch.to_dense(-1).tolist() == [[0, -1, -1], [-1, 1, -1], [-1, -1, 2]]
    assert slice_rows(batch, 1, 3).to_dense(-1).tolist() == [[-1, 1, -1], [-1, -1, 2]]
    assert [row.to_dense(-1).tolist() for row in split_rows(batch, 1, 2)] == [[-1, 1, -1]]
    with pytest.raises(SpecMismatch, match=r"equal rank, got ranks \[2, 3\]"):
        join([batch, stack([batch], np.empty)], np.empty)


def test_collate() -> None:
    batch = collate([{"a": np.int8(i), "b": (b"x", None)} for i in range(2)], np.empty)
    assert batch["a"].tolist() == [0, 1]
    assert batch["a"].dtype == np.int8
    assert batch["b"][0].tolist() == [b"x", b"x"]
    assert batch["b"][1] is None


@pytest.mark.parametrize(
    "leaves",
    [
        [np.zeros(1), np.zeros(2)],
        [np.zeros(1), np.zeros(1, np.int8)],
        [np.int8(1), np.int16(1)],
        [None, np.zeros(1)],
        [b"", np.zeros(1)],
        [Ragged(np.zeros(1), np.array([0, 1])), np.zeros(1)],
    ],
)
def test_leaves_that_differ(leaves: list[Any]) -> None:
    with pytest.raises(SpecMismatch, match=r"for element 0 of the batch and .* for element 1"):
        stack(leaves, np.empty)


def test_what_is_no_batch() -> None:
    for leaves in ([np.int8(1)], [b"x"], [None], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(SpecMismatch):
            num_rows(leaves)


def test_datasets() -> None:
    class Nested:
        __penstock_dataset__ = True
        static_element_spec = None

    with pytest.raises(BadType, match="use flat_map"):
        stack([Nested()], np.empty)
