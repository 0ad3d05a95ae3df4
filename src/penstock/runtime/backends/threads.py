"""The thread backend: a function of blocks called in several threads (`num_parallel_calls`).

Handing a piece from thread to thread costs tens of microseconds, so pieces are of some size (see `pieces`). Waking a
thread costs as much. So nobody is woken for what another one is there for: the consumer when what it waits for
is ready, a worker when there is work worth it (`_call_up`), the one that is short of memory when some was given back.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns

from ...block import Block
from ...cursor import Cursor, State, expect_list
from ...errors import StateError
from ...frames import taken
from ...memory.arena import Arena
from ...memory.ledger import Lease, Share
from ...memory.spill import SpillSpace
from ...plan.op import ElementFunction, Room, call_with_room
from ...plan.traits import Traits
from ...spec import UNKNOWN
from ..accounts import Account
from ..channel import Admission, Boundary, InFlight, Ready, Threads
from ..meter import Meter
from ..reserved import Reserved
from ..stowing import Stowage
from .inline import count_failures
from .pieces import Pieces
from .tuner import ParallelismTuner

__all__ = ["ParallelCursor"]

# Who is short of memory looks again after so long: it may have come free without anybody telling.
_LOOK_AGAIN_S = 0.005


class ParallelCursor(Cursor):
    """A one-to-one function of blocks, called in several threads.

    Workers pull from the input themselves, one at a time, and give each piece a ticket in the order of pulling; ordered
    delivery is by ticket. Pieces are sized so that making one takes about a millisecond: a cheap function is called on
    many elements at a time, an expensive one on a single element. Threads start with the first pull.
    """

    def __init__(
        self,
        open_input: Callable[[], Cursor],
        function: ElementFunction,
        traits: Traits,
        ordered: bool,
        share: Share,
        arena: Arena,
        meter: Meter,
        boundary: Boundary | None = None,
        live: bool = False,
        spill: SpillSpace | None = None,
        num_elements: int = UNKNOWN,
        makers: Account | None = None,
    ) -> None:
        self._makers = makers  # who count what they made, on the share that counts what is in flight
        self._open_input = open_input
        self._input = open_input()
        self._function = function
        self._ordered = ordered
        self._tells_failures = traits.tells_failures
        self._tuner = ParallelismTuner(traits.num_parallel_calls, meter, num_elements)
        self._share = share
        self._arena = arena
        self._meter = meter
        self._boundary = boundary or Boundary(None)
        self._admission = Admission(share, arena, self._boundary.is_outermost)
        self._boundary.holds = self._holds
        # What the consumer was given last is held until it asks again.
        self._given: list[Lease] = []
        self._tickets: deque[Ready] = deque()
        self._place = 0
        # Who counts failures, or may wait long for an element, gets no more than was demanded.
        self._pieces = Pieces(share, self._tuner, may_reach=not live and not traits.tells_failures)
        self._demand, self._ended = 1, False
        # Failures that the input has heard of; of these, those in pieces delivered whole, or found further up.
        self._num_lost = self._num_lost_delivered = 0
        # The piece that is being pulled now. Until it is there the input is its worker's alone, who may have to wait
        # for memory: failures found meanwhile are kept for it, and nobody else ever waits for the input.
        self._begun: Ready | None = None
        self._reserved = Reserved(share, for_all=False)
        self._num_untold = 0
        # Held while pulling, so that tickets are given in the order of the input; taken before `changed`, never after.
        self._pulling = threading.Lock()
        # The consumer waits for `changed`, idle workers to be called up, one who is short until some is given back,
        # and those whom the tuner found to be too many for the end.
        self._threads = Threads("map")
        self._called_up = self._threads.condition()
        self._given_back = self._threads.condition()
        self._dismissed = self._threads.condition()
        self._num_idle = 0
        self._starving = False  # the consumer waits
        # A worker waits for memory, and nobody is called up: for the others there is none either.
        self._is_short = self._was_short = False
        # In any order, whichever is ready is taken: none is the first, which has the floor to come back to.
        tickets: deque[Ready] = self._tickets if ordered else deque()
        self._stowage = Stowage(share, arena, spill or SpillSpace(), self._threads, lambda: tickets, self._num_making)

    # --- in the workers ---

    def _work(self, number: int) -> None:
        changed = self._threads.changed
        while True:
            with changed:
                while not self._threads.stopped and not self._may_begin(number):
                    if number < self._tuner.level:
                        self._num_idle += 1  # until it is called up
                        self._called_up.wait()
                    else:
                        self._dismissed.wait()
                if self._threads.stopped:
                    return
            self._begin_and_call()

    def _call_up(self) -> None:
        """Wakes idle workers, as many as there is work for that those who are awake will not get to at once.

        One at least if half of what may be in flight is gone, and all while the consumer waits.
        """
        if not self._num_idle or self._ended or self._is_short:
            return
        most = self._pieces.most(self._starving)
        num_open = most - len(self._tickets)
        num_awake = min(self._tuner.level, self._threads.count) - self._num_idle
        worth = num_open if self._starving else self._pieces.num_worth_waking(num_open) - num_awake
        if not num_awake and 2 * num_open >= most:
            worth = max(1, worth)
        count = min(worth, num_open, self._num_idle)
        if count > 0:
            self._num_idle -= count
            self._called_up.notify(count)

    def _call_up_all(self) -> None:
        self._num_idle = 0
        self._called_up.notify_all()

    def _may_begin(self, number: int) -> bool:
        is_open = len(self._tickets) < self._pieces.most(self._starving)
        return is_open and not self._ended and number < self._tuner.level and self._tuner.may_begin

    def _begin_and_call(self) -> None:
        with self._pulling:
            begun = self._begin()
        if begun is not None:
            self._call(begun)

    def _begin(self) -> Ready | None:
        """Pulls the next piece of the input and gives it its ticket; None where there is none, or no room for it."""
        with self._threads.changed:
            size, ticket = self._try_ticket()
            if ticket is None:
                return None
            self._begun = ticket
        start = perf_counter_ns()
        try:
            with self._share.waiting_while(self._boundary.may_release):
                with self._reserved.by(ticket.lease):
                    block = self._input.pull(size)
                if block is not None:
                    self._hold_input(ticket, block)
                    self._settle_makers()
        except BaseException as error:
            ticket.error, block = error, None
        with self._threads.changed:
            self._begun = None
            self._pulled(ticket, block, perf_counter_ns() - start)
        return None if block is None else ticket

    def _try_ticket(self) -> tuple[int, Ready | None]:
        """How many elements there is room for, and the ticket for them; None where there is none to be had now."""
        if self._ended or self._threads.stopped or not self._tuner.may_begin:
            return 0, None
        size = self._pieces.size(self._demand)
        # Several cheap ones wait for room together: one by one they cost more than the wait, and so they come one by
        # one only where the consumer has nothing else to wait for.
        is_cheap = self._pieces.num_joined > 1 and bool(self._tickets)
        or_one = size <= self._pieces.num_together and not is_cheap
        # What the consumer has counts too where he may ask others next: a stage of whose need nobody knows yet, or
        # another dataset on the same account.
        num_in_flight = len(self._tickets) + (self._share.others_may_be_next and bool(self._given))
        size, lease = self._admission.try_admit_some(num_in_flight, size, or_one)
        if lease is None:
            self._is_short = self._was_short = True
            self._given_back.wait(_LOOK_AGAIN_S)
            self._is_short = False
            return 0, None
        if self._was_short:
            self._was_short = False
            self._call_up()  # nobody was meanwhile
        ticket = Ready(None, self._place, lease)
        ticket.lost_before = self._num_lost
        try:
            ticket.before = self._input.state()
        except BaseException as error:
            ticket.error = error
            self._pulled(ticket, None, 0)
            return 0, None
        return size, ticket

    def _pulled(self, ticket: Ready, block: Block | None, elapsed_ns: int) -> None:
        """Puts a piece, or the error in its place, in line; where there is neither, the input has ended."""
        if block is not None:
            ticket.input, ticket.size, ticket.pulling_ns = block, block.size, elapsed_ns
            self._place += block.size
        else:
            self._ended = True
            self._threads.changed.notify_all()
        if block is not None or ticket.error is not None:
            self._tickets.append(ticket)
        else:
            ticket.lease.release()
        if self._num_untold:
            num_lost, self._num_untold = self._num_untold, 0
            self._lost(num_lost)

    def _hold_input(self, ticket: Ready, block: Block) -> None:
        """The input may be asked again while the function still looks at this block: it is on our account now.

        What is part of something larger, such as a batch that a cache has read, stays on its maker's: the floor is for
        one element and what is made of it.
        """
        self._arena.take_over(block, in_part=False)
        ticket.input_bytes = self._admission.held_bytes(block)
        if ticket.input_bytes > ticket.lease.nbytes:  # what was reserved is for both what goes in and what comes out
            ticket.lease.settle(ticket.input_bytes)

    def _settle_makers(self) -> None:
        """What they made is held here, or by nobody; only while none of them is at work."""
        if self._makers is not None:
            self._makers.settle()
        self._input.used_up()

    def _holds(self) -> bool:
        """Whether what is in flight will be taken, and come free, whatever becomes of what is begun now."""
        return not self._threads.stopped and bool(self._given or self._tickets)

    def _may_release_before(self, ticket: Ready) -> bool:
        """Whether others will release memory while this piece waits for it."""
        if self._threads.stopped:
            return False
        try:
            first = self._tickets[0] is ticket
        except IndexError:
            first = False
        return bool(self._given) or not first or self._boundary.outer_may_release()

    def _call(self, ticket: Ready) -> None:
        start = perf_counter_ns()
        block, ticket.input = ticket.input, None
        assert block is not None
        result, error, num_lost = None, None, 0
        each_bytes = self._pieces.sampled_bytes(block)
        try:
            with self._share.waiting_while(lambda: self._may_release_before(ticket)):
                result, num_lost = self._applied(block, ticket.place, InFlight(ticket.lease, ticket.input_bytes))
                self._admission.settle(ticket.lease, result, ticket.input_bytes)
        except BaseException as raised:
            result, error = None, raised
        elapsed = perf_counter_ns() - start
        # Before the consumer can take the result, and the next piece is the first in turn: a slot that this thread
        # still looked at would lie on the floor that is meant for that one.
        del block
        with self._threads.changed:
            ticket.block, ticket.error, ticket.num_lost = result, error, num_lost
            error = None  # its traceback has this frame
            self._pieces.measure(ticket.size, each_bytes, result, elapsed + ticket.pulling_ns)
            self._meter.worker_ns += elapsed
            level = self._tuner.level
            self._tuner.finished(ticket.size)
            if self._tuner.level != level:
                self._call_up_all()  # some may be too many now
            self._call_up()  # as much as is known by now
            if self._is_ready():
                self._threads.changed.notify_all()

    def _applied(self, block: Block, place: int, room: Room | None = None) -> tuple[Block, int]:
        """What the function makes of a block, and how many elements failed in it."""
        result = call_with_room(self._function, block, place, room)
        num_lost = self._failures_in(result, block)
        if num_lost:
            with self._threads.changed:
                self._lost(num_lost)
        return result, num_lost

    def _failures_in(self, result: Block, block: Block) -> int:
        """Failures that the input must hear of."""
        return count_failures(result) - count_failures(block) if self._tells_failures else 0

    def _lost(self, n: int) -> None:
        if self._begun is not None:
            self._num_untold += n
            return
        self._input.lost(n)
        self._num_lost += n
        self._ended = False  # an elastic take below may have made room
        self._call_up_all()

    # --- in the consumer ---

    def pull(self, n: int) -> Block | None:
        self._demand = n = 1 if self._share.frugal else n  # one by one, as they may come: others hold most then
        if self._tuner.inline:
            return self._pull_inline(n)
        with self._threads.changed:
            self._take_back()
            if not self._tuner.leaving or self._tickets or self._begun is not None:
                return self._pull_from_threads(n)
            self._tuner.inline = True
        return self._pull_inline(n)

    def _pull_from_threads(self, n: int) -> Block | None:
        self._tuner.asked(starved=not self._is_ready())
        while self._threads.count < self._tuner.level:
            self._threads.start(functools.partial(self._work, self._threads.count))
        if not self._is_ready():
            self._starving = True
            self._given_back.notify()  # what is first in turn is made in any case
            self._call_up()
        while not self._is_ready() and not (self._ended and not self._tickets):
            self._threads.wait()
        self._starving = False
        self._meter.waiting_ns += self._tuner.served()
        return self._take(n)

    def _is_ready(self) -> bool:
        if self._ordered:
            return bool(self._tickets) and self._tickets[0].done
        return any(ticket.done for ticket in self._tickets)

    def _take(self, n: int) -> Block | None:
        if not self._tickets:
            return None
        ticket = self._tickets[0] if self._ordered else next(t for t in self._tickets if t.done)
        # In the consumer's hands, or released, before it has left: who waits for memory looks without a lock, and would
        # find that nobody is to release any.
        if ticket.error is not None:
            ticket.lease.release()
            self._leave(ticket)
            raise taken(ticket)
        if ticket.stowed:
            self._stowage.bring_back(ticket)
        block = ticket.take(n)
        self._pieces.num_delivered += block.size
        if ticket.empty:
            self._given.append(ticket.lease)
            self._leave(ticket)
            self._num_lost_delivered += ticket.num_lost or 0
        return block

    def _num_making(self) -> int:
        return sum(not ticket.done for ticket in self._tickets) + (self._begun is not None)

    def _leave(self, ticket: Ready) -> None:
        self._tickets.remove(ticket)
        self._let_first_come()
        self._given_back.notify()
        self._call_up()

    def _let_first_come(self) -> None:
        first = self._tickets[0] if self._tickets else self._begun
        if first is not None:
            first.lease.come_first()

    def _take_back(self) -> None:
        """The consumer asks again: what it was given is no longer on its way."""
        if self._given:
            with self._threads.changed:
                while self._given:
                    self._given[-1].release()  # first, as in `_take`
                    self._given.pop()
                self._let_first_come()
                self._given_back.notify()

    def _pull_inline(self, n: int) -> Block | None:
        """Calls in the consumer's own thread, while the tuner finds out what a call costs, or if calls are cheap."""
        self._take_back()
        if self._tickets:  # of a position that was restored
            with self._threads.changed:
                return self._take(n)
        if not self._tuner.settled_inline:  # and a call may turn out to be dear
            n = min(n, self._pieces.size(n))
        n, lease = self._admission.admit_inline(n)
        try:
            getting = -perf_counter_ns()
            block = self._input.pull(n)
            if block is None:
                lease.release()
                return None
            getting += (start := perf_counter_ns())
            result, num_lost = self._applied(block, self._place, InFlight(lease, is_of_part=block.size < self._demand))
            self._admission.settle(lease, result)
        except BaseException:
            lease.release()
            raise
        # Not before it is: threads below would wait for the consumer to release what it is still waiting for.
        self._given.append(lease)
        elapsed = perf_counter_ns() - start
        self._num_lost_delivered += num_lost
        self._place += block.size
        self._pieces.element_ns = elapsed // block.size or 1
        self._tuner.called_inline(block.size, elapsed, getting)
        return result

    def used_up(self) -> None:
        for lease in self._given:  # which stay: they keep workers from more than was asked for
            lease.settle(0)
        if self._pulling.acquire(blocking=False):
            try:
                self._settle_makers()
            finally:
                self._pulling.release()

    def lost(self, n: int) -> None:
        with self._threads.changed:
            self._lost(n)
            self._num_lost_delivered += n

    def skip(self, n: int) -> int:
        if self._threads.count or self._tickets or self._tells_failures:
            return super().skip(n)
        skipped = self._input.skip(n)
        self._place += skipped
        return skipped

    # --- position ---

    def state(self) -> State:
        """[input position, its place, elements delivered after it, failures it had not heard of, pieces to make again].

        Ordered, the first undelivered piece says all: what follows it is pulled again.
        """
        with self._threads.changed:
            first = self._tickets[0] if self._tickets else self._begun
            if self._ordered and first is not None:
                num_lost = self._num_lost_delivered - first.lost_before
                return [first.before, first.place, first.offset, num_lost, []]
            waiting = [[t.before, t.place, t.size, t.offset, int(t.num_lost is None)] for t in self._tickets]
            before = self._input.state() if self._begun is None else self._begun.before
            return [before, self._place, 0, self._num_untold, waiting]

    def restore(self, state: State) -> None:
        if isinstance(state, list) and len(state) == 2:  # saved by a run without threads
            state = [state[1], state[0], 0, 0, []]
        before, place, offset, num_lost, waiting = expect_list(state, 5)
        self._input.restore(before)
        self._place = place
        if num_lost:
            self.lost(num_lost)
        while offset:  # these were delivered: only what their failures told the input counts
            block = self._input.pull(offset)
            if block is None:
                raise StateError(f"the input ends {offset} elements before the saved position")
            self._num_lost_delivered += self._applied(block, self._place)[1]
            self._place += block.size
            offset -= block.size
            del block  # or it would still be held while the next one is made
        for piece in waiting:
            self._redo(*expect_list(piece, 5))

    def _redo(self, before: State, place: int, size: int, offset: int, untold: int) -> None:
        """Makes a piece again that was begun but not delivered; `untold`: the input has not heard of its failures."""
        input = self._open_input()
        try:
            input.restore(before)
            place, left = place + input.skip(offset), size - offset
            while left:
                ticket = Ready(input.state(), place, self._share.acquire(0))
                block = input.pull(left)
                if block is None:
                    raise StateError(f"the input ends {left} elements before the saved position")
                self._tickets.append(ticket)
                ticket.size, ticket.num_lost = block.size, 0
                ticket.block = call_with_room(self._function, block, place, InFlight(ticket.lease))
                self._admission.settle(ticket.lease, ticket.block)
                if untold:
                    self.lost(self._failures_in(ticket.block, block))
                place, left = place + block.size, left - block.size
                del block
        finally:
            input.close()

    def close(self) -> None:
        self._threads.stop()
        self._reserved.close()
        self._take_back()
        while self._tickets:
            self._tickets.popleft().lease.release()
        self._stowage.close()
        self._ended = True
        self._input.close()
        self._boundary.close()
