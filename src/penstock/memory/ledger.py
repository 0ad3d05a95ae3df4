"""The ledger: every byte a run holds is on it before it exists.

The contract:

1. A run has one Ledger with a budget. Each stage has a Share of it.
2. A Share has a *floor*, set aside for it alone, and may draw on the common *slack*, which is what the floors leave.
3. A stage takes a Lease before bytes exist, settles it when their true size is known, and releases it when they leave.
4. `acquire` may wait, but only for leases of its own share that another thread will release; what neither the floor nor
   the slack can give at all is refused with `OverBudget`. `try_acquire` never waits.
5. `charged_bytes <= budget_bytes` at every moment.

Not on the ledger: the user's own arrays, the interpreter, temporaries of a user's function, and batches that were
handed to the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import BudgetTooSmall, OverBudget

__all__ = ["Lease", "Ledger", "Share", "format_bytes"]


def format_bytes(nbytes: float) -> str:
    """A size for people.

    >>> format_bytes(64_000_000), format_bytes(1_536), format_bytes(12)
    ('64 MB', '1.54 kB', '12 B')
    """
    rounded = float(f"{nbytes:.3g}")  # before the unit is chosen: 999,999 bytes are 1 MB, not 1e+03 kB
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if rounded >= size:
            return f"{rounded / size:.3g} {unit}"
    return f"{nbytes:.0f} B"


class Lease:
    """Some bytes that a stage may hold."""

    __slots__ = ("_share", "nbytes")

    def __init__(self, share: Share, nbytes: int) -> None:
        self._share = share
        self.nbytes = nbytes

    def settle(self, nbytes: int) -> None:
        """Corrects the size to what the bytes turned out to be; more than was reserved may be refused."""
        if nbytes > self.nbytes:
            self._share.charge(nbytes - self.nbytes)
        else:
            self._share.discharge(self.nbytes - nbytes)
        self.nbytes = nbytes

    def release(self) -> None:
        """Gives the bytes back; a second call does nothing."""
        nbytes, self.nbytes = self.nbytes, 0
        if nbytes:
            self._share.discharge(nbytes)


class Share:
    """One stage's part of the budget."""

    __slots__ = ("_ledger", "charged_bytes", "floor_bytes", "name", "peak_bytes")

    def __init__(self, ledger: Ledger, name: str, floor_bytes: int) -> None:
        self._ledger = ledger
        self.name = name
        self.floor_bytes = floor_bytes
        self.charged_bytes = 0
        self.peak_bytes = 0

    @property
    def free_bytes(self) -> int:
        """What is left to it: of its floor, and of the slack."""
        return max(0, self.floor_bytes - self.charged_bytes) + self._ledger.slack_bytes

    @property
    def budget_bytes(self) -> int:
        """The budget of the whole run."""
        return self._ledger.budget_bytes

    def has_room(self, nbytes: int) -> bool:
        """Whether so many bytes could be charged now; asks those who hold without need to let go first."""
        # Asked, not tried: bytes charged for a moment would be missed by another thread, and show in the peak.
        if nbytes > self.free_bytes:
            self._ledger.let_go()
        return nbytes <= self.free_bytes

    def raise_floor(self, nbytes: int) -> None:
        """Sets more bytes aside for this share alone, if the slack has them: what it needs to go on at all."""
        self._ledger.raise_floor(self, nbytes)

    def acquire(self, nbytes: int) -> Lease:
        """A lease of `nbytes`, or `OverBudget`."""
        self.charge(nbytes)
        return Lease(self, nbytes)

    def try_acquire(self, nbytes: int) -> Lease | None:
        """A lease of `nbytes`, or None where the budget has no room now."""
        return Lease(self, nbytes) if self._ledger.try_charge(self, nbytes) else None

    def charge(self, nbytes: int) -> None:
        """Puts `nbytes` on the ledger, or raises `OverBudget`."""
        if not self._ledger.try_charge(self, nbytes):
            raise OverBudget(self._ledger.refusal(self, nbytes))

    def discharge(self, nbytes: int) -> None:
        """Takes `nbytes` off the ledger."""
        self._ledger.discharge(self, nbytes)


