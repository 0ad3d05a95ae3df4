"""take_while: the elements before the first that a predicate refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..plan.op import Context, Op
from ..plan.traits import Traits
from ..spec import UNKNOWN, Spec
from .calling import check_callable
from .few_at_a_time import FewAtATime
from .predicate import Predicate

__all__ = ["TakeWhile"]


_TRAITS = Traits(passes_columns=True, ends_by_value=True)


@dataclasses.dataclass(frozen=True)
class TakeWhile(Op):
    """The elements up to the first for which `predicate` is false.

    Args:
        predicate: A function of an element that returns one boolean. A tuple element is unpacked into arguments.

    Memory: nothing.
    State: two integers and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(10).take_while(lambda x: x < 3)]
    [0, 1, 2]
    """

    predicate: Callable[..., Any]

    def __post_init__(self) -> None:
        check_callable("predicate", self.predicate)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0].with_cardinality(UNKNOWN)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def open(self, context: Context) -> Cursor:
        return _TakeWhileCursor(context.input(), Predicate(self.predicate, context))


class _TakeWhileCursor(UnaryCursor):
    __slots__ = ("_ended", "_place", "_predicate")

    def __init__(self, input: Cursor, predicate: Predicate) -> None:
        super().__init__(FewAtATime(input))
        self._predicate = predicate
        self._place = 0
        self._ended = False

    def pull(self, n: int) -> Block | None:
        block = None if self._ended else self.input.pull(n)
        if block is None:
            return None
        rows: list[Any] = []
        failed = False
        for i, row in enumerate(block.rows()):
            answer = self._predicate.answer(row, self._place + i, block, i)
            if answer is False:
                self._ended = True
                break
            failed = failed or answer is not True
            rows.append(row if answer is True else answer)
        self._place += block.size
        if not rows:
            return None
        if failed or block.columns is None:
            return Block.of_rows(rows, has_failures=failed)
        return Block.of_columns(block.structure, [column[: len(rows)] for column in block.columns], len(rows))

    def state(self) -> State:
        return [int(self._ended), self._place, self.input.state()]

    def restore(self, state: State) -> None:
        ended, self._place, below = expect_list(state, 3)
        self._ended = bool(ended)
        if not ended:
            self.input.restore(below)
