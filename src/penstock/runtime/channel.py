"""What crosses a thread boundary: blocks that wait for their consumer, admitted one by one under the ledger.

Blocks cross, not elements. A block carries the position of the input before it, so that a saved position is always that
of what was delivered, not of what was begun; and what waits for the consumer is on the ledger, or is not made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..block import Block
from ..cursor import State
from ..memory.arena import Arena
from ..memory.ledger import Lease, Share

__all__ = ["Admission", "Ready", "Threads"]

_GROWTH = 1.25


class Admission:
    """Decides whether another block may be made: its size is reserved before it exists.

    The first block runs alone and is measured; later ones reserve the largest seen × 1.25. A stage with nothing in
    flight may always make one block, or the run could not go on at all.
    """

    def __init__(self, share: Share, arena: Arena) -> None:
        self._share = share
        self._arena = arena
        self._largest = 0
        self._measured = False

    def try_admit(self, num_in_flight: int) -> Lease | None:
        """A lease for the next block, or None if it must wait."""
        if num_in_flight and not self._measured:
            return None
        lease = self._share.try_acquire(int(self._largest * _GROWTH))
        return self._share.acquire(0) if lease is None and not num_in_flight else lease

    def settle(self, lease: Lease, block: Block) -> None:
        """Corrects the lease to what the block holds beyond the arena's slots, which are on the ledger already."""
        nbytes = self._arena.unaccounted_bytes(block)
        self._largest = max(self._largest, nbytes)
        self._measured = True
        lease.settle(nbytes)


class Threads:
    """Some worker threads and the condition they share with their consumer.

    They are daemons, are named `penstock-…`, and have ended when `stop` returns.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.changed = threading.Condition()
        self.stopped = False
        self._threads: list[threading.Thread] = []

    def start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=f"penstock-{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def count(self) -> int:
        return len(self._threads)

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        # A garbage collection may close us from one of our own threads, which holds what the others wait for: they
        # are left to end by themselves then.
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()
        self._threads.clear()


class Ready:
    """A block that waits for the consumer."""

    __slots__ = ("before", "block", "error", "lease", "lost_before", "num_lost", "offset", "place", "size")

    def __init__(self, before: State, place: int, lease: Lease) -> None:
        self.before = before
        self.place = place
        self.lease = lease
        self.block: Block | None = None
        self.error: BaseException | None = None
        self.size = 0
        self.offset = 0
        self.lost_before = 0  # failures that the input had heard of at that position
        self.num_lost: int | None = None  # failures in this block that the input has heard of

    @property
    def done(self) -> bool:
        return self.block is not None or self.error is not None

    def take(self, n: int) -> Block:
        assert self.block is not None
        part = self.block if not self.offset and n >= self.block.size else self.block[self.offset : self.offset + n]
        self.offset += part.size
        return part

    @property
    def empty(self) -> bool:
        return self.block is not None and self.offset == self.block.size
