"""A share: one stage's part of the budget, and what it may ask of the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .lease import Lease, nothing_expected
from .refusal import refusal

if TYPE_CHECKING:
    from .ledger import Ledger

__all__ = ["Share"]


class Share:
    """One stage's part of the budget."""

    __slots__ = (
        "_ledger",
        "_opened",
        "ahead_bytes",
        "charged_bytes",
        "ending",
        "expects",
        "floor_bytes",
        "name",
        "num_ahead",
        "num_cursors",
        "num_datasets",
        "peak_bytes",
        "planned_bytes",
        "remark",
        "spilled_bytes",
        "staying_bytes",
    )

    def __init__(self, ledger: Ledger, name: str, floor_bytes: int) -> None:
        self._ledger = ledger
        #: Of the run, for who makes elements one by one.
        self.ending = ledger.ending
        self.name = name
        self.floor_bytes = floor_bytes
        self.planned_bytes = floor_bytes  # the floor as it was when the run began
        self.num_cursors = 1  # that have the floor in common
        #: How many datasets that a function makes are on its account at a time: what these need only a sample can tell.
        self.num_datasets = 0
        # How many of those that the stage itself reads were open at a time, at most, and how many may be; and of those
        # that one of these reads.
        self._opened = [(1, 1), (1, 1)]
        #: How many of these threads may read at the same time.
        self.num_ahead = 0
        self.charged_bytes = 0
        self.ahead_bytes = 0  # of these, what leases hold that are ahead of others
        self.peak_bytes = 0
        self.spilled_bytes = 0  # so far: what went to disk because memory had no room for it
        self.staying_bytes = 0  # the most that it held and could not have put on disk, as it could the rest
        #: Says how much the stage will hold in the end, for one that gathers by what the data are.
        self.expects: Callable[[], int] = nothing_expected
        #: What else there is to say when it is refused something: that only the data can tell how much it will hold.
        self.remark: Callable[[], str] = lambda: ""

    @property
    def run_id(self) -> int:
        """The same for all shares of a run, as long as it is open."""
        return id(self._ledger)

    @property
    def free_bytes(self) -> int:
        """What is left to it: of its floor, and of the slack."""
        return max(0, self.floor_bytes + self.ahead_bytes - self.charged_bytes) + self._ledger.slack_bytes

    @property
    def spare_bytes(self) -> int:
        """What it may use at a time to make more than one element at once; none where all is needed elsewhere."""
        # A quarter: the stages above and below have blocks of their own to make. Nothing of its floor, which is for
        # larger elements that are still to come.
        return 0 if self._ledger.frugal else max(0, self._ledger.slack_bytes - self._ledger.headroom_bytes) // 4

    @property
    def num_waiting(self) -> int:
        """How many threads of the run wait for room."""
        return self._ledger.num_waiting

    @property
    def is_short(self) -> bool:
        """Whether it is the one that asks, in this thread."""
        return self._ledger.asker is self

    @property
    def would_help(self) -> bool:
        """Whether who asks, in this thread, gains by what this share lets go of: a floor is its own alone."""
        return self._ledger.asker in (None, self) or self.slack_used_bytes > 0

    @property
    def slack_used_bytes(self) -> int:
        """What it holds beyond its floor."""
        return max(self.ahead_bytes, self.charged_bytes - self.floor_bytes)

    def opened(self, num_open: int, num_to_open: int, is_inner: bool) -> None:
        """So many datasets are open at a time, of as many as may be; `is_inner`: of another one, not of the stage."""
        most_open, most_to_open = self._opened[is_inner]
        self._opened[is_inner] = max(most_open, num_open), max(most_to_open, num_to_open)

    @property
    def peak_of_all_bytes(self) -> int:
        """What it would have held at most if as many datasets had been open at a time as may be."""
        return self.peak_bytes * math.prod(-(-to_open // num_open) for num_open, to_open in self._opened)

    @property
    def budget_bytes(self) -> int:
        """The budget of the whole run, or the size of its pool if that was made smaller."""
        return self._ledger.aim_bytes

    @property
    def common_bytes(self) -> int:
        """What the floors of all stages leave of the budget."""
        return max(0, self._ledger.aim_bytes - self._ledger.floor_bytes)

    @property
    def under_pressure(self) -> bool:
        """Whether who can do with less should."""
        return self._ledger.under_pressure

    @property
    def frugal(self) -> bool:
        """Whether to make one element at a time."""
        return self._ledger.frugal

    @property
    def is_sparing(self) -> bool:
        """Whether to hold no more than it takes to go on, for speed or for later: what was held is taken for a need."""
        return self._ledger.frugal and self.num_datasets > 0

    @property
    def is_untried(self) -> bool:
        """Whether nobody knows yet what other stages will need."""
        return self._ledger.is_untried

    @property
    def others_may_be_next(self) -> bool:
        """Whether who was given something may ask another, whose need nobody knows or counts, before he is done."""
        return self.is_untried or self._ledger.has_unknown or self.num_datasets > 0 or self.num_cursors > 1

    def may_work_ahead(self, nbytes: int) -> bool:
        """Whether it may hold so many bytes more for speed alone: few while nobody knows what others will need."""
        if self.is_sparing:
            return False
        return not self.is_untried or self.charged_bytes + nbytes <= self._ledger.budget_bytes // 8

    def waiting_while(self, others_may_release: Callable[[], bool]) -> AbstractContextManager[None]:
        """Within it this thread waits for room, as long as somebody is sure to release some without its help."""
        return self._ledger.waiting_while(others_may_release)

    def has_room(self, nbytes: int, ahead: bool = False) -> bool:
        """Whether so many bytes could be charged now, without anybody's giving up what is of use."""
        # Asked, not tried: bytes charged for a moment would be missed by another thread, and show in the peak.
        if nbytes > self._free_bytes(ahead):
            self._ledger.let_go(nbytes, of_use=False, asker=self)
        return nbytes <= self._free_bytes(ahead)

    def ask_for_room(self, nbytes: int) -> None:
        """Has others let go of what they can do without, so that so many bytes could be charged if that is enough."""
        self._ledger.let_go(nbytes, asker=self)

    def _free_bytes(self, ahead: bool) -> int:
        return self._ledger.slack_bytes if ahead else self.free_bytes

    def on_shortage(self, release: Callable[[], object]) -> Callable[[], None]:
        """Names a function that gives up what could also lie on disk; returns one that takes it back.

        It is called from any thread, when a charge would be refused, and must not wait for a lock: it says True if
        another thread is at work on what it would give up, so that it may be asked again soon.
        """
        return self._ledger.on_shortage(release, of_use=True)

    @property
    def keeper(self) -> Share | None:
        """The account of what outlives the run, if it draws on a pool."""
        return self._ledger.keeper

    def at_end(self, leave: Callable[[], object]) -> Callable[[], None]:
        """Names a function for when the run is over; returns one that takes it back."""
        return self._ledger.at_end(leave)

    def on_refusal(self, key: int, forget: Callable[[int], object] | None) -> None:
        """Names a function that forgets what can be made again; `Ledger.on_refusal` says more."""
        self._ledger.on_refusal(key, forget)

    def forget(self, nbytes: int) -> bool:
        """Has those forget so much who can; whether any did."""
        return self._ledger.forget(nbytes)

    def raise_floor(self, nbytes: int) -> None:
        """Sets more bytes aside for this share alone, if the slack has them: what it needs to go on at all."""
        self._ledger.raise_floor(self, nbytes)

    def acquire(self, nbytes: int) -> Lease:
        """A lease of `nbytes`, or `OverBudget`."""
        if nbytes:
            self.charge(nbytes)
        return Lease(self, nbytes)

    def try_acquire(self, nbytes: int, ahead: bool = False) -> Lease | None:
        """A lease of `nbytes`, or None where the budget has no room to spare; `ahead` of other leases or not."""
        lease = Lease(self, 0, ahead)
        return lease if self.try_charge(nbytes, lease) else None

    def try_charge(self, nbytes: int, lease: Lease | None = None) -> bool:
        """Puts `nbytes` on the ledger if there is room to spare, which leaves the headroom to others."""
        return self._ledger.try_charge(self, nbytes, self._ledger.headroom_bytes, lease)

    def charge_free(self, nbytes: int, leave_bytes: int = 0) -> bool:
        """Puts `nbytes` on the ledger if they are free as it is; asks nobody to let go, so it is safe under a lock."""
        return self._ledger.charge_free(self, nbytes, leave_bytes)

    @property
    def to_keep_bytes(self) -> int:
        """What is left for things that could lie elsewhere: a floor is for what must be here."""
        return self._ledger.slack_bytes

    def charge_to_keep(self, nbytes: int, leave_bytes: int) -> bool:
        """`charge_free` for such things."""
        return self.to_keep_bytes >= nbytes + leave_bytes and self.charge_free(nbytes, leave_bytes)

    @property
    def wanted_bytes(self) -> int:
        """What this thread asked for last, of the slack and of what is left of the asker's floor."""
        asker = self._ledger.asker
        return self._ledger.wanted_bytes + (0 if asker is None else asker.free_bytes - self._ledger.slack_bytes)

    @property
    def lacking_bytes(self) -> int:
        """What is missing for what this thread asked for last: that much a function of `on_shortage` should free."""
        return self._ledger.lacking_bytes

    def charge_if_room(self, nbytes: int, lease: Lease | None = None) -> bool:
        """Puts `nbytes` on the ledger if there is room, or others can make some at once."""
        return self._ledger.try_charge(self, nbytes, 0, lease)

    def charge(self, nbytes: int, single: bool = False, lease: Lease | None = None) -> None:
        """Puts `nbytes` on the ledger; `OverBudget` where there is no room, `ElementTooLarge` for a single thing."""
        ledger = self._ledger
        if (
            not ledger.try_charge(self, nbytes, 0, lease)
            and not ledger.wait_and_charge(self, nbytes, lease)
            and not ledger.charge_free(self, nbytes, 0, lease, overdraw=True)
            and not (ledger.withheld.give_out() and ledger.try_charge(self, nbytes, 0, lease))
            and not (ledger.forget_kept(self, nbytes) and ledger.try_charge(self, nbytes, 0, lease))
            and not (ledger.lower_floors() and ledger.try_charge(self, nbytes, 0, lease))
        ):
            raise refusal(ledger, self, nbytes, single)

    def discharge(self, nbytes: int, lease: Lease | None = None) -> None:
        """Takes `nbytes` off the ledger."""
        self._ledger.discharge(self, nbytes, lease)

    def come_first(self, lease: Lease) -> None:
        """Moves what a lease holds ahead of others to the floor, as far as there is room on it."""
        self._ledger.come_first(self, lease)
