"""take: the first elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed
from ..order import TakeOrder
from ..plan.node import Node
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import INFINITE, Spec

__all__ = ["Take"]


_TRAITS = Traits(runtime="order", moves_below_map=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Take(Op):
    """The first `count` elements; all of them if `count` is negative.

    An element that fails does not count, as in tf.data; it does where a shuffle draws from what was taken.

    Memory: nothing.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(10).take(3)]
    [0, 1, 2]
    """

    count: int
    elastic: bool = dataclasses.field(default=False, kw_only=True, repr=False)

    places: bool = dataclasses.field(default=False, kw_only=True, repr=False)

    internal = ("elastic", "places")

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", argument("count", self.count))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if self.count < 0:
            return spec
        if spec.cardinality == INFINITE:
            return spec.with_cardinality(self.count)
        return spec.with_cardinality(min(self.count, spec.cardinality))

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.count < 0 or 0 <= spec.cardinality <= self.count

    @property
    def counts_successes(self) -> bool:
        return self.elastic

    def moves_below(self, op: Op) -> bool:
        # Failures above are told to an elastic take from its consumer's thread: it stays on that side of a boundary.
        return not (self.elastic and op.traits.run_ahead)

    def moved_below(self, op: Op) -> Op:
        return self if self.places or op.traits.runtime != "elementwise" else dataclasses.replace(self, elastic=True)

    def by_places(self) -> Op:
        return dataclasses.replace(self, places=True)

    def merged_with(self, inner: Node) -> Op | None:
        other = inner.op
        if isinstance(other, Take) and self._manner() == other._manner() and min(self.count, other.count) >= 0:
            return dataclasses.replace(self, count=min(self.count, other.count))
        return None

    def _manner(self) -> tuple[bool, bool]:
        return (self.elastic, self.places)

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        return lambda epoch: TakeOrder(inner(epoch), self.count, self.elastic)

    def open(self, context: Context) -> Cursor:
        return _TakeCursor(context.input(), self.count, self.elastic, self.places)


class _TakeCursor(UnaryCursor):
    __slots__ = ("_count", "_elastic", "_given", "_places")

    def __init__(self, input: Cursor, count: int, elastic: bool, places: bool) -> None:
        super().__init__(input)
        self._count = count
        self._elastic = elastic
        self._places = places
        self._given = 0  # elements that count

    def pull(self, n: int) -> Block | None:
        left = n if self._count < 0 else min(n, self._count - self._given)
        block = self.input.pull(left) if left else None
        if block is not None:
            self._given += block.size
            if block.has_failures and not self._places:
                self._given -= sum(type(row) is Failed for row in block.rows())
        return block

    def lost(self, n: int) -> None:
        if self._elastic:
            self._given -= n

    def state(self) -> State:
        return [self._given, self.input.state()]

    def restore(self, state: State) -> None:
        self._given, below = expect_list(state, 2)
        self.input.restore(below)
