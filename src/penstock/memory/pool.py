"""The pool: what all runs of this process that were given no budget of their own share.

The contract:

1. A run that opens takes the sum of its floors at once. What others hold beyond their floors they give back for it:
   they are asked, and waited for a moment, since one that is at work gives way only when it has done. Meanwhile nobody
   takes what he can do without. If it is still too little, or the floors alone do not fit, the run is refused.
   An open run that needs more than is free has the others give way in the same manner; and who is read while
   somebody waits gives way before it makes the next element.
2. Open runs come first: each sets aside what its stages were seen to need before another takes it.
3. A pool that is made smaller is *overdrawn* for as long as the floors of open runs are more than it. Floors stay with
   their runs. All else gives way, and nobody gets more until there is room; but what was free before may still be used,
   once, by runs that were open then and cannot do without: stages may be in the midst of what they found room for.
4. What caches keep between runs is taken from the pool as well, by its *keeper*: a member that gives all of it back for
   others, to disk. Where it lies there takes memory, too. A run that opens has it on its own floors for the caches that
   it reads, so that it is not in the way of these. Of others it is forgotten before a run is refused: elements will be
   made again.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol

__all__ = ["Pool"]

# So long a run that opens waits for others to give way.
_WAIT_S = 1.5
# So long if one of them is at work, which is given its time.
_BUSY_S = 10.0
_LOOK_AGAIN_S = 0.01


class _Member(Protocol):
    @property
    def floor_bytes(self) -> int: ...

    @property
    def slack_used_bytes(self) -> int: ...

    @property
    def is_in_need(self) -> bool: ...

    def let_go(self, wanted_bytes: int, of_use: bool = True, asks_pool: bool = True) -> bool: ...

    def keep_needs(self, overdraw: bool) -> None: ...

    def pool_resized(self, were_free_bytes: int) -> None: ...

    def leave_pool(self) -> None: ...


class Pool:
    """Bytes that several ledgers draw on: floors when a run opens, slack as it is used."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.taken_bytes = 0
        #: What runs wait for, to open or to go on; who can do without leaves it alone.
        self.awaited_bytes = 0
        #: How often somebody took something.
        self.num_takes = 0
        self._members: weakref.WeakSet[Any] = weakref.WeakSet()
        self._keeper: Any = None
        self._lent_to: _Member | None = None
        self._make_locks()

    def _make_locks(self) -> None:
        # Reentrant: a garbage collection inside may close a run, which gives back.
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)
        self._opening = threading.Lock()  # one run at a time waits for floors

    def begin_anew(self) -> None:
        """In a forked child: open runs are the parent's and not to be asked here; so are threads that hold a lock."""
        self._make_locks()
        for member in list(self._members):
            member.leave_pool()
        self._members.clear()
        self._keeper = None
        self._lent_to = None
        self.taken_bytes = self.awaited_bytes = 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.total_bytes - self.taken_bytes)

    def lacking_bytes(self, wanted_bytes: int) -> int:
        """What must be given back before so much is free, which is more than that while the pool is overdrawn."""
        return max(0, self.taken_bytes + wanted_bytes - self.total_bytes)

    def join(self, member: _Member) -> None:
        with self._lock:
            self._members.add(member)

    def leave(self, member: _Member) -> None:
        with self._lock:
            self._members.discard(member)
            self.repay(member)

    def keeper(self, make: Callable[[Pool], Any]) -> Any:
        """The account of what outlives runs, made when it is first needed."""
        with self._lock:
            if self._keeper is None:
                self._keeper = make(self)
            return self._keeper

    @property
    def _kept_bytes(self) -> int:
        return 0 if self._keeper is None else self._keeper.charged_bytes

    def forget_kept(self, nbytes: int) -> bool:
        """Has caches forget so much of what no run counts, if they have that much; whether any did."""
        return 0 < nbytes <= self._kept_bytes and self._keeper.forget(nbytes)

    def _others(self, member: _Member | None) -> list[_Member]:
        with self._lock:
            return [other for other in self._members if other is not member]

    def try_take(self, nbytes: int, overdraw: bool = False) -> bool:
        """Takes bytes if they are free; `overdraw`: in any case."""
        with self._lock:
            if self.taken_bytes + nbytes > self.total_bytes and not overdraw:
                return False
            self.taken_bytes += nbytes
            self.num_takes += 1
            return True

    @contextmanager
    def awaiting(self, nbytes: int) -> Iterator[None]:
        """Within it the others know that somebody waits for so much."""
        with self._lock:
            self.awaited_bytes += nbytes
        try:
            yield
        finally:
            with self._lock:
                self.awaited_bytes -= nbytes

    def take_floors(
        self, member: _Member, nbytes: int, kept: Callable[[Any], int] = lambda keeper: 0, wait_s: float = _WAIT_S
    ) -> bool:
        """Takes the floors of a run that opens, for which others give way; waits a moment for those who are at work.

        `kept` says what the keeper has for caches of that run: it is on the floors as soon as the run has joined these,
        and calls `repay`. Until then it is lent, to one run at a time: two may be about to join the same cache.
        """
        if not self.awaited_bytes and self.try_take(nbytes):  # while another waits, that one comes first
            return True
        start = monotonic()
        if not self._opening.acquire(timeout=max(wait_s, _BUSY_S)):
            return False
        try:
            with self.awaiting(nbytes):
                while True:
                    is_busy = False
                    for other in self._others(member):
                        is_busy |= other.let_go(nbytes, asks_pool=False) and not other.is_in_need
                        other.keep_needs(overdraw=False)
                    keeper = self._keeper if self._lent_to is None else None
                    own_bytes = 0 if keeper is None else min(nbytes, kept(keeper))
                    if self._try_lend(member, nbytes, own_bytes):
                        return True
                    floors = sum(other.floor_bytes for other in self._others(member))
                    most_s = max(wait_s, _BUSY_S) if is_busy else wait_s
                    if floors + nbytes > self.total_bytes or monotonic() - start >= most_s:
                        return False
                    # Whatever other runs give back, the keeper has too much.
                    if self.forget_kept(self._kept_bytes + floors + nbytes - own_bytes - self.total_bytes):
                        continue
                    with self._freed:
                        self._freed.wait(_LOOK_AGAIN_S)
        finally:
            self._opening.release()

    def _try_lend(self, member: _Member, nbytes: int, own_bytes: int) -> bool:
        """Takes bytes if all but those are free that the keeper will give back for them."""
        with self._lock:
            if self.taken_bytes + nbytes - own_bytes > self.total_bytes:
                return False
            self.taken_bytes += nbytes
            if own_bytes:
                self._lent_to = member
            return True

    def repay(self, member: _Member) -> None:
        """A run counts what its caches keep, or it is over."""
        with self._lock:
            if self._lent_to is member:
                self._lent_to = None

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self.taken_bytes -= nbytes
            assert self.taken_bytes >= 0, "more was given back to the pool than was taken"
            if self.awaited_bytes:
                self._freed.notify_all()

    def resize(self, total_bytes: int) -> None:
        """Sets another size. Where runs hold more, they keep what they need at least and give back what they can."""
        with self._lock:
            were_free_bytes = self.free_bytes
            self.total_bytes = total_bytes
        members = self._others(None)
        for member in members:
            member.pool_resized(were_free_bytes)
        if self.lacking_bytes(0):
            # What is needed counts before anybody is asked, and again with the room that was made.
            for member in members:
                member.keep_needs(overdraw=True)
            for member in members:
                member.let_go(0, asks_pool=False)
                member.keep_needs(overdraw=True)

    def ask_others(self, member: _Member, wanted_bytes: int, of_use: bool) -> list[_Member]:
        """Asks the other runs to let go of what they hold without need, and (`of_use`) could do without.

        Those that were at work instead, if they have enough beyond their floors to be asked again.
        """
        others = [other for other in self._others(member) if other.let_go(wanted_bytes, of_use, asks_pool=False)]
        return others if sum(other.slack_used_bytes for other in others) >= self.lacking_bytes(wanted_bytes) else []

    def held_by_others(self, member: _Member, own_bytes: int) -> tuple[int, int]:
        """What other runs have taken, and how much of it are floors; `own_bytes` is what the asker has."""
        with self._lock:
            taken = self.taken_bytes - own_bytes
            return taken, min(taken, sum(other.floor_bytes for other in self._others(member)))

    def about(self, others_bytes: int, enough_bytes: int) -> str:
        """A remark for who is refused: the size of the pool, what others hold of it, and which size would do."""
        return (
            f"; the pool that runs share is {self.total_bytes:,} B, of which other open runs and caches hold "
            f"{others_bytes:,} B: ps.set_memory({enough_bytes:_}) or more would do as well"
        )
