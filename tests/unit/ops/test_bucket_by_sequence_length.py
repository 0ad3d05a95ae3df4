"""bucket_by_sequence_length: batches of elements of similar length."""

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


def lists(dataset: Any) -> list[Any]:
    return ["error" if isinstance(x, Exception) else x.tolist() for x in all_with_errors(dataset.run())]


def test_buckets() -> None:
    bucketed = vectors(1, 4, 2, 5, 3, 0, 6).bucket_by_sequence_length(len, [3, 5], [2, 2, 1])
    assert lists(bucketed) == [
        [[1, 0], [2, 2]],
        [[5, 5, 5, 5, 5]],
        [[4, 4, 4, 4], [3, 3, 3, 0]],
        [[6, 6, 6, 6, 6, 6]],
        [[]],
    ]
    kept = vectors(1, 4, 2, 5, 3, 0, 6).bucket_by_sequence_length(len, [3, 5], [2, 2, 1], drop_remainder=True)
    assert len(lists(kept)) == 4
    assert lists(vectors(2, 1).bucket_by_sequence_length(len, [], [2])) == [[[2, 2], [1, 0]]]


def test_shapes_and_values() -> None:
    rows = vectors(1, 2)
    assert lists(rows.bucket_by_sequence_length(len, [3], [2, 2], [4])) == [[[1, 0, 0, 0], [2, 2, 0, 0]]]
    assert lists(rows.bucket_by_sequence_length(len, [3], [2, 2], padding_values=-1)) == [[[1, -1], [2, 2]]]
    small = rows.bucket_by_sequence_length(len, [3], [2, 2], padded_shapes=[1])
    assert lists(small) == ["error"]
    pairs = rows.map(lambda row: {"a": row, "b": row[:1] / 2})
    (batch,) = pairs.bucket_by_sequence_length(lambda d: len(d["a"]), [3], [2, 2], padding_values={"a": 7, "b": None})
    assert batch["a"].tolist() == [[1, 7], [2, 2]]
    assert batch["b"].tolist() == [[0.5], [1.0]]


def test_padding_to_the_boundary() -> None:
    bucketed = vectors(1, 4, 2, 3).bucket_by_sequence_length(len, [3, 6], [2, 2, 2], pad_to_bucket_boundary=True)
    assert [np.shape(x) for x in lists(bucketed)] == [(2, 2), (2, 5)]
    long = vectors(1, 9, 2, 9, 9).bucket_by_sequence_length(len, [3], [2, 2], pad_to_bucket_boundary=True)
    assert lists(long) == [[[1, 0], [2, 2]], "error", "error"]
    with pytest.raises(SpecMismatch, match="expected elements of length below 3"):
        list(vectors(9).bucket_by_sequence_length(len, [3], [2, 2], pad_to_bucket_boundary=True))


def test_which_dimensions_are_padded_to_the_boundary() -> None:
    def bucketed(dataset: Any, shapes: Any = None) -> Any:
        (batch,) = dataset.bucket_by_sequence_length(len, [5], [2, 2], shapes, pad_to_bucket_boundary=True)
        return batch.shape

    arrays = [np.zeros((2, 3), np.int64), np.zeros((1, 3), np.int64)]
    for shape, expected in (((None, 3), (2, 4, 3)), ((None, None), (2, 4, 4))):
        signature = ps.TensorSpec(shape, np.int64)
        assert bucketed(Dataset.from_generator(lambda: iter(arrays), output_signature=signature)) == expected
    assert bucketed(Dataset.from_tensor_slices(np.zeros((2, 3)))) == (2, 3)
    assert bucketed(Dataset.from_tensor_slices(np.zeros((2, 3))), [None]) == (2, 4)
    after_a_function = Dataset.range(1, 3).map(lambda n: np.zeros((n, 3)))
    assert bucketed(after_a_function) == (2, 4, 3)
    assert bucketed(after_a_function, [None, None]) == (2, 4, 4)


