"""How large chunks of kept elements may be, by the budgets of those who count them."""

from __future__ import annotations

from .batch_index import BATCH_INDEX_BYTES
from .joint import JointAccount
from .ledger import Share
from .place import BATCH_HEAD_BYTES, CHUNK_ROWS

__all__ = ["SPARING_CHUNK_BYTES", "chunk_limits", "file_chunk_limits"]

_CHUNK_BYTES = 1 << 20
# In a file that is to last, which runs with any budget may come to read.
_FILE_CHUNK_BYTES = 64 << 10
_SCALE_BYTES = 128 << 20
# Where no more stays in memory than must: larger ones go to disk singly.
SPARING_CHUNK_BYTES = 8 << 10


def chunk_limits(account: JointAccount, stored_bytes: int) -> tuple[int, int]:
    """How many elements a chunk has, and how many bytes. `stored_bytes`: what of them is on disk."""
    # Chunks grow with what is on disk, so that the index of very much does not come to be much itself.
    scale = 1 + stored_bytes // _SCALE_BYTES
    most_bytes = min([scale * _CHUNK_BYTES, *[share.budget_bytes // 16 for share in account.shares]])
    return scale * CHUNK_ROWS, min(most_bytes, SPARING_CHUNK_BYTES) if account.is_sparing else most_bytes


def file_chunk_limits(account: JointAccount) -> tuple[int, int]:
    """The same in a file that is to last."""
    return CHUNK_ROWS, min([_FILE_CHUNK_BYTES, *map(_readable_bytes, account.shares)])


def _readable_bytes(share: Share) -> int:
    """How large a batch may be that a run can be sure to read again: in its own floor, and a 16th of what is left."""
    # The floor has room for a batch, and for an element that is given from it.
    own = share.floor_bytes // share.num_cursors - BATCH_INDEX_BYTES - BATCH_HEAD_BYTES
    return max(0, own * 7 // 16) + share.common_bytes // 16
