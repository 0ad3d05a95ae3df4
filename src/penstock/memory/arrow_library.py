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
# With less it may be loaded, and end the process when it starts a thread.
_LEAST_BYTES = 200_000_000


def has_room() -> bool:
    """Whether it is loaded, or can be without using up the addresses that elements need."""
    if "pyarrow" in sys.modules:
        return True
    free_bytes = free_address_bytes()
    return free_bytes is None or free_bytes >= _NEEDED_BYTES


def load(module: str = "pyarrow", what: str = "files that are kept") -> None:
    """Loads it, or a part of it; `RunError` where the limit on addresses has no room for it.

    Args:
        module: `pyarrow`, or a part of it.
        what: What needs it.
    """
    if module in sys.modules:
        return
    free_bytes = free_address_bytes()
    if free_bytes is not None and free_bytes < _LEAST_BYTES and "pyarrow" not in sys.modules:
        raise _no_room(what, free_bytes)
    try:
        import_module(module)
    except (ImportError, MemoryError) as error:
        if free_bytes is None or isinstance(error, ModuleNotFoundError):
            raise
        raise _no_room(what, free_bytes) from error


def _no_room(what: str, free_bytes: int) -> RunError:
    return RunError(
        f"{what} are written and read with pyarrow, which needs {format_bytes(_LEAST_BYTES)} of addresses to be "
        f"loaded; this process has {format_bytes(free_bytes)} left of its limit (ulimit -v, RLIMIT_AS); raise the "
        "limit, or import pyarrow before it is set"
    )
