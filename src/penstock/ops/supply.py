"""Supply: input elements for who keeps each one as long as it takes to read a dataset that was made of it."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, NamedTuple

from ..cursor import Feed, State, expect_list, replay
from ..element import nbytes_of
from ..errors import StateError
from ..memory.ledger import Lease
from ..plan.op import Context, Op

__all__ = ["Hold", "Supply", "is_live"]

# Elements are read several at a time, as long as that takes no longer than this …
_QUICK_NS = 500_000
_MOST_ELEMENTS = 32
# … and what waits is no more than this.
_MOST_BYTES = 1 << 15


def is_live(op: Op) -> bool:
    """Whether its elements may take as long as they like to come."""
    return op.traits.live


class Hold:
    """Elements that came together and are on the ledger together, until nobody needs any of them."""

    __slots__ = ("_lease", "_num_users")

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self._num_users = 1

    def share(self) -> Hold:
        """The same, with one more who must release it."""
        self._num_users += 1
        return self

    def release(self) -> None:
        self._num_users -= 1
        if not self._num_users and self._lease is not None:
            self._lease.release()


class Piece(NamedTuple):
    """An element (perhaps `Failed`), its number, the position before it, and what its taker must release."""

    row: Any
    number: int
    before: State
    hold: Hold


class Supply:
    """Gives input elements one at a time, and knows the position before each.

    Reading one at a time costs more than making a small dataset does, so more are read at once while they are small and
    quick to come. All of them are on the ledger, except what lies in a slot of the arena or is the user's own.
    """

    __slots__ = ("_before", "_context", "_cursor", "_demand", "_hold", "_offset", "_rows", "live", "number")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursor = context.input()
        #: Whether elements may take as long as they like to come.
        self.live = context.node.input.has_any(is_live)
        self._demand = 1
        self._rows: list[Any] = []
        self._offset = 0
        self._before: State = None
        self._hold: Hold | None = None
        #: The number of the element that comes next.
        self.number = 0

    def next(self) -> Piece | None:
        """The next element, or None at the end."""
        if self._hold is None and not self._pull():
            return None
        assert self._hold is not None
        offset = self._offset
        number, self.number = self.number, self.number + 1
        piece = Piece(self._rows[offset], number, [self._before, offset], self._hold.share())
        self._rows[offset] = None  # the taker's from now on; an error that was raised would keep the whole run alive
        self._offset = offset + 1
        if self._offset == len(self._rows):
            self._forget()
        return piece

    def _pull(self) -> bool:
        before = self._cursor.state()
        start = perf_counter_ns()
        block = self._cursor.pull(self._demand)
        if block is None:
            return False
        elapsed = perf_counter_ns() - start
        self._context.arena.take_over(block)  # its maker will be asked again while it is held
        nbytes = self._context.arena.unaccounted_bytes(block)
        self._hold = Hold(self._context.share.acquire(nbytes) if nbytes else None)
        self._rows, self._offset, self._before = block.rows(), 0, before
        if not self.live:
            self._adapt(elapsed, len(self._rows), self._rows[0])
        return True

    def _adapt(self, elapsed_ns: int, size: int, row: Any) -> None:
        quick = _QUICK_NS * size // max(1, elapsed_ns)
        small = min(_MOST_BYTES, self._context.share.budget_bytes // 8) // max(1, nbytes_of(row))
        self._demand = max(1, min(quick, small, _MOST_ELEMENTS, self._demand * 2))

    def _forget(self) -> None:
        if self._hold is not None:
            self._hold.release()
        self._rows, self._offset, self._before, self._hold = [], 0, None, None

    def state(self) -> State:
        return [self._cursor.state(), 0] if self._hold is None else [self._before, self._offset]

    def restore(self, state: State, number: int) -> None:
        """Moves to a saved position, where the element of this number comes next."""
        before, offset = expect_list(state, 2)
        self._forget()
        self._cursor.restore(before)
        replay(self._cursor, offset)
        self.number = number

    def again(self, number: int, before: State) -> Piece:
        """An element that was given before a position was saved; the supply itself stays where it is."""
        feed = Feed(self._context.input())
        try:
            feed.restore(before)
            block = feed.take(1)
        finally:
            feed.close()
        if block is None:
            raise StateError(f"input element {number}, of which a dataset was being read, is no longer there")
        lease = self._context.share.acquire(self._context.arena.unaccounted_bytes(block))
        return Piece(block.rows()[0], number, before, Hold(lease))

    def close(self) -> None:
        self._forget()
        self._cursor.close()
