"""skip: all but the first elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..order import RangeOrder, SkipOrder
from ..plan.node import Node
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import Spec

__all__ = ["Skip"]


_TRAITS = Traits(runtime="order", moves_below_map=True, by_place=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Skip(Op):
    """All but the first `count` elements; none at all if `count` is negative.

    Skipping is by place: functions below do not run on what is skipped, and an element that would fail counts.

    Memory: nothing.
    State: one bit and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(5).skip(3)]
    [3, 4]
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", argument("count", self.count))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if self.count < 0:
            return spec.with_cardinality(0)
        return spec if spec.cardinality < 0 else spec.with_cardinality(max(0, spec.cardinality - self.count))

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.count == 0

    def merged_with(self, inner: Node) -> Op | None:
        if isinstance(inner.op, Skip) and min(self.count, inner.op.count) >= 0:
            return Skip(self.count + inner.op.count)
        return None

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        if self.count < 0:
            return lambda epoch: RangeOrder(0)
        return lambda epoch: SkipOrder(inner(epoch), self.count)

    def open(self, context: Context) -> Cursor:
        return _SkipCursor(context.input(), self.count)


class _SkipCursor(UnaryCursor):
    __slots__ = ("_count", "_skipped")

    def __init__(self, input: Cursor, count: int) -> None:
        super().__init__(input)
        self._count = count
        self._skipped = False

    def pull(self, n: int) -> Block | None:
        if self._count < 0:
            return None
        self._begin()
        return self.input.pull(n)

    def _begin(self) -> None:
        if not self._skipped:
            self._skipped = True
            self.input.skip(self._count)

    def skip(self, n: int) -> int:
        if self._count < 0:
            return 0
        self._begin()
        return self.input.skip(n)

    def state(self) -> State:
        return [int(self._skipped), self.input.state()]

    def restore(self, state: State) -> None:
        skipped, below = expect_list(state, 2)
        self._skipped = bool(skipped)
        self.input.restore(below)
