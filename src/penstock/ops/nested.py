"""Reading datasets that a user's function makes of elements: what `flat_map` and `interleave` share."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..block import Block
from ..cursor import Cursor, Feed, State, expect_list
from ..element import Failed, is_dataset
from ..errors import BadType, OverBudget, PenstockError, StateError
from ..memory.ledger import Lease
from ..options import AUTOTUNE
from ..plan.op import Context
from ..plan.seeds import seeded_by
from .calling import call

__all__ = ["CycleCursor"]

# A turn of at least this many elements is passed on as one block; shorter ones are gathered.
_WHOLE_TURN = 16
# A thread pays if an element takes longer to make than it takes to hand it over.
_WORTH_A_THREAD_NS = 100_000
_MOST_THREADS = 16


class _Slot:
    """A dataset that is being read, and what it takes to open it again."""

    __slots__ = ("ahead", "before", "feed", "lease", "live", "measured", "place")

    def __init__(self, place: int, before: State, lease: Lease, dataset: Any, cursor: Cursor) -> None:
        self.place = place
        self.before = before
        self.lease = lease
        self.live = any(node.op.traits.live for node in dataset.node.walk())
        self.feed = Feed(cursor)
        self.ahead = False
        self.measured = False

    def read_ahead(self, context: Context) -> None:
        """Lets a thread read on; only while nothing that was read lies ready."""
        self.feed = Feed(context.run_ahead(self.feed.cursor, AUTOTUNE))
        self.ahead = self.measured = True

    def state(self) -> State:
        return [self.place, self.before, int(self.ahead), self.feed.state()]

    def close(self) -> None:
        self.feed.close()
        self.lease.release()


class CycleCursor(Cursor):
    """Reads `cycle_length` datasets in turn, `block_length` elements at a time, each made of one input element.

    The order is that of tf.data: a slot whose dataset has ended is left at once, and takes the next dataset when the
    cycle comes back to it; an element that fails does not count in its turn; an input element of which no dataset could
    be made is one failure, and the slot takes the next.

    Operators in these datasets to which the user gave no seed get one that follows from `key` and the place of their
    input element, so that a dataset can be made again for a saved position.

    Slots below `num_ahead` are read ahead by a thread each; with `AUTOTUNE` those are whose elements take long to make.
    """

    def __init__(
        self,
        context: Context,
        function: Callable[..., Any],
        key: int,
        cycle_length: int = 1,
        block_length: int = 1 << 62,
        num_ahead: int = 0,
    ) -> None:
        self._context = context
        self._function = function
        self._key = key
        self._block_length = block_length
        self._num_ahead = num_ahead
        self._input = context.input()
        self._place = 0
        self._ended = False
        self._slots: list[_Slot | None] = [None] * cycle_length
        self._num_open = 0
        self._turn = 0
        self._given = 0

    def pull(self, n: int) -> Block | None:
        rows: list[Any] = []
        while len(rows) < n:
            slot = self._slots[self._turn]
            if slot is None:
                if self._ended and not self._num_open:
                    break
                failed = self._fill()
                if failed is not None:
                    rows.append(failed)
                continue
            if slot.live and rows:
                break  # the next may be long in coming, and what is here can be used
            turn = min(n, self._block_length - self._given)
            if slot.measured and not rows and (turn == n or turn >= _WHOLE_TURN):
                block = slot.feed.take(1 if slot.live else turn)
                if block is not None:
                    self._count(block.size - int(block.has_failures))
                    return _unnumbered(block)
                self._leave(slot)
                continue
            row = slot.feed.next(self._demand(n - len(rows))) if slot.measured else self._first(slot)
            if row is Feed.END:
                self._leave(slot)
                continue
            rows.append(row)
            self._count(int(type(row) is not Failed))
        return Block.of_rows(rows) if rows else None

    def _demand(self, left: int) -> int:
        """How many of the next `left` elements come from the slot whose turn it is, if none ends before."""
        turn = min(left, self._block_length - self._given)
        others = (len(self._slots) - 1) * self._block_length
        rounds, rest = divmod(left - turn, others + self._block_length)
        return turn + rounds * self._block_length + max(0, rest - others)

    def _first(self, slot: _Slot) -> Any:
        """The first element of a dataset; if it took long, a thread reads on."""
        start = perf_counter_ns()
        row = slot.feed.next()
        slot.measured = True
        slow = perf_counter_ns() - start > _WORTH_A_THREAD_NS
        if slow and row is not Feed.END and sum(s is not None and s.ahead for s in self._slots) < _MOST_THREADS:
            slot.read_ahead(self._context)
        return row

    def _count(self, num_elements: int) -> None:
        self._given += num_elements
        if self._given == self._block_length:
            self._next_turn()

    def _next_turn(self) -> None:
        self._given = 0
        self._turn = (self._turn + 1) % len(self._slots)

    def _leave(self, slot: _Slot) -> None:
        self._slots[self._turn] = None
        self._num_open -= 1
        slot.close()
        self._next_turn()

    def _fill(self) -> Failed | None:
        """Opens the next dataset in the slot whose turn it is; moves on if there is none."""
        if self._ended:
            self._next_turn()
            return None
        before = self._input.state()
        block = self._input.pull(1)
        if block is None:
            self._ended = True
            return None
        place, self._place = self._place, self._place + 1
        try:
            slot = self._open(block, place, before)
        except OverBudget:
            raise  # no fault of the element's, which must not be dropped as if it were
        except PenstockError as error:
            return Failed(self._context.located(error))
        except Exception as error:
            return Failed(self._context.noted(error, place))
        if isinstance(slot, Failed):
            return slot
        self._put(self._turn, slot, ahead=self._turn < self._num_ahead)
        return None

    def _put(self, index: int, slot: _Slot, ahead: bool) -> None:
        self._slots[index] = slot
        self._num_open += 1
        slot.measured = self._num_ahead != AUTOTUNE
        if ahead:
            slot.read_ahead(self._context)

    def _open(self, block: Block, place: int, before: State) -> _Slot | Failed:
        (row,) = block.rows()
        if type(row) is Failed:
            return row
        # The dataset may keep the element that it was made of for as long as it is read.
        lease = self._context.share.acquire(self._context.arena.unaccounted_bytes(block))
        try:
            dataset = call(self._function, row)
            if not is_dataset(dataset):
                raise BadType(f"map_func: expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
            dataset = type(dataset)(seeded_by(dataset.node, self._key, place))
            return _Slot(place, before, lease, dataset, self._context.open_dataset(dataset))
        except BaseException:
            lease.release()
            raise

    def skip(self, n: int) -> int:
        if len(self._slots) > 1:
            return super().skip(n)  # which elements failed, and so did not count, shows only when they are made
        skipped = 0
        while skipped < n:
            slot = self._slots[0]
            if slot is not None:
                step = slot.feed.skip(n - skipped)
                skipped += step
                if skipped < n:
                    self._leave(slot)
            elif self._fill() is not None:
                skipped += 1
            elif self._ended:
                break
        return skipped

    def state(self) -> State:
        slots = [None if slot is None else slot.state() for slot in self._slots]
        return [self._turn, self._given, self._place, int(self._ended), self._input.state(), slots]

    def restore(self, state: State) -> None:
        self._turn, self._given, self._place, ended, below, slots = expect_list(state, 6)
        self._ended = bool(ended)
        self._slots = [None] * len(slots)
        for i, saved in enumerate(slots):
            if saved is not None:
                self._reopen(i, *expect_list(saved, 4))
        self._input.restore(below)

    def _reopen(self, index: int, place: int, before: State, ahead: int, below: State) -> None:
        """Makes a dataset again that was being read, and moves to where that was."""
        input = self._context.input()
        try:
            input.restore(before)
            block = input.pull(1)
        finally:
            input.close()
        slot = None if block is None else self._open(block, place, before)
        if not isinstance(slot, _Slot):
            raise StateError(f"input element {place}, of which a dataset was being read, is no longer there")
        self._put(index, slot, bool(ahead))
        slot.feed.restore(below)

    def close(self) -> None:
        for slot in self._slots:
            if slot is not None:
                slot.close()
        self._slots, self._num_open = [None] * len(self._slots), 0
        self._ended = True
        self._input.close()


def _unnumbered(block: Block) -> Block:
    """Without positions: those count the elements of one inner dataset."""
    if block.positions is not None:
        block.positions = None
    return block
