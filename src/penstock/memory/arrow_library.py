"""pyarrow is loaded when it is first needed: whether there are addresses for it, and what to say if there are none.

Its libraries take 170 MB of addresses, though only a few MB of memory. Where a limit is set on a process's addresses
(`ulimit -v`) that may be more than there is.
"""

from __future__ import annotations

import sys
from importlib import import_module

from ..errors import RunError
from .ledger import format_bytes
from .limits import free_address_bytes

__all__ = ["has_room", "load"]

# With what it sets aside for itself as it goes.
_NEEDED_BYTES = 400_000_000


def has_room() -> bool:
    """Whether it is loaded, or can be without using up the addresses that elements need."""
    if "pyarrow" in sys.modules:
        return True
    free_bytes = free_address_bytes()
    return free_bytes is None or free_bytes >= _NEEDED_BYTES


def load() -> None:
    """Loads it; `RunError` where the limit on addresses has no room for it."""
    free_bytes = free_address_bytes()
    try:
        import_module("pyarrow")
    except (ImportError, MemoryError) as error:
        if free_bytes is None or isinstance(error, ModuleNotFoundError):
            raise
        raise RunError(
            f"files that are kept are written and read with pyarrow, which needs {format_bytes(_NEEDED_BYTES)} of "
            f"addresses; this process has {format_bytes(free_bytes)} left of its limit (ulimit -v, RLIMIT_AS); "
            "raise the limit, or import pyarrow before it is set"
        ) from error
