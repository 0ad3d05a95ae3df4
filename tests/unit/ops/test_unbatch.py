"""unbatch: the rows of batches."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import penstock as ps
from penstock.errors import SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


class Point(NamedTuple):
    x: Any
    y: Any


def test_the_inverse_of_batch() -> None:
    assert [int(x) for x in Dataset.range(7).batch(3).unbatch()] == list(range(7))
    nested = {"a": np.arange(5), "b": (np.arange(10.0).reshape(5, 2), np.array([b"v", b"", b"x", b"y", b"z"], object))}
    rows = list(Dataset.from_tensor_slices(nested).batch(2).unbatch())
    assert [int(row["a"]) for row in rows] == list(range(5))
    assert rows[4]["b"][0].tolist() == [8.0, 9.0]
    assert [row["b"][1] for row in rows] == [b"v", b"", b"x", b"y", b"z"]
    points = list(Dataset.from_tensor_slices(Point(np.arange(3), np.arange(3))).batch(2).unbatch())
    assert points[2] == Point(2, 2)


def test_batches_of_any_size_and_empty_ones() -> None:
    assert [int(x) for x in Dataset.range(4).map(lambda n: np.full(n, n)).unbatch()] == [1, 2, 2, 3, 3, 3]
    assert list(Dataset.from_tensors(np.zeros((0, 2))).repeat(3).unbatch()) == []


def test_small_batches_are_pulled_together_for_what_was_asked_for() -> None:
    asked: list[int] = []

    def noted(batch: Any) -> Any:
        asked.append(int(batch[0]))
        return batch * 2

    dataset = Dataset.range(4000).batch(4).map(noted, stateful=True).unbatch().batch(40)
    with dataset.run() as run:
        np.testing.assert_array_equal(next(run), np.arange(40) * 2)
        assert len(asked) == 10  # no batch more than this one takes
        for i, batch in enumerate(run, 1):
            np.testing.assert_array_equal(batch, np.arange(40 * i, 40 * i + 40) * 2)
    assert asked == list(range(0, 4000, 4))


@pytest.mark.parametrize("lengths", [[3, 3, 3, 5, 3, 3, 0, 3, 3, 8] * 20, [1] * 50, [7, 7, 7, 2]])
def test_batches_that_are_unlike_keep_their_rows_in_order(lengths: list[int]) -> None:
    ends = np.cumsum(lengths)
    batches = Dataset.range(len(lengths)).map(lambda i: {"x": np.arange(ends[i] - lengths[i], ends[i])})
    for dataset in (batches.unbatch().batch(10), batches.rebatch(10)):
        joined = np.concatenate([batch["x"] for batch in dataset])
        np.testing.assert_array_equal(joined, np.arange(ends[-1]))


def test_an_inner_dimension_of_nothing() -> None:
    assert [row.shape for row in Dataset.from_tensors(np.zeros((3, 0))).unbatch()] == [(0,)] * 3


def test_ragged_sparse_and_none() -> None:
    rows = Dataset.range(4).map(lambda n: np.full(n, n))
    assert [row.tolist() for row in rows.ragged_batch(3).unbatch()] == [[], [1], [2, 2], [3, 3, 3]]
    deep = Dataset.range(3).map(lambda n: np.full((n, n), n)).ragged_batch(3).unbatch()
    assert [row.to_list() for row in deep] == [[], [[1]], [[2, 2], [2, 2]]]
    sparse = list(rows.sparse_batch(2, [3]).unbatch())
    assert [row.to_dense().tolist() for row in sparse] == [[0, 0, 0], [1, 0, 0], [2, 2, 0], [3, 3, 3]]
    assert sparse[2].indices.tolist() == [[0], [1]]
    assert list(Dataset.range(2).batch(2).map(lambda b: (b, None)).unbatch()) == [(0, None), (1, None)]


def test_spec_and_cardinality() -> None:
    slices = Dataset.from_tensor_slices(np.zeros((3, 2, 4), np.float32))
    assert slices.unbatch().element_spec == ps.TensorSpec((4,), np.float32)
    assert slices.unbatch().cardinality() == 6
    assert slices.repeat().unbatch().cardinality() == ps.INFINITE
    assert Dataset.range(7).batch(3).unbatch().cardinality() == ps.UNKNOWN
    assert Dataset.range(7).batch(3, drop_remainder=True).unbatch().cardinality() == 6


def test_what_is_no_batch() -> None:
    with pytest.raises(SpecMismatch, match=r"^unbatch at test_unbatch.py:\d+: expected batches, got a scalar"):
        Dataset.range(3).unbatch()
    with pytest.raises(SpecMismatch, match="equal leading dimensions, got 2, 3"):
        Dataset.from_tensors((np.zeros(2), np.zeros(3))).unbatch()
    with pytest.raises(TypeError, match="use flat_map"):
        Dataset.range(3).window(2).unbatch()


def test_errors_in_place() -> None:
    rows = Dataset.range(4).map(lambda n: (np.full(n, n), np.full(2 if n < 3 else 3, -n)))
    found = all_with_errors(rows.unbatch().run())
    assert [isinstance(x, SpecMismatch) for x in found] == [True, True, *[False] * 5]
    assert [int(x[0]) for x in found[2:]] == [2, 2, 3, 3, 3]
    scalars = all_with_errors(Dataset.range(2).map(lambda n: n).unbatch().run())
    assert [isinstance(x, SpecMismatch) for x in scalars] == [True, True]


def test_rows_are_views_and_only_one_batch_is_held() -> None:
    batches = Dataset.range(5).map(lambda n: np.full((10, 1000), n, np.int8))
    with batches.unbatch().run(memory=14_000) as run:
        assert [int(row[0]) for row in run] == [n for n in range(5) for _ in range(10)]
        assert 10_000 <= run.ledger.peak_bytes <= 12_500  # a quarter more: the next may be larger


def test_stacked_batches_are_cut_as_one_without_a_copy() -> None:
    pairs = np.arange(120).reshape(10, 4, 3), np.arange(40.0).reshape(10, 4)
    with Dataset.from_tensor_slices(pairs).unbatch().batch(8).run() as run:
        for i, (x, y) in enumerate(run):
            assert np.shares_memory(x, pairs[0]) or i == 0  # the first batch alone tells that they come stacked
            assert x.tolist() == pairs[0].reshape(40, 3)[8 * i : 8 * i + 8].tolist()
            assert y.tolist() == pairs[1].reshape(40)[8 * i : 8 * i + 8].tolist()


def test_stacked_batches_that_do_not_lie_in_sequence() -> None:
    apart = np.arange(80).reshape(10, 8)[:, 1:6:2]
    assert np.concatenate(list(Dataset.from_tensor_slices(apart).unbatch().batch(7))).tolist() == apart.ravel().tolist()
    wide = np.arange(240).reshape(10, 8, 3)[:, :3]
    assert all(np.shares_memory(row, wide) for row in Dataset.from_tensor_slices(wide).unbatch())  # not by a copy
    nothing = np.zeros((3, 2, 0)), np.zeros((3, 2))
    assert len(list(Dataset.from_tensor_slices(nothing).unbatch().batch(4))) == 2
    assert list(Dataset.from_tensor_slices(np.zeros((3, 0, 2))).unbatch()) == []


def test_no_more_batches_are_read_than_a_demand_uses_up() -> None:
    batches = Dataset.from_tensor_slices(np.zeros((20, 10, 100))).shuffle(seed=1)  # 8 kB each, gathered
    with batches.unbatch().batch(25).run() as run:
        held = [run.stats()["stages"][-1]["elements"] for _ in run]
    assert held[:3] == [3, 5, 8]


def test_laws() -> None:
    check_op(Dataset.from_tensor_slices(np.arange(24).reshape(6, 4)).unbatch().batch(10))
    check_op(Dataset.range(12).batch(3, drop_remainder=True).unbatch().batch(5))
    check_op(Dataset.range(8).batch(3).unbatch().batch(2))
    check_op(Dataset.range(7).map(lambda n: np.full(12 // (5 - n) % 5, n)).unbatch())
    check_op(Dataset.range(5).map(lambda n: np.full(n, n)).ragged_batch(3).unbatch())
