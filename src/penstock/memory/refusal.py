"""What is said when there is no room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import BudgetTooSmall, ElementTooLarge, OverBudget

if TYPE_CHECKING:
    from .ledger import Ledger
    from .share import Share

__all__ = ["format_bytes", "refusal", "too_small"]


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


def refusal(ledger: Ledger, share: Share, nbytes: int, single: bool) -> OverBudget:
    """Why a charge was refused: asked, for whom, already held, left, top holders, what to do."""
    holders = sorted((s for s in ledger.shares if s.charged_bytes), key=lambda s: s.charged_bytes, reverse=True)
    names = [(s.name, s.charged_bytes) for s in holders[:3]]
    names += [("the rest", sum(s.charged_bytes for s in holders[3:]))] if holders[3:] else []
    left = share.free_bytes
    # With what is left these add up to the budget.
    aside = sum(max(0, s.floor_bytes + s.ahead_bytes - s.charged_bytes) for s in ledger.shares if s is not share)
    elsewhere = ledger.budget_bytes - ledger.charged_bytes - aside - left
    parts = ["held: " + ", ".join(f"{name} {format_bytes(size)}" for name, size in names)] if names else []
    parts += [f"set aside for others: {format_bytes(aside)}"] if aside > 0 else []
    parts += [f"taken by other runs: {format_bytes(elsewhere)}"] if elsewhere > 0 else []
    listed = f" ({'; '.join(parts)})" if parts else ""
    advised = ledger.advise(share, nbytes if single else 0) or 0
    enough = max(ledger.budget_bytes - left + nbytes, advised)
    over = nbytes - max(0, share.floor_bytes + share.ahead_bytes - share.charged_bytes)
    kind = ElementTooLarge if single else OverBudget
    remark = f" ({text})" if (text := share.remark()) else ""
    return kind(
        f"asked for {format_bytes(nbytes)} more and holds {format_bytes(share.charged_bytes)}; "
        f"{format_bytes(left)} of the {format_bytes(ledger.budget_bytes)} budget are left to it{listed}; "
        f"use memory={enough:_} or more{remark}, or make the stage hold less{ledger.about_pool(advised, over)}"
    )


def too_small(ledger: Ledger, name: str, floor_bytes: int) -> BudgetTooSmall:
    """Why a stage cannot be opened: what all of them need."""
    rows = [(s.name, s.floor_bytes) for s in ledger.shares if s.floor_bytes] + [(name, floor_bytes)]
    table = "\n".join(f"  {stage:<40} {format_bytes(need):>10}" for stage, need in rows)
    total = sum(need for _, need in rows)
    return BudgetTooSmall(
        f"the stages need {format_bytes(total)} and the budget is {format_bytes(ledger.budget_bytes)}:\n"
        f"{table}\nuse memory={total:_} or more{ledger.about_pool(total)}"
    )
