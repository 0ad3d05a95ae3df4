"""Locks that are free in a forked child: the thread that held one at the fork is the parent's, and never lets go.

For what outlives runs. A run is the parent's as a whole, with its locks.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

__all__ = ["lock", "reentrant_lock"]

_LOCKS: WeakSet[Any] = WeakSet()


def lock() -> threading.Lock:
    """A `threading.Lock`."""
    made = threading.Lock()
    _LOCKS.add(made)
    return made


def reentrant_lock() -> Any:
    """A `threading.RLock`."""
    made = threading.RLock()
    _LOCKS.add(made)
    return made


def _free_all() -> None:
    for each in list(_LOCKS):
        each._at_fork_reinit()  # as Python's own modules do with theirs


os.register_at_fork(after_in_child=_free_all)
