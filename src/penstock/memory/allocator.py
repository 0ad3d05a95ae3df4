"""The C library's allocator, asked to give back what is freed.

By itself glibc keeps freed arrays of up to 32 MB for the next time, in every thread: a pipeline that holds 60 MB, by
its ledger, can make the process grow by 130. Arrays above a threshold are mapped, and go back to the system when they
are freed; glibc raises that threshold with what it sees, unless it is told one. The price is a page fault for every
4 kB of such an array, so the threshold follows the budget: who has gigabytes does not pay it.

Each thread also gets a heap of its own, for which 64 MB or more of addresses are set aside. Under a budget of that
order, and a limit on addresses, there would be nothing left for elements: then all threads share one heap.
"""

from __future__ import annotations

import ctypes
import os
import sys

from .. import forked

__all__ = ["return_freed_arrays", "trim_heap"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
_LEAST_BYTES = 128 << 10
_MOST_BYTES = 32 << 20  # glibc's own limit for it
_PART_OF_BUDGET = 64
_SMALL_BUDGET_BYTES = 512 << 20

_lock = forked.lock()
_threshold_bytes = _MOST_BYTES


def return_freed_arrays(budget_bytes: int) -> None:
    """Has freed arrays of more than a 64th of a budget (of the smallest, if there are several) go back to the system.

    It holds for the whole process, and does nothing where the user has set a threshold, or there is no glibc.
    """
    global _threshold_bytes
    wanted = max(_LEAST_BYTES, budget_bytes // _PART_OF_BUDGET)
    with _lock:
        if wanted >= _threshold_bytes or "MALLOC_MMAP_THRESHOLD_" in os.environ:
            return
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except (OSError, AttributeError):
            return
        mallopt(_M_MMAP_THRESHOLD, wanted)
        # glibc lets this one follow the other, unless it is told the other: it would stay at 128 kB, and a heap would
        # give back the room of each array below the threshold as well, to ask for it again for the next.
        mallopt(_M_TRIM_THRESHOLD, 2 * wanted)
        if budget_bytes < _SMALL_BUDGET_BYTES and "MALLOC_ARENA_MAX" not in os.environ:
            mallopt(_M_ARENA_MAX, 1)
        _threshold_bytes = wanted


def trim_heap() -> None:
    """Has malloc give back the pages between arrays that were freed: those below the threshold come from the heap.

    Arrow, if it is loaded, has an allocator of its own, which keeps what it freed too.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):  # it may be about to be loaded
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # no glibc
        return
