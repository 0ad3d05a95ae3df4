"""IndexCursor: a random-access source read in an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .block import Block
from .cursor import Cursor, State, expect_list
from .order import Index, Order, as_array

__all__ = ["IndexCursor", "close_reader"]

# Orders are asked for this many places at once: small pulls then cost a slice, not a kernel call.
_AHEAD = 4096
_NOTHING = np.empty(0, dtype=np.int64)
_Gather = Callable[[np.ndarray, int, int], Block]


class _Reader(Protocol):
    """What reads the source.

    One that can make use of knowing what comes next also has `gather(index, start, size)`, which reads the elements
    `index[start : start + size]` and may look at the indices behind them.
    """

    def read(self, index: Index) -> Block:
        """These elements, or the first of them, where there is no room for all."""


class _Lease(Protocol):
    def release(self) -> None: ...


def close_reader(reader: Any) -> None:
    """Closes a reader that holds something, such as files."""
    close = getattr(reader, "close", None)
    if close is not None:
        close()


class IndexCursor(Cursor):
    """Reads a source in an order; its position is one integer.

    `numbering`, where given, is the upper part of an order that was cut in two: places in it number the elements for
    keyed operators, and `order` takes them on to source indices.
    """

    __slots__ = (
        "_ahead",
        "_ahead_at",
        "_extended",
        "_fitting",
        "_gather",
        "_lease",
        "_numbering",
        "_order",
        "_place",
        "_reader",
    )

    def __init__(
        self,
        reader: _Reader,
        order: Order,
        numbering: Order | None = None,
        lease: _Lease | None = None,
        fitting: Callable[[int], int] | None = None,
    ) -> None:
        self._reader = reader
        self._gather: _Gather | None = None if numbering is not None else getattr(reader, "gather", None)
        self._order = order
        self._numbering = numbering
        self._lease = lease  # of the bytes that the orders hold
        self._fitting = fitting  # how many elements to read at a time, where there may not be room for all
        self._place = 0
        self._extended = 0
        self._ahead: np.ndarray = _NOTHING
        self._ahead_at = 0

    @property
    def _outer(self) -> Order:
        return self._order if self._numbering is None else self._numbering

    def pull(self, n: int) -> Block | None:
        if self._fitting is not None:
            n = self._fitting(n)
        at, ahead = self._ahead_at, self._ahead
        if at + n > len(ahead):
            return self._pull_afresh(n)
        block = self._read(ahead[at : at + n]) if self._gather is None else self._gather(ahead, at, n)
        self._ahead_at = at + block.size
        self._place += block.size
        return block

    def _pull_afresh(self, n: int) -> Block | None:
        """Pulls where fewer than n indices lie ready, and lays some more ready for the next time."""
        # What lies ready is never asked for again: going back would make a window shuffle start over.
        ready = self._ahead[self._ahead_at :]
        start = self._place + ready.size
        index = self._outer.slice(start, start + max(n - ready.size, _AHEAD))
        if isinstance(index, slice) and not ready.size:
            count = min(n, index.stop - index.start)
            if not count:
                return None
            block = self._read(slice(index.start, index.start + count))
            self._place += block.size
            return block
        self._ahead = np.concatenate([ready, as_array(index)]) if ready.size else as_array(index)
        self._ahead_at = 0
        return self.pull(min(n, self._ahead.size)) if self._ahead.size else None

    def _read(self, index: Index) -> Block:
        if self._numbering is None:
            return self._reader.read(index)
        places = as_array(index)
        block = self._reader.read(self._order.at(places))
        block.positions = places[: block.size]
        return block

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
        self._forget_ahead()

    def _forget_ahead(self) -> None:
        self._ahead = _NOTHING
        self._ahead_at = 0

    def skip(self, n: int) -> int:
        skipped = int(max(0, min(n, self._outer.length - self._place)))
        self._place += skipped
        if self._ahead_at + skipped <= self._ahead.size:
            self._ahead_at += skipped
        else:
            self._forget_ahead()
        return skipped

    def state(self) -> State:
        return [self._place, self._extended] if self._extended else self._place

    def restore(self, state: State) -> None:
        place, extended = (state, 0) if isinstance(state, int) else expect_list(state, 2)
        self._extend(int(extended) - self._extended)
        self._place = int(place)
        self._forget_ahead()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()
        close_reader(self._reader)

    def __repr__(self) -> str:
        return f"IndexCursor({self._place} of {self._outer.length})"
