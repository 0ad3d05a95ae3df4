"""Working ahead: the same elements, some of them ready before they are asked for, and never too many."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.cursor import Cursor, State
from penstock.element import LEAF, Failed
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Lease, Ledger, Share
from penstock.memory.spill import SpillSpace
from penstock.runtime.backends.ahead import AheadCursor
from penstock.runtime.meter import Meter
from tests.unit.fakes import ListCursor, Raises, all_of, all_with_errors

D = ps.Dataset
DEADLINE_S = 20.0
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


class Bad(Exception):
    pass


class Watched(ListCursor):
    """Counts its pulls, and can be waited for."""

    def __init__(self, rows: list[Any], most: int = 1) -> None:
        super().__init__(rows, most)
        self._changed = threading.Condition()
        self.num_given = 0

    def pull(self, n: int) -> Block | None:
        block = super().pull(n)
        with self._changed:
            self.num_given += 0 if block is None else block.size
            self._changed.notify_all()
        return block

    def reached(self, count: int, timeout: float = DEADLINE_S) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.num_given >= count, timeout)


def ahead(source: Cursor, num: int, budget: int = 1_000_000) -> tuple[AheadCursor, Ledger, Meter]:
    ledger, meter = Ledger(budget), Meter("prefetch")
    arena = Arena(Slots(ledger), ledger.share("slots"))
    return AheadCursor(source, num, ledger.share("prefetch"), arena, meter), ledger, meter


@pytest.mark.parametrize("num", [1, 2, 7, 100, ps.AUTOTUNE])
@pytest.mark.parametrize("n", [1, 4, 1000])
def test_the_same_elements_in_the_same_order(num: int, n: int) -> None:
    cursor, ledger, _ = ahead(ListCursor(list(range(300)), most=5), num)
    assert all_of(cursor, n) == list(range(300))
    assert cursor.pull(1) is None
    cursor.close()
    assert ledger.charged_bytes == 0


def test_nothing_is_made_before_the_first_is_asked_for() -> None:
    source = Watched(list(range(10)))
    cursor, _, _ = ahead(source, 3)
    assert not source.reached(1, timeout=0.05)
    cursor.close()


def test_so_many_are_made_ready_and_no_more() -> None:
    source = Watched(list(range(100)))
    cursor, _, _ = ahead(source, 3)
    for taken in range(1, 20):
        cursor.pull(1)
        assert source.reached(taken + 3)
        assert source.num_given <= taken + 4  # one may be in the making while the last is taken
    assert not source.reached(19 + 5, timeout=0.05)
    cursor.close()


def test_a_large_demand_is_passed_on_up_to_the_buffer() -> None:
    source = Watched(list(range(100)), most=100)
    cursor, _, _ = ahead(source, 8)
    cursor.pull(50)
    assert source.reached(8)
    cursor.close()
    assert max(source.asked) <= 8


def test_the_caller_works_while_the_next_is_made() -> None:
    """The function of element 1 runs, and ends, while the caller still holds element 0."""
    begun, go = threading.Event(), threading.Event()

    def function(x: Any) -> Any:
        if x == 1:
            begun.set()
            assert go.wait(DEADLINE_S)
        return np.full(10_000, x)

    with D.range(3).map(function).prefetch(1).run() as run:
        assert next(run)[0] == 0
        assert begun.wait(DEADLINE_S)
        go.set()
        assert [x[0] for x in run] == [1, 2]


def test_failures_are_elements_like_others() -> None:
    def function(x: Any) -> Any:
        if x in (0, 5, 9):
            raise Bad(int(x))
        return x

    with D.range(10).map(function).prefetch(3).run() as run:
        found = all_with_errors(run)
    assert [x.args[0] if isinstance(x, Bad) else int(x) for x in found] == list(range(10))


@pytest.mark.parametrize("num", [1, 3])
def test_an_input_that_raises_is_told_after_all_that_came_before_it(num: int) -> None:
    for _ in range(20):
        cursor, ledger, _ = ahead(ListCursor([np.zeros(10), np.zeros(10), Raises(Bad())], most=1), num)
        assert cursor.pull(1) is not None
        assert cursor.pull(1) is not None
        with pytest.raises(Bad):
            cursor.pull(1)
        assert cursor.pull(1) is None
        cursor.close()
        assert ledger.charged_bytes == 0


class Stateless(ListCursor):
    def state(self) -> Any:
        raise Bad("no state")


@pytest.mark.timeout(10)
def test_an_input_that_cannot_tell_its_position_is_an_error_and_not_a_hang() -> None:
    cursor, _, _ = ahead(Stateless([1, 2, 3]), 2)
    with pytest.raises(Bad):
        cursor.pull(1)
    cursor.close()


# --- positions ---


@pytest.mark.parametrize("num", [1, 2, 5])
@pytest.mark.parametrize("most, n", [(1, 1), (4, 1), (4, 3), (100, 7)])
def test_a_position_is_that_of_what_was_taken(num: int, most: int, n: int) -> None:
    rows = [Failed(Bad()) if i % 7 == 3 else i for i in range(60)]
    for _ in range(3):
        cursor, _, _ = ahead(ListCursor(rows, most), num)
        taken: list[Any] = []
        while True:
            again, _, _ = ahead(ListCursor(rows, most), num)
            again.restore(cursor.state())
            block = again.pull(1)
            assert (block is None) if len(taken) == 60 else (block is not None and block.rows()[0] is rows[len(taken)])
            again.close()
            block = cursor.pull(n)
            if block is None:
                break
            taken += block.rows()
        cursor.close()
        assert len(taken) == 60


def test_skipping_before_the_start_makes_nothing() -> None:
    source = ListCursor(list(range(10)))
    cursor, _, _ = ahead(source, 2)
    assert cursor.skip(4) == 4
    assert source.asked == []
    assert cursor.pull(1).rows() == [4]  # type: ignore[union-attr]
    assert cursor.skip(3) == 3
    assert all_of(cursor, 1) == [8, 9]
    cursor.close()


# --- memory ---


def test_what_is_ready_is_on_the_ledger_and_within_the_budget() -> None:
    source = Watched([np.full(10_000, i) for i in range(50)])  # 80 kB each
    cursor, ledger, _ = ahead(source, 10, budget=400_000)
    for i in range(50):
        block = cursor.pull(1)
        assert block is not None
        assert block.rows()[0][0] == i
        if i < 40:
            assert source.reached(i + 3)  # the reservation of the next is a quarter larger than the largest
        assert ledger.charged_bytes <= 400_000
    cursor.close()
    assert 160_000 <= ledger.peak_bytes <= 400_000
    assert ledger.charged_bytes == 0


def test_one_is_made_however_small_the_budget_so_that_a_run_goes_on() -> None:
    cursor, ledger, _ = ahead(Watched([np.zeros(10_000) for _ in range(5)]), 10, budget=90_000)
    assert len(all_of(cursor, 1)) == 5
    assert ledger.peak_bytes <= 90_000
    cursor.close()


def test_views_of_the_users_arrays_cost_nothing() -> None:
    array = np.zeros((50, 10_000))
    with D.from_tensor_slices(array).batch(5).prefetch(4).run(memory="100kB") as run:
        assert len(list(run)) == 10
    assert run.ledger.peak_bytes == 0


# --- AUTOTUNE ---


class Gated(Watched):
    """Gives an element only when it is let."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__(rows)
        self.gate = threading.Semaphore(0)

    def pull(self, n: int) -> Block | None:
        assert self.gate.acquire(timeout=DEADLINE_S)
        return super().pull(n)

    def let(self, count: int) -> None:
        self.gate.release(count)


