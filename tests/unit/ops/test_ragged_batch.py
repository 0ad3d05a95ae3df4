"""ragged_batch: elements of unequal shape in one Ragged."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def vectors(size: int) -> Any:
    return Dataset.range(size).map(lambda n: np.full(n % 3, n))


def given(shape: Any, arrays: list[Any]) -> Any:
    return Dataset.from_generator(lambda: iter(arrays), output_signature=ps.TensorSpec(shape, np.int64))


def test_rows() -> None:
    batches = list(vectors(5).ragged_batch(2))
    assert [batch.to_list() for batch in batches] == [[[], [1]], [[2, 2], []], [[4]]]
    assert batches[0].row_splits.dtype == np.int64
    assert batches[1].row_splits.tolist() == [0, 2, 2]
    assert batches[1].values.tolist() == [2, 2]
    assert len(list(vectors(5).ragged_batch(2, drop_remainder=True))) == 2


@pytest.mark.parametrize("dtype", [np.int32, "int32", np.dtype(np.int32)])
def test_row_splits_dtype(dtype: Any) -> None:
    (batch,) = vectors(3).ragged_batch(3, row_splits_dtype=dtype)
    assert batch.row_splits.dtype == np.int32


@pytest.mark.parametrize(
    "dtype, error", [(np.int16, BadArgument), (np.float32, BadArgument), (None, BadArgument), ("x", BadType)]
)
def test_another_row_splits_dtype_is_refused(dtype: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="row_splits_dtype: expected int64 or int32"):
        vectors(3).ragged_batch(3, row_splits_dtype=dtype)


def test_components_of_known_shape_are_stacked() -> None:
    data = (np.arange(6).reshape(3, 2), np.arange(3))
    dataset = Dataset.from_tensor_slices(data).ragged_batch(2)
    assert [(a.tolist(), b.tolist()) for a, b in dataset] == [([[0, 1], [2, 3]], [0, 1]), ([[4, 5]], [2])]
    assert dataset.element_spec == (ps.TensorSpec((None, 2), np.int64), ps.TensorSpec((None,), np.int64))
    assert dataset.cardinality() == 2


@pytest.mark.parametrize(
    "shape, arrays, spec, levels",
    [
        ((None,), [np.arange(2), np.arange(1)], (None, None), 1),
        ((None, 2), [np.zeros((3, 2), int), np.ones((1, 2), int)], (None, None, 2), 1),
        ((2, None), [np.zeros((2, 3), int), np.ones((2, 1), int)], (None, 2, None), 2),
        ((None, None), [np.zeros((0, 3), int), np.ones((2, 0), int)], (None, None, None), 2),
        ((2, None, 3), [np.zeros((2, 1, 3), int), np.ones((2, 2, 3), int)], (None, 2, None, 3), 2),
    ],
)
def test_ragged_up_to_the_last_dimension_that_varies(shape: Any, arrays: Any, spec: Any, levels: int) -> None:
    dataset = given(shape, arrays).ragged_batch(2)
    assert type(dataset.element_spec).__name__ == "RaggedSpec"
    assert dataset.element_spec.shape == spec
    (batch,) = dataset
    assert batch.to_list() == [array.tolist() for array in arrays]
    for _ in range(levels):
        assert isinstance(batch, ps.Ragged)
        batch = batch.values
    assert isinstance(batch, np.ndarray)


def test_after_a_function_every_dimension_may_vary_and_scalars_are_stacked() -> None:
    rows = Dataset.range(3).map(lambda n: {"a": np.full((n, 2), n), "b": n, "c": b"x" * n})
    (batch,) = rows.ragged_batch(3)
    assert batch["a"].to_list() == [[], [[1, 1]], [[2, 2], [2, 2]]]
    assert isinstance(batch["a"].values, ps.Ragged)
    assert batch["b"].tolist() == [0, 1, 2]
    assert batch["c"].tolist() == [b"", b"x", b"xx"]


def test_strings() -> None:
    (batch,) = Dataset.range(3).map(lambda n: np.full(n, b"s", object)).ragged_batch(3)
    assert batch.to_list() == [[], [b"s"], [b"s", b"s"]]


def test_batches_of_batches() -> None:
    rows = Dataset.range(4).map(lambda n: np.full(n, n))
    (batch,) = rows.ragged_batch(2).ragged_batch(2)
    assert batch.row_splits.tolist() == [0, 2, 4]
    assert batch.values.row_splits.tolist() == [0, 0, 1, 3, 6]
    (sparse,) = rows.sparse_batch(2, [3]).ragged_batch(2)
    assert sparse.dense_shape.tolist() == [2, 2, 3]
    assert sparse.indices.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 2]]


def test_errors() -> None:
    ranks = Dataset.range(4).map(lambda n: np.zeros((1,) * (1 + int(n == 1))))
    found = all_with_errors(ranks.ragged_batch(2).run())
    assert isinstance(found[0], SpecMismatch)
    assert "expected elements of equal rank, got shape (1,) for element 0 of the batch and (1, 1)" in str(found[0])
    assert found[1].to_list() == [[0.0], [0.0]]
    dtypes = Dataset.range(2).map(lambda n: np.zeros(2, [np.int32, np.int64][int(n)]))
    with pytest.raises(SpecMismatch, match="equal inner shape and dtype"):
        list(dtypes.ragged_batch(2))
    with pytest.raises(BadType, match="cannot batch datasets"):
        Dataset.range(4).window(2).ragged_batch(2)
    with pytest.raises(BadArgument, match="batch_size: expected at least 1, got 0"):
        vectors(3).ragged_batch(0)


def test_laws() -> None:
    check_op(vectors(7).ragged_batch(3))
    check_op(vectors(7).map(lambda row: (row, np.outer(row, row))).ragged_batch(2, drop_remainder=True))
    check_op(Dataset.range(10).map(lambda n: np.full(12 // (5 - n) % 3, n)).ragged_batch(3))
