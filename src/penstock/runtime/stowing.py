"""Stowing: what was made ahead lies on disk while somebody else needs its memory.

Nobody but the consumer can take what waits for him, and he may be the very one who needs the room: to open another run,
say. So all but the first in turn, which lies on the floor of its stage, can be written to disk, and is read back when
its turn has come; the first, too, of datasets that a function made, which have one floor in common. What goes to disk
is sure to find room again: the floor of its stage is as large as each of them, and what threads have made meanwhile in
slots, which may lie on that floor, is stowed in its stead as soon as it is done.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from ..block import Block
from ..element import nbytes_of
from ..errors import PenstockError
from ..memory.arena import Arena
from ..memory.batches import BatchFile, BatchFiles
from ..memory.ipc import Stored
from ..memory.ledger import Share
from ..memory.spill import SpillSpace
from .channel import Ready, Threads

__all__ = ["Stowage"]

_BATCH_BYTES = 1 << 20
# Whether what is being made is done is looked at after so long if nobody tells.
_LOOK_AGAIN_S = 0.02


class _Stowed:
    """The elements of one block, on disk."""

    __slots__ = ("_batches", "_files", "nbytes", "stored_bytes")

    def __init__(self, files: BatchFiles, batches: Sequence[tuple[BatchFile, Stored]], nbytes: int) -> None:
        self._files = files
        self._batches = batches
        self.nbytes = nbytes
        self.stored_bytes = sum(stored.nbytes for _, stored in batches)

    @classmethod
    def of(cls, block: Block, spill: SpillSpace) -> _Stowed | None:
        """Writes a block; None where an element cannot be stored."""
        rows = block.rows()
        sizes = list(map(nbytes_of, rows))
        files = BatchFiles(spill)
        written = files.write(zip(range(len(rows)), rows, sizes, strict=True), _BATCH_BYTES)
        if written.left_out:
            files.close()
            return None
        return cls(files, [(file, batch.stored) for file, batches in written.files for batch in batches], sum(sizes))

    def read(self) -> Block:
        read = [self._files.read(file, stored) for file, stored in self._batches]
        pairs = [pair for numbers, rows in read for pair in zip(numbers, rows, strict=True)]
        pairs.sort(key=lambda pair: pair[0])
        return Block.of_rows([row for _, row in pairs], has_failures=False)

    def close(self) -> None:
        self._files.close()


class Stowage:
    """The blocks of one stage that are on disk.

    Args:
        waiting: Blocks in the order in which they will be taken.
        num_making: Says how many blocks are being made; a method of who owns this, which is not kept alive by it.
    """

    def __init__(
        self,
        share: Share,
        arena: Arena,
        spill: SpillSpace,
        threads: Threads,
        waiting: Callable[[], Iterable[Ready]],
        num_making: Callable[[], int],
    ) -> None:
        self._share = share
        self._arena = arena
        self._spill = spill
        self._threads = threads
        self._waiting = waiting
        self._num_making = weakref.WeakMethod(num_making)
        self._stowed: dict[int, _Stowed] = {}
        # Weakly: an error that waits refers to the run, which would not be closed when it is dropped.
        give_way = weakref.WeakMethod(self._give_way)
        self.close_shortage = share.on_shortage(lambda: (method := give_way()) and method())

    def _give_way(self) -> bool:
        """Somebody is short of memory: stows what is taken last. Whether more can be had once others are at rest."""
        with self._threads.at_rest() as at_rest:
            if not at_rest:
                return True
            wanted = self._share.wanted_bytes
            num_staying = 0 if self._share.num_datasets else 1
            for item in reversed(list(islice(self._waiting(), num_staying, None))):
                if not self._would_help(wanted):
                    break
                try:
                    self._stow(item)
                except (PenstockError, OSError):
                    break  # nothing was lost; who asked is told that there is no room
            return self._would_help(wanted) and self._is_being_made()

    def _would_help(self, wanted_bytes: int) -> bool:
        """Whether who is short gains if more is stowed: this stage by its floor, too, others by the slack alone."""
        share = self._share
        if share.is_short:
            return share.free_bytes < wanted_bytes
        return share.lacking_bytes > 0 and share.slack_used_bytes > 0

    def _stow(self, item: Ready) -> None:
        if item.block is None or item.offset or item.block.has_failures:
            return
        nbytes = sum(map(nbytes_of, item.block.rows()))
        item.lease.come_first()
        self._share.raise_floor(nbytes)  # with what it takes up now
        if self._share.floor_bytes < nbytes:
            return
        stowed = _Stowed.of(item.block, self._spill)
        if stowed is not None:
            self._stowed[id(item)] = stowed
            self._share.spilled_bytes += stowed.stored_bytes
            item.block, item.stowed = None, True
            item.lease.settle(0)
            self._arena.slots.release_unused()

    def _is_being_made(self) -> bool:
        """Whether something will be there to stow soon, without this thread: who waits for room may wait for it."""
        num_making = self._num_making()
        busy = self._share.num_waiting + self._threads.has_current()
        return num_making is not None and num_making() > busy

    def bring_back(self, item: Ready) -> None:
        """Reads a block that is to be taken now."""
        stowed = self._stowed.pop(id(item))
        try:
            item.lease.come_first()
            # What is being made cannot be stowed before it is done, for which this lock is needed.
            while not item.lease.try_grow(stowed.nbytes) and self._is_being_made() and not self._threads.stopped:
                self._threads.changed.wait(_LOOK_AGAIN_S)
            item.lease.settle(stowed.nbytes)
            item.block, item.stowed = stowed.read(), False
        finally:
            stowed.close()

    def close(self) -> None:
        """Removes what nobody took."""
        self.close_shortage()
        for stowed in self._stowed.values():
            stowed.close()
        self._stowed.clear()
