"""rebatch: batches of another size."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def lists(dataset: Any) -> list[Any]:
    return ["error" if isinstance(x, Exception) else x.tolist() for x in all_with_errors(dataset.run())]


def failing() -> Any:
    """[0 1 2] error [6 7 8] [9]"""
    return Dataset.range(10).batch(3).map(lambda b: b if b[0] != 3 else b[9])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 20])
@pytest.mark.parametrize("drop", [False, True])
def test_as_unbatch_and_batch(size: int, drop: bool) -> None:
    batches = Dataset.range(8).batch(3)
    assert lists(batches.rebatch(size, drop)) == lists(batches.unbatch().batch(size, drop))


@pytest.mark.parametrize("sizes", [[3, 1], (3, 1), np.array([3, 1])])
def test_sizes_in_turn(sizes: Any) -> None:
    assert lists(Dataset.range(9).batch(4).rebatch(sizes)) == [[0, 1, 2], [3], [4, 5, 6], [7], [8]]
    assert lists(Dataset.range(9).batch(4).rebatch(sizes, drop_remainder=True)) == [[0, 1, 2], [3], [4, 5, 6], [7]]


@pytest.mark.parametrize("seen", [True, False])
def test_a_size_of_nothing_among_others(seen: bool) -> None:
    batches = Dataset.range(4).batch(3) if seen else Dataset.range(4).batch(3).map(lambda b: b)
    end = [[]] if seen else []  # what an empty batch looks like is known, or seen from the batch that follows
    assert lists(batches.rebatch([0, 2])) == [[], [0, 1], [], [2, 3], *end]
    assert lists(batches.rebatch([3, 0])) == [[0, 1, 2], [], [3]]
    assert lists(batches.take(0).rebatch([0, 3])) == end


def test_nests_and_other_leaves() -> None:
    nested = {"a": np.arange(5), "b": (np.array([b"v", b"w", b"x", b"y", b"z"], object),)}
    rows = list(Dataset.from_tensor_slices(nested).batch(2).rebatch(3))
    assert [row["a"].tolist() for row in rows] == [[0, 1, 2], [3, 4]]
    assert rows[0]["b"][0].tolist() == [b"v", b"w", b"x"]
    vectors = Dataset.range(5).map(lambda n: np.full(n, n))
    ragged = list(vectors.ragged_batch(2).rebatch(3))
    assert [batch.to_list() for batch in ragged] == [[[], [1], [2, 2]], [[3, 3, 3], [4, 4, 4, 4]]]
    sparse = list(vectors.sparse_batch(2, [None]).rebatch(3))
    assert [batch.shape for batch in sparse] == [(3, 3), (2, 4)]
    assert sparse[0].to_dense().tolist() == [[0, 0, 0], [1, 0, 0], [2, 2, 0]]


def test_a_batch_within_one_is_a_view() -> None:
    data = np.arange(12)
    for batch in Dataset.from_tensors(data).rebatch(4):
        assert np.shares_memory(batch, data)


def test_spec() -> None:
    batches = Dataset.from_tensor_slices(np.zeros((4, 6, 2), np.float32))
    assert batches.rebatch(3).element_spec == ps.TensorSpec((3, 2), np.float32)
    assert batches.rebatch([3, 3]).element_spec == ps.TensorSpec((3, 2), np.float32)
    assert batches.rebatch([3, 1]).element_spec == ps.TensorSpec((None, 2), np.float32)
    assert batches.rebatch(4).element_spec == ps.TensorSpec((None, 2), np.float32)
    assert batches.rebatch(4, drop_remainder=True).element_spec == ps.TensorSpec((4, 2), np.float32)
    assert batches.rebatch(3).cardinality() == ps.UNKNOWN


@pytest.mark.parametrize(
    "size, expected",
    [
        (1, [[0], [1], [2], "error", [6], [7], [8], [9]]),
        (2, [[0, 1], "error", [6, 7], [8, 9]]),
        (4, ["error", [6, 7, 8, 9]]),
        ([1, 2], [[0], [1, 2], "error", [6], [7, 8], [9]]),
        ([2, 3], [[0, 1], "error", [6, 7, 8], [9]]),
    ],
)
def test_a_batch_that_failed_takes_what_was_gathered_along(size: Any, expected: list[Any]) -> None:
    assert lists(failing().rebatch(size)) == expected


def test_inner_shapes_that_differ() -> None:
    rows = Dataset.range(4).map(lambda n: np.full((2, n), n))
    assert lists(rows.rebatch(3)) == ["error", "error", [[3, 3, 3], [3, 3, 3]]]
    keys = Dataset.range(2).map(lambda n: {str(n): np.zeros(2)})
    with pytest.raises(SpecMismatch, match=r"equal structure, got \{'0': ·\} and \{'1': ·\}"):
        list(keys.rebatch(3))


@pytest.mark.parametrize(
    "size, error",
    [(0, BadArgument), (-3, BadArgument), ([], BadArgument), ([0, 0], BadArgument), ([2, -1], BadArgument),
     (np.ones((1, 1), int), BadArgument), ([[1]], BadType), (2.0, BadType), ("a", BadType), (None, BadType)],
)  # fmt: skip
def test_sizes_that_are_none(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^rebatch at test_rebatch.py:\d+: batch_size"):
        Dataset.range(4).batch(2).rebatch(size)


def test_what_is_no_batch() -> None:
    for drop in (False, True):
        with pytest.raises(SpecMismatch, match="expected batches, got a scalar"):
            Dataset.range(4).rebatch(2, drop)
    with pytest.raises(SpecMismatch, match="equal leading dimensions, got 2, 3"):
        Dataset.from_tensors((np.zeros(2), np.zeros(3))).rebatch(2)


@pytest.mark.parametrize("size", [2, 5, [0, 3], [2, 3, 1]])
def test_laws(size: Any) -> None:
    check_op(failing().rebatch(size))


def test_laws_for_batches_of_any_size() -> None:
    check_op(Dataset.range(8).map(lambda n: np.full(n % 4, n)).rebatch([1, 2], drop_remainder=True))
    check_op(Dataset.range(6).map(lambda n: np.full(n, n)).ragged_batch(3).rebatch([2, 0]))
