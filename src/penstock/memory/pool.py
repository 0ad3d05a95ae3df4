"""The pool: what all runs of this process that were given no budget of their own share."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Protocol

__all__ = ["Pool"]


class _Member(Protocol):
    charged_bytes: int

    def let_go(self, wanted_bytes: int) -> None: ...


class Pool:
    """Bytes that several ledgers draw on: floors when a run opens, slack as it is used."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.taken_bytes = 0
        # Reentrant: a garbage collection inside may close a run, which gives back.
        self._lock = threading.RLock()
        self._members: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def free_bytes(self) -> int:
        return max(0, self.total_bytes - self.taken_bytes)

    def join(self, member: _Member) -> None:
        with self._lock:
            self._members.add(member)

    def leave(self, member: _Member) -> None:
        with self._lock:
            self._members.discard(member)

    def try_take(self, nbytes: int) -> bool:
        with self._lock:
            if self.taken_bytes + nbytes > self.total_bytes:
                return False
            self.taken_bytes += nbytes
            return True

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self.taken_bytes -= nbytes
            assert self.taken_bytes >= 0, "more was given back to the pool than was taken"

    def resize(self, total_bytes: int) -> None:
        """Sets another size; runs that hold more keep it until they release it."""
        with self._lock:
            self.total_bytes = total_bytes

    def ask_others(self, member: _Member, wanted_bytes: int) -> None:
        """Asks the other runs to let go of what they hold without need."""
        for other in list(self._members):
            if other is not member:
                other.let_go(wanted_bytes)

    def taken_by_others(self, own_bytes: int) -> str:
        """A remark on what other open runs have taken, where there are any; `own_bytes` is what the asker has."""
        others = self.taken_bytes - own_bytes
        return f", of which other open runs have taken {others:,} bytes" if others else ""
