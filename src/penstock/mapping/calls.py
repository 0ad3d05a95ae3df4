"""Calls of `map_fn`'s function, with what they take for a moment on the ledger.

Elsewhere temporaries of users' functions are only shown. Here they are most of what there is: the function of one
element makes a large array and sums it up. So the first calls run alone and are measured, a quarter more is reserved
for each call that may run at a time, and no more run at a time than there is room for.

Later elements may take more. So calls are measured, each alone, all through the run: whenever an eighth more were made,
as long as that takes no more than a small part of the time. One that would begin beside a call which has asked the
system for more than is known waits for it, and is measured. When the process grows by more than is known (`growth`),
those that follow are, until one tells why. Where that may have broken the budget, all are, for twice as many calls as
were made until then: those that take much may be few among many. Else only some, in the same small part of the time: it
may be malloc that keeps what was freed. If none tells why, fewer run at a time.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..element import arrays_in
from ..errors import ElementTooLarge
from ..memory.ledger import Lease, Ledger, Share, format_bytes
from ..options import AUTOTUNE
from ..runtime.temporaries import call_measured
from .elems import only_part
from .gate import Gate
from .growth import GrowthWatch
from .results import Results

__all__ = ["MeasuredCalls", "reserve"]

# The first call of a function loads and keeps things for the later ones: a few are measured.
_NUM_MEASURED = 3
# When the process has grown, so many times the calls that were made; for each time that it told nothing, a quarter of
# that: it may be another part of the program that grows. But no fewer than these.
_TIMES_ALARMED, _PART_IN_VAIN = 2, 4
_NUM_ALARMED = 8
# A call is measured whenever this part more were made; but between two of them is so many times what one took.
_PART_LOOKED_AT = 8
_REST = 50
# So many calls are made with no more ado in one thread, where others have called before.
_FEW_FREE = 16
# Runs that are over by then need no thread that watches them.
_SHORT_NS = 1_000_000
_GROWTH = 1.25
# As many threads as AUTOTUNE may start.
_MOST_THREADS = 32
# Temporaries of all threads that are no more than this part of the budget are reserved for all of them at once.
_SMALL_PART = 16


def reserve(share: Share, lease: Lease, nbytes: int, num_calls: int, what: str, result_bytes: int = 0) -> None:
    """Puts the temporaries of some calls at a time on the ledger; `what` says whose they are.

    A tenth of the budget is left to the results: a number that is enough for one must be enough for both.
    """
    needed = nbytes * num_calls
    room = _room(share, lease)
    if needed > room:
        share.ask_for_room(needed - lease.nbytes)
        room = _room(share, lease)
    if needed > room:
        # With what others hold, the tenth, and some more: the next measurement may differ by a little.
        enough = (share.budget_bytes - share.free_bytes - lease.nbytes + needed) * 6 // 5 + 65_536
        if result_bytes > nbytes:
            enough = max(enough, result_bytes * 3 // 2 + needed)
            raise ElementTooLarge(
                f"{what} returns {format_bytes(result_bytes)}, which on its way to `out` is held within the budget of "
                f"{format_bytes(share.budget_bytes)}; use memory={enough:_} or more, or return less at a time. (All "
                "results together are no part of it; give a memmap as `out` where they are more than memory holds.)"
            )
        raise ElementTooLarge(
            f"{what} takes up to {format_bytes(nbytes)} beside its result, and {format_bytes(max(0, room))} of the "
            f"{format_bytes(share.budget_bytes)} budget are left to it; use memory={enough:_} or more"
        )
    lease.settle(needed, single=True)


def _room(share: Share, lease: Lease) -> int:
    return share.free_bytes + lease.nbytes - share.budget_bytes // 10


class MeasuredCalls:
    """The function with an account.

    Args:
        function: The user's.
        pack: Makes its one argument of the parts of an element.
        num_parallel_calls: As for `Dataset.map`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        pack: Callable[[tuple[Any, ...]], Any],
        num_parallel_calls: int | None,
    ) -> None:
        self._function = function
        self._pack = pack
        self._most = {None: 1, AUTOTUNE: _MOST_THREADS}.get(num_parallel_calls, num_parallel_calls or 1)
        self._gate = Gate(self._most)
        self._ledger: Ledger
        self._share: Share
        self._lease: Lease
        self._results: Results
        self._watch: GrowthWatch | None = None
        self._consumer = 0
        # Calls that the caller's thread may make with no more ado; none while others call, too, and few if they did:
        # they may again.
        self._num_free = self._num_granted = 0
        self._others_called = self._others_call = False
        self._num_due = _NUM_MEASURED
        self._counting = threading.Lock()  # of those that are due: an alarm may come from another thread at any time
        self._alarmed = self._absorbed = self._saw_promise = False
        self._num_in_vain = 0
        self._next_number = self._next_ns = self._begun_ns = 0
        # What the last measured call took, and all of them.
        self._measured_ns, self._measuring_ns = 1, 0
        self._refusal = ""
        #: The most that a call was seen to take beside its result.
        self.temporary_bytes = 0
        self.num_measured = 0
        #: Whether the function returns a list of components, which to the engine is a tuple.
        self.returns_list = False

    def begin(self, ledger: Ledger, results: Results) -> None:
        """The run has opened; from now on calls are on its account."""
        self._ledger, self._share = ledger, ledger.share("temporaries of fn")
        self._lease, self._results = self._share.acquire(0), results
        self._consumer = threading.get_ident()
        self._watch = GrowthWatch(
            lambda: ledger.charged_bytes + results.written_bytes,
            self._alarm,
            lambda: ledger.charged_bytes,
            lambda: ledger.peak_bytes - ledger.charged_bytes,
        )
        self._begun_ns = perf_counter_ns()

    def close(self) -> None:
        """The run is over."""
        assert self._watch is not None
        self._watch.stop()
        self._lease.release()

    def entry(self) -> Callable[..., Any]:
        """The function as the engine calls it; a plain function, as nothing is called more quickly."""
        function, pack = self._function, self._pack

        def entry_of_one(element: Any) -> Any:
            if self._num_free > 0:
                self._num_free -= 1
                return function(element)
            return self._with_care(element)

        def entry_of_parts(*parts: Any) -> Any:
            element = pack(parts)
            if self._num_free > 0:
                self._num_free -= 1
                return function(element)
            return self._with_care(element)

        return functools.update_wrapper(entry_of_one if pack is only_part else entry_of_parts, function, updated=())

    def _alarm(self) -> None:
        """The process has grown by more than is known: the next calls are measured."""
        num_made = self._gate.num_entered + self._num_granted - self._num_free
        num_due = max(_NUM_ALARMED, _TIMES_ALARMED * num_made // _PART_IN_VAIN**self._num_in_vain)
        with self._counting:
            self._num_due, self._num_free = num_due, 0
            self._alarmed, self._absorbed = True, False

    def _with_care(self, element: Any) -> Any:
        assert self._watch is not None
        alone = threading.get_ident() == self._consumer
        most_free = self._most_free(alone)
        self._gate.num_entered += self._num_granted
        self._num_granted = 0
        while True:
            if not alone:
                self._watch.look_if_stale()
                if not self._num_due and self._watch.sees_promise():
                    self._saw_promise = True
            if self._is_due():
                with self._gate.alone():
                    if self._is_due():  # no other thread was first
                        return self._measured(element)
            self._gate.enter()
            if not (self._num_due or self._saw_promise or self._refusal):
                break
            self._gate.leave()  # something was seen while this one waited
        try:
            if most_free:
                self._num_free = self._num_granted = min(most_free, self._gate.num_entered // _PART_LOOKED_AT)
            return self._function(element)
        finally:
            self._gate.leave()

    def _most_free(self, alone: bool) -> int:
        """How many calls the caller's thread may be granted at most, if it is the only one that has called of late."""
        if not alone:
            self._others_called = self._others_call = True
            return 0
        others_call, self._others_call = self._others_call, False
        if others_call:
            return 0
        return _FEW_FREE if self._others_called else self._gate.num_entered

    def _is_due(self) -> bool:
        if self._refusal:
            raise ElementTooLarge(self._refusal)
        if self._num_due or self._saw_promise:
            return True
        return self._gate.num_entered >= self._next_number and perf_counter_ns() >= self._next_ns

    def _measured(self, element: Any) -> Any:
        """A call that nothing runs beside."""
        assert self._watch is not None
        if self._alarmed and not self._absorbed:
            self._absorbed = True
            if not self._may_have_broken_budget():
                left_ns = (perf_counter_ns() - self._begun_ns) // _REST - self._measuring_ns
                with self._counting:
                    self._num_due = min(self._num_due, max(_NUM_ALARMED, left_ns // self._measured_ns))
            if self._watch.absorb(self._lease.nbytes):
                self._explained(1)
        before, start = self.temporary_bytes, perf_counter_ns()
        went = self._watch.forget_promises(self._lease.nbytes)
        result = call_measured(self._saw, self._function, (element,), {})
        now = perf_counter_ns()
        self.num_measured += 1
        with self._counting:
            self._num_due = max(0, self._num_due - 1)
        if self._saw_promise and went and self.temporary_bytes == before:
            self._watch.expect_promises()
        self._saw_promise = False
        self.returns_list = type(result) is list
        if self._alarmed and (self.temporary_bytes - before) * 2 * self._gate.limit > self._watch.beyond_bytes:
            self._explained(_NUM_ALARMED)
        elif self._alarmed and not self._num_due:
            # Something in calls took it that cannot be measured, or another part of the program.
            self._num_in_vain += 1
            fitting = self._share.free_bytes // 2 // max(1, self._watch.beyond_bytes)
            self._most = max(1, min(self._gate.limit // 2, fitting))
            self._explained(0)
        if self.num_measured <= _NUM_MEASURED or self.temporary_bytes > before or self._most < self._gate.limit:
            self._settle(result)
        self._next_number = self._gate.num_entered * (_PART_LOOKED_AT + 1) // _PART_LOOKED_AT
        self._measured_ns = max(1, now - start)
        self._measuring_ns += self._measured_ns
        self._next_ns = now + _REST * self._measured_ns
        if self.num_measured >= _NUM_MEASURED and now - self._begun_ns > _SHORT_NS:
            self._watch.start()
        return result

    def _may_have_broken_budget(self) -> bool:
        """Whether the process has grown by more than it may; by twice as much as was seen, perhaps, between looks."""
        assert self._watch is not None
        return 2 * self._watch.beyond_bytes + self._ledger.peak_bytes > self._ledger.budget_bytes

    def _explained(self, num_due: int) -> None:
        """There is no more reason to look for one; some more calls are measured for good measure."""
        assert self._watch is not None
        with self._counting:
            self._alarmed, self._num_due = False, min(self._num_due, num_due)
        self._watch.rearm()

    def _saw(self, nbytes: int) -> None:
        self.temporary_bytes = max(self.temporary_bytes, nbytes)

    def _settle(self, result: Any) -> None:
        """Reserves for as many calls at a time as there are threads, or as there is room for."""
        each, most = int(self.temporary_bytes * _GROWTH), self._most
        if self.num_measured < _NUM_MEASURED:
            most = 1  # they run alone
        elif each * most > self._share.budget_bytes // _SMALL_PART:
            # Half of what is free: results on their way need some, too.
            room = (self._share.free_bytes + self._lease.nbytes) // 2
            most = min(most, max(1, os.cpu_count() or 1), max(1, room // each))
        try:
            reserve(self._share, self._lease, each, most, "a call of fn", sum(a.nbytes for a in arrays_in(result)))
        except ElementTooLarge as error:
            self._refusal = str(error)
            raise
        self._gate.limit = most
