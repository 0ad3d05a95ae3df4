"""Stacks of threads: smaller ones where the addresses of a process are limited.

A stack sets aside 8 MB of addresses, by default, of which a few kB are ever used. Sixteen of them would be all that a
process has which may grow by 128 MB.
"""

from __future__ import annotations

import threading

from .. import forked
from ..errors import RunError
from ..memory.ledger import format_bytes
from ..memory.limits import free_address_bytes

__all__ = ["start_thread"]

_PLENTY_BYTES = 1 << 30
# A function may call itself as often as Python lets it, 1,000 times, through C code too: that took 1.7 MB at most.
_SMALL_STACK_BYTES = 3 << 20

_lock = forked.lock()


def start_thread(thread: threading.Thread) -> None:
    """Starts a thread; `RunError` where the system has no room for it."""
    free_bytes = free_address_bytes()
    try:
        if free_bytes is None or free_bytes >= _PLENTY_BYTES:
            thread.start()
            return
        with _lock:  # the size is one for all threads that are started
            usual = threading.stack_size(_SMALL_STACK_BYTES)
            try:
                if 0 < usual < _SMALL_STACK_BYTES:
                    threading.stack_size(usual)
                thread.start()
            finally:
                threading.stack_size(usual)
    except (RuntimeError, MemoryError) as error:
        left = "" if free_bytes is None else f", {format_bytes(free_bytes)} of addresses are left to it (ulimit -v)"
        raise RunError(
            f"cannot start another thread ({error}): this process has {threading.active_count()}{left}; "
            "use a smaller num_parallel_calls, or raise the limit"
        ) from error
