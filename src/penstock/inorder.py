"""InOrderCursor: a random-access source read from its first element to its last.

What `IndexCursor` does for the plainest of orders, by a shorter way: small datasets are opened by the thousand inside
`flat_map`, and there opening costs more than reading.
"""

from __future__ import annotations

from typing import Protocol

from .block import Block
from .cursor import Cursor, State
from .errors import StateError

__all__ = ["InOrderCursor"]


class _Reader(Protocol):
    def read(self, index: slice) -> Block:
        """These elements, or the first of them, where there is no room for all."""


class InOrderCursor(Cursor):
    """Reads a source of known length in its own order; its position is one integer."""

    __slots__ = ("_length", "_place", "_reader")

    def __init__(self, reader: _Reader, length: int) -> None:
        self._reader = reader
        self._length = length
        self._place = 0

    def pull(self, n: int) -> Block | None:
        start = self._place
        stop = start + n
        if stop > self._length:
            stop = self._length
            if start >= stop:
                return None
        block = self._reader.read(slice(start, stop))
        self._place = start + block.size
        return block

    def skip(self, n: int) -> int:
        skipped = max(0, min(n, self._length - self._place))
        self._place += skipped
        return skipped

    def state(self) -> State:
        return self._place

    def restore(self, state: State) -> None:
        self._place = int(state)
        if self._place < 0:
            raise StateError(f"the saved position is damaged: {self._place} elements into {self._length}")

    def __repr__(self) -> str:
        return f"InOrderCursor({self._place} of {self._length})"
