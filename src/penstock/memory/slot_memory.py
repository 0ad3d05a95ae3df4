"""The memory of slots: aligned, in huge pages where they help, and back at the system once it is freed."""

from __future__ import annotations

import contextlib
import mmap
import sys

import numpy as np

__all__ = ["give_back", "new_base"]

_ALIGNMENT = 64
_MAPPED = 1 << 20
_HUGE = 2 << 20
# From here on huge pages leave so few faults that touching first only takes the pages out of the processor's cache.
_TOUCHED_AS_WRITTEN = 4 << 20
# Linux's MADV_POPULATE_WRITE (5.14), for which Python has no name yet.
_POPULATE_WRITE = 23


def new_base(size: int, array_bytes: int) -> np.ndarray:
    """Memory for a slot of this size, with an array of so many bytes to be made on it.

    What that array leaves of a large slot takes no pages until a larger one needs them.
    """
    if size < _MAPPED:
        raw = np.empty(size + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        return _owner(raw[start : start + size])
    # Mapped memory goes back to the system the moment a slot is freed; the heap would keep it.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        huge_bytes = size
        if size % _HUGE == 0 and size >= _TOUCHED_AS_WRITTEN:
            # These begin and end with a huge page. The last would be there as a whole, however little of it is used.
            huge_bytes = min(size, (array_bytes + _HUGE // 8) // _HUGE * _HUGE)
        memory.madvise(mmap.MADV_HUGEPAGE, 0, huge_bytes)
    if size < _TOUCHED_AS_WRITTEN:
        _touch(memory)
    return np.frombuffer(memory, np.uint8)


def give_back(base: np.ndarray, start: int) -> None:
    """Gives pages of a large slot back to the system, from a byte on: nobody may need what is written there."""
    start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = getattr(base.base, "obj", None)  # a memoryview of it
    if isinstance(memory, mmap.mmap) and _TOUCHED_AS_WRITTEN <= base.nbytes > start and sys.platform == "linux":
        memory.madvise(mmap.MADV_DONTNEED, start, base.nbytes - start)


def _touch(memory: mmap.mmap) -> None:
    """Has the system put pages there now, all at once: half of what one fault for each page costs (ADR 0005)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # an older kernel: pages come as they are written
            memory.madvise(_POPULATE_WRITE)


def _owner(array: np.ndarray) -> np.ndarray:
    """A view that views of it refer to: NumPy skips over plain views to the array that owns the memory."""
    return np.frombuffer(array.data, np.uint8)
