"""Supply: input elements for who keeps each one as long as it takes to read a dataset that was made of it."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, NamedTuple

from ..block import Block
from ..cursor import Feed, State, expect_list, replay
from ..element import nbytes_of
from ..errors import StateError
from ..memory.ledger import Lease, Share
from ..plan.op import Context, Op

__all__ = ["Hold", "Pace", "Supply", "is_live"]

# Elements are read several at a time, as long as that takes no longer than this …
_QUICK_NS = 500_000
_MOST_ELEMENTS = 32
# … and what waits is no more than this.
_MOST_BYTES = 1 << 15


def is_live(op: Op) -> bool:
    """Whether its elements may take as long as they like to come."""
    return op.traits.live


class Pace:
    """How many elements to read at a time, where one at a time would cost more than making them."""

    __slots__ = ("_share", "demand")

    def __init__(self, share: Share) -> None:
        self._share = share
        self.demand = 1

    def adapt(self, elapsed_ns: int, num_read: int, each_bytes: int) -> None:
        """Learns from what was read last: quick and small ones may come several at a time, and more each time."""
        quick = _QUICK_NS * num_read // max(1, elapsed_ns)
        small = min(_MOST_BYTES, self._share.budget_bytes // 64, self._share.spare_bytes) // max(1, each_bytes)
        self.demand = max(1, min(quick, small, _MOST_ELEMENTS, self.demand * 2))


class Hold:
    """Elements that came together and are on the ledger together, until nobody needs any of them."""

    __slots__ = ("_lease", "_num_users")

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self._num_users = 1

    @property
    def nbytes(self) -> int:
        return 0 if self._lease is None else self._lease.nbytes

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

    __slots__ = ("_before", "_context", "_cursor", "_is_held", "_offset", "_pace", "_rows", "hold", "live", "number")

    END = object()

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursor = context.input()
        #: Whether elements may take as long as they like to come.
        self.live = context.node.input.has_any(is_live)
        # Whether they are on the account of who opened the dataset that they come from, as long as that is open.
        self._is_held = context.node.input.op.gives_what_it_holds
        self._pace = Pace(context.share)
        self._rows: list[Any] = []
        self._offset = 0
        self._before: State = None
        #: What the element that was given last is held by, until the next one is asked for.
        self.hold = Hold(None)
        #: The number of the element that comes next.
        self.number = 0

    def next(self) -> Any:
        """The next element (perhaps `Failed`), or `Supply.END`."""
        offset = self._offset
        if offset == len(self._rows):
            if not self._pull():
                return Supply.END
            offset = 0
        row = self._rows[offset]
        self._rows[offset] = None  # the taker's from now on; an error that was raised would keep the whole run alive
        self._offset = offset + 1
        self.number += 1
        return row

    @property
    def must_read(self) -> bool:
        """Whether there is none left of those that were read together."""
        return self._offset == len(self._rows)

    def put_back(self, row: Any) -> None:
        """Has `row` come next: the element that was given last, or what is to stand in its place."""
        self._offset -= 1
        self.number -= 1
        self._rows[self._offset] = row

    def piece(self, row: Any) -> Piece:
        """The element that was given last, for who keeps it."""
        return Piece(row, self.number - 1, [self._before, self._offset - 1], self.hold.share())

    def _pull(self) -> bool:
        self._forget()
        before = self._cursor.state()
        start = perf_counter_ns()
        block = self._cursor.pull(self._pace.demand)
        if block is None:
            return False
        elapsed = perf_counter_ns() - start
        block, self.hold = self._kept(block)
        self._rows, self._offset, self._before = block.rows(), 0, before
        if not self.live:
            self._pace.adapt(elapsed, len(self._rows), nbytes_of(self._rows[0]))
        return True

    def _kept(self, block: Block) -> tuple[Block, Hold]:
        """Elements on this stage's account: their maker will be asked again while they are needed."""
        if self._is_held:
            return block, Hold(None)
        lease = self._context.share.acquire(0)
        return self._context.arena.keep(block, lease.settle, in_part=False), Hold(lease)

    def _forget(self) -> None:
        self.hold.release()
        self._rows, self._offset, self._before, self.hold = [], 0, None, Hold(None)

    def state(self) -> State:
        ready = self._offset < len(self._rows)
        return [self._before, self._offset] if ready else [self._cursor.state(), 0]

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
        block, hold = self._kept(block)
        return Piece(block.rows()[0], number, before, hold)

    def close(self) -> None:
        self._forget()
        self._cursor.close()
