"""Where the batches of a long file lie, in a few kilobytes however many they are.

The batches of an Arrow file lie one behind the other, and each says how long it is. So it is enough to remember some of
them: the others are looked for from there. Who reads in order finds each batch at the end of the one before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

from .ipc import IpcReader, Stored

__all__ = ["BATCH_INDEX_BYTES", "BatchIndex"]

#: What it takes at most.
BATCH_INDEX_BYTES = 4096
_MOST_REMEMBERED = 128
# Cursors that read at the same time, each somewhere else, do not make each other look again.
_MOST_RECENT = 4


class _Batch(NamedTuple):
    first: int  # the number of its first row
    stored: Stored


class BatchIndex:
    """Finds the batch of a row.

    Args:
        reader: Reads the file.
    """

    def __init__(self, reader: IpcReader) -> None:
        self.reader = reader
        self.num_rows = 0
        #: Of the largest batch.
        self.largest_bytes = 0
        self._end = reader.batches_start
        self._num_batches = 0
        self._every = 1  # of so many batches one is remembered
        self._firsts, self._offsets = array("q"), array("q")
        self._recent: list[_Batch] = []

    @classmethod
    def of_file(cls, reader: IpcReader) -> BatchIndex:
        """That of a complete file. Looks at each batch, and finds what is damaged or missing."""
        index = cls(reader)
        for found in reader.batches_in_footer():
            index.add(found.stored)
        return index

    def add(self, stored: Stored) -> None:
        """A batch that comes next."""
        if self._num_batches == self._every * _MOST_REMEMBERED:
            self._every *= 2
            self._firsts, self._offsets = self._firsts[::2], self._offsets[::2]
        if self._num_batches % self._every == 0:
            self._firsts.append(self.num_rows)
            self._offsets.append(stored.offset)
        self._num_batches += 1
        self.num_rows += stored.num_rows
        self.largest_bytes = max(self.largest_bytes, stored.nbytes)
        self._end = stored.offset + stored.nbytes

    def find(self, number: int) -> tuple[Stored, int] | None:
        """The batch of a row, and which of its rows it is; None if it is in none."""
        if not 0 <= number < self.num_rows:
            return None
        near = max((batch for batch in self._recent if batch.first <= number), default=None)
        place = bisect_right(self._firsts, number) - 1
        if near is None or near.first < self._firsts[place]:
            batch = self._at(self._firsts[place], self._offsets[place])
        else:
            self._recent.remove(near)
            batch = near
        while number >= batch.first + batch.stored.num_rows:
            batch = self._at(batch.first + batch.stored.num_rows, batch.stored.offset + batch.stored.nbytes)
        self._recent = [*self._recent, batch][-_MOST_RECENT:]
        return batch.stored, number - batch.first

    def _at(self, first: int, offset: int) -> _Batch:
        found = self.reader.batch_at(offset, self._end)
        if found is None:
            raise self.reader.wrong(f"it was changed: the batch at byte {offset:,} is gone")
        return _Batch(first, found.stored)
