"""A joint account: what lies in memory for several runs, on the ledger of each of them until that run is over.

A cache outlives the cursors that read it, and takes memory though none does: behind the first part of a `concatenate`,
or between two rounds of `repeat`. So a run that has joined counts it to its end, or to that of the cache. Of runs that
share a pool the last one leaves it to the pool's keeper, an account like that of a run which gives way to all others.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from ..errors import OverBudget
from .ledger import Share

__all__ = ["Apart", "JointAccount", "Kept", "has_room"]


class Kept(Protocol):
    """What an operator keeps between runs."""

    def count_on(self, share: Share) -> None:
        """A run begins that may read it: it is on that run's ledger from now on."""

    def left_to(self, keeper: Share) -> int:
        """What the keeper of a pool counts of it, for a run that opens and will take it from there."""


class Apart:
    """Bytes that those count who had joined by then, and nobody who joins later."""

    __slots__ = ("_shares", "nbytes")

    def __init__(self, nbytes: int, shares: list[Share]) -> None:
        self.nbytes = nbytes
        self._shares = shares

    def release(self) -> None:
        for share in self._shares:
            share.discharge(self.nbytes)
        self._shares = []

    def forget(self, share: Share) -> None:
        """A run is over: what somebody still looks at is its caller's."""
        if share in self._shares:
            self._shares.remove(share)
            share.discharge(self.nbytes)


class _Member:
    """One run that has joined."""

    __slots__ = ("share", "take_back")

    def __init__(self, share: Share, take_back: list[Callable[[], None]]) -> None:
        self.share = share
        self.take_back = take_back


class JointAccount:
    """Not safe by itself: its owner has a lock."""

    def __init__(self) -> None:
        #: What is on the ledger of each who has joined.
        self.nbytes = 0
        self._members: dict[int, _Member] = {}

    def has(self, share: Share) -> bool:
        """Whether the run of a share has joined, with this share or another."""
        return share.run_id in self._members

    @property
    def shares(self) -> list[Share]:
        """One of each run."""
        return [member.share for member in self._members.values()]

    @property
    def has_plenty(self) -> bool:
        """Whether every run keeps enough for its other stages."""
        return all(map(_has_plenty, self.shares))

    @property
    def is_sparing(self) -> bool:
        """Whether one of them wants no more held than it takes to go on."""
        return any(share.is_sparing for share in self.shares)

    def add(self, share: Share, give_way: Callable[[Share], None], leave: Callable[[Share], None]) -> None:
        """A run joins, and has all of it charged by now: methods to call when it is short, and when it is over."""
        take_back = [share.on_shortage(_weakly(give_way, share)), share.at_end(_weakly(leave, share))]
        self._members[share.run_id] = _Member(share, take_back)

    def forgets(self, share: Share, forget: Callable[[Share, int], None]) -> None:
        """Names a method for when somebody would be refused what a member has; it is the last to be called."""
        share.on_refusal(id(self), _weakly(forget, share))

    def remove(self, share: Share) -> None:
        """A run is over."""
        member = self._members.pop(share.run_id)
        for take_back in member.take_back:
            take_back()
        share.on_refusal(id(self), None)
        member.share.discharge(self.nbytes)

    def forget_all(self) -> None:
        """In a forked child: the ledgers are the parent's."""
        self._members = {}

    def charge(self, nbytes: int, leaves_plenty: bool = False) -> bool:
        """Puts bytes on all ledgers, if they are free on each as it is, beside a quarter of it (`leaves_plenty`)."""
        charged: list[Share] = []
        for share in self.shares:
            is_charged = (
                share.charge_to_keep(nbytes, share.budget_bytes // 4) if leaves_plenty else share.charge_free(nbytes)
            )
            if not is_charged:
                for other in charged:
                    other.discharge(nbytes)
                return False
            charged.append(share)
        self.nbytes += nbytes
        return True

    def discharge(self, nbytes: int) -> None:
        for share in self.shares:
            share.discharge(nbytes)
        self.nbytes -= nbytes

    def set_apart(self, nbytes: int) -> Apart:
        """Leaves bytes on the ledgers that they are on by now, to be released on their own."""
        self.nbytes -= nbytes
        return Apart(nbytes, self.shares)


def has_room(shares: list[Share], nbytes: int) -> bool:
    """Whether each could count so much more, once others were asked to let go of what they hold."""
    for share in shares:
        try:
            share.charge(nbytes)
        except OverBudget:
            return False
        share.discharge(nbytes)
    return True


def _weakly(method: Callable[..., None], share: Share) -> Callable[..., None]:
    """Calls the method if its object is still there: what a function kept for one element goes when nobody has it."""
    known = weakref.WeakMethod(method)

    def call(*args: int) -> None:
        found = known()
        if found is not None:
            found(share, *args)

    return call


def _has_plenty(share: Share) -> bool:
    return share.to_keep_bytes >= share.budget_bytes // 4 and not share.under_pressure and not share.is_sparing
