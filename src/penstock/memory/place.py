"""Where kept elements lie on disk, and what it takes to remember that."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from .batch_index import BatchIndex
from .fixed_rows import FixedRows
from .ipc import Stored
from .spill_format import SpillReader

__all__ = ["BATCH_HEAD_BYTES", "CHUNK_ROWS", "Files", "Place", "Stretch", "index_bytes", "most_index_bytes"]

#: How many elements lie together, at least where they are small.
CHUNK_ROWS = 256
# A batch's entry in the index of a file.
_INDEX_BYTES = 340
#: The head of a batch in a file that is to last, of a few leaves.
BATCH_HEAD_BYTES = 2048
# Where its rows lie, and those of one leaf.
_ROWS_BYTES = 120
_OFFSET_BYTES = 40
# A chunk is a sixteenth of the budget, and a cache has half of a small one in memory.
_MOST_MOVED = 8


def index_bytes(count: int, nbytes: int | None, beside_bytes: int = 0) -> int:
    """What the index of so many elements takes at most, all of them on disk.

    Where their number is not known, chunks that follow each other there will be remembered together. Those that moved
    there from memory do not: the newest went first. `beside_bytes` are in the budget in any case.
    """
    each = most_index_bytes(1)
    if count < 0 or nbytes is None:
        return _MOST_MOVED * each
    # A chunk has as many rows as may be, or a sixteenth of the budget, or one element. How many sixteenths there are in
    # the smallest budget, that of the index itself and what is beside it, follows from
    # x = each · nbytes / ((x + beside) / 16).
    in_chunks = (math.isqrt(beside_bytes**2 + 64 * each * nbytes) - beside_bytes) // 2 + 1
    return min(count * each, in_chunks + each * (count // CHUNK_ROWS))


def most_index_bytes(num_leaves: int) -> int:
    """What it takes at most to remember the place of a batch."""
    return _INDEX_BYTES + _ROWS_BYTES + _OFFSET_BYTES * num_leaves


class Place(NamedTuple):
    """Where a chunk lies on disk; and its rows, where they can be read one by one."""

    reader: SpillReader
    stored: Stored
    rows: FixedRows | None = None

    @property
    def index_bytes(self) -> int:
        """What is in memory of it."""
        return _INDEX_BYTES + (0 if self.rows is None else _ROWS_BYTES + _OFFSET_BYTES * len(self.rows.offsets))


class Stretch(NamedTuple):
    """Elements on disk: those of a batch, from one on."""

    place: Place
    offset: int


class Files(Protocol):
    """Where chunks go that have no room in memory."""

    #: Whether no more can be added.
    failed: bool
    #: Finds what was stored, for one file that holds all; else who stores remembers each place.
    index: BatchIndex | None

    def store(self, rows: list[Any]) -> Place | None:
        """Writes elements as one batch; None where no file can hold them."""

    def finish(self) -> None:
        """The last element was stored."""
