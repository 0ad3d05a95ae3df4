"""collate_maps: what a function returns goes straight to its place in the batch."""

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.ending import Ending
from penstock.ops.calling import Calls
from penstock.optimize import optimize
from penstock.optimize.collate_maps import collate_maps
from penstock.runtime.backends import tuner

D = ps.Dataset


def row(x: Any) -> Any:
    return np.full(1000, x)


def collated(dataset: Any) -> list[str]:
    """The operators that write into slots after the rule."""
    node, _ = optimize(dataset.node, [(collate_maps,)])
    return [n.op.name for n in node.walk() if getattr(n.op, "into_slot", False)]


@pytest.mark.parametrize("written, names", [
    (lambda ds: ds.map(row).batch(4), ["map"]),
    (lambda ds: ds.map(row, stateful=True).batch(4), ["map"]),
    (lambda ds: ds.random_map(lambda x, rng: row(x), seed=1).batch(4), ["random_map"]),
    (lambda ds: ds.map(row).take(3).batch(4), ["map"]),
    (lambda ds: ds.map(row).skip(1).repeat(2).batch(4), ["map"]),
    (lambda ds: ds.map(row).prefetch(2).batch(4), ["map"]),
    (lambda ds: ds.map(row).ignore_errors().batch(4), ["map"]),
    (lambda ds: ds.map(row).map(row).batch(4), ["map"]),
    (lambda ds: ds.map(row), []),
    (lambda ds: ds.map(row).filter(lambda x: True).batch(4), []),
    (lambda ds: ds.map(row, num_parallel_calls=2).batch(4), ["map"]),
    (lambda ds: ds.random_map(lambda x, rng: row(x), 1, num_parallel_calls=2).batch(4), ["random_map"]),
    (lambda ds: ds.map(row, vectorized=True).batch(4), []),
    (lambda ds: ds.batch(4).map(row), []),
])  # fmt: skip
def test_the_nearest_function_below_a_batch_writes_into_it(written: Callable[[Any], Any], names: list[str]) -> None:
    assert collated(written(D.range(10))) == names


def test_the_last_of_two_functions_writes() -> None:
    node, _ = optimize(D.range(10).map(row).map(row).batch(4).node, [(collate_maps,)])
    assert node.input.op.into_slot
    assert not node.input.input.op.into_slot


def test_results_lie_in_one_slot_and_are_the_same() -> None:
    dataset = D.range(10).map(row).batch(4)
    with dataset.run() as run, dataset.run(optimize=False) as plain:
        for batch, expected in zip(run, plain, strict=True):
            np.testing.assert_array_equal(batch, expected)
            assert batch.ctypes.data % 64 == 0
        # The batch with the caller, the next one in its slot, and one result on its way into it.
        assert run.ledger.peak_bytes <= 4 * 4 * row(0).nbytes


@pytest.mark.parametrize("num_bytes, stacked", [(100, True), (16_000, True), (17_000, False)])
def test_of_the_pieces_that_threads_make_small_ones_are_stacked(num_bytes: int, stacked: bool) -> None:
    node, _ = optimize(D.range(4).map(lambda x: np.full(num_bytes, x, np.uint8), 2).batch(4).node, [(collate_maps,)])
    share = SimpleNamespace(budget_bytes=1 << 30, ending=Ending())
    context = SimpleNamespace(share=share, arena=SimpleNamespace(empty=np.empty))
    room = SimpleNamespace(is_of_part=True, takes_all=True, add=lambda nbytes, count=1: True)
    made = node.input.op.element_function(context).until_full(D.range(4).node.op.read_all(context), 0, room)
    assert (made.columns is not None) == stacked
    assert [int(x[0]) for x in made.rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize("calls", [None, ps.AUTOTUNE])
def test_whole_batches_that_the_caller_makes_are_stacked_however_large(
    calls: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AUTOTUNE cheap calls stay in the caller's thread, and what they make for a batch is all of it."""
    listed: list[int] = []
    as_it_is = Calls._listed

    def noted(self: Calls, results: list[Any], rows: list[Any], *others: Any) -> Block:
        listed.append(len(rows))
        return as_it_is(self, results, rows, *others)

    monkeypatch.setattr(Calls, "_listed", noted)
    monkeypatch.setattr(tuner, "_CHEAP_NS", 10**12)  # however busy the machine is
    data = np.arange(64 * 50 * 1000, dtype=np.float32).reshape(-1, 1000)
    dataset = D.from_tensor_slices((data, np.arange(len(data)))).map(lambda x, i: (x * 2, i), calls).batch(64)
    for x, i in dataset:
        np.testing.assert_array_equal(x, data[i] * 2)
    assert sum(listed) <= 64  # of the calls that are timed at first


@pytest.mark.parametrize("results", [
    [np.int64(1), np.int64(2), np.int64(3)],
    [np.zeros(2), np.ones(2), np.zeros(2)],
    [1, 2.5, 3],
    [1, "a", np.zeros(2)],
    [np.zeros(2), np.zeros(3), np.zeros(2)],
    [np.zeros(2), np.zeros(2, np.float32), np.zeros(2)],
    [(1, np.zeros(2)), (2, np.ones(2)), (3, np.zeros(2))],
    [(1, np.zeros(2)), {"a": 1}, (3, np.zeros(2))],
    [(1, 2), (1, 2, 3), (1,)],
    [{"a": np.zeros(2), "b": b"x"}, {"b": b"yy", "a": np.zeros(2)}, {"a": np.zeros(2), "b": b""}],
    [{"a": np.zeros(2)}, {"b": np.zeros(2)}, {"a": np.zeros(2)}],
    [b"a", "bc", np.str_("def")],
    [None, 1, 2],
    [ValueError("first"), np.zeros(2), np.zeros(2)],
    [np.zeros(2), ValueError("second"), np.zeros(2)],
    [np.zeros(2), np.zeros(2), ValueError("last")],
    [1, 2, ValueError("last")],
    [object(), 1, 2],
    [[1, 2], [3, 4], [5, 6]],
    [np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0))],
    [True, np.True_, False],
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 3])
def test_results_of_every_kind_come_out_as_without_the_rule(results: list[Any], size: int) -> None:
    def give(i: Any) -> Any:
        if isinstance(results[i], Exception):
            raise results[i]
        return results[i]

    def outcome(**options: Any) -> list[Any]:
        found: list[Any] = []
        with D.range(3).map(give).batch(size).run(**options) as run:
            while True:
                try:
                    found.append(repr(next(run)))
                except StopIteration:
                    return found
                except Exception as error:
                    found.append((type(error), str(error)))

    assert outcome() == outcome(optimize=False)


def test_large_arrays_after_numbers_are_counted_one_by_one() -> None:
    made: list[Any] = []
    most_alive = 0

    def first_numbers(x: Any) -> Any:
        nonlocal most_alive
        if x < 5:
            return x
        array = np.full(100_000, x, np.uint8)
        made.append(weakref.ref(array))
        most_alive = max(most_alive, sum(ref() is not None for ref in made))
        return array

    with pytest.raises(ps.errors.SpecMismatch), D.range(40).map(first_numbers).batch(40).run(memory="1MB") as run:
        next(run)
    assert len(made) == 35
    assert most_alive <= 10


def test_python_numbers_are_stacked_like_those_of_numpy() -> None:
    (batch,) = D.range(4).map(lambda x: int(x) * 2).batch(4)
    assert batch.dtype == np.int64
    assert batch.tolist() == [0, 2, 4, 6]
