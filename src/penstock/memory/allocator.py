"""The C library's allocator: asked to set less aside, and to give back what is freed.

Each thread gets a heap of its own, for which 64 MB or more of addresses are set aside. Under a budget of that order,
and a limit on addresses, there would be nothing left for elements: then all threads share one heap.
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["share_one_heap", "trim_heap"]

_M_ARENA_MAX = -8  # of malloc.h
_SMALL_BUDGET_BYTES = 512 << 20

_has_one_heap = False


def share_one_heap(budget_bytes: int) -> None:
    """Has threads to come use one heap where the budget is small.

    It holds for the whole process, and does nothing where the user has set a number, or there is no glibc.
    """
    global _has_one_heap
    if not _has_one_heap and budget_bytes < _SMALL_BUDGET_BYTES and "MALLOC_ARENA_MAX" not in os.environ:
        _has_one_heap = True
        try:
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        except (OSError, AttributeError):
            return


def trim_heap() -> None:
    """Has malloc give back the pages between arrays that were freed.

    Arrow, if it is loaded, has an allocator of its own, which keeps what it freed too.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):  # it may be about to be loaded
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # no glibc
        return
