"""IndexCursor: a random-access source read in an order."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .block import Block
from .cursor import Cursor, State, expect_list
from .order import Index, Order, as_array

__all__ = ["IndexCursor"]

# Orders are asked for this many places at once: small pulls then cost a slice, not a kernel call.
_AHEAD = 4096


class _Reader(Protocol):
    def read(self, index: Index) -> Block: ...


class _Lease(Protocol):
    def release(self) -> None: ...


class IndexCursor(Cursor):
    """Reads a source in an order; its position is one integer.

    `numbering`, where given, is the upper part of an order that was cut in two: places in it number the elements for
    keyed operators, and `order` takes them on to source indices.
    """

    __slots__ = ("_ahead", "_extended", "_lease", "_numbering", "_order", "_place", "_reader")

    def __init__(
        self, reader: _Reader, order: Order, numbering: Order | None = None, lease: _Lease | None = None
    ) -> None:
        self._reader = reader
        self._order = order
        self._numbering = numbering
        self._lease = lease  # of the bytes that the orders hold
        self._place = 0
        self._extended = 0
        self._ahead: np.ndarray | None = None

    @property
    def _outer(self) -> Order:
        return self._order if self._numbering is None else self._numbering

    def pull(self, n: int) -> Block | None:
        index = self._next_index(n)
        if index is None:
            return None
        if self._numbering is None:
            return self._reader.read(index)
        places = as_array(index)
        block = self._reader.read(self._order.at(places))
        block.positions = places
        return block

    def _next_index(self, n: int) -> Index | None:
        ready = self._ahead
        if ready is not None and ready.size >= n:
            self._ahead = ready[n:]
            self._place += n
            return ready[:n]
        # What lies ready is never asked for again: going back would make a window shuffle start over.
        start = self._place + (0 if ready is None else ready.size)
        missing = n - (start - self._place)
        index = self._outer.slice(start, start + max(missing, _AHEAD))
        if isinstance(index, slice) and start == self._place:
            self._ahead = None
            count = min(n, index.stop - index.start)
            self._place += count
            return slice(index.start, index.start + count) if count else None
        fresh = as_array(index)
        joined = fresh if ready is None or not ready.size else np.concatenate([ready, fresh])
        self._ahead = joined[n:]
        joined = joined[:n]
        self._place += joined.size
        return joined if joined.size else None

    def lost(self, n: int) -> None:
        """n elements failed further down: an elastic take makes room for as many others."""
        self._extend(n)

    def _extend(self, n: int) -> None:
        if not n:
            return
        self._extended += n
        if self._numbering is None:
            self._order = self._order.extended(n)
        else:
            self._numbering = self._numbering.extended(n)
        self._ahead = None

    def skip(self, n: int) -> int:
        skipped = int(max(0, min(n, self._outer.length - self._place)))
        self._place += skipped
        self._ahead = None if self._ahead is None or skipped > self._ahead.size else self._ahead[skipped:]
        return skipped

    def state(self) -> State:
        return [self._place, self._extended] if self._extended else self._place

    def restore(self, state: State) -> None:
        place, extended = (state, 0) if isinstance(state, int) else expect_list(state, 2)
        self._extend(int(extended) - self._extended)
        self._place, self._ahead = int(place), None

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()

    def __repr__(self) -> str:
        return f"IndexCursor({self._place} of {self._outer.length})"

