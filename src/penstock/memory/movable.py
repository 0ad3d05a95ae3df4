"""Movable chunks: those that lie in memory, and could lie on disk. The newest of them go first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from .chunk import Chunk, idle

__all__ = ["Movable"]

_FEW_BUSY = 64  # elements, to look at which takes no time


class Movable:
    """Chunks in the order in which they came. Not safe by itself: its owner has a lock."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._next_look = 0  # at chunks that were all looked at by others: when so many elements are kept

    def __iter__(self) -> Iterator[Chunk]:
        """Those that have not moved meanwhile."""
        return (chunk for chunk in self._chunks if chunk.block is not None)

    def __reversed__(self) -> Iterator[Chunk]:
        return (chunk for chunk in reversed(self._chunks) if chunk.block is not None)

    def append(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)

    def remove(self, chunk: Chunk) -> None:
        """Takes a chunk away, if it is here."""
        self._chunks = [other for other in self._chunks if other is not chunk]

    def move_newest(
        self, move: Callable[[Chunk], object], is_short: Callable[[], bool], pinned: Collection[Chunk]
    ) -> None:
        """Moves chunks at which nobody looks as long as somebody is short; `move` may leave a chunk where it is."""
        for chunk in reversed(self):
            if not is_short():
                break
            if idle([chunk]):
                move(chunk)
        self._forget_moved()
        if self._chunks and is_short():
            for chunk in reversed(idle(self._chunks, pinned)):  # those that look at the same as others, too
                if is_short():
                    move(chunk)
            self._forget_moved()

    def move_if_idle(
        self, move: Callable[[Chunk], object], is_short: Callable[[], bool], pinned: Collection[Chunk], num_kept: int
    ) -> None:
        """The same where nobody has asked. What is busy is looked at again when a quarter as many more are kept.

        To look at many for each new element would take longer than to make it.
        """
        if num_kept < self._next_look:
            return
        self.move_newest(move, is_short, pinned)
        num_busy = sum(chunk.size for chunk in self._chunks) if is_short() else 0
        self._next_look = num_kept + (num_busy // 4 if num_busy > _FEW_BUSY else 0)

    def _forget_moved(self) -> None:
        self._chunks = [chunk for chunk in self._chunks if chunk.block is not None]
