"""distribute: each of several processes its part, and all of them equally many batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..errors import BadArgument, StateError
from ..order import SkipOrder
from ..parts import PartOrder, Remainder, part_size
from ..plan.footprint import Footprint, Sizes, times
from ..plan.node import Node, Origin
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.seeds import agreed
from ..plan.traits import Traits
from ..spec import INFINITE, Spec
from .gathering import Gathering

__all__ = ["Distribute"]

_UNEQUAL = Traits(runtime="order", moves_below_map=True, by_place=True, needs_index=True, passes_columns=True)
_TRAITS = dataclasses.replace(_UNEQUAL, equal_parts=True)
_REMAINDERS = ("drop", "pad", "keep")


@dataclasses.dataclass(frozen=True)
class Distribute(Op):
    """Elements `index`, `index + num_shards`, …, as `shard`, but so that no process runs out before another.

    Each process works out for itself what the others get, without a word between them. If the dataset is put into
    batches further on, all processes get equally many *batches*, and every element is used as long as that is so:
    the last batches may differ in size by one. Without batches they get equally many elements. Of an input whose
    length is not known (a stream, a `filter`) they always do.

    What would make the numbers unequal again (`filter`, `flat_map`, … further on) is refused when the dataset is run.
    Seeds that nobody chose further down are made the same for all processes: they follow from the pipeline, and are the
    same in every run of the program.

    Args:
        num_shards: How many processes there are.
        index: Which of them this is.
        remainder: What becomes of elements that are too few to give one to each process. `"drop"`: they are left out.
            `"pad"`: none is left out, and processes that would go without get an element a second time. `"keep"`: the
            first processes get one more, and nothing is promised of the number of batches: for processes that do not
            wait for each other. `"drop_remainder"` is another name of `"drop"`. (With `.repeat()` below, there is no
            end and nothing remains.)

    Memory: two elements where the input is a stream; nothing for arrays.
    State: its input's; a position can be loaded by any of the processes, and by another number of them.

    >>> import penstock as ps
    >>> [[batch.tolist() for batch in ps.Dataset.range(11).distribute(2, i).batch(2)] for i in (0, 1)]
    [[[0, 2], [4, 6], [8, 10]], [[1, 3], [5, 7], [9]]]
    """

    num_shards: int
    index: int
    remainder: Remainder = "drop"
    batch_size: int = dataclasses.field(default=1, kw_only=True, repr=False)
    drops_batch: bool = dataclasses.field(default=False, kw_only=True, repr=False)
    start: int = dataclasses.field(default=0, kw_only=True, repr=False)

    internal = ("batch_size", "drops_batch", "start")
    tuning = ("num_shards", "index")

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_shards", argument("num_shards", self.num_shards, at_least=1))
        object.__setattr__(self, "index", argument("index", self.index, at_least=0))
        if self.index >= self.num_shards:
            raise BadArgument(f"index: expected less than num_shards = {self.num_shards}, got {self.index}")
        if self.remainder == "drop_remainder":
            object.__setattr__(self, "remainder", "drop")
        if self.remainder not in _REMAINDERS:
            given: Any = self.remainder
            advice = "; put repeat() before distribute" if given == "repeat" else ""
            raise BadArgument(f"remainder: expected one of {', '.join(_REMAINDERS)}, got {given!r:.60}{advice}")

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        return spec if spec.cardinality < 0 else spec.with_cardinality(self._size(spec.cardinality))

    def _size(self, length: int) -> int:
        left = max(0, length - self.start)
        return int(part_size(left, self.num_shards, self.index, self.batch_size, self.drops_batch, self.remainder))

    def placed_on(self, input: Node, origin: Origin) -> Node:
        return super().placed_on(input if self.num_shards == 1 else agreed(input), origin)

    @property
    def traits(self) -> Traits:
        return _UNEQUAL if self.num_shards == 1 or self.remainder == "keep" else _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.num_shards == 1 and not self.start

    def in_batches_of(self, size: int, drop_remainder: bool) -> Op:
        return dataclasses.replace(self, batch_size=size, drops_batch=drop_remainder)

    @property
    def part(self) -> tuple[int, int] | None:
        return self.num_shards, self.start

    @property
    def part_index(self) -> int | None:
        return self.index

    def from_place(self, start: int) -> Op:
        return dataclasses.replace(self, start=start)

    def footprint(self, sizes: Sizes) -> Footprint:
        held = times(2, sizes.input, slots=True)
        return Footprint(held, "the own element while others' are passed over, and the one before", held)

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        # A stream could not tell how many there will be: what it does must not depend on there being an index.
        in_batches = length >= 0 or length == INFINITE
        size, drops = (self.batch_size, self.drops_batch) if in_batches else (1, False)

        def bound(epoch: int) -> PartOrder:
            below = SkipOrder(inner(epoch), self.start) if self.start else inner(epoch)
            return PartOrder(below, self.num_shards, self.index, size, drops, self.remainder)

        return bound

    def open(self, context: Context) -> Cursor:
        length = context.node.input.spec.cardinality
        return _PartCursor(context, self, None if length < 0 else (max(0, length - self.start), self._size(length)))


class _PartCursor(UnaryCursor):
    """Own elements of a stream, each delivered when those of the others were found to be there as well.

    `known` is how many elements there are and how many of them this process gets, where that is known. Else elements
    are read in rows, one for each process, and a row that is not full is the remainder.
    """

    __slots__ = (
        "_before_last",
        "_context",
        "_ended",
        "_gathering",
        "_given",
        "_held_bytes",
        "_known",
        "_last",
        "_op",
        "_passed",
    )

    def __init__(self, context: Context, op: Distribute, known: tuple[int, int] | None) -> None:
        super().__init__(context.input())
        self._context = context
        self._op = op
        self._known = known
        self._given = 0
        # Elements of the input from `start` on, where there are known to be so many: after as many of their own,
        # processes are at different places of it. Less than 0: so many come before `start`, and are still to be passed
        # over. Not here, where nobody knows yet whether a position will be restored.
        self._passed = -op.start
        self._ended = False
        # The last element and the position before it, where one may have to be given twice.
        self._last: Any = None
        self._before_last: State = None
        self._held_bytes = 0
        self._gathering = Gathering(context)

    def pull(self, n: int) -> Block | None:
        self._gathering.release()
        rows: list[Any] = []
        block: Block | None = None
        while len(rows) < n and (block is None or self._gathering.try_keep(block)):
            block = self._next()
            if block is None:
                break
            rows += block.rows()
            self._given += 1
        return Block.of_rows(rows) if rows else None

    def _next(self) -> Block | None:
        if self._ended:
            return None
        if self._passed < 0:
            self.input.skip(-self._passed)
            self._passed = 0
        if self._known is None:
            return self._next_of_row()
        length, size = self._known
        if self._given >= size:
            self._ended = True
            return None
        place = self._given * self._op.num_shards + self._op.index
        if place >= length:
            return self._again() or self._last_of_all()
        owed, self._passed = place - self._passed, place + 1
        return self._own(owed)

    def _next_of_row(self) -> Block | None:
        before, after = self._op.index, self._op.num_shards - 1 - self._op.index
        pads = self._op.remainder == "pad"
        if pads and self._last is None:
            passed = self._pass_keeping(before)
        else:
            passed = self.input.skip(before)
        block = self._own(0) if passed == before else None
        if block is None:
            self._ended = True
            return self._again() if passed and pads else None
        self._hold(block)
        if self.input.skip(after) < after:
            self._ended = True
            return None if self._op.remainder == "drop" else block
        return block

    def _own(self, owed: int) -> Block | None:
        """The next element after those that are others'."""
        if owed and self.input.skip(owed) < owed:
            return None
        if self._op.remainder == "pad":
            before = self.input.state()
            block = self.input.pull(1)
            if block is not None:
                self._last, self._before_last = block.rows()[0], before
                self._hold(block)
            return block
        return self.input.pull(1)

    def _pass_keeping(self, n: int) -> int:
        """Passes over elements of which the last may have to be given, there being no own one."""
        for passed in range(n):
            if self._own(0) is None:
                return passed
        return n

    def _last_of_all(self) -> Block | None:
        while self._own(0) is not None:
            pass
        return self._again()

    def _again(self) -> Block | None:
        return None if self._last is None else Block.of_rows([self._last])

    def _hold(self, block: Block) -> None:
        """The input is asked again while this element is kept: it is on our account now."""
        arena, share = self._context.arena, self._context.share
        arena.take_over(block)
        nbytes = arena.unaccounted_bytes(block)
        if nbytes > self._held_bytes:
            share.charge(nbytes - self._held_bytes)
            self._held_bytes = nbytes

    def state(self) -> State:
        return [self._given, int(self._ended), self.input.state(), self._before_last, self._passed]

    def restore(self, state: State) -> None:
        self._given, ended, below, before_last, self._passed = expect_list(state, 5)
        self._ended = bool(ended)
        self._last = None
        if before_last is not None:
            self.input.restore(before_last)
            if self._own(0) is None:
                raise StateError("the saved position is behind an element that is no longer there")
            # A cursor can be moved once, before it was read: from here on another one.
            self.input.close()
            self.input = self._context.input()
        self.input.restore(below)

    def close(self) -> None:
        self._last = None
        self._context.share.discharge(self._held_bytes)
        self._held_bytes = 0
        self._gathering.release()
        super().close()
