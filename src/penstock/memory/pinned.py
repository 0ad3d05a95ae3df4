"""Pinned chunks: those that went to disk while somebody looked at them, and so are in memory until nobody does."""

from __future__ import annotations

from collections.abc import Iterable

from .chunk import Chunk, idle, in_memory
from .joint import Apart, JointAccount
from .ledger import Share

__all__ = ["Pinned"]


class Pinned:
    """On the ledgers that they were on by then. Not safe by itself: its owner has a lock."""

    def __init__(self, account: JointAccount) -> None:
        self._account = account
        self._chunks: list[tuple[Chunk, Apart]] = []

    def let_go(self, chunk: Chunk, nbytes: int) -> None:
        """Takes from a chunk what is in memory of it, and so many bytes off the account: when nobody looks at it."""
        if chunk.block is None:
            self._account.discharge(nbytes)
            return
        self._chunks.append((in_memory(chunk.block, nbytes, chunk.lent), self._account.set_apart(nbytes)))
        chunk.block = None
        self.release()

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for chunk, _ in self._chunks]

    def release(self, beside: Iterable[Chunk] = ()) -> None:
        """Takes off the ledgers what nobody looks at any more; `beside` are chunks that look at the same, perhaps.

        These are many, and to be named only where somebody is short.
        """
        free = idle(self.chunks, beside)
        for chunk, apart in self._chunks:
            if chunk in free:
                apart.release()
        self._chunks = [pinned for pinned in self._chunks if pinned[0] not in free]

    def forget(self, share: Share) -> None:
        """A run is over: what somebody still looks at is its caller's."""
        for _, apart in self._chunks:
            apart.forget(share)

    def leave_to_parent(self) -> None:
        """In a forked child: the ledgers are the parent's."""
        self._chunks = []
