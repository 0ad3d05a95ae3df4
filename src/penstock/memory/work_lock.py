"""WorkLock: what one holds who is at work on what others may ask for."""

from __future__ import annotations

import threading

__all__ = ["WorkLock"]


class WorkLock:
    """A lock that knows whose it is.

    Not reentrant: who is short of memory while at work on what it guards must not be asked to let go of it.
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0

    @property
    def is_anothers(self) -> bool:
        """Whether another thread has it that could not be had, who will be done without this one's help."""
        # Not `locked()`: who waited for the lock has it before that says so. Or the other one is done by now.
        return self._owner != threading.get_ident()

    def try_acquire(self) -> bool:
        """Takes it if nobody has it."""
        if not self._lock.acquire(blocking=False):
            return False
        self._owner = threading.get_ident()
        return True

    def release(self) -> None:
        """Gives it back."""
        self._owner = 0
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *exc_info: object) -> None:
        self.release()