def test_a_tuned_buffer_grows_when_it_was_full_and_then_empty() -> None:
    """Elements that come in bursts: full while the caller is busy, empty while it waits."""
    source = Gated(list(range(200)))
    cursor, _, meter = ahead(source, ps.AUTOTUNE)
    sizes = [meter.chosen["buffer_size"]]
    taken = 0
    full = threading.Event()
    for _ in range(3):
        capacity = int(meter.chosen["buffer_size"])
        source.let(capacity + 1)
        for _ in range(capacity + 1):
            assert cursor.pull(1) is not None
            taken += 1
            assert source.reached(min(taken + 1, source.num_given + source.gate._value))
        # The buffer is filled by a burst that the caller does not take, and is then emptied.
        source.let(capacity)
        assert source.reached(taken + capacity)
        full.wait(0.05)  # the thread looks for room once more, and finds none
        for _ in range(capacity):
            cursor.pull(1)
            taken += 1
        sizes.append(meter.chosen["buffer_size"])
    source.let(1000)
    cursor.close()
    assert sizes[0] == 2
    assert sizes == sorted(sizes)


def test_a_tuned_buffer_stays_small_for_a_caller_who_never_waits() -> None:
    source = Watched(list(range(50)))
    cursor, _, meter = ahead(source, ps.AUTOTUNE)
    cursor.pull(1)
    for taken in range(1, 40):
        assert source.reached(taken + 1)
        cursor.pull(1)
    assert meter.chosen["buffer_size"] in (2, 4)
    cursor.close()


