"""Working ahead: a thread makes elements ready before they are asked for (`prefetch`).

Handing something over from one thread to another takes tens of microseconds. What is made in less gains nothing from a
thread: once that is measured, the consumer pulls for itself and nothing is held ready, until elements become dear. What
the thread measures has waits for the interpreter in it, long ones where several threads read ahead. So where it is not
sure, and the consumer waits too, the consumer tries for itself, and goes on if it waited longer than that takes.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns

from ...block import Block
from ...cursor import Cursor, State, expect_list, replay
from ...errors import OverBudget
from ...frames import taken
from ...memory.arena import Arena
from ...memory.ledger import Lease, Share
from ...memory.spill import SpillSpace
from ...options import AUTOTUNE
from ..accounts import Account
from ..channel import Admission, Boundary, Ready, Threads
from ..meter import Meter
from ..reserved import Reserved
from ..stowing import Stowage

__all__ = ["AheadCursor"]

_MOST_AHEAD = 64
# A hand-over costs about as much as making something this dear. The thread comes back only well above it.
_CHEAP_NS = 50_000
_DEAR_NS = 2 * _CHEAP_NS
# Up to here what the thread measures is not sure: if the consumer waits for such a part of it, it tries for itself.
_UNSURE_NS = 3 * _CHEAP_NS
_WAITED_PART = 4
# Who waits for the interpreter gets it after 5 ms, as one of several perhaps. What is longer was another wait.
_LONGEST_WAIT_NS = 20_000_000
# The consumer judges by so many of its own pulls at least.
_FEWEST_PULLS = 8
# In the thread no pull counts for more: the rest may have been waiting for the interpreter. The consumer counts all,
# from the third that is so long: before, somebody else may have had the processor.
_CONTENDED_NS = 4 * _CHEAP_NS
_NUM_STALLS = 2
# So many elements are measured before it is tried without the thread, twice as many after each time that failed.
_TRIAL_ELEMENTS, _MOST_TRIED = 64, 1024
# The average is over about as many elements.
_REMEMBERED = 256
_NOT_PULLING = object()


class AheadCursor(Cursor):
    """The input's elements, up to `num_elements` of them made ready by a thread where that pays.

    `makers` count what they made for this thread, on the share that counts what lies ready: once is enough.
    """

    def __init__(
        self,
        input: Cursor,
        num_elements: int,
        share: Share,
        arena: Arena,
        meter: Meter,
        boundary: Boundary | None = None,
        spill: SpillSpace | None = None,
        makers: Account | None = None,
    ) -> None:
        self._input = input
        self._makers = makers
        self._capacity = 2 if num_elements == AUTOTUNE else num_elements
        self._tuned = num_elements == AUTOTUNE
        self._was_full = False
        self._share = share
        self._admission = Admission(share, arena)
        self._boundary = boundary or Boundary(None)
        self._boundary.holds = self._holds
        # What the consumer was given last is held until it asks again.
        self._given: Lease | None = None
        self._meter = meter
        self._ready: deque[Ready] = deque()
        self._pulling: State = _NOT_PULLING
        self._demand = 1
        self._making: Ready | None = None
        self._reserved = Reserved(share, for_all=True)  # what finds no room afterwards stays its maker's
        self._wanted = False  # by a consumer who waits for it
        self._ended = False
        self._is_borrowed = False  # what was made last, on its maker's account
        # Set by the thread, which then leaves the input alone; cleared by the consumer.
        self._inline = False
        self._made = 0
        self._making_ns = 0
        self._num_long = 0  # of those remembered, the consumer's own that took long
        # How long the consumer has waited for what it took, since the thread began, or began again.
        self._taken = self._waited_ns = 0
        self._is_doubted = False
        self._num_inline = 0
        self._trial = self._untried = _TRIAL_ELEMENTS
        self._threads = Threads("ahead")
        ready = self._ready
        self._stowage = Stowage(share, arena, spill or SpillSpace(), self._threads, lambda: ready, self._num_making)
        self._note()

    def _note(self) -> None:
        self._meter.chosen["buffer_size"] = "inline" if self._inline else self._capacity

    # --- in the thread ---

    def _holds(self) -> bool:
        return not self._threads.stopped and (bool(self._ready) or self._given is not None)

    def _may_release(self) -> bool:
        """Whether memory will come free without this thread: as long as its consumer waits for others, not for it."""
        return not self._threads.stopped and (not self._wanted or self._boundary.may_release())

    def _num_making(self) -> int:
        return int(self._making is not None)

    def _num_ready(self) -> int:
        return sum(item.size - item.offset for item in self._ready)

    def _ready_bytes(self) -> int:
        """What lies ready, also what is on another stage's account: a cache cannot let go of what somebody holds."""
        return sum(item.block.nbytes for item in self._ready if item.block is not None)

    def _work(self) -> None:
        changed = self._threads.changed
        while True:
            with changed:
                demand, lease = self._admit()
                while lease is None and not self._threads.stopped:
                    changed.wait(self._patience_s())
                    demand, lease = self._admit()
                if self._threads.stopped or lease is None:
                    if lease is not None:
                        lease.release()
                    return
                item = self._making = Ready(None, 0, lease)
                self._begin(item)
            if not item.done:
                self._make(item, demand)
            with changed:
                self._making, self._pulling = None, _NOT_PULLING
                if item.done:
                    self._ready.append(item)
                else:
                    lease.release()
                # Not before the item is there: the consumer would take an error for the end.
                self._ended = item.block is None
                self._untried -= item.size
                if self._untried <= 0 and not self._inline:
                    self._leave_if_of_no_use()
                changed.notify_all()
                if self._ended:
                    return
            del item  # it would keep a slot from being used again while this thread waits

    def _admit(self) -> tuple[int, Lease | None]:
        """How many elements to make now, and their lease."""
        if self._inline or self._is_borrowed:
            return 0, None
        if self._num_ready() >= self._capacity:
            self._was_full = True
            return 0, None
        if self._share.is_untried and self._ready_bytes() > self._share.budget_bytes // 8:
            return 0, None
        # What nobody waits for yet is a luxury even if nothing is there.
        num_in_flight = len(self._ready) + (self._given is not None) + (not self._wanted)
        return self._admit_beside(num_in_flight)

    def _admit_beside(self, num_in_flight: int) -> tuple[int, Lease | None]:
        return self._admission.try_admit_some(num_in_flight, min(self._demand, self._capacity))

    def _patience_s(self) -> float | None:
        """How long to wait before asking again, if nobody tells; None: until somebody does."""
        return None

    def _begin(self, item: Ready) -> None:
        try:
            item.before = self._pulling = self._input.state()
        except BaseException as error:
            item.error = error

    def _make(self, item: Ready, demand: int) -> None:
        try:
            start = perf_counter_ns()
            with self._share.waiting_while(self._may_release):
                with self._reserved.by(item.lease):
                    item.block = self._input.pull(demand)
                if item.block is not None:
                    self._measure(item.block.size, min(perf_counter_ns() - start, _CONTENDED_NS))
                    item.size = item.block.size
                    self._account(item, item.block)
        except BaseException as error:
            item.error, item.block = error, None

    def _account(self, item: Ready, block: Block) -> None:
        """Counts what was made. Where there is no room it stays its maker's, who is asked again when it was used."""
        try:
            self._admission.settle(item.lease, block)
            if self._makers is not None:
                self._makers.settle()
            self._input.used_up()
        except OverBudget:
            item.lease.settle(0)
            self._is_borrowed = True

    def _measure(self, size: int, elapsed_ns: int) -> None:
        self._made += size
        self._making_ns += elapsed_ns
        while self._made > _REMEMBERED:
            self._made //= 2
            self._making_ns //= 2
            self._num_long //= 2

    def _hand_over_ns(self) -> int:
        """What it takes to make as much as is handed over at a time."""
        return self._making_ns * min(self._demand, self._capacity) // max(1, self._made)

    def _leave_if_of_no_use(self) -> None:
        """Leaves the input to the consumer if what is handed over is cheap, or may well be."""
        hand_over_ns = self._hand_over_ns()
        is_waited_for = self._waited_ns * _WAITED_PART * self._made > self._making_ns * self._taken
        self._is_doubted = hand_over_ns >= _CHEAP_NS
        if not self._is_doubted or (hand_over_ns < _UNSURE_NS and is_waited_for):
            self._inline = True
            self._made = self._making_ns = self._num_inline = 0
            self._note()

    # --- in the consumer ---

    def pull(self, n: int) -> Block | None:
        if self._inline and not self._ready:
            return self._pull_inline(n)
        changed = self._threads.changed
        asked_ns = perf_counter_ns()  # before the lock: its holder may have to wait for the interpreter
        with changed:
            self._demand = n
            self._take_back()
            self._is_borrowed &= bool(self._ready)
            first = self._ready[0] if self._ready else self._making
            if first is not None:
                first.lease.come_first()
            if not self._threads.count and not self._ended:
                self._threads.start(self._work)
            if not self._ready and not self._ended:
                self._grow()
                self._wanted = True
                changed.notify_all()
            while not self._ready and not self._ended:
                self._threads.wait()
            self._wanted = False
            waited_ns = perf_counter_ns() - asked_ns
            self._meter.waiting_ns += waited_ns
            if self._taken:  # the first takes as long as it takes to begin
                self._waited_ns += min(waited_ns, _LONGEST_WAIT_NS)
            if not self._ready:
                return None
            item = self._ready[0]
            # In the consumer's hands, or released, before it has left: who waits for memory looks without a lock, and
            # would find that nobody is to release any.
            if item.error is not None:
                item.lease.release()
                self._ready.popleft()
                raise taken(item)
            if item.stowed:
                self._stowage.bring_back(item)
            block = item.take(n)
            self._taken += block.size
            self._gave(n, block.size)
            if item.empty:
                self._given = item.lease
                self._ready.popleft()
            changed.notify_all()
            return block

    def used_up(self) -> None:
        self._take_back()
        if self._makers is not None and self._is_borrowed:
            with self._threads.changed:
                if not self._ready:  # else what was made last is still to be taken
                    self._makers.settle()
                    self._is_borrowed = False
                    self._threads.changed.notify_all()

    def _gave(self, demand: int, size: int) -> None:
        """So many were given of those that the consumer asked for."""

    def _take_back(self) -> None:
        """The consumer asks again: what it was given is no longer on its way."""
        if self._given is not None:
            with self._threads.changed:
                self._given.release()
                self._given = None
                self._threads.changed.notify_all()

    def _pull_inline(self, n: int) -> Block | None:
        self._take_back()
        if self._ended:
            return None
        self._demand = n
        start = perf_counter_ns()
        try:
            block = self._input.pull(n if n <= self._capacity else max(self._capacity, self._admission.num_fitting(n)))
        except BaseException:
            self._ended = True
            raise
        elapsed = perf_counter_ns() - start
        self._meter.inputs_ns += elapsed
        if block is None:
            self._ended = True
            return None
        self._num_long += elapsed > _CONTENDED_NS
        self._measure(block.size, elapsed if self._num_long > _NUM_STALLS else min(elapsed, _CONTENDED_NS))
        self._num_inline += 1
        if self._num_inline >= _FEWEST_PULLS and self._hand_over_ns() > (_CHEAP_NS if self._is_doubted else _DEAR_NS):
            self._call_back()
        return block

    def _call_back(self) -> None:
        """Has the thread go on, if the consumer waited for it for less time than it takes now."""
        if self._making_ns * self._taken <= self._waited_ns * self._made:
            return
        with self._threads.changed:
            self._inline = False
            self._made = self._making_ns = self._num_long = self._taken = self._waited_ns = 0
            self._trial = min(2 * self._trial, _MOST_TRIED)
            self._untried = self._trial
            self._note()
            self._threads.changed.notify_all()

    def _grow(self) -> None:
        """The consumer came to an empty buffer that had been full: a larger one would have helped."""
        if self._tuned and self._was_full and self._capacity < _MOST_AHEAD:
            self._capacity *= 2
            self._was_full = False
            self._note()

    def state(self) -> State:
        with self._threads.changed:
            if self._ready:
                return [self._ready[0].before, self._ready[0].offset]
            # While the thread pulls, the input is its own; at all other times it can be asked.
            return [self._input.state() if self._pulling is _NOT_PULLING else self._pulling, 0]

    def restore(self, state: State) -> None:
        before, offset = expect_list(state, 2)
        self._input.restore(before)
        replay(self._input, offset)

    def skip(self, n: int) -> int:
        return super().skip(n) if self._threads.count else self._input.skip(n)

    def close(self) -> None:
        self._threads.stop()
        self._reserved.close()
        self._take_back()
        while self._ready:
            self._ready.popleft().lease.release()
        self._stowage.close()
        self._ended = True
        self._input.close()
        self._boundary.close()
