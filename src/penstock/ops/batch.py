"""batch: consecutive elements stacked into one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Allocate, Block, concat_blocks
from ..cursor import END_OF_INPUT, Cursor, State, UnaryCursor
from ..element import LEAF, Failed
from ..errors import SpecMismatch
from ..leaf import leaf_bytes
from ..memory.arena import slot_bytes
from ..plan.footprint import ElementSize, Footprint, Sizes, times
from ..plan.op import BlockKind, Context, Op, argument
from ..plan.traits import COLLATES, Traits
from ..spec import Spec, describe, map_specs, merge, spec_of
from .batching import batched_cardinality, num_batches
from .calling import check_parallel_calls
from .collating import CollatingCursor
from .stack import Likeness, Stack
from .stacking import batched_spec, collate

__all__ = ["Batch"]


_REMARKS = {"view": "read-only views, no copy", "gather": "one gather each", "computed": "computed at once"}


@dataclasses.dataclass(frozen=True)
class Batch(Op):
    """Stacks `batch_size` consecutive elements along a new first axis.

    Elements must have equal shapes; see `padded_batch` and `ragged_batch` for others. Over arrays a batch is one
    gather, or a read-only view where the elements lie side by side.

    Args:
        batch_size: Elements per batch.
        drop_remainder: Whether a last batch with fewer elements is left out.
        num_parallel_calls: Accepted for tf.data's sake; a batch is one copy and gains nothing from threads.
        deterministic: Likewise.

    Memory: batch_size × the bytes of an element.
    State: its input's.

    >>> import penstock as ps
    >>> list(ps.Dataset.range(5).batch(2))
    [array([0, 1]), array([2, 3]), array([4])]
    """

    batch_size: int
    drop_remainder: bool = False
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    whole_blocks: BlockKind | None = dataclasses.field(default=None, kw_only=True)

    internal = ("whole_blocks",)

    def __init__(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        *,
        whole_blocks: BlockKind | None = None,
    ) -> None:
        # By hand, as for `Node`: one for each window.
        fields = self.__dict__
        fields["batch_size"] = argument("batch_size", batch_size, at_least=1)
        fields["drop_remainder"] = drop_remainder
        fields["num_parallel_calls"] = num_parallel_calls
        fields["deterministic"] = deterministic
        fields["whole_blocks"] = whole_blocks
        if num_parallel_calls is not None:
            check_parallel_calls(self, num_parallel_calls)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        batched = spec.batched.get((self.batch_size, self.drop_remainder))
        if batched is None:
            batched = spec.batched[self.batch_size, self.drop_remainder] = self._batched(spec)
        return batched

    def _batched(self, spec: Spec) -> Spec:
        size = self.batch_size if self.drop_remainder else None
        element = map_specs(lambda leaf: batched_spec(leaf, size), spec.element)
        return Spec(element, batched_cardinality(spec.cardinality, self.batch_size, self.drop_remainder))

    @property
    def traits(self) -> Traits:
        return COLLATES

    @property
    def gives_views(self) -> bool:
        return self.whole_blocks == "view"

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        return inputs[0].stacked(self.batch_size)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        if self.whole_blocks == "view":
            return Footprint(0, "each batch is a view of your arrays")
        held = times(self.batch_size, sizes.input, slots=True)
        twice = self._held_twice(sizes)
        singly = times(self.batch_size, sizes.input) if twice else held
        floor = sizes.at_least_as_sampled(None if singly is None else singly + twice)
        return Footprint(held, f"{self.batch_size:,} elements in one batch", floor)

    def _held_twice(self, sizes: Sizes) -> int:
        """What a sample held beyond one batch: elements with strings in them wait one by one, and are stacked then.

        Twice that: those that come from disk take more, with what Arrow says of each.
        """
        if sizes.input is None or not sizes.input.typical_bytes:
            return 0
        return 2 * max(0, sizes.needed_bytes - slot_bytes(self.batch_size * sizes.input.typical_bytes))

    def remark(self) -> str:
        return "" if self.whole_blocks is None else _REMARKS[self.whole_blocks]

    def taking_blocks(self, kind: BlockKind) -> Op | None:
        return dataclasses.replace(self, whole_blocks=kind) if self.whole_blocks is None else None

    @property
    def most_at_once(self) -> int:
        return self.batch_size

    def only_batch(self, block: Block) -> Block | None:
        if block.columns is None or (self.drop_remainder and block.size < self.batch_size):
            return None
        return Block(1, LEAF, None, [block.as_element()], False, None)

    @property
    def batches_of(self) -> tuple[int, bool] | None:
        return self.batch_size, self.drop_remainder

    def open(self, context: Context) -> Cursor:
        if self.whole_blocks is not None:
            return _WholeBlockCursor(context, self.batch_size, self.drop_remainder)
        return _BatchCursor(context, self.batch_size, self.drop_remainder)


def _stacked(blocks: list[Block], allocate: Allocate) -> Any:
    """The elements of some blocks as one batch."""
    try:
        joined = concat_blocks(blocks, allocate)
    except SpecMismatch:
        joined = None
    if joined is not None:
        return joined.as_element()
    rows = [row for block in blocks for row in block.rows()]
    try:
        return collate(rows, allocate)
    except SpecMismatch:
        raise _unequal(rows) from None


class _BatchCursor(CollatingCursor):
    """Batches of elements that come in blocks of any size.

    What comes in one block is a batch as it is, or is stacked at once. Where more than one block is needed, each is
    copied to its place in the batch as it comes, so that no more is held than the batch itself.
    """

    def __init__(self, context: Context, size: int, drop_remainder: bool) -> None:
        empty = context.arena.empty
        super().__init__(context, size, drop_remainder, lambda blocks: _stacked(blocks, empty))
        # Who takes batches apart gives each as it is, and does well to know how many it will need. Others would make
        # one block of all that they are asked for.
        self._tells_ahead = context.node.input.op.regrouping is not None

    def _gather(self) -> tuple[list[Block], int]:
        ahead = self._ahead if self._tells_ahead else 0
        block = self.feed.take(self._size, self._size + ahead)
        if block is None or block.size == self._size or block.has_failures:
            return ([], 0) if block is None else ([block], block.size)
        example = block[:1].rows()[0]  # of columns many rows would take long to make
        first = spec_of(example)
        like = Likeness.of(example)
        del example  # a view, which would keep the block's slot from being used again
        if like is None:
            return self._gather_more([block])
        count = 0
        stack = self._widened(like, block)
        if stack is None:
            stack = like.stack(self._size, self._context.arena.empty)
        else:
            count, block = block.size, None  # only the stack may look at its slot now
            block = self.feed.take(self._size - count, self._size - count + ahead)
        unlike: SpecMismatch | None = None
        while block is not None:
            if block.has_failures:
                return [block], count + block.size
            if unlike is None:
                i = stack.put_block(count, block)
                if i is not None:
                    unlike = _unequal_at(first, count + i, spec_of(block.rows()[i]))
            count += block.size
            block = None  # its maker's again, who may use its slot for the next one
            if count < self._size:
                block = self.feed.take(self._size - count, self._size - count + ahead)
        if unlike is not None:
            # All elements of the batch are lost, as when they are found to be unlike at its end.
            return [Block.of_rows([Failed(self._context.located(unlike))] * min(1, count), None, True)], count
        if count < self._size:
            stack.cut_short(count, self._context.arena.cut_short)
        return [stack.block(count, None)], count

    def _widened(self, like: Likeness, block: Block) -> Stack | None:
        """A stack that begins with a block's elements where they are; None where there is no room behind them.

        The last batch of an epoch is mostly a short one: its maker may well have used the slot of a whole batch for it.
        """
        arena = self._context.arena
        slots = [arena.widened(column, self._size) for column in block.columns or ()]
        if all(slot is None for slot in slots):
            return None
        assert block.columns is not None
        columns = []
        for slot, column in zip(slots, block.columns, strict=True):
            if slot is None:
                slot = arena.empty((self._size, *column.shape[1:]), column.dtype)
                slot[: block.size] = column
            columns.append(slot)
        return Stack(like, columns)


class _WholeBlockCursor(UnaryCursor):
    """Batches of a source that makes blocks as large as they are asked for: each is a batch as it comes.

    The source's elements are counted here: for small batches a second stage of counting would cost as much as a copy.
    """

    __slots__ = ("_counts", "_drop_remainder", "_has_ended", "_may_have_strings", "_size")

    def __init__(self, context: Context, size: int, drop_remainder: bool) -> None:
        input, self._counts = context.input_uncounted()
        self._may_have_strings = True
        super().__init__(input)
        self._size = size
        self._drop_remainder = drop_remainder
        self._has_ended = False

    def pull(self, n: int) -> Block | None:
        batches: list[Any] = []
        counts = self._counts
        while len(batches) < n and not self._has_ended:
            block = self.input.pull(self._size)
            self._has_ended = block is None or block.size < self._size
            if block is None or (self._drop_remainder and block.size < self._size):
                break
            assert block.columns is not None
            counts.num_elements += block.size
            for column in block.columns:
                counts.num_bytes += column.nbytes
            if self._may_have_strings:
                self._measure_strings(block)
            batches.append(block.structure.unflatten(block.columns))
            if len(batches) == 1:
                n = num_batches(n, batches[0])
        return Block(len(batches), LEAF, None, batches, False, None) if batches else None

    def _measure_strings(self, block: Block) -> None:
        """How large elements with strings in them are is not known before they are seen."""
        assert block.columns is not None
        self._may_have_strings = any(column.dtype.kind == "O" for column in block.columns)
        if self._may_have_strings:
            each = [max(map(leaf_bytes, c)) if c.dtype.kind == "O" else c.nbytes // block.size for c in block.columns]
            self._counts.largest_bytes = max(self._counts.largest_bytes, sum(each))

    def skip(self, n: int) -> int:
        skipped = 0 if self._has_ended else self.input.skip(n * self._size)
        self._has_ended = self._has_ended or skipped < n * self._size
        return batched_cardinality(skipped, self._size, self._drop_remainder)

    def state(self) -> State:
        # As a `Feed` does: other processes may have one element more.
        return END_OF_INPUT if self._has_ended else super().state()

    def restore(self, state: State) -> None:
        self._has_ended = state == END_OF_INPUT
        if not self._has_ended:
            super().restore(state)


def _unequal(rows: list[Any]) -> SpecMismatch:
    """Why elements could not be stacked."""
    first = spec_of(rows[0])
    i, spec = next(((i, spec_of(row)) for i, row in enumerate(rows) if spec_of(row) != first), (0, first))
    return _unequal_at(first, i, spec)


def _unequal_at(first: Any, i: int, spec: Any) -> SpecMismatch:
    got = f"expected elements of equal shape and dtype, got {describe(first)} for element 0 of the batch and "
    return SpecMismatch(f"{got}{describe(spec)} for element {i}; {_advice(first, spec)}")


def _advice(first: Any, other: Any) -> str:
    try:
        merge(first, other)
    except SpecMismatch:
        return "make them of one structure and dtype in a map"
    return "use padded_batch or ragged_batch for elements of unequal length"
