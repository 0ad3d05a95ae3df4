"""Calls of `map_fn`'s function, with what they take for a moment on the ledger.

Elsewhere temporaries of users' functions are only shown. Here they are most of what there is: the function of one
element makes a large array and sums it up. So the first calls run alone and are measured, a quarter more is reserved
for each call that may run at a time, and no more run at a time than there is room for. As later elements may take more,
the caller's own thread measures a call again from time to time (`look_again`).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

from ..errors import ElementTooLarge
from ..memory.ledger import Lease, Share, format_bytes
from ..options import AUTOTUNE
from ..runtime.temporaries import call_measured
from .elems import only_part

__all__ = ["MeasuredCalls", "reserve"]

# The first call of a function loads and keeps things for the later ones: a few are measured.
_NUM_MEASURED = 3
_GROWTH = 1.25
# As many threads as AUTOTUNE may start.
_MOST_THREADS = 32
# Temporaries of all threads that are no more than this part of the budget are reserved for all of them at once.
_SMALL_PART = 16


def reserve(share: Share, lease: Lease, nbytes: int, num_calls: int, what: str) -> None:
    """Puts the temporaries of some calls at a time on the ledger; `what` says whose they are.

    A tenth of the budget is left to the results: a number that is enough for one must be enough for both.
    """
    room = share.free_bytes + lease.nbytes - share.budget_bytes // 10
    needed = nbytes * num_calls
    if needed > room:
        # With what others hold, the tenth, and some more: the next measurement may differ by a little.
        enough = (share.budget_bytes - share.free_bytes - lease.nbytes + needed) * 6 // 5 + 65_536
        raise ElementTooLarge(
            f"{what} takes up to {format_bytes(nbytes)} beside its result, and {format_bytes(max(0, room))} of the "
            f"{format_bytes(share.budget_bytes)} budget are left to it; use memory={enough:_} or more"
        )
    lease.settle(needed, single=True)


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
        self._lock = threading.RLock()
        self._share: Share
        self._lease: Lease
        self._consumer = 0
        self._num_measured = 0
        self._due = False
        # Whether there is room for all calls that there can be, and none needs a look.
        self._quick = False
        self._places: threading.Semaphore | None = None
        #: The most that a call was seen to take beside its result.
        self.temporary_bytes = 0
        #: Whether the function returns a list of components, which to the engine is a tuple.
        self.returns_list = False
        #: How many calls may run at a time.
        self.num_at_once = self._most

    def begin(self, share: Share) -> None:
        """The run has opened; from now on calls are on this account."""
        self._share, self._lease = share, share.acquire(0)
        self._consumer = threading.get_ident()

    def close(self) -> None:
        """The run is over."""
        self._lease.release()

    def entry(self) -> Callable[..., Any]:
        """The function as the engine calls it; a plain function, as nothing is called more quickly."""
        function, pack = self._function, self._pack

        def entry_of_one(element: Any) -> Any:
            return function(element) if self._quick else self._with_care(element)

        def entry_of_parts(*parts: Any) -> Any:
            element = pack(parts)
            return function(element) if self._quick else self._with_care(element)

        return functools.update_wrapper(entry_of_one if pack is only_part else entry_of_parts, function, updated=())

    def look_again(self) -> None:
        """Has the next call measured, if it is in this thread: others may be at work in the other ones."""
        self._due, self._quick = True, False

    def _with_care(self, element: Any) -> Any:
        if self._num_measured < _NUM_MEASURED or (self._due and threading.get_ident() == self._consumer):
            with self._lock:
                if self._num_measured < _NUM_MEASURED or self._due:
                    return self._measured(element)
        if self._places is None:
            return self._function(element)
        with self._places:
            return self._function(element)

    def _measured(self, element: Any) -> Any:
        before = self.temporary_bytes
        result = call_measured(self._saw, self._function, (element,), {})
        self._num_measured += 1
        self._due = False
        self.returns_list = type(result) is list
        if self._num_measured <= _NUM_MEASURED or self.temporary_bytes > before:
            self._settle()
        self._quick = self._num_measured >= _NUM_MEASURED and self._places is None
        return result

    def _saw(self, nbytes: int) -> None:
        self.temporary_bytes = max(self.temporary_bytes, nbytes)

    def _settle(self) -> None:
        """Reserves for as many calls at a time as there are threads, or as there is room for."""
        each, most = int(self.temporary_bytes * _GROWTH), self._most
        if self._num_measured < _NUM_MEASURED:
            most = 1  # they run alone
        elif each * most > self._share.budget_bytes // _SMALL_PART:
            # Half of what is free: results on their way need some, too.
            room = (self._share.free_bytes + self._lease.nbytes) // 2
            most = min(most, max(1, os.cpu_count() or 1), max(1, room // each))
        reserve(self._share, self._lease, each, most, "a call of fn")
        self.num_at_once = most
        if self._num_measured >= _NUM_MEASURED:
            self._places = None if most == self._most else threading.Semaphore(most)
