"""Elements made of a record batch, some rows at a time.

A string of two letters takes six bytes in Arrow's buffers and fifty as an object, a list of one number an array of more
than a hundred. So a batch stays what it is, and as many of its rows are made as there is room for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block
from ..memory.ledger import Share
from ..memory.transit import Transit
from .arrow_arrays import Decoded, TableColumns
from .arrow_sizes import bytes_made_of, made_bytes

__all__ = ["MOST_ROWS", "MadeRows"]

#: Making more rows at a time is no quicker.
MOST_ROWS = 1 << 12


class MadeRows:
    """The rows of one record batch after the other, from some row on.

    Args:
        table: What the columns are.
        share: The account of the stage, for a row that is larger than the room that was made.
    """

    def __init__(self, table: TableColumns, share: Share) -> None:
        self._table = table
        self._are_views = not made_bytes(table, 1, 1)
        self._beyond = share.acquire(0)
        self._batch: Any = None
        self._bytes_of: Callable[[Any], int] | None = None
        self._room_bytes = self._most_rows = 0
        self._decoded: Decoded | None = None
        self._first = 0  # of the rows that were made
        self.row = 0

    def begin(
        self,
        batch: Any,
        row: int,
        room_bytes: int,
        most_rows: int = MOST_ROWS,
        bytes_of: Callable[[Any], int] | None = None,
    ) -> None:
        """Goes on with a batch.

        Args:
            batch: The batch.
            row: The first of its rows that is wanted.
            room_bytes: What was reserved for rows that are made.
            most_rows: As many are made at a time, if there is room for them; where rows are views, all are.
            bytes_of: What some rows take in Arrow's buffers, where that is not what they say themselves.
        """
        self._batch, self.row = batch, row
        self._room_bytes, self._most_rows, self._bytes_of = room_bytes, most_rows, bytes_of

    @property
    def num_left(self) -> int:
        """Rows of the batch that were not taken."""
        return 0 if self._batch is None else max(0, int(self._batch.num_rows) - self.row)

    def reach(self) -> tuple[Decoded, int]:
        """Some rows that were made, and the place among them of the next one."""
        if self._decoded is None:
            self._make()
        assert self._decoded is not None
        return self._decoded, self.row - self._first

    def block(self, n: int, transit: Transit, where: Callable[[int], str]) -> Block:
        """The next rows, n at the most, not taken yet: as many as there is room for, since only they tell their sizes.

        `where(row)` names one that is bad.
        """
        decoded, start = self.reach()
        stop, most_bytes = min(start + n, decoded.num_rows), transit.room_bytes
        while True:
            block = decoded.block(start, stop, np.empty, where)
            if block.size == 1 or block.nbytes <= most_bytes:
                return block
            stop = start + (stop - start) // 2

    @property
    def first(self) -> int:
        """The number in the batch of the first row that was made."""
        return self._first

    def _make(self) -> None:
        count = self.num_left if self._are_views else min(self._most_rows, self.num_left)
        while True:
            rows = self._batch.slice(self.row, count)
            needed = bytes_made_of(self._table, rows, self._bytes_of and self._bytes_of(rows))
            if needed <= self._room_bytes or count == 1:
                break
            count //= 2
        self._beyond.settle(max(0, needed - self._room_bytes), single=True)
        self._decoded, self._first = self._table.decode(rows), self.row

    def take(self, n: int) -> bool:
        """Counts rows as taken, made or not; False when that was the last one."""
        self.row += n
        if self.row >= self._batch.num_rows:
            self.leave()
            return False
        if self._decoded is not None and self.row >= self._first + self._decoded.num_rows:
            self._decoded = None
        return True

    def leave(self) -> None:
        """Lets go of the batch; a second call does nothing."""
        self._batch = self._decoded = self._bytes_of = None
        self._beyond.release()
