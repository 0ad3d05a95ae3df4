"""Tape: reads elements that are held for long, and knows from where to read them again.

Operators with a buffer do not save what is in it. They save the numbers of the elements they hold, and a position of
the input from which those can be read again. The tape remembers such positions (anchors) from time to time, and drops
those that no held element needs: there are never more of them than elements held.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from ..cursor import Cursor, Feed, State
from ..element import Failed, detach, nbytes_of
from ..errors import StateError
from ..leaf import is_dataset
from ..memory.ledger import Share
from ..memory.singly import are_alike, lent_bytes, objects_bytes
from .overlap import Overlap

__all__ = ["Tape"]

# Anchors are at least this many elements apart: taking one costs about as much as reading an element.
_APART = 64
# Elements are read in blocks of at most this many bytes: what a block holds beyond the element at hand is not charged.
_BLOCK_BYTES = 1 << 20
_BLOCK_ELEMENTS = 256


class Tape:
    """A feed whose elements are charged, with the objects around them, and kept until they are released.

    With an `overlap` windows among them that have elements in common are charged once for these: what `next` says of
    one are the objects alone, and the rest, which is charged too, is told by `overlap.left` when it leaves.
    """

    __slots__ = ("_anchors", "_feed", "_overlap", "_share", "charged_bytes", "each_bytes", "number")

    def __init__(self, cursor: Cursor, share: Share, overlap: Overlap | None = None) -> None:
        self._overlap = overlap
        self._feed = Feed(cursor)
        self._share = share
        self._anchors: list[tuple[int, State]] = [(0, self._feed.state())]
        #: What the last element takes, on whoever's account.
        self.each_bytes = _BLOCK_BYTES
        #: Bytes of the elements that were read and not released.
        self.charged_bytes = 0
        #: The number of the element that is read next.
        self.number = 0

    def _most(self, demand: int) -> int:
        """How many elements may be read at once, of those that are sure to be read."""
        return max(1, min(demand, _BLOCK_ELEMENTS, _BLOCK_BYTES // max(1, self.each_bytes)))

    def next_rows(self, demand: int) -> list[tuple[Any, int]]:
        """Like `next`, but up to `demand` elements, all of which are sure to be held; none at the end."""
        block = self._feed.take(self._most(demand))
        if block is None:
            return []
        rows, columns = block.rows(), block.columns
        if columns is not None and are_alike(block) and all(column.ndim == 1 for column in columns):
            charge = self.each_bytes = nbytes_of(rows[0]) + objects_bytes(rows[0])
            held = [(row, charge) for row in rows]  # numbers: nothing to detach
        else:
            held = [(detach(row), self._measured(row)) for row in rows]
        total = sum([nbytes for _, nbytes in held])
        self.charge(total)
        self.number += len(held)
        return held

    def next(self, demand: int = 1) -> tuple[Any, int] | None:
        """The next element (perhaps `Failed`), fit to be held, and its bytes, which are charged; None at the end.

        `demand` is how many are sure to be read.
        """
        row = self._feed.next(self._most(demand))
        if row is Feed.END:
            return None
        nbytes = self._measured(row)
        if self._overlap is not None and is_dataset(row):
            nbytes = objects_bytes(row)
            self.charge(nbytes + self._overlap.entered(row))
        else:
            self.charge(nbytes)
            row = detach(row)
        self.number += 1
        return row, nbytes

    def _measured(self, row: Any) -> int:
        """What an element takes that is held, on this account; none of errors, most of which are given on at once."""
        if type(row) is Failed:
            return 0
        nbytes = self.each_bytes = nbytes_of(row) + objects_bytes(row)
        # In a sample all of it: a cache with less room would have it on disk, and count nothing.
        return nbytes if self._share.frugal else nbytes - lent_bytes(row)

    def skip_to(self, number: int) -> bool:
        """Moves on to the element of this number; whether the input has as many."""
        missing = number - self.number
        if missing <= 0:
            return True
        skipped = self._feed.skip(missing)
        self.number += skipped
        return skipped == missing

    def charge(self, nbytes: int) -> None:
        """Puts bytes on the ledger that are held beside the elements."""
        self._share.charge(nbytes)
        self.charged_bytes += nbytes

    def release(self, nbytes: int) -> None:
        """Takes bytes of elements that are held no longer off the ledger."""
        self._share.discharge(nbytes)
        self.charged_bytes -= nbytes

    def anchor_due(self, num_held: int) -> bool:
        """Whether it is time for another anchor: so seldom that looking through all that is held costs little."""
        return self.number - self._anchors[-1][0] >= max(_APART, num_held)

    def drop_anchor(self, held: Iterable[int]) -> None:
        """Remembers this position, and of the older ones those that a held element (by number) needs."""
        anchors = [*self._anchors, (self.number, self._feed.state())]
        numbers = [number for number, _ in anchors]
        needed = {bisect_right(numbers, number) - 1 for number in held}
        self._anchors = [anchors[i] for i in sorted(needed | {len(anchors) - 1})]

    def state(self, oldest: int | None) -> State:
        """A position from which the oldest held element (None: the next one) can be read again."""
        if oldest is None:
            return [self.number, self._feed.state()]
        i = bisect_right([number for number, _ in self._anchors], oldest) - 1
        return list(self._anchors[i])

    def restore(self, state: State) -> None:
        self.number, below = state
        self._feed.restore(below)
        self._anchors = [(self.number, below)]

    def read_again(self, number: int) -> tuple[Any, int]:
        """The element of this number; numbers must ascend."""
        again = self.next() if self.skip_to(number) else None
        if again is None:
            raise StateError(f"input element {number}, which was held when the position was saved, is no longer there")
        return again

    def close(self) -> None:
        self.release(self.charged_bytes)
        self._feed.close()
