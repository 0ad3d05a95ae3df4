"""Chunks in the order of their elements, found by the number of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from .chunk import Chunk, merged

__all__ = ["ChunkList"]


class ChunkList:
    """Chunks that follow each other, from any number on. Not safe by itself: its owner has a lock."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._chunks)

    def append(self, start: int, chunk: Chunk) -> None:
        """Adds a chunk, of which the first element has this number."""
        self._starts.append(start)
        self._chunks.append(chunk)

    @property
    def last(self) -> Chunk | None:
        return self._chunks[-1] if self._chunks else None

    def pop(self) -> Chunk:
        """Takes away the last chunk."""
        self._starts.pop()
        return self._chunks.pop()

    def find(self, number: int) -> tuple[Chunk, int] | None:
        """The chunk of an element and its place there; None if it is in none."""
        index = bisect_right(self._starts, number) - 1
        if index < 0 or number >= self._starts[index] + self._chunks[index].size:
            return None
        return self._chunks[index], number - self._starts[index]

    def merge(self) -> int:
        """Has chunks that follow each other on disk too remembered together; how many bytes that saves."""
        chunks = merged(self._chunks)
        saved = sum(chunk.nbytes for chunk in self._chunks) - sum(chunk.nbytes for chunk in chunks)
        if saved:
            self._rearrange(chunks)
        return saved

    def replace(self, chunk: Chunk, pieces: Sequence[Chunk]) -> None:
        """The same elements in several chunks."""
        where = self._chunks.index(chunk)
        self._rearrange([*self._chunks[:where], *pieces, *self._chunks[where + 1 :]])

    def _rearrange(self, chunks: list[Chunk]) -> None:
        first = self._starts[0]
        self._chunks = chunks
        self._starts = [first, *(first + size for size in accumulate(chunk.size for chunk in chunks[:-1]))]
