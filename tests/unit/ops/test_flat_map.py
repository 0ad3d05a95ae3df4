"""flat_map: datasets one after the other."""

import json
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


def test_one_after_the_other() -> None:
    ds = ps.Dataset.range(4).flat_map(ps.Dataset.range)
    assert [int(x) for x in ds] == [0, 0, 1, 0, 1, 2]
    assert ds.cardinality() == ps.UNKNOWN
    check_op(ds)
    check_op(ds.batch(4))
    check_op(ds.skip(3))


def test_empty_and_endless_datasets() -> None:
    assert list(ps.Dataset.range(3).flat_map(lambda x: ps.Dataset.range(0))) == []
    check_op(ps.Dataset.range(3).flat_map(lambda x: ps.Dataset.from_tensors(x).repeat()).take(5))


def test_arrays_come_as_they_are() -> None:
    rows = np.arange(24).reshape(2, 4, 3)
    ds = ps.Dataset.from_tensor_slices(rows).flat_map(ps.Dataset.from_tensor_slices)
    assert np.array_equal(np.concatenate(list(ds.batch(3))), rows.reshape(8, 3))


def test_nested_twice() -> None:
    check_op(ps.Dataset.range(4).flat_map(lambda x: ps.Dataset.range(x).flat_map(lambda y: ps.Dataset.range(y + 1))))


def test_skip_does_not_make_what_it_skips() -> None:
    made: list[int] = []

    def inner(x: int) -> ps.Dataset:
        return ps.Dataset.range(3).map(lambda y: made.append(int(10 * x + y)) or 10 * x + y)

    ds = ps.Dataset.range(3).flat_map(inner).skip(5)
    assert [int(x) for x in ds.run(optimize=False)] == made == [12, 20, 21, 22]


def test_errors_inside_and_outside() -> None:
    def inner(x: int) -> ps.Dataset:
        return ps.Dataset.range(3).map(lambda y: 10 // int(y - 1)) if x else ps.Dataset.range(int("none"))

    ds = ps.Dataset.range(2).flat_map(inner)
    found = all_with_errors(ds.run())
    assert [type(x) for x in found] == [ValueError, np.int64, ZeroDivisionError, np.int64]
    assert "in flat_map(" in found[0].__notes__[0]
    assert "element 0" in found[0].__notes__[0]
    check_op(ds)


@pytest.mark.parametrize("result", [3, None, (ps.Dataset.range(1), ps.Dataset.range(1))], ids=["int", "None", "two"])
def test_not_a_dataset(result: Any) -> None:
    with pytest.raises(ps.errors.BadType, match=r"flat_map at test_flat_map.py:\d+: map_func: expected a dataset"):
        next(iter(ps.Dataset.range(2).flat_map(lambda x: result)))


def test_an_unseeded_shuffle_inside_is_resumed() -> None:
    ds = ps.Dataset.range(3).flat_map(lambda x: ps.Dataset.range(10 * x, 10 * x + 10).shuffle())
    with ds.run() as run:
        first = [int(next(run)) for _ in range(14)]
        state = json.loads(json.dumps(run.state_dict()))
        second = [int(next(run)) for _ in range(6)]
    with ds.run() as resumed:
        resumed.load_state_dict(state)
        assert [int(next(resumed)) for _ in range(6)] == second
        assert sorted(first + second) == list(range(20))


def test_elements_of_a_generator_are_not_waited_for_in_advance() -> None:
    taken: list[int] = []

    def slow() -> Any:
        for i in range(100):
            taken.append(i)
            yield i

    ds = ps.Dataset.range(1).flat_map(lambda x: ps.Dataset.from_generator(slow))
    with ds.run() as run:
        for _ in range(20):
            next(run)
        assert len(taken) == 20


def test_what_the_inner_datasets_hold_leaves_the_ledger() -> None:
    ds = (
        ps.Dataset.range(4)
        .map(lambda x: np.full(100, x))
        .flat_map(lambda row: ps.Dataset.from_tensor_slices(row).map(lambda x: x).shuffle(50, seed=1))
    )
    with ds.run(optimize=False) as run:
        next(run)
        assert run.ledger.charged_bytes >= 800 + 49 * 8
    assert run.ledger.charged_bytes == 0


def test_small_datasets_are_stacked_together_and_large_ones_passed_on() -> None:
    ds = ps.Dataset.range(40).flat_map(lambda x: ps.Dataset.range(int(x) % 5))
    check_op(ds)
    check_op(ds.batch(7))
    large = ps.Dataset.range(3).flat_map(lambda x: ps.Dataset.range(100))
    assert [int(x) for x in large] == [*range(100)] * 3


def test_datasets_that_differ_are_not_stacked() -> None:
    def inner(x: int) -> ps.Dataset:
        return ps.Dataset.range(2, output_type=np.int32 if x % 2 else np.int64)

    assert [x.dtype for x in ps.Dataset.range(2).flat_map(inner)] == [np.int64, np.int64, np.int32, np.int32]


def test_an_element_that_is_long_in_coming_does_not_keep_those_that_are_here() -> None:
    taken: list[int] = []

    def slow() -> Any:
        for i in range(100):
            taken.append(i)
            yield i

    ds = ps.Dataset.from_generator(slow).flat_map(lambda x: ps.Dataset.range(2))
    with ds.run() as run:
        for i in range(20):
            next(run)
            assert len(taken) == i // 2 + 1


def test_elements_that_wait_for_their_turn_are_on_the_ledger() -> None:
    rows = ps.Dataset.range(100).map(lambda x: np.full(10, x))
    with rows.flat_map(lambda row: ps.Dataset.from_tensors(row).repeat(2)).run() as run:
        for _ in range(150):
            next(run)
        assert run.ledger.charged_bytes >= 80
    assert run.ledger.charged_bytes == 0


def test_batches_of_what_fails_are_all_given() -> None:
    """An element that fails begins a new batch, so there are more of them than can be told before."""

    def inner(x: Any) -> ps.Dataset:
        return ps.Dataset.range(10).map(lambda y: y if y != 4 else y.nothing).batch(4)

    found = all_with_errors(ps.Dataset.range(2).flat_map(inner).run())
    whole = [[0, 1, 2, 3], AttributeError, [5, 6, 7, 8], [9]]
    assert [x.tolist() if isinstance(x, np.ndarray) else type(x) for x in found] == whole * 2


@pytest.mark.parametrize("inner", [
    lambda x: ps.Dataset.from_tensors(x).repeat(3),
    lambda x: ps.Dataset.range(x, x + 9).skip(2),
    lambda x: ps.Dataset.range(x, x + 9).take(4),
    lambda x: ps.Dataset.range(x, x + 9).shard(3, 1),
    lambda x: ps.Dataset.range(x, x + 3).repeat(),
    lambda x: ps.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2) + x).repeat(2),
    lambda x: ps.Dataset.range(x, x + 9).repeat(0),
])  # fmt: skip
def test_some_elements_of_a_source_are_read_as_if_it_were_opened(inner: Any) -> None:
    dataset = ps.Dataset.range(3).flat_map(inner).take(40)
    one_by_one = [x.tolist() for i in range(3) for x in inner(np.int64(i)).take(40)][:40]
    assert [x.tolist() for x in dataset] == one_by_one
    assert [x.tolist() for x in dataset.run(optimize=False)] == one_by_one
    check_op(dataset)