class Ledger:
    """The account of one run's bytes."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.charged_bytes = 0
        self.peak_bytes = 0
        self._releases: list[Callable[[], None]] = []
        self.shares: list[Share] = []
        self._slack_used = 0
        self._floors = 0
        # Reentrant: a garbage collection inside a transition may close another cursor of the same run.
        self._lock = threading.RLock()

    def share(self, name: str, floor_bytes: int = 0) -> Share:
        """A new stage's share; its floor is set aside from now on."""
        with self._lock:
            if self._floors + floor_bytes > self.budget_bytes:
                raise BudgetTooSmall(self._too_small(name, floor_bytes))
            share = Share(self, name, floor_bytes)
            self._floors += floor_bytes
            self.shares.append(share)
            return share

    @property
    def slack_bytes(self) -> int:
        """What the floors leave, and nobody uses yet."""
        return self.budget_bytes - self._floors - self._slack_used

    def raise_floor(self, share: Share, nbytes: int) -> None:
        """Moves bytes from the slack to a share's floor, as many as there are up to `nbytes` in all."""
        with self._lock:
            extra = nbytes - share.floor_bytes
            used = max(0, share.charged_bytes - share.floor_bytes)
            extra = min(extra, self.slack_bytes + used)
            if extra <= 0:
                return
            share.floor_bytes += extra
            self._floors += extra
            self._slack_used -= min(extra, used)

    def on_shortage(self, release: Callable[[], None]) -> None:
        """Names a function that lets go of what is held without need; called when a charge would be refused."""
        self._releases.append(release)

    def try_charge(self, share: Share, nbytes: int) -> bool:
        """Puts bytes on a share's account, if there is room; asks those who hold without need to let go first."""
        if self._try_charge(share, nbytes):
            return True
        self.let_go()
        return self._try_charge(share, nbytes)

    def let_go(self) -> None:
        """Asks those who hold without need to let go."""
        for release in self._releases:
            release()

    def _try_charge(self, share: Share, nbytes: int) -> bool:
        with self._lock:
            over_before = max(0, share.charged_bytes - share.floor_bytes)
            over_after = max(0, share.charged_bytes + nbytes - share.floor_bytes)
            if over_after - over_before > self.slack_bytes:
                return False
            self._slack_used += over_after - over_before
            share.charged_bytes += nbytes
            share.peak_bytes = max(share.peak_bytes, share.charged_bytes)
            self.charged_bytes += nbytes
            self.peak_bytes = max(self.peak_bytes, self.charged_bytes)
            assert self.charged_bytes <= self.budget_bytes
            return True

    def discharge(self, share: Share, nbytes: int) -> None:
        with self._lock:
            over_before = max(0, share.charged_bytes - share.floor_bytes)
            share.charged_bytes -= nbytes
            over_after = max(0, share.charged_bytes - share.floor_bytes)
            self._slack_used -= over_before - over_after
            self.charged_bytes -= nbytes
            assert share.charged_bytes >= 0, f"{share.name} gave back more than it held"

    def refusal(self, share: Share, nbytes: int) -> str:
        """Why a charge was refused: asked, for whom, already held, left, top holders."""
        holders = sorted(self.shares, key=lambda s: s.charged_bytes, reverse=True)[:3]
        held = ", ".join(f"{s.name} {format_bytes(s.charged_bytes)}" for s in holders if s.charged_bytes)
        left = share.free_bytes
        return (
            f"asked for {format_bytes(nbytes)} more and holds {format_bytes(share.charged_bytes)}; "
            f"{format_bytes(left)} of the {format_bytes(self.budget_bytes)} budget are left to it"
            f"{f' (held: {held})' if held else ''}; "
            f"use memory={self.budget_bytes - left + nbytes:_} or more, or make the stage hold less"
        )

    def _too_small(self, name: str, floor_bytes: int) -> str:
        rows = [(s.name, s.floor_bytes) for s in self.shares if s.floor_bytes] + [(name, floor_bytes)]
        table = "\n".join(f"  {stage:<40} {format_bytes(need):>10}" for stage, need in rows)
        total = self._floors + floor_bytes
        return (
            f"the stages need {format_bytes(total)} and the budget is {format_bytes(self.budget_bytes)}:\n{table}\n"
            f"use memory={total:_} or more"
        )
