"""shard: every n-th element."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..errors import BadArgument
from ..order import ShardOrder
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import Spec

__all__ = ["Shard"]


_TRAITS = Traits(runtime="order", moves_below_map=True, by_place=True, needs_index=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Shard(Op):
    """Elements `index`, `index + num_shards`, `index + 2·num_shards`, …

    Sharding is by place: functions below do not run on other shards' elements.

    Memory: nothing.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(7).shard(3, 1)]
    [1, 4]
    """

    num_shards: int
    index: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_shards", argument("num_shards", self.num_shards, at_least=1))
        object.__setattr__(self, "index", argument("index", self.index, at_least=0))
        if self.index >= self.num_shards:
            raise BadArgument(f"index: expected less than num_shards = {self.num_shards}, got {self.index}")

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
        return _ShardCursor(context.input(), self.num_shards, self.index)


class _ShardCursor(UnaryCursor):
    __slots__ = ("_between", "_owed")

    def __init__(self, input: Cursor, num_shards: int, index: int) -> None:
        super().__init__(input)
        self._between = num_shards - 1
        self._owed = index  # others' elements to pass over before the next own one

    def pull(self, n: int) -> Block | None:
        if not self._between:
            return self.input.pull(n)
        rows: list[Any] = []
        while len(rows) < n:
            if self._owed and self.input.skip(self._owed) < self._owed:
                break
            self._owed = 0
            block = self.input.pull(1)
            if block is None:
                break
            rows += block.rows()
            self._owed = self._between
        return Block.of_rows(rows) if rows else None

    def state(self) -> State:
        return [self._owed, self.input.state()]

    def restore(self, state: State) -> None:
        self._owed, below = expect_list(state, 2)
        self.input.restore(below)
