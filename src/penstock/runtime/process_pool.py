"""The pool of the process: what all runs share that are given no budget of their own."""

from __future__ import annotations

import os

from ..errors import BadArgument
from ..memory.limits import available_bytes
from ..memory.pool import Pool
from ..options import DEFAULT_MEMORY_FRACTION, parse_memory

__all__ = ["budget_bytes", "get_memory", "process_pool", "set_memory"]

# Made when it is first needed: what the process may use is not asked for by an import.
_POOL: list[Pool] = []


def _begin_anew() -> None:
    for pool in _POOL:
        pool.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)


def budget_bytes(memory: int | float | str | None) -> int:
    """A budget in bytes, refused if it is more than this process may use."""
    available = available_bytes()
    nbytes = parse_memory(memory, available)
    if nbytes > available:
        raise BadArgument(f"memory: {memory!r} is more than the {available:,} bytes that this process may use")
    return nbytes


def process_pool() -> Pool:
    """What all runs without a budget of their own share."""
    if not _POOL:
        _POOL.append(Pool(budget_bytes(DEFAULT_MEMORY_FRACTION)))
    return _POOL[0]


def set_memory(memory: int | float | str | None) -> None:
    """Sets what all runs of this process that are given no budget of their own may hold together.

    A quarter of what the process may use (the container's limit, or else the machine's memory) unless it is set, and
    again after None. Open runs give way to a smaller pool: they keep what they need at least, even if that is more than
    the pool, and give back the rest.

    >>> import penstock as ps
    >>> ps.set_memory("64MB")
    >>> ps.get_memory()
    64000000
    >>> ps.set_memory(None)
    """
    process_pool().resize(budget_bytes(DEFAULT_MEMORY_FRACTION if memory is None else memory))


def get_memory() -> int:
    """What all runs of this process that are given no budget of their own may hold together, in bytes.

    >>> import penstock as ps
    >>> ps.get_memory() > 0
    True
    """
    return process_pool().total_bytes