def test_no_padding() -> None:
    rows = vectors(1, 4, 1, 4).bucket_by_sequence_length(len, [3], [2, 2], no_padding=True)
    assert lists(rows) == [[[1], [1]], [[4, 4, 4, 4], [4, 4, 4, 4]]]
    unequal = vectors(1, 2, 1).bucket_by_sequence_length(len, [3], [2, 2], no_padding=True)
    assert lists(unequal) == ["error", [[1]]]


@pytest.mark.parametrize("length", [np.int32(2), np.int64(2), 2, np.array(2), -5])
def test_lengths(length: Any) -> None:
    assert lists(vectors(1, 1).bucket_by_sequence_length(lambda row: length, [3], [2, 3])) == [[[1], [1]]]


@pytest.mark.parametrize("length", [2.0, None, np.ones(1, int), True])
def test_what_is_no_length(length: Any) -> None:
    found = all_with_errors(vectors(1, 1).bucket_by_sequence_length(lambda row: length, [3], [2, 3]).run())
    assert len(found) == 2
    assert all(isinstance(x, BadType) and "element_length_func: expected one integer" in str(x) for x in found)


def test_errors_in_place() -> None:
    rows = Dataset.range(8).map(lambda n: np.full(n % 3 + 1, n) if n != 4 else n[9])
    expected = [[[1, 1, 0], [2, 2, 2]], [[0], [3]], "error", [[5, 5, 5], [7, 7, 0]], [[6]]]
    assert lists(rows.bucket_by_sequence_length(len, [2], [2, 2])) == expected


def test_boundaries_out_of_order_take_the_first_bucket_that_fits() -> None:
    assert lists(vectors(1, 3, 4, 5).bucket_by_sequence_length(len, [4, 2], [2, 2, 2])) == [
        [[1, 0, 0], [3, 3, 3]],
        [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]],
    ]


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((len, [3], [2]), BadArgument),
        ((len, [3], [2, 0]), BadArgument),
        ((len, [3.5], [2, 2]), BadType),
        ((len, 3, [2, 2]), BadType),
        ((3, [3], [2, 2]), BadType),
    ],
)
def test_misuse(arguments: Any, error: type[Exception]) -> None:
    where = r"^bucket_by_sequence_length at test_bucket_by_sequence_length.py:\d+: .*expected"
    with pytest.raises(error, match=where):
        vectors(1).bucket_by_sequence_length(*arguments)


def test_spec() -> None:
    slices = Dataset.from_tensor_slices(np.zeros((4, 3), np.float32))
    bucketed = slices.bucket_by_sequence_length(len, [3], [2, 2])
    assert bucketed.element_spec == ps.TensorSpec((None, 3), np.float32)
    assert bucketed.cardinality() == ps.UNKNOWN
    assert slices.repeat().bucket_by_sequence_length(len, [3], [2, 2]).cardinality() == ps.INFINITE
    stacked = slices.bucket_by_sequence_length(len, [3], [2, 2], no_padding=True, drop_remainder=True)
    assert stacked.element_spec == ps.TensorSpec((None, 3), np.float32)


def test_no_more_is_read_than_is_needed() -> None:
    made: list[int] = []
    rows = Dataset.range(100).map(lambda n: made.append(int(n)) or np.zeros(n % 2, np.int8))
    with rows.bucket_by_sequence_length(len, [1], [4, 4]).run() as run:
        next(run)
    assert made == list(range(7))


def test_what_is_held_is_on_the_ledger() -> None:
    rows = Dataset.range(40).map(lambda n: np.zeros(1000 + n % 4, np.int8))
    with rows.bucket_by_sequence_length(len, [1001, 1002, 1003], [5] * 4).run(memory=50_000) as run:
        assert sum(1 for _ in run) == 8
        assert run.ledger.peak_bytes >= 17_000


@pytest.mark.parametrize("options", [{}, {"drop_remainder": True}, {"pad_to_bucket_boundary": True}])
def test_laws(options: dict[str, bool]) -> None:
    rows = Dataset.range(12).map(lambda n: (np.full(n * 5 % 6, n) if n != 4 else n[9], n))
    check_op(rows.bucket_by_sequence_length(lambda row, n: len(row), [2, 4], [2, 3, 1], **options))
