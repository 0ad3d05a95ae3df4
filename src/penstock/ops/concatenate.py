"""concatenate: one dataset after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..errors import BadType
from ..leaf import is_dataset
from ..plan.op import Context, Op
from ..spec import INFINITE, UNKNOWN, Spec, merge
from .weaving import unnumbered

__all__ = ["Concatenate"]


@dataclasses.dataclass(frozen=True)
class Concatenate(Op):
    """The elements of this dataset, then those of `dataset`.

    Structures and dtypes must agree; shapes need not. The second dataset is opened when the first has ended.

    Args:
        dataset: The dataset that follows.

    Memory: nothing.
    State: one integer, and that of the input which is read.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(2).concatenate(ps.Dataset.range(7, 9))]
    [0, 1, 7, 8]
    """

    @classmethod
    def of(cls, self: Any, dataset: Any) -> tuple[Concatenate, list[Any]]:
        """The operator, and the datasets it reads from."""
        if not is_dataset(dataset):
            raise BadType(f"dataset: expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
        return cls(), [self, dataset]

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        first, second = inputs
        counts = (first.cardinality, second.cardinality)
        if INFINITE in counts:
            cardinality = INFINITE
        else:
            cardinality = UNKNOWN if UNKNOWN in counts else sum(counts)
        return Spec(merge(first.element, second.element), cardinality)

    def open(self, context: Context) -> Cursor:
        return _ConcatenateCursor(context)


class _ConcatenateCursor(Cursor):
    __slots__ = ("_context", "_input", "_is_last", "_which")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open(0)

    def _open(self, which: int) -> None:
        self._which = which
        self._is_last = which == len(self._context.node.inputs) - 1
        self._input = self._context.input(which)

    def _next(self) -> None:
        self._input.close()
        self._open(self._which + 1)

    def pull(self, n: int) -> Block | None:
        while (block := self._input.pull(n)) is None:
            if self._is_last:
                return None
            self._next()
        return unnumbered(block)  # positions number the elements of one input only

    def skip(self, n: int) -> int:
        skipped = self._input.skip(n)
        while skipped < n and not self._is_last:
            self._next()
            skipped += self._input.skip(n - skipped)
        return skipped

    def state(self) -> State:
        return [self._which, self._input.state()]

    def restore(self, state: State) -> None:
        which, below = expect_list(state, 2)
        if which != self._which:
            self._input.close()
            self._open(which)
        self._input.restore(below)

    def close(self) -> None:
        self._input.close()
