"""The arena: buffers for batches, aligned and reused.

Fresh memory costs a page fault per 4 kB, about four times the copy that fills it; so a slot, once made, is used again
as soon as nobody holds an array in it. Who holds one is read off the reference count of the slot's base array: every
view, tensor or DLPack capsule made from a slot keeps that base alive, so no callback and no bookkeeping by the caller
is needed, and a slot can never be reused under somebody's feet.

What the caller holds is not the pipeline's. Moving every batch off the ledger and back would cost more than a small
batch itself, so a slot that was handed over is only marked, and leaves the ledger when somebody needs the room. Once
the caller has dropped it, it comes back to the ledger, or is freed, the next time a slot is taken or room is needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure, arrays_in, has_scalars_only, nbytes_of
from ..leaf import Ragged, Sparse, is_dataset, leaf_bytes
from .ledger import Ledger, Share
from .left import LeftToCaller
from .singly import lent_bytes
from .slot import Slot
from .slot_memory import give_back, new_base

__all__ = ["SMALLEST_SLOT_BYTES", "Arena", "Slots", "slot_bytes"]

#: Smaller arrays are in no slot: they cost no page faults, and the allocator is as quick as we are.
SMALLEST_SLOT_BYTES = 4096
# Slots of one size that may be out at a time before those with the caller are given up; and where it turns out that the
# caller drops such, because elements have many arrays of one size.
_MOST_HELD = 16
_MOST_HELD_OF_MANY = 1024
# A slot that was not among the last so many that were taken is not needed soon.
_RECENTLY_TAKEN = 64
# A block that looks at so much of a slot has it for itself: sizes are rounded up by an eighth at most.
_NEARLY_ALL = 0.8
# A base that only the arena holds: the slot's field, the array on it, and getrefcount's own argument.
_ONLY_OURS = 3


class Slots:
    """All slots of a run, by size. Each is on the account of the stage that asked for it last."""

    def __init__(self, ledger: Ledger) -> None:
        self._by_size: dict[int, list[Slot]] = {}
        self.by_base: dict[int, Slot] = {}
        # Those off the ledger: the caller's, until they are found to be dropped.
        self._lent: list[Slot] = []
        self._left = LeftToCaller()
        self._most_held = _MOST_HELD
        self._for_copies: Share | None = None
        # A leaf: nobody waits for memory under it, or a thread that would release some could not get it. Reentrant: a
        # garbage collection in here may drop a run, which lets its slots go.
        self.lock = threading.RLock()
        self._ledger = ledger
        self._closed = False
        self._num_taken = 0
        # Who can do without does not get what the next batch is about to use: a new slot costs its page faults.
        ledger.on_shortage(self.release_idle)
        ledger.on_shortage(self.release_unused, of_use=True)

    def take(self, size: int, shape: tuple[int, ...], dtype: np.dtype[Any], share: Share) -> np.ndarray:
        """A new array in a slot that nobody looks at."""
        if self._ledger.frugal:
            self.release_unused()  # what is kept for batches to come is not needed for this one
        array = self._used_again(size, shape, dtype, share)
        if array is not None:
            return array
        if self._closed:
            return np.ndarray(shape, dtype, new_base(size, dtype.itemsize * math.prod(shape)))
        self._forget_idle()
        share.charge(size, single=True)
        return self._added(size, shape, dtype, share)

    def copied(self, array: np.ndarray, dtype: np.dtype[Any] | None = None) -> np.ndarray:
        """A copy that nobody else looks at, and that is the caller's from the beginning, as what was handed over is.

        In a slot, if one of an earlier copy is unused or there is room to spare: new memory costs more than the copy.
        `dtype`: what its values become.
        """
        shape, dtype = array.shape, dtype or array.dtype
        nbytes = array.size * dtype.itemsize
        size = slot_bytes(nbytes)
        copy = np.empty(shape, dtype) if not size else None
        if copy is None and not self._closed and not self._ledger.frugal:
            share = self._for_copies = self._for_copies or self._ledger.share("copies for the caller")
            # Those of stages stay theirs: what is kept for a batch would go, where there is no room to move it.
            copy = self._used_again(size, shape, dtype, share, from_elsewhere=False)
            if copy is None:
                self._forget_idle()
                if share.charge_free(size, share.budget_bytes // 10):
                    copy = self._added(size, shape, dtype, share)
        if copy is None:
            copy = np.ndarray(shape, dtype, new_base(size, nbytes))
        copy[...] = array
        self.hand_over(copy)
        return copy

    def _used_again(
        self, size: int, shape: tuple[int, ...], dtype: np.dtype[Any], share: Share, from_elsewhere: bool = True
    ) -> np.ndarray | None:
        """A new array in a slot that is there, and that nobody looks at; None if there is none."""
        with self.lock:
            self._num_taken += 1
            if self._lent:
                self._take_back(size if from_elsewhere else 0, share)
            slot = self._unused(size, share, from_elsewhere)
            if slot is None:
                return None
            slot.handed_over = False
            slot.taken_at = self._num_taken
            if slot.dtype is not dtype or slot.shape != shape:
                slot.lay_out(shape, dtype)
            return slot.array[...]

    def _added(self, size: int, shape: tuple[int, ...], dtype: np.dtype[Any], share: Share) -> np.ndarray:
        """A new array in a new slot, of which the share has been charged."""
        slot = Slot(new_base(size, dtype.itemsize * math.prod(shape)), shape, dtype, share)
        array = slot.array[...]
        with self.lock:
            if self._closed:  # meanwhile, by another thread
                slot.take_off()
                return array
            slots = self._by_size.setdefault(size, [])
            if len(slots) >= self._most_held:
                self._give_up_one(slots)
            slot.taken_at = self._num_taken
            slots.append(slot)
            self.by_base[id(slot.base)] = slot
        return array

    def _unused(self, size: int, share: Share, from_elsewhere: bool) -> Slot | None:
        """A slot that nobody looks at, on a share's account; one that is there already, if there is one."""
        elsewhere = None
        for slot in self._by_size.get(size, ()):
            if getrefcount(slot.base) == _ONLY_OURS:
                if slot.charged_to is share:
                    return slot
                if slot.charged_to is not None:  # or it was dropped just now
                    elsewhere = elsewhere or slot
        if elsewhere is not None and from_elsewhere:
            elsewhere.take_off()
            if self._put_on(elsewhere, share):
                return elsewhere
            self._free(elsewhere)
        return None

    def _put_on(self, slot: Slot, share: Share, leave_bytes: int = 0) -> bool:
        """Puts an unused slot on an account if there is room, or would be without what the caller holds."""
        charged = share.charge_free(slot.nbytes, leave_bytes)
        if not charged and self._lend():
            charged = share.charge_free(slot.nbytes, leave_bytes)
        if charged:
            slot.charged_to = share
        return charged

    def _lend(self) -> bool:
        """Takes the slots that the caller holds off the ledger; whether there were any."""
        held = [
            slot
            for slots in self._by_size.values()
            for slot in slots
            if slot.handed_over and slot.charged_to is not None and getrefcount(slot.base) > _ONLY_OURS
        ]
        for slot in held:
            slot.take_off()
        self._lent += held
        return bool(held)

    def _take_back(self, size: int = 0, share: Share | None = None) -> None:
        """Slots off the ledger that the caller has dropped are ours again: they come back to the ledger, or are freed.

        One of the size that is asked for comes to the account of who asks; others to the one that they were on, if
        there is room to spare, as if they had never left.
        """
        for slot in [slot for slot in self._lent if getrefcount(slot.base) == _ONLY_OURS]:
            if share is not None and slot.nbytes == size:
                back = self._put_on(slot, share)
            else:
                back = self._put_on(slot, slot.was_charged_to, slot.was_charged_to.budget_bytes // 10)
            if back:
                self._lent.remove(slot)
            else:
                self._free(slot)

    def move(self, slot: Slot, share: Share) -> None:
        """Moves a slot to another account, if there is room, or would be without what nobody uses there."""
        with self.lock:
            if not slot.move_to(share):
                self._lend()
                unused = [s for slots in self._by_size.values() for s in slots if s.charged_to is share]
                for other in unused:
                    if getrefcount(other.base) == _ONLY_OURS:
                        self._free(other)
                slot.move_to(share)

    def _forget_idle(self) -> None:
        """Frees slots that nobody used for a while: where sizes vary, those of use once would come to be many."""
        with self.lock:
            for slots in self._by_size.values():
                for slot in [s for s in slots if s.taken_at < self._num_taken - _RECENTLY_TAKEN]:
                    if getrefcount(slot.base) == _ONLY_OURS:
                        self._free(slot)

    def _give_up_one(self, slots: list[Slot]) -> None:
        """Leaves a slot to the caller for good: one who keeps many batches will not give them back soon."""
        if self._left.first_is_gone and self._most_held < _MOST_HELD_OF_MANY:  # so this one would have
            self._most_held *= 2
            return
        for i, slot in enumerate(slots):
            if slot.handed_over:
                self._left.add(slot.base)
                self._forget(slot)
                del slots[i]
                return

    def is_alone(self, array: np.ndarray) -> bool:
        """Whether an array lies in a slot that no other looks at: who has the array has the slot for himself."""
        slot = self.by_base.get(id(array.base))
        return slot is not None and getrefcount(slot.base) == _ONLY_OURS + 1

    def hand_over(self, leaf: np.ndarray) -> None:
        """Notes that an array went to the caller: its slot is the caller's until dropped."""
        slot = self.by_base.get(id(leaf.base))
        if slot is not None:
            slot.handed_over = True

    @property
    def is_frugal(self) -> bool:
        """Whether nothing is held but what is needed, to see how much that is."""
        return self._ledger.frugal

    @property
    def largest_bytes(self) -> int:
        """The size of the largest slot there is."""
        return max(list(self._by_size), default=0)

    @property
    def lacking_bytes(self) -> int:
        """What batches of the largest size will ask for yet if each goes straight to the caller. Read without the lock.

        Two are made in turn. One may be in the making; slots that nobody uses are taken first, and those with the
        caller come back, or leave the ledger.
        """
        # Copies: who asks may hold what another thread waits for under the lock.
        largest = self.largest_bytes
        slots = [slot for slot in list(self._by_size.get(largest, ())) if slot.charged_to is not None]
        in_use = [slot for slot in slots if not slot.handed_over and getrefcount(slot.base) > _ONLY_OURS]
        return largest * max(0, 2 - min(1, len(in_use)) - (len(slots) - len(in_use)))

    @property
    def caller_bytes(self) -> int:
        """Bytes of slots that the caller holds, also of those that were left to the caller for good."""
        with self.lock:
            slots = [slot for slots in self._by_size.values() for slot in slots]
            held = sum(s.nbytes for s in slots if s.handed_over and getrefcount(s.base) > _ONLY_OURS)
            return held + self._left.nbytes

    @property
    def unused_bytes(self) -> int:
        """Bytes on the ledger of slots that nobody uses: room for the next batches. Read without the lock."""
        # Copies: who asks may hold what another thread waits for under the lock.
        slots = [slot for slots in list(self._by_size.values()) for slot in list(slots)]
        return sum(s.nbytes for s in slots if s.charged_to is not None and getrefcount(s.base) == _ONLY_OURS)

    def unused_for(self, share: Share) -> int:
        """The same of slots that a share could have instead: what others have on their floors is not left to it."""
        slots = [slot for slots in list(self._by_size.values()) for slot in list(slots)]
        unused = [(s.charged_to, s.nbytes) for s in slots if getrefcount(s.base) == _ONLY_OURS]
        return sum(nbytes for of, nbytes in unused if of is share or (of is not None and of.slack_used_bytes >= nbytes))

    def has_unused(self, nbytes: int) -> bool:
        """Whether there is a slot of this size that nobody uses, the caller included. Read without the lock."""
        return any(getrefcount(slot.base) == _ONLY_OURS for slot in list(self._by_size.get(nbytes, ())))

    def bytes_of(self, block: Block) -> int:
        """The size of the largest slot in which columns of a block lie; 0 if none does."""
        slots = [self.by_base.get(id(column.base)) for column in block.columns or ()]
        return max([slot.nbytes for slot in slots if slot is not None], default=0)

    def release_idle(self) -> bool:
        """Frees slots that nobody used for a while, and takes those that the caller holds off the ledger."""
        return self.release_unused(self._num_taken - _RECENTLY_TAKEN)

    def release_unused(self, taken_before: float = math.inf) -> bool:
        """Frees unused slots, where that helps who asks, and takes those that the caller holds off the ledger.

        Whether somebody else is at work on them instead.
        """
        # Who asks may hold what another thread in here waits for.
        if not self.lock.acquire(blocking=False):
            return True
        try:
            self._lend()
            self._take_back()
            for slots in self._by_size.values():
                for slot in [s for s in slots if s.taken_at < taken_before]:
                    share = slot.charged_to
                    if getrefcount(slot.base) == _ONLY_OURS and share is not None and share.would_help:
                        self._free(slot)
        finally:
            self.lock.release()
        return False

    def _free(self, slot: Slot) -> None:
        self._by_size[slot.nbytes].remove(slot)
        self._forget(slot)

    def _forget(self, slot: Slot) -> None:
        del self.by_base[id(slot.base)]
        if slot.charged_to is None and slot in self._lent:
            self._lent.remove(slot)
        slot.take_off()

    def close(self) -> None:
        """Lets all slots go; those that the caller still holds live on with the caller."""
        with self.lock:
            self._closed = True
            for slots in self._by_size.values():
                for slot in slots:
                    if slot.handed_over:
                        self._left.add(slot.base)
                    self._forget(slot)
            self._by_size.clear()


def _is_nearly_all(slot: Slot, leaves: list[np.ndarray]) -> bool:
    """Whether a slot holds little but these arrays."""
    return sum(leaf.nbytes for leaf in leaves) >= slot.nbytes * _NEARLY_ALL


class Arena:
    """Gives a stage uninitialised arrays, in slots that are reused once dropped."""

    __slots__ = ("_share", "slots")

    def __init__(self, slots: Slots, share: Share) -> None:
        self.slots = slots
        self._share = share

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An uninitialised array. It is the holder's alone for as long as it, or a view of it, lives."""
        size = 0 if dtype.hasobject else slot_bytes(dtype.itemsize * math.prod(shape))
        if not size:
            return np.empty(shape, dtype)
        return self.slots.take(size, shape, dtype, self._share)

    def maker(self, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[int], np.ndarray]:
        """`empty` for arrays of any number of rows of one shape, with what they share worked out once."""
        row_bytes = dtype.itemsize * math.prod(row_shape)
        sizes: dict[int, tuple[int, tuple[int, ...]]] = {}
        take, share = self.slots.take, self._share

        def make(num_rows: int) -> np.ndarray:
            known = sizes.get(num_rows)
            if known is None:
                shape = (num_rows, *row_shape)
                size = slot_bytes(num_rows * row_bytes)
                if not size:
                    return np.empty(shape, dtype)
                known = sizes[num_rows] = size, shape
            size, shape = known
            return take(size, shape, dtype, share)

        return make

    def lies_free(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether `empty` would find a slot that is there already, or needs none."""
        size = slot_bytes(dtype.itemsize * math.prod(shape))
        return not size or (not self.slots.is_frugal and self.slots.has_unused(size))

    def widened(self, column: np.ndarray, num_rows: int) -> np.ndarray | None:
        """An array of more rows on the slot that a column lies in, of which the first are the column's.

        The slot is on this stage's account then. None where it has no room for them, on the account or behind the
        column, or where somebody else looks at it.
        """
        slot = self.slots.by_base.get(id(column.base))
        shape = (num_rows, *column.shape[1:])
        if slot is None or column.dtype.itemsize * math.prod(shape) > slot.nbytes:
            return None
        if column.ctypes.data != slot.array.ctypes.data or not column.flags.carray:
            return None
        with self.slots.lock:
            if getrefcount(slot.base) > _ONLY_OURS + 1:
                return None
            if slot.charged_to not in (None, self._share):
                self.slots.move(slot, self._share)
            if slot.charged_to is not self._share:
                return None
            slot.lay_out(shape, column.dtype)
            return slot.array[...]

    def cut_short(self, array: np.ndarray, num_rows: int) -> np.ndarray:
        """The first rows of an array from `empty`. Nobody may look at the others: their pages go back to the system.

        Who keeps the last batch of an epoch would else keep the pages of a whole one.
        """
        slot = self.slots.by_base.get(id(array.base))
        if slot is not None:
            give_back(slot.base, num_rows * math.prod(array.shape[1:]) * array.itemsize)
        return array[:num_rows]

    def take_over(self, block: Block, in_part: bool = True) -> None:
        """Moves the slots of a block to this stage's account, as far as there is room: from here on it holds them.

        `in_part`: also slots that hold more than the block, of which somebody else may still hold the rest.
        """
        for slot, leaves in self._viewed(block).items():
            if in_part or _is_nearly_all(slot, leaves):
                self.slots.move(slot, self._share)

    def keep(self, block: Block, reserve: Callable[[int], None], in_part: bool = True) -> Block:
        """The block, on this stage's account, for who holds it while its maker is asked again.

        What shares a slot with others, such as elements of a batch that a cache has read, is copied: the slot is its
        maker's. `reserve` is told first how many bytes are on nobody's account. `in_part`: slots that hold more than
        the block move here all the same if nobody else uses them, and the rest is to spare.
        """
        shared_bytes = 0
        for slot, leaves in self._viewed(block).items():
            is_alone = in_part and getrefcount(slot.base) <= _ONLY_OURS + len(leaves)
            own_bytes = sum(leaf.nbytes for leaf in leaves)
            if (is_alone and slot.nbytes - own_bytes <= self._share.spare_bytes) or _is_nearly_all(slot, leaves):
                self.slots.move(slot, self._share)
            else:
                shared_bytes += own_bytes
        reserve(self.unaccounted_bytes(block) + shared_bytes)
        return block.copied() if shared_bytes else block

    def _viewed(self, block: Block) -> dict[Slot, list[np.ndarray]]:
        """The slots of other stages that a block lies in, and what of it lies in each."""
        leaves = block.columns
        if leaves is None:
            leaves = [leaf for row in block.rows() if type(row) is not Failed for leaf in arrays_in(row)]
        viewed: dict[Slot, list[np.ndarray]] = {}
        for leaf in leaves:
            slot = self.slots.by_base.get(id(leaf.base))
            if slot is not None and slot.charged_to not in (None, self._share):
                viewed.setdefault(slot, []).append(leaf)
        return viewed

    def unaccounted_bytes(self, block: Block) -> int:
        """Bytes of a block that no slot holds and that are not a view of the user's own arrays."""
        if block.columns is not None:
            return sum(map(self.unaccounted_leaf_bytes, block.columns))
        total = 0
        for row in block.rows():
            if type(row) is np.ndarray:
                total += self.unaccounted_leaf_bytes(row)
            elif has_scalars_only(row):
                total += nbytes_of(row)
            elif is_dataset(row):
                total += leaf_bytes(row) - (0 if self.slots.is_frugal else lent_bytes(row))
            elif type(row) is not Failed:
                total += sum(map(self.unaccounted_leaf_bytes, Structure.of(row).flatten(row)))
        return total

    def unaccounted_leaf_bytes(self, leaf: Any) -> int:
        """Likewise of one leaf."""
        if isinstance(leaf, np.ndarray) and leaf.base is not None:
            if not leaf.flags.writeable:
                # A cache with less room would have it on disk, and who holds it would hold it for himself.
                return leaf_bytes(leaf) if self.slots.is_frugal else 0
            if id(leaf.base) in self.slots.by_base:
                return 0
        if isinstance(leaf, (Ragged, Sparse)):  # of which the values may lie in a slot
            return sum(map(self.unaccounted_leaf_bytes, arrays_in(leaf)))
        return leaf_bytes(leaf)


def slot_bytes(nbytes: int) -> int:
    """The size of slot for so many bytes: at most an eighth more, so that batches of like sizes share slots.

    0 for arrays that are too small to need one.
    """
    if nbytes < SMALLEST_SLOT_BYTES:
        return 0
    step = 1 << max(6, nbytes.bit_length() - 4)
    return -(-nbytes // step) * step
