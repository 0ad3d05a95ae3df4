"""sparse_batch: arrays of unequal shape in one Sparse."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def vectors(*lengths: int) -> Any:
    return Dataset.from_tensor_slices(np.array(lengths, np.int64)).map(lambda n: np.full(n, n))


def parts(batch: Any) -> list[Any]:
    return [batch.indices.tolist(), batch.values.tolist(), batch.dense_shape.tolist()]


def test_rows() -> None:
    first, last = vectors(0, 1, 2).sparse_batch(2, [4])
    assert parts(first) == [[[1, 0]], [1], [2, 4]]
    assert parts(last) == [[[0, 0], [0, 1]], [2, 2], [1, 4]]
    assert last.to_dense().tolist() == [[2, 2, 0, 0]]
    assert first.indices.dtype == first.dense_shape.dtype == np.int64


@pytest.mark.parametrize("shape", [[None], (None,)])
def test_the_largest_size_of_the_batch(shape: Any) -> None:
    assert [batch.shape for batch in vectors(1, 3, 0, 0).sparse_batch(2, shape)] == [(2, 3), (2, 0)]


def test_several_axes() -> None:
    grids = Dataset.range(1, 3).map(lambda n: np.arange(2 * n).reshape(2, n))
    (batch,) = grids.sparse_batch(2, [None, 3])
    assert batch.shape == (2, 2, 3)
    assert batch.to_dense(-1).tolist() == [[[0, -1, -1], [1, -1, -1]], [[0, 1, -1], [2, 3, -1]]]


def test_scalars_and_strings() -> None:
    (numbers,) = Dataset.range(3).sparse_batch(3, [])
    assert parts(numbers) == [[[0], [1], [2]], [0, 1, 2], [3]]
    (words,) = Dataset.range(3).map(lambda n: b"x" * n).sparse_batch(3, [])
    assert words.values.tolist() == [b"", b"x", b"xx"]
    (rows,) = Dataset.range(3).map(lambda n: np.full(n, b"s", object)).sparse_batch(3, [2])
    assert rows.values.tolist() == [b"s"] * 3


def test_zeros_are_values_too() -> None:
    (batch,) = Dataset.from_tensor_slices(np.zeros((2, 2))).sparse_batch(2, [2])
    assert len(batch.values) == 4


def test_spec() -> None:
    slices = Dataset.from_tensor_slices(np.zeros((5, 2), np.float32)).sparse_batch(2, [None])
    assert type(slices.element_spec).__name__ == "SparseSpec"
    assert slices.element_spec.shape == (None, None)
    assert slices.cardinality() == 3


def test_an_element_that_does_not_fit_ends_the_batch_at_once() -> None:
    found = all_with_errors(vectors(1, 2, 9, 1, 9, 2).sparse_batch(3, [3]).run())
    assert [isinstance(x, SpecMismatch) for x in found] == [True, True, False]
    assert "fit into row_shape [3], got shape (9,)" in str(found[0])
    assert parts(found[2]) == [[[0, 0], [0, 1]], [2, 2], [1, 3]]


@pytest.mark.parametrize("shape", [[2], [3, 3], []])
def test_what_the_spec_shows_to_be_too_small(shape: Any) -> None:
    with pytest.raises(SpecMismatch, match=r"^sparse_batch at test_sparse_batch.py:\d+: .* got shape \(3,\)"):
        Dataset.from_tensor_slices(np.zeros((4, 3))).sparse_batch(2, shape)


@pytest.mark.parametrize("shape, error", [([-1], BadArgument), ([1.5], BadType), (None, BadType), ("a", BadType)])
def test_what_is_no_shape(shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="row_shape: expected"):
        vectors(1).sparse_batch(2, shape)


def test_one_component_only() -> None:
    pairs = (np.zeros((2, 2)), np.zeros(2))
    for dataset in (Dataset.from_tensor_slices(pairs), Dataset.range(4).window(2)):
        with pytest.raises(BadType, match="expected elements of one component"):
            dataset.sparse_batch(2, [2])
    for result in ((np.zeros(1), np.zeros(1)), {"a": np.zeros(1)}, None):
        found = all_with_errors(vectors(1).map(lambda x, r=result: r).sparse_batch(2, [2]).run())
        assert len(found) == 1
        assert isinstance(found[0], (TypeError, ValueError))


def test_laws() -> None:
    check_op(vectors(1, 2, 9, 1, 0, 9, 2, 3).sparse_batch(3, [4]))
    check_op(Dataset.range(10).map(lambda n: np.full(12 // (5 - n) % 3, n)).sparse_batch(3, [None]))
