"""Closing a run that nobody holds any more.

Where the last reference goes away in the caller's thread, as after `del run` or at the end of a loop, the run is closed
there and then. But a garbage collection comes in the midst of anything: in a thread that holds a lock which the threads
of the run wait for, or in one of these threads. Who waited there for their end could wait for ever, and all later
collections with it. So a run that is found by a collection, or in one of our own threads, is closed in another thread.

So are runs that are open when the process ends: Python ends threads that are left then wherever they next ask for its
lock, and where that is on the way back from native code the whole process is aborted. Who is in the midst of reading
one closes it, when it has what it waits for, and ends.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterable
from time import monotonic

__all__ = ["close_at_exit", "close_dropped", "mark_worker", "wait_for_closing"]

# Who opens a run, and a process that ends, wait no longer for those that are being closed: one may be at work on an
# endless element.
_WAIT_S = 1.0

_local = threading.local()
# Not the threads: who waits for one that is just being started would be refused.
_closing: set[threading.Event] = set()
# A forked child has none of the threads that they would wait for.
os.register_at_fork(after_in_child=_closing.clear)


def mark_worker() -> None:
    """This thread works for runs, which it would otherwise be asked to end while they wait for it."""
    _local.is_worker = True


def _is_worker() -> bool:
    """Whether this thread works for runs."""
    return getattr(_local, "is_worker", False)


def close_dropped(dropped: object, close: Callable[[], None]) -> None:
    """Closes what `dropped`, whose `__del__` this is called from, has opened; `close` must not refer to it."""
    # The collector marks an object before it asks `__del__`; for one whose last reference went away that comes after.
    if not gc.is_finalized(dropped) and not _is_worker():
        close()
    else:
        _close_elsewhere(close)


def close_at_exit(closes: Iterable[Callable[[], None]], others: Iterable[threading.Event]) -> None:
    """Closes all of them, and waits for it and for others who close theirs, but not for long."""
    for close in closes:
        _close_elsewhere(close)
    _closing.update(others)
    wait_for_closing()


def _close_elsewhere(close: Callable[[], None]) -> None:
    def close_and_leave() -> None:
        try:
            close()
        finally:
            _closing.discard(closed)
            closed.set()

    closed = threading.Event()
    _closing.add(closed)
    try:
        threading.Thread(target=close_and_leave, name="penstock-closing", daemon=True).start()
    except RuntimeError:  # the interpreter ends, and with it all threads
        _closing.discard(closed)


def wait_for_closing() -> None:
    """Waits for runs that are being closed, so that their memory is there for one that opens."""
    if _closing and not _is_worker():
        deadline = monotonic() + _WAIT_S
        for closed in tuple(_closing):
            closed.wait(max(0.0, deadline - monotonic()))