def test_what_was_chosen_is_in_the_stats() -> None:
    for size, expected in ((ps.AUTOTUNE, 2), (5, 5)):
        with D.range(10).prefetch(size).run() as run:
            (chosen,) = [stage["chosen"] for stage in run.stats()["stages"] if stage["chosen"]]
            assert chosen == {"buffer_size": expected}


# --- on disk meanwhile ---


SLOT_BYTES = 8192


class Slotted(Cursor):
    """Blocks of one array each, in slots of a stage of its own."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._num_given = 0

    def pull(self, n: int) -> Block:
        column = self._arena.empty((1, SLOT_BYTES // 8), np.dtype(np.int64))
        column[:] = self._num_given
        self._num_given += 1
        return Block.of_columns(LEAF, [column], 1)

    def state(self) -> State:
        return self._num_given

    def restore(self, state: State) -> None:
        self._num_given = state

    def close(self) -> None:
        pass


def test_what_lies_on_the_floor_when_a_block_comes_back_from_disk_is_stowed_for_it(tmp_path: Path) -> None:
    """It was just made, in a slot: for its own part of the ledger it would be as if it were first in turn."""
    ledger = Ledger(40 * SLOT_BYTES)
    slots = Slots(ledger)
    batch, share = ledger.share("batch", SLOT_BYTES), ledger.share("prefetch", SLOT_BYTES)
    others = ledger.share("others")
    arena = Arena(slots, share)
    spill = SpillSpace(str(tmp_path))
    cursor = AheadCursor(Slotted(Arena(slots, batch)), 4, share, arena, Meter("prefetch"), spill=spill)
    settle, made, go_on = cursor._admission.settle, threading.Event(), threading.Event()

    def settle_and_wait(lease: Lease, block: Block) -> None:
        settle(lease, block)
        made.set()
        assert go_on.wait(DEADLINE_S)

    def number() -> int:
        block = cursor.pull(1)
        assert block is not None
        return int(block.rows()[0][0])

    go_on.set()
    assert number() == 0
    changed = cursor._threads.changed
    with changed:
        assert changed.wait_for(lambda: len(cursor._ready) == 4, DEADLINE_S)
        cursor._admission.settle = settle_and_wait  # type: ignore[method-assign]
    others.charge(ledger.slack_bytes + 3 * SLOT_BYTES)  # of what is ready all but the first goes to disk
    assert [item.stowed for item in cursor._ready] == [False, True, True, True]
    others.discharge(others.charged_bytes)
    go_on.clear()
    assert number() == 1
    assert made.wait(DEADLINE_S)
    slots.release_unused()
    others.charge(ledger.slack_bytes)
    assert share.charged_bytes == share.floor_bytes  # the newest, while its thread has yet to say that it is there
    ledger.on_shortage(go_on.set)
    assert [number() for _ in range(3)] == [2, 3, 4]
    others.discharge(others.charged_bytes)
    assert number() == 5
    cursor.close()
    spill.close()
    slots.close()
    assert ledger.charged_bytes == 0


class Maker(Cursor):
    """Gives arrays that are on its account until it is asked again, and spoils large ones then."""

    def __init__(self, share: Share, sizes: list[int]) -> None:
        self._lease = share.acquire(0)
        self._sizes = list(sizes)
        self._last: np.ndarray | None = None

    def pull(self, n: int) -> Block | None:
        if self._last is not None and self._last.size == LARGE:
            self._last[:] = 255  # for this one there is no other account: it is not to be looked at any more
        self._lease.settle(0)
        if not self._sizes:
            return None
        size = self._sizes.pop(0)
        self._lease.settle(size)
        self._last = np.zeros(size, np.uint8)
        return Block.of_rows([self._last], has_failures=False)

    def state(self) -> State:
        return len(self._sizes)

    def restore(self, state: State) -> None:
        self._sizes = self._sizes[-state:]

    def close(self) -> None:
        self._lease.release()


LARGE = 60_000


@pytest.mark.parametrize("num", [1, 3])
def test_what_there_is_no_room_for_twice_stays_its_makers_until_it_was_used(num: int) -> None:
    ledger = Ledger(100_000)
    arena = Arena(Slots(ledger), ledger.share("slots"))
    sizes = [100, 100, 100, LARGE, 100, 100]
    maker = Maker(ledger.share("maker"), sizes)
    cursor = AheadCursor(maker, num, ledger.share("prefetch"), arena, Meter("prefetch"))
    found = []
    while (block := cursor.pull(1)) is not None:
        (row,) = block.rows()
        assert not row.any()
        found.append(row.size)
        del block, row
    cursor.close()
    assert found == sizes
    assert ledger.charged_bytes == 0
