"""The arena: buffers for batches, aligned and reused.

Fresh memory costs a page fault per 4 kB, about four times the copy that fills it; so a slot, once made, is used again
as soon as nobody holds an array in it. Who holds one is read off the reference count of the slot's base array: every
view, tensor or DLPack capsule made from a slot keeps that base alive, so no callback and no bookkeeping by the caller
is needed, and a slot can never be reused under somebody's feet.

What the caller holds is not the pipeline's. Moving every batch off the ledger and back would cost more than a small
batch itself, so a slot that was handed over is only marked, and leaves the ledger when somebody needs the room.
"""

from __future__ import annotations

import math
import mmap
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure, leaf_bytes
from .ledger import Ledger, Share

__all__ = ["Arena"]

_ALIGNMENT = 64
# Smaller arrays cost no page faults, and the allocator is as quick as we are.
_SMALLEST = 4096
# Slots of one size that may be out at a time before those with the caller are given up.
_MOST_HELD = 16
_HUGE = 4 << 20
_MAPPED = 1 << 20
# A base that only the arena holds: the slot's field, and getrefcount's own argument.
_ONLY_OURS = 2


class _Slot:
    __slots__ = ("base", "charged", "handed_over", "nbytes")

    def __init__(self, base: np.ndarray, nbytes: int) -> None:
        self.base = base
        self.nbytes = nbytes
        self.charged = True
        self.handed_over = False


class Arena:
    """Gives uninitialised arrays in slots that are reused once dropped."""

    def __init__(self, ledger: Ledger, share: Share) -> None:
        self._share = share
        self._slots: dict[int, list[_Slot]] = {}
        self._by_base: dict[int, _Slot] = {}
        # Reentrant: what asks for a slot may be refused by the ledger, which then asks us to release some.
        self._lock = threading.RLock()
        self._closed = False
        ledger.on_shortage(self.release_unused)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An uninitialised array. It is the holder's alone for as long as it, or a view of it, lives."""
        nbytes = dtype.itemsize * math.prod(shape)
        if nbytes < _SMALLEST or dtype.hasobject:
            return np.empty(shape, dtype)
        with self._lock:
            return np.ndarray(shape, dtype, self._free_base(_size_class(nbytes)))

    def maker(self, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[int], np.ndarray]:
        """`empty` for arrays of any number of rows of one shape, with what they share worked out once."""
        row_bytes = dtype.itemsize * math.prod(row_shape)
        sizes: dict[int, int] = {}
        lock, free_base, ndarray = self._lock, self._free_base, np.ndarray

        def make(num_rows: int) -> np.ndarray:
            size = sizes.get(num_rows)
            if size is None:
                if num_rows * row_bytes < _SMALLEST:
                    return np.empty((num_rows, *row_shape), dtype)
                size = sizes[num_rows] = _size_class(num_rows * row_bytes)
            with lock:
                return ndarray((num_rows, *row_shape), dtype, free_base(size))

        return make

    def _free_base(self, size: int) -> np.ndarray:
        if self._closed:
            return _new_base(size)
        slots = self._slots.setdefault(size, [])
        for slot in slots:
            if sys.getrefcount(slot.base) == _ONLY_OURS:
                if not slot.charged:
                    self._share.charge(slot.nbytes)
                    slot.charged = True
                slot.handed_over = False
                return slot.base
        if len(slots) >= _MOST_HELD:
            self._give_up_one(slots)
        self._share.charge(size)
        slot = _Slot(_new_base(size), size)
        slots.append(slot)
        self._by_base[id(slot.base)] = slot
        return slot.base

    def _give_up_one(self, slots: list[_Slot]) -> None:
        """Leaves a slot to the caller for good: one who keeps many batches will not give them back soon."""
        for i, slot in enumerate(slots):
            if slot.handed_over:
                self._forget(slot)
                del slots[i]
                return

    def hand_over(self, leaf: np.ndarray) -> None:
        """Notes that an array went to the caller: its slot is the caller's until dropped."""
        slot = self._by_base.get(id(leaf.base))
        if slot is not None:
            slot.handed_over = True

    @property
    def largest_slot_bytes(self) -> int:
        """The size of the largest slot there is."""
        return max(self._slots, default=0)

    @property
    def caller_bytes(self) -> int:
        """Bytes of slots that the caller holds."""
        with self._lock:
            slots = [slot for slots in self._slots.values() for slot in slots]
            return sum(s.nbytes for s in slots if s.handed_over and sys.getrefcount(s.base) > _ONLY_OURS)

    def release_unused(self) -> None:
        """Frees slots that nobody uses, and takes those that the caller holds off the ledger."""
        with self._lock:
            for slots in self._slots.values():
                for slot in list(slots):
                    if sys.getrefcount(slot.base) == _ONLY_OURS:
                        self._forget(slot)
                        slots.remove(slot)
                    elif slot.handed_over and slot.charged:
                        self._share.discharge(slot.nbytes)
                        slot.charged = False

    def unaccounted_bytes(self, block: Block) -> int:
        """Bytes of a block that no slot holds and that are not a view of the user's own arrays."""
        if block.columns is not None:
            return sum(map(self._leaf_bytes, block.columns))
        total = 0
        for row in block.rows():
            if type(row) is np.ndarray:
                total += self._leaf_bytes(row)
            elif type(row) is not Failed:
                total += sum(map(self._leaf_bytes, Structure.of(row).flatten(row)))
        return total

    def _leaf_bytes(self, leaf: Any) -> int:
        if isinstance(leaf, np.ndarray) and leaf.base is not None:
            if not leaf.flags.writeable:
                return 0
            if id(leaf.base) in self._by_base:
                return 0
        return leaf_bytes(leaf)

    def _forget(self, slot: _Slot) -> None:
        del self._by_base[id(slot.base)]
        if slot.charged:
            self._share.discharge(slot.nbytes)

    def close(self) -> None:
        """Lets all slots go; those that the caller still holds live on with the caller."""
        with self._lock:
            self._closed = True
            for slots in self._slots.values():
                for slot in slots:
                    self._forget(slot)
            self._slots.clear()


def _size_class(nbytes: int) -> int:
    """The size of slot for so many bytes: at most an eighth more, so that batches of like sizes share slots."""
    step = 1 << max(6, nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


def _new_base(size: int) -> np.ndarray:
    if size < _MAPPED:
        raw = np.empty(size + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        return _owner(raw[start : start + size])
    # Mapped memory goes back to the system the moment a slot is freed; the heap would keep it.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _owner(array: np.ndarray) -> np.ndarray:
    """A view that views of it refer to: NumPy skips over plain views to the array that owns the memory."""
    return np.frombuffer(array.data, np.uint8)
