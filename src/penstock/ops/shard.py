"""shard: every n-th element."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..errors import BadArgument
from ..order import ShardOrder
from ..plan.node import Node, Origin
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import Spec
from .gathering import Gathering

__all__ = ["Shard"]

# The place of a shard's element number 2³¹, in a dataset without end, is still an int64.
_MOST_SHARDS = 1 << 32
_TRAITS = Traits(runtime="order", moves_below_map=True, by_place=True, needs_index=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Shard(Op):
    """Elements `index`, `index + num_shards`, `index + 2·num_shards`, …

    Sharding is by place: functions below do not run on other shards' elements. Of a source that is not read at any
    place (compressed files, text, tables) each shard reads all files for its part of the elements. There `by="file"`
    lets it read its part of the files: which elements a shard has is up to their sizes then. Shards have no element in
    common, are everything together, and are as much work each.

    Args:
        num_shards: How many shards there are, 2³² at most.
        index: Which of them this is, from 0.
        by: "element": every `num_shards`-th one, as in tf.data. "file": files right below, or below maps, are dealt out
            by size, those too that `num_parallel_reads` reads in turn. Some are whole; one on the border of two shards,
            or of more if there are more shards than files, is dealt out element by element. A source that is read at
            any place is sharded by element all the same.

    Memory: nothing.
    State: one integer and its input's; with `by="file"` its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(7).shard(3, 1)]
    [1, 4]
    """

    num_shards: int
    index: int
    by: str = dataclasses.field(default="element", kw_only=True)

    def __post_init__(self) -> None:
        if self.by not in ("element", "file"):
            raise BadArgument(f"by: expected 'element' or 'file', got {self.by!r}")
        object.__setattr__(self, "num_shards", argument("num_shards", self.num_shards, at_least=1))
        object.__setattr__(self, "index", argument("index", self.index, at_least=0))
        if self.num_shards > _MOST_SHARDS:
            raise BadArgument(f"num_shards: expected at most {_MOST_SHARDS}, got {self.num_shards}")
        if self.index >= self.num_shards:
            raise BadArgument(f"index: expected less than num_shards = {self.num_shards}, got {self.index}")

    def placed_on(self, input: Node, origin: Origin) -> Node:
        if self.by == "element" or self.num_shards == 1:
            return super().placed_on(input, origin)
        if len(input.inputs) == 1 and input.op.traits.one_to_one and input.op.traits.pure:
            return input.on(self.placed_on(input.input, origin))
        shard = input.op.placed_file_shard(input, self.num_shards, self.index)
        return super().placed_on(input, origin) if shard is None else shard

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if spec.cardinality < 0:
            return spec
        return spec.with_cardinality(max(0, -(-(spec.cardinality - self.index) // self.num_shards)))

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.num_shards == 1

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        return lambda epoch: ShardOrder(inner(epoch), self.num_shards, self.index)

    def open(self, context: Context) -> Cursor:
        return _ShardCursor(context, self.num_shards, self.index)


class _ShardCursor(UnaryCursor):
    __slots__ = ("_between", "_gathering", "_owed")

    def __init__(self, context: Context, num_shards: int, index: int) -> None:
        super().__init__(context.input())
        self._gathering = Gathering(context)
        self._between = num_shards - 1
        self._owed = index  # others' elements to pass over before the next own one

    def pull(self, n: int) -> Block | None:
        if not self._between:
            return self.input.pull(n)
        self._gathering.release()
        rows: list[Any] = []
        block: Block | None = None
        while len(rows) < n and (block is None or self._gathering.try_keep(block)):
            if self._owed and self.input.skip(self._owed) < self._owed:
                break
            self._owed = 0
            block = self.input.pull(1)
            if block is None:
                break
            rows += block.rows()
            self._owed = self._between
        return Block.of_rows(rows) if rows else None

    def close(self) -> None:
        self._gathering.release()
        super().close()

    def state(self) -> State:
        return [self._owed, self.input.state()]

    def restore(self, state: State) -> None:
        self._owed, below = expect_list(state, 2)
        self.input.restore(below)
