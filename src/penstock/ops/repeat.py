"""repeat: the dataset again and again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..order import RepeatOrder, child_epoch
from ..plan.op import Context, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import INFINITE, Spec

__all__ = ["Repeat"]


_TRAITS = Traits(runtime="order", moves_below_map=True, by_place=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Repeat(Op):
    """The input `count` times; without end if `count` is None or negative.

    Each time is an epoch of its own: a shuffle below gives another order, `random_map` other numbers.

    Memory: nothing.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(2).repeat(2)]
    [0, 1, 0, 1]
    """

    count: int | None = None

    def __init__(self, count: int | None = None) -> None:
        # By hand, as for `Node`: one for each dataset inside `flat_map`.
        number = -1 if count is None else argument("count", count)
        self.__dict__["count"] = None if number < 0 else number

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if self.count == 0 or spec.cardinality == 0:
            return spec.with_cardinality(0)
        if self.count is None or spec.cardinality == INFINITE:
            return spec.with_cardinality(INFINITE)
        return spec if spec.cardinality < 0 else spec.with_cardinality(spec.cardinality * self.count)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.count == 1

    def moves_below(self, op: Op) -> bool:
        """Not below what knows its epoch: it would see only one."""
        return not op.traits.keyed

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        return lambda epoch: RepeatOrder(inner, self.count, epoch)

    def open(self, context: Context) -> Cursor:
        return _RepeatCursor(context, self.count)


class _RepeatCursor(Cursor):
    """Opens its input anew for each iteration."""

    __slots__ = ("_context", "_count", "_fruitful", "_input", "_iteration")

    def __init__(self, context: Context, count: int | None) -> None:
        self._context = context
        self._count = count
        self._open(0)

    def _open(self, iteration: int) -> None:
        self._iteration = iteration
        self._fruitful = False
        epoch = child_epoch(self._context.epoch, iteration, self._count)
        self._input = self._context.input(epoch=epoch)

    def pull(self, n: int) -> Block | None:
        while self._count is None or self._iteration < self._count:
            block = self._input.pull(n)
            if block is not None:
                self._fruitful = True
                return block
            if self._count is None and not self._fruitful:
                return None  # repeating nothing for ever would never end
            self._input.close()
            self._open(self._iteration + 1)
        return None

    def skip(self, n: int) -> int:
        skipped = 0
        while self._count is None or self._iteration < self._count:
            step = self._input.skip(n - skipped)
            skipped += step
            self._fruitful = self._fruitful or step > 0
            if skipped == n or (self._count is None and not self._fruitful):
                break
            self._input.close()
            self._open(self._iteration + 1)
        return skipped

    def state(self) -> State:
        return [self._iteration, int(self._fruitful), self._input.state()]

    def restore(self, state: State) -> None:
        iteration, fruitful, below = expect_list(state, 3)
        if iteration != self._iteration:
            self._input.close()
            self._open(iteration)
        self._fruitful = bool(fruitful)
        self._input.restore(below)

    def close(self) -> None:
        self._input.close()
