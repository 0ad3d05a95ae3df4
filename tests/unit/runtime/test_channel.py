"""What crosses a thread boundary: who may begin another block, and blocks taken in parts."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.element import LEAF
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger, Share
from penstock.runtime.channel import Admission, Ready, Threads


def block(nbytes: int) -> Block:
    return Block.of_rows([np.zeros(nbytes, np.uint8)])


def admission(budget: int, feeds_caller: bool = True) -> tuple[Admission, Share, Ledger]:
    ledger = Ledger(budget)
    share = ledger.share("map")
    return Admission(share, Arena(Slots(ledger), ledger.share("slots")), feeds_caller), share, ledger


def test_the_first_block_runs_alone_and_is_measured() -> None:
    admit, _, ledger = admission(100_000)
    first = admit.try_admit(0)
    assert first is not None
    assert admit.try_admit(1) is None
    admit.settle(first, block(1000))
    assert ledger.charged_bytes == 1000
    second = admit.try_admit(1)
    assert second is not None
    assert second.nbytes == 1250  # the largest seen, and a quarter


def test_as_much_is_reserved_as_so_many_elements_will_hold() -> None:
    admit, _, ledger = admission(100_000)
    first = admit.try_admit(0)
    assert first is not None
    admit.settle(first, Block.of_rows([np.int64(1), np.int64(2)]))
    assert ledger.charged_bytes == 16
    larger = admit.try_admit(1, 100)
    assert larger is not None
    assert larger.nbytes == 1000
    smaller = admit.try_admit(1, 1)
    assert smaller is not None
    assert smaller.nbytes == 10  # what two took says nothing of one, but that one takes half


def admitted_beside(second: str, free_bytes: int, feeds_caller: bool = True) -> bool:
    """Whether a block of 1,000 bytes is admitted beside a batch in the making, and where a `second` one is."""
    admit, _, ledger = admission(200_000, feeds_caller)
    first = admit.try_admit(0)
    assert first is not None
    admit.settle(first, block(1000))
    slots = [admit._arena.empty((40_000,), np.dtype(np.uint8)) for _ in range(1 if second == "nowhere" else 2)]
    if second == "with the caller":
        admit._arena.slots.hand_over(slots[1])
    elif second == "dropped":
        del slots[1]
    ledger.share("shuffle").charge(200_000 - ledger.charged_bytes - free_bytes)
    charged = ledger.charged_bytes
    more = admit.try_admit(1)
    assert ledger.charged_bytes == charged + (0 if more is None else more.nbytes)
    return more is not None


@pytest.mark.parametrize("second", ["dropped", "with the caller"])
def test_slots_that_are_there_are_room_for_the_next_batches(second: str) -> None:
    """What others need to go on may lie there already: it must not be freed to be seen, nor be asked for twice."""
    assert admitted_beside(second, free_bytes=30_000)


def test_room_is_left_for_a_second_batch() -> None:
    assert not admitted_beside("nowhere", free_bytes=30_000)
    assert admitted_beside("nowhere", free_bytes=70_000)


def test_where_batches_wait_for_the_caller_room_is_left_for_two_more() -> None:
    """One that is in use may be such a one: it is no room for the next."""
    assert not admitted_beside("nowhere", free_bytes=70_000, feeds_caller=False)
    assert not admitted_beside("dropped", free_bytes=30_000, feeds_caller=False)
    assert admitted_beside("dropped", free_bytes=70_000, feeds_caller=False)


def test_what_can_never_be_is_not_waited_for() -> None:
    """Where the budget has room for one batch only, what that one leaves is for who works ahead."""
    admit, _, _ = admission(50_000)
    first = admit.try_admit(0)
    assert first is not None
    admit.settle(first, block(1000))
    filled = admit._arena.empty((30_000,), np.dtype(np.uint8))
    assert admit.try_admit(1) is not None
    del filled


def test_what_was_begun_is_seen_before_it_is_settled() -> None:
    """Two begun at once must not both count on the same bytes."""
    admit, _, ledger = admission(8_000)
    first = admit.try_admit(0)
    assert first is not None
    admit.settle(first, block(3000))
    first.release()
    begun = admit.try_admit(0)
    assert begun is not None
    assert ledger.charged_bytes == begun.nbytes == 3750
    assert admit.try_admit(1) is None  # it would leave too little for others
    admit.settle(begun, block(3000))
    assert ledger.charged_bytes == 3000


def test_one_block_always_fits_whatever_others_take() -> None:
    admit, share, ledger = admission(10_000)
    first = admit.try_admit(0)
    assert first is not None
    admit.settle(first, block(3000))
    first.release()
    greedy = ledger.share("prefetch")
    while greedy.try_acquire(500) is not None:
        pass
    again = admit.try_admit(0)
    assert again is not None
    admit.settle(again, block(3000))
    assert share.charged_bytes == 3000


def test_with_nothing_in_flight_one_is_begun_even_without_room() -> None:
    admit, _, ledger = admission(10_000)
    others = ledger.share("shuffle").acquire(10_000)
    lease = admit.try_admit(0)
    assert lease is not None
    assert lease.nbytes == 0
    others.release()


def test_larger_blocks_are_reserved_for_from_then_on() -> None:
    admit, _, _ = admission(1_000_000)
    for nbytes, reserved in ((1000, 1250), (4000, 5000), (2000, 5000)):
        lease = admit.try_admit(0)
        assert lease is not None
        admit.settle(lease, block(nbytes))
        lease.release()
        following = admit.try_admit(0)
        assert following is not None
        assert following.nbytes == reserved
        following.release()


def test_a_block_is_taken_in_parts() -> None:
    ready = Ready("before", 7, Ledger(10).share("map").acquire(0))
    assert not ready.done
    ready.block = Block.of_columns(LEAF, [np.arange(5)], 5)
    assert ready.done
    assert [ready.take(2).rows(), ready.take(2).rows()] == [[0, 1], [2, 3]]
    assert not ready.empty
    assert ready.take(9).rows() == [4]
    assert ready.empty


def test_a_block_taken_whole_is_given_as_it_is() -> None:
    ready = Ready(None, 0, Ledger(10).share("map").acquire(0))
    ready.block = block(10)
    assert ready.take(1) is ready.block


@pytest.mark.timeout(30)
def test_stopping_waits_for_all_threads() -> None:
    threads = Threads("test")
    ended: list[str] = []

    def work() -> None:
        with threads.changed:
            threads.changed.wait_for(lambda: threads.stopped)
        ended.append(threading.current_thread().name)

    for _ in range(3):
        threads.start(work)
    assert threads.count == 3
    threads.stop()
    assert sorted(ended) == ["penstock-test-0", "penstock-test-1", "penstock-test-2"]
    assert threads.count == 0


@pytest.mark.timeout(30)
def test_stopping_wakes_those_who_wait_for_something_else() -> None:
    threads = Threads("test")
    other = threads.condition()
    waits = threading.Event()

    def work() -> None:
        with threads.changed:  # the same lock
            waits.set()
            other.wait_for(lambda: threads.stopped)

    threads.start(work)
    assert waits.wait(20)
    threads.stop()


@pytest.mark.timeout(30)
def test_a_thread_may_stop_the_threads_it_is_one_of() -> None:
    threads = Threads("test")
    done = threading.Event()

    def work() -> None:
        threads.stop()  # as a garbage collection inside it might
        done.set()

    threads.start(work)
    assert done.wait(20)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "build", [lambda d: d.map(lambda x: x, num_parallel_calls=2), lambda d: d.prefetch(2)], ids=["map", "prefetch"]
)
def test_what_ends_a_thread_reaches_who_waits_for_it(
    build: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError("not a byte")

    monkeypatch.setattr(Admission, "try_admit", no_memory)
    dataset = ps.Dataset.from_generator(lambda: iter(range(5))).apply(build)
    with dataset.run() as run, pytest.raises(MemoryError, match="not a byte"):
        next(run)


def test_threads_may_be_stopped_while_one_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection in another thread may close the run just then."""
    threads, seen = Threads("test"), []
    start = threading.Thread.start

    def stopped_first(thread: threading.Thread) -> None:
        threads.stop()
        start(thread)
        thread.join()

    monkeypatch.setattr(threading.Thread, "start", stopped_first)
    threads.start(lambda: seen.append(threads.stopped))
    assert seen == [True]
    assert not threads.count
