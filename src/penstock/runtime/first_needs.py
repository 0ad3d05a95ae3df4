"""What stages were seen to need when the first element was there, set aside for them where the budget is small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..memory.ledger import Ledger, Share

__all__ = ["SeenNeed", "keep_first_needs"]


class SeenNeed(NamedTuple):
    """What a stage needs at least to go on with elements as large as were seen; 0 bytes where that is not known."""

    share: Share
    nbytes: int
    #: Whether what does not fit goes to disk.
    spills: bool


def keep_first_needs(ledger: Ledger, needs: Sequence[SeenNeed]) -> None:
    """Raises floors to what was seen to be needed, as far as there is slack, if the budget has not twice as much.

    With twice as much there is room for what stages hold and for those who work ahead.
    """
    if 2 * sum(need.nbytes for need in needs) <= ledger.aim_bytes:
        return
    # Who can put things on disk comes last: it would not give back what is set aside for it, and others can do nothing.
    for spills in (False, True):
        some = [(share, nbytes) for share, nbytes, is_spilling in needs if is_spilling is spills]
        # What it took so far comes first: of some that is all that is known, and others may do with less than said.
        taken = [(share, min(share.peak_bytes, nbytes or share.peak_bytes)) for share, nbytes in some]
        for share, nbytes in taken + some:  # a little is left: the next elements may be a little larger
            left = max(0, ledger.slack_bytes - ledger.aim_bytes // 32)
            ledger.raise_floor(share, min(nbytes, share.floor_bytes + share.slack_used_bytes + left))
