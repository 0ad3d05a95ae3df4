"""interleave: the order is tf.data's, with and without threads."""

import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op
from tests.threads import our_threads

from ..fakes import all_with_errors


def tens(x: Any) -> ps.Dataset:
    """x elements: 10·x, 10·x + 1, …"""
    return ps.Dataset.range(10 * x, 10 * x + x)


def expected(cycle: int, block: int, counts: list[int]) -> list[int]:
    """The definition, in plain Python."""
    waiting = [[10 * n + i for i in range(n)] for n in counts]
    slots: list[list[int] | None] = [None] * cycle
    found: list[int] = []
    turn = 0
    while waiting or any(slot is not None for slot in slots):
        if slots[turn] is None and waiting:
            slots[turn] = waiting.pop(0)
        slot = slots[turn]
        if slot is not None:
            found += slot[:block]
            slots[turn] = slot[block:] if len(slot) >= block else None
        turn = (turn + 1) % cycle
    return found


@pytest.mark.parametrize("cycle", [1, 2, 3, 7])
@pytest.mark.parametrize("block", [1, 2, 20])
def test_the_order(cycle: int, block: int) -> None:
    counts = [3, 0, 5, 1, 0, 4]
    source = ps.Dataset.from_tensor_slices(np.array(counts))
    for calls in (None, 1, ps.AUTOTUNE):
        ds = source.interleave(tens, cycle, block, calls)
        assert [int(x) for x in ds] == expected(cycle, block, counts)
        assert ds.cardinality() == ps.UNKNOWN
    check_op(source.interleave(tens, cycle, block))


def test_threads_change_nothing() -> None:
    def made(x: int) -> ps.Dataset:
        return tens(x).map(lambda y: y + 1)

    ds = ps.Dataset.range(6)
    plain = [int(x) for x in ds.interleave(made, cycle_length=3, block_length=2)]
    threaded = ds.interleave(made, cycle_length=3, block_length=2, num_parallel_calls=3)
    assert [int(x) for x in threaded] == plain
    check_op(threaded)


def test_no_more_threads_than_asked_for() -> None:
    def made(x: int) -> ps.Dataset:
        return ps.Dataset.range(50).map(lambda y: y)

    with ps.Dataset.range(8).interleave(made, cycle_length=4, num_parallel_calls=2).run() as run:
        for _ in range(20):
            next(run)
        assert len(our_threads()) == 2
    assert our_threads() == []


def test_what_lies_in_memory_is_read_without_threads() -> None:
    ds = ps.Dataset.range(8).interleave(lambda x: ps.Dataset.range(50), cycle_length=4, num_parallel_calls=2)
    with ds.run() as run:
        for _ in range(20):
            next(run)
        assert our_threads() == []


def test_autotune_reads_slow_datasets_ahead() -> None:
    last = threading.Event()

    def slow(x: int) -> ps.Dataset:
        def wait(y: int) -> int:
            threading.Event().wait(0.002)
            if y == 4 and x == 0:
                last.set()
            return y

        return ps.Dataset.range(6).map(wait)

    ds = ps.Dataset.range(2).interleave(slow, cycle_length=2, num_parallel_calls=ps.AUTOTUNE)
    with ds.run() as run:
        # After the first, two of each dataset are slow. The next is a thread's, which goes on.
        assert [int(next(run)) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 3]
        assert last.wait(timeout=30)
        assert len(our_threads()) >= 1
        assert [int(x) for x in run] == [3, 4, 4, 5, 5]


