"""What stages were seen to need when the first element was there, set aside for them where the budget is small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..memory.divide import Need
from ..memory.ledger import Ledger, Share

__all__ = ["SeenNeed", "keep_first_needs"]


class SeenNeed(NamedTuple):
    """What a stage needs at least to go on with elements as large as were seen; 0 bytes where that is not known."""

    share: Share
    nbytes: int
    #: Whether what does not fit goes to disk.
    spills: bool
    #: Whether nothing is known of it yet: below a cache that has the first elements, stages run later, or never.
    is_unknown: bool

    @staticmethod
    def of(need: Need, share: Share) -> SeenNeed:
        is_unknown = need.footprint.floor_bytes is None and not share.peak_bytes
        return SeenNeed(share, need.floor_bytes, need.footprint.spills, is_unknown)


def keep_first_needs(ledger: Ledger, needs: Sequence[SeenNeed]) -> None:
    """Raises floors to what was seen to be needed, as far as there is slack, if the budget has not twice as much.

    With twice as much there is room for what stages hold and for those who work ahead.
    """
    if 2 * sum(need.nbytes for need in needs) <= ledger.aim_bytes:
        return
    # Who is still to say what he needs is left all that others can do without.
    leaves_slack = any(need.is_unknown for need in needs)
    # What all datasets that are open at a time need, the first of them does not tell.
    ledger.has_unknown = leaves_slack or any(need.share.num_datasets for need in needs)
    # Who can put things on disk comes last: it would not give back what is set aside for it, and others can do nothing.
    for spills in (False,) if leaves_slack else (False, True):
        some = [(need.share, need.nbytes) for need in needs if need.spills is spills]
        # What it took so far comes first: of some that is all that is known, and others may do with less than said.
        taken = [(share, min(share.peak_bytes, nbytes or share.peak_bytes)) for share, nbytes in some]
        for share, nbytes in taken if leaves_slack else taken + some:
            left = max(0, ledger.slack_bytes - ledger.aim_bytes // 32)  # the next elements may be a little larger
            ledger.raise_floor(share, min(nbytes, share.floor_bytes + share.slack_used_bytes + left))
