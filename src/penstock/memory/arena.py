"""The arena: buffers for batches, aligned and reused.

Fresh memory costs a page fault per 4 kB, about four times the copy that fills it; so a slot, once made, is used again
as soon as nobody holds an array in it. Who holds one is read off the reference count of the slot's base array: every
view, tensor or DLPack capsule made from a slot keeps that base alive, so no callback and no bookkeeping by the caller
is needed, and a slot can never be reused under somebody's feet.

A slot that was handed to the caller is off the run's ledger (`caller_bytes`) until it comes back.
"""

from __future__ import annotations

import mmap
import sys
import threading
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure, leaf_bytes
from .ledger import Ledger, Share

__all__ = ["Arena"]

_ALIGNMENT = 64
_HUGE = 4 << 20
_MAPPED = 1 << 20
# A base that only the arena holds: the slot's field, and getrefcount's own argument.
_ONLY_OURS = 2


class _Slot:
    __slots__ = ("base", "nbytes", "with_caller")

    def __init__(self, base: np.ndarray, nbytes: int) -> None:
        self.base = base
        self.nbytes = nbytes
        self.with_caller = False


class Arena:
    """Gives uninitialised arrays in slots that are reused once dropped."""

    def __init__(self, ledger: Ledger, share: Share) -> None:
        self._ledger = ledger
        self._share = share
        self._slots: dict[int, list[_Slot]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An uninitialised array. It is the holder's alone for as long as it, or a view of it, lives."""
        if dtype.kind == "O":
            return np.empty(shape, dtype)
        nbytes = dtype.itemsize
        for n in shape:
            nbytes *= n
        if not nbytes:
            return np.empty(shape, dtype)
        size = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            base = self._free_base(size) if not self._closed else _new_base(size)
        return base[:nbytes].view(dtype).reshape(shape)

    def _free_base(self, size: int) -> np.ndarray:
        slots = self._slots.setdefault(size, [])
        for slot in slots:
            if sys.getrefcount(slot.base) == _ONLY_OURS:
                if slot.with_caller:
                    self._take_back(slot)
                return slot.base
        try:
            self._share.charge(size)
        except Exception:
            if not self._trim(keep=size):
                raise
            self._share.charge(size)
        slot = _Slot(_new_base(size), size)
        slots.append(slot)
        return slot.base

    def _take_back(self, slot: _Slot) -> None:
        self._share.charge(slot.nbytes)
        self._ledger.caller_bytes -= slot.nbytes
        slot.with_caller = False

    def hand_over(self, leaves: list[Any]) -> None:
        """Notes that arrays went to the caller: their slots are the caller's until dropped."""
        bases = {id(leaf.base) for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.base is not None}
        if not bases:
            return
        with self._lock:
            for slots in self._slots.values():
                for slot in slots:
                    if id(slot.base) in bases and not slot.with_caller:
                        slot.with_caller = True
                        self._share.discharge(slot.nbytes)
                        self._ledger.caller_bytes += slot.nbytes

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
            if any(slot.base is leaf.base for slots in self._slots.values() for slot in slots):
                return 0
        return leaf_bytes(leaf)

    def _trim(self, keep: int) -> bool:
        """Frees idle slots of other sizes; whether there were any."""
        freed = False
        for size, slots in list(self._slots.items()):
            if size == keep:
                continue
            for slot in list(slots):
                if sys.getrefcount(slot.base) == _ONLY_OURS:
                    self._forget(slot)
                    slots.remove(slot)
                    freed = True
        return freed

    def _forget(self, slot: _Slot) -> None:
        if slot.with_caller:
            self._ledger.caller_bytes -= slot.nbytes
        else:
            self._share.discharge(slot.nbytes)

    def close(self) -> None:
        """Lets all slots go; those that the caller still holds live on with the caller."""
        with self._lock:
            self._closed = True
            for slots in self._slots.values():
                for slot in slots:
                    self._forget(slot)
            self._slots.clear()


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