@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize("slow, has_threads", [({0}, False), ({0, 5}, False), (set(range(0, 4000, 100)), True)])
def test_autotune_has_threads_where_elements_are_slow_on_average(
    slow: set[int], has_threads: bool, batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where one is because a file was opened for it, or somebody else had the processor."""
    now = 0
    monkeypatch.setattr("penstock.ops.slot.perf_counter_ns", lambda: now)

    def inner(x: int) -> ps.Dataset:
        def make(y: int) -> int:
            nonlocal now
            now += 20_000_000 if int(y) in slow else 1_000
            return y

        return ps.Dataset.range(4000).map(make)

    ds = ps.Dataset.range(2).interleave(inner, cycle_length=2, num_parallel_calls=ps.AUTOTUNE)
    with (ds if batch is None else ds.batch(batch)).run() as run:
        had_threads = [len(our_threads()) > 0 for _ in run]
    assert any(had_threads) == has_threads
    assert len(had_threads) == 8000 // (batch or 1)


def test_an_inner_error_does_not_count_in_its_turn() -> None:
    def inner(x: int) -> ps.Dataset:
        return tens(3).map(lambda y: y if (x, y) != (0, 31) else int("bad"))

    for calls in (None, 2):
        found = all_with_errors(ps.Dataset.range(2).interleave(inner, 2, 2, calls).run())
        assert [-1 if isinstance(x, Exception) else int(x) for x in found] == [30, -1, 32, 30, 31, 32]


def test_an_outer_error_leaves_the_slot_to_the_next() -> None:
    ds = ps.Dataset.range(4).map(lambda x: x if x != 1 else int("bad")).interleave(tens, cycle_length=2)
    found = all_with_errors(ds.run())
    assert [-1 if isinstance(x, Exception) else int(x) for x in found] == [-1, 20, 30, 21, 31, 32]
    check_op(ds)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"cycle_length": 0}, "cycle_length: expected at least 1, or AUTOTUNE .-1., got 0"),
        ({"cycle_length": -2}, "cycle_length: expected at least 1"),
        ({"block_length": 0}, "block_length: expected at least 1, got 0"),
        ({"num_parallel_calls": 0}, "num_parallel_calls: expected at least 1"),
        ({"cycle_length": 2, "num_parallel_calls": 3}, ".* at most the cycle_length of 2, got 3"),
        ({"cycle_length": 2.0}, "cycle_length: expected an integer"),
    ],
)
def test_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=f"interleave at .*: {text}"):
        ps.Dataset.range(3).interleave(tens, **arguments)


def test_not_a_dataset() -> None:
    with pytest.raises(ps.errors.BadType, match="map_func: expected a dataset, got int64"):
        next(iter(ps.Dataset.range(3).interleave(lambda x: x)))


COUNTS = [130, 128, 0, 131, 7, 128, 16, 200, 128, 128]


@pytest.mark.parametrize("cycle, block", [(2, 1), (4, 4), (3, 5), (16, 1)])
@pytest.mark.parametrize("batch", [None, 7, 64, 500])
def test_many_rounds_at_once_are_the_same_rounds(cycle: int, block: int, batch: int | None) -> None:
    dataset = ps.Dataset.from_tensor_slices(np.array(COUNTS)).interleave(tens, cycle, block)
    wanted = expected(cycle, block, COUNTS)
    if batch is None:
        assert [int(x) for x in dataset] == wanted
    else:
        assert [x.tolist() for x in dataset.batch(batch)] == [
            wanted[i : i + batch] for i in range(0, len(wanted), batch)
        ]


def test_a_function_that_fails_amid_many_rounds_is_called_once() -> None:
    """Slots are filled together where whole rounds are asked for; an error still comes when its slot has its turn."""
    calls: list[int] = []

    def inner(x: int) -> ps.Dataset:
        calls.append(int(x))
        return ps.Dataset.range(100 * x, 100 * x + 8) if x % 4 != 2 else int("bad")

    dataset = ps.Dataset.range(16).interleave(inner, cycle_length=3, block_length=2)
    found = [-1 if isinstance(x, Exception) else int(x) for x in all_with_errors(dataset.run())]
    called, calls[:] = list(calls), []
    one_by_one: list[int] = []
    waiting, slots = list(range(16)), [[], [], []]
    while waiting or any(slots):
        for slot in slots:
            while not slot and waiting:
                x = waiting.pop(0)
                if x % 4 == 2:
                    one_by_one.append(-1)
                else:
                    slot += range(100 * x, 100 * x + 8)
                    slot.append(None)
            one_by_one += [x for x in slot[:2] if x is not None]
            del slot[:2]
    assert found == one_by_one
    assert called == list(range(16))
    batches = list(dataset.ignore_errors().batch(30))
    assert np.concatenate(batches).tolist() == [x for x in found if x >= 0]
    check_op(dataset)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_position_amid_many_rounds(batch: int) -> None:
    """Saved after each batch: what was made ready and not given is made again."""
    dataset = ps.Dataset.from_tensor_slices(np.array(COUNTS[:6])).interleave(tens, 3, 4).batch(batch)
    batches = [x.tolist() for x in dataset]
    with dataset.run() as run:
        for number in range(len(batches)):
            state = run.state_dict()
            with dataset.run() as again:
                again.load_state_dict(state)
                assert next(again).tolist() == batches[number]
                if number % 10 == 0:
                    assert [x.tolist() for x in again] == batches[number + 1 :]
            assert next(run).tolist() == batches[number]


def test_rounds_that_were_made_ready_are_on_the_ledger() -> None:
    dataset = ps.Dataset.range(8).interleave(lambda x: ps.Dataset.range(2000), 4, 4).batch(64)
    with dataset.run(memory=400_000) as run:
        for _ in run:
            assert run.ledger.charged_bytes <= 400_000
        assert run.ledger.peak_bytes > 0
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_a_cycle_may_be_longer_than_there_are_datasets(num_parallel_calls: int | None) -> None:
    counts = [3, 0, 1, 4]
    numbers = ps.Dataset.from_generator(lambda: iter(counts))
    dataset = numbers.interleave(tens, 10**15, num_parallel_calls=num_parallel_calls)
    assert list(dataset) == expected(5, 1, counts)
    check_op(dataset)


def test_no_room_is_needed_for_more_datasets_than_there_are() -> None:
    images = ps.Dataset.from_tensor_slices(np.zeros((3, 1000))).map(lambda x: x + 1)
    few, many = (images.interleave(ps.Dataset.from_tensors, cycle_length) for cycle_length in (3, 10**15))
    minimum = few.explain(sample=10).to_dict()["minimum_bytes"]
    assert many.explain(sample=10).to_dict()["minimum_bytes"] == minimum
