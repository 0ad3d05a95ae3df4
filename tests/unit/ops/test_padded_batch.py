"""padded_batch: elements of unequal shape, padded and stacked."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def vectors(*lengths: int, dtype: Any = np.int64) -> Any:
    return Dataset.from_tensor_slices(np.array(lengths, np.int64)).map(lambda n: np.full(n, n, dtype))


def pairs(*lengths: int) -> Any:
    return vectors(*lengths).map(lambda row: (row, np.float32(len(row))))


def lists(dataset: Any) -> list[Any]:
    return ["error" if isinstance(x, Exception) else x.tolist() for x in all_with_errors(dataset.run())]


def test_pads_to_the_longest_of_each_batch() -> None:
    assert lists(vectors(1, 0, 3, 2, 1).padded_batch(2)) == [[[1], [0]], [[3, 3, 3], [2, 2, 0]], [[1]]]
    assert lists(vectors(1, 0, 3).padded_batch(2, drop_remainder=True)) == [[[1], [0]]]
    assert lists(vectors().padded_batch(2)) == []


@pytest.mark.parametrize("shape", [[3], (3,), 3, np.array([3]), [np.int64(3)]])
def test_a_shape(shape: Any) -> None:
    assert lists(vectors(1, 2).padded_batch(2, shape)) == [[[1, 0, 0], [2, 2, 0]]]


@pytest.mark.parametrize("shape", [[None], [-1], (None,), None])
def test_a_shape_that_is_left_open(shape: Any) -> None:
    assert lists(vectors(1, 2).padded_batch(2, shape)) == [[[1, 0], [2, 2]]]


def test_several_axes() -> None:
    grids = Dataset.range(1, 4).map(lambda n: np.full((n, 4 - n), n, np.uint8))
    (batch,) = grids.padded_batch(3, [None, 4], padding_values=9)
    assert batch.dtype == np.uint8
    assert batch.shape == (3, 3, 4)
    assert batch[1].tolist() == [[2, 2, 9, 9], [2, 2, 9, 9], [9, 9, 9, 9]]


@pytest.mark.parametrize(
    "dtype, value, expected",
    [
        (np.int64, None, 0),
        (np.int64, -1, -1),
        (np.uint8, 255, 255),
        (np.float32, 0.5, 0.5),
        (np.float64, np.float64(2), 2.0),
        (np.bool_, None, False),
        (np.bool_, True, True),
        (object, None, b""),
        (object, "é", "é".encode()),
        (np.complex64, 1j, 1j),
    ],
)
def test_values(dtype: Any, value: Any, expected: Any) -> None:
    item = b"s" if dtype is object else 1
    rows = Dataset.range(2).map(lambda n: np.full(n, item, dtype))
    (batch,) = rows.padded_batch(2, padding_values=value)
    assert batch.dtype == np.dtype(dtype)
    assert batch[0].tolist() == [expected]


@pytest.mark.parametrize("value", [1.5, np.int32(1), True, b"x", np.float64(1), 2**70])
def test_a_value_of_another_dtype_is_refused(value: Any) -> None:
    slices = Dataset.from_tensor_slices(np.zeros((2, 2), np.int64))
    with pytest.raises(SpecMismatch, match=r"padded_batch at .*: padding_values: "):
        slices.padded_batch(2, padding_values=value)
    # After a function the dtype shows when it runs.
    assert lists(vectors(1, 2).padded_batch(2, padding_values=value)) == ["error"]


def test_a_value_must_be_a_scalar() -> None:
    with pytest.raises(SpecMismatch, match=r"expected a scalar for component 0, got shape \(2,\)"):
        Dataset.from_tensor_slices(np.zeros((2, 2))).padded_batch(2, padding_values=np.zeros(2))


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Sample:
    x: Any
    y: Any


@pytest.mark.parametrize("kind", [tuple, dict, Point, Sample])
def test_nests(kind: Any) -> None:
    def nest(x: Any, y: Any) -> Any:
        return (x, y) if kind is tuple else {"x": x, "y": y} if kind is dict else kind(x, y)

    rows = pairs(1, 2).map(nest)
    batches = [
        *rows.padded_batch(2, padding_values=nest(np.int64(7), None)),
        *rows.padded_batch(2, nest([3], []), nest(7, None)),
    ]
    for batch, size in zip(batches, (2, 3), strict=True):
        x, y = batch if isinstance(batch, tuple) else (batch["x"], batch["y"]) if kind is dict else (batch.x, batch.y)
        assert type(batch) is kind
        assert x.tolist() == [[1] + [7] * (size - 1), [2, 2] + [7] * (size - 2)]
        assert y.tolist() == [1.0, 2.0]


def test_none_stands_for_a_branch_and_a_scalar_for_all() -> None:
    rows = vectors(0, 1).map(lambda row: {"a": (row, row), "b": row})
    (batch,) = rows.padded_batch(2, padding_values={"a": None, "b": 5})
    assert [leaf.tolist() for leaf in (*batch["a"], batch["b"])] == [[[0], [1]], [[0], [1]], [[5], [1]]]
    (batch,) = rows.padded_batch(2, padding_values=4)
    assert [leaf.tolist() for leaf in (*batch["a"], batch["b"])] == [[[4], [1]]] * 3


@pytest.mark.parametrize(
    "shapes, values",
    [
        (([3],), None),
        ([[3], []], None),
        ({"a": [3]}, None),
        (([3], None), None),
        (None, (1,)),
        (None, {"a": 1}),
        (None, ((1,), np.float32(2))),
    ],
)
def test_nests_that_do_not_fit(shapes: Any, values: Any) -> None:
    slices = Dataset.from_tensor_slices((np.zeros((2, 3), np.int64), np.zeros(2, np.float32)))
    with pytest.raises((SpecMismatch, BadType), match=r"^padded_batch at test_padded_batch.py:\d+: padd"):
        slices.padded_batch(2, shapes, values)
    assert isinstance(all_with_errors(pairs(1, 2).padded_batch(2, shapes, values).run())[0], (SpecMismatch, BadType))


@pytest.mark.parametrize("shape, error", [([1.5], BadType), ("a", BadType), ([-2], BadArgument), ([[3]], BadType)])
def test_what_is_no_shape(shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="padded_shapes: expected"):
        Dataset.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, shape)


def test_what_the_spec_tells() -> None:
    slices = Dataset.from_tensor_slices((np.zeros((5, 3), np.float32), np.zeros(5, np.int64)))
    spec = (ps.TensorSpec((None, 3), np.float32), ps.TensorSpec((None,), np.int64))
    assert slices.padded_batch(2).element_spec == spec
    assert slices.padded_batch(2).cardinality() == 3
    wide = slices.padded_batch(2, ([None], []), drop_remainder=True)
    assert wide.element_spec == (ps.TensorSpec((2, None), np.float32), ps.TensorSpec((2,), np.int64))
    assert wide.cardinality() == 2
    for shape in ([2], [3, 3], []):
        with pytest.raises(SpecMismatch, match=r"cannot hold component 0 of shape \(3,\)"):
            slices.padded_batch(2, (shape, []))
    with pytest.raises(BadArgument, match="the rank of component 0 is not known"):
        Dataset.range(2).concatenate(Dataset.range(4).batch(2)).padded_batch(2)


def test_what_cannot_be_padded() -> None:
    for dataset in (Dataset.range(4).window(2), vectors(1, 2).ragged_batch(2)):
        with pytest.raises(BadType, match=r"^padded_batch at "):
            list(dataset.padded_batch(2))


def test_errors_take_their_batch_along() -> None:
    assert lists(vectors(1, 3, 1, 1, 2).padded_batch(2, [2])) == ["error", [[1, 0], [1, 0]], [[2, 2]]]
    failing = Dataset.range(8).map(lambda n: np.full(6 // (3 - n), n))
    assert lists(failing.take(2).concatenate(vectors(1)).padded_batch(4)) == [[[0, 0, 0], [1, 1, 1], [1, 0, 0]]]
    mixed = Dataset.range(4).map(lambda n: np.zeros((1,) * (1 + n // 3)) if n != 1 else np.zeros(1, np.float32))
    found = all_with_errors(mixed.padded_batch(2).run())
    assert "expected equal dtypes, got float64 for element 0 of the batch and float32 for element 1" in str(found[0])
    assert "component 0: expected 1 dimensions, got (1, 1) for element 1" in str(found[1])


def test_nothing_is_copied_where_there_is_nothing_to_pad() -> None:
    data = np.arange(12.0).reshape(4, 3)
    for batch in Dataset.from_tensor_slices(data).padded_batch(2):
        assert np.shares_memory(batch, data)
    for batch in Dataset.from_tensor_slices(data).padded_batch(2, [4]):
        assert batch.shape == (2, 4)
        assert not np.shares_memory(batch, data)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_that_is_none(size: int) -> None:
    with pytest.raises(BadArgument, match="batch_size: expected at least 1"):
        vectors(1).padded_batch(size)


def test_laws() -> None:
    check_op(pairs(1, 0, 3, 2, 1, 4, 2).padded_batch(2))
    check_op(Dataset.range(20).map(lambda n: np.full(12 // (5 - n) % 3, n)).padded_batch(3, drop_remainder=True))
