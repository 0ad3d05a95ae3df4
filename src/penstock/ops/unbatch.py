"""unbatch: the rows of batches, one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..block import Block
from ..cursor import Cursor, State
from ..element import Failed
from ..plan.op import Context, Op
from ..plan.traits import TAKES_ROWS, Traits
from ..spec import INFINITE, UNKNOWN, Spec, map_specs
from .batches import Batches
from .stacking import leading_dimension, unbatched_spec

__all__ = ["Unbatch"]


@dataclasses.dataclass(frozen=True)
class Unbatch(Op):
    """Splits each element along its first axis: the inverse of `batch`.

    All components of an element must have the same leading dimension, which may differ from element to element; where
    it is 0 the element gives nothing. Rows are views of the batch.

    Memory: one element of its input.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(5).batch(2).unbatch()]
    [0, 1, 2, 3, 4]
    """

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        element = map_specs(unbatched_spec, spec.element)
        size = leading_dimension(spec.element)
        if spec.cardinality >= 0:
            return Spec(element, spec.cardinality * size if size else UNKNOWN)
        return Spec(element, INFINITE if spec.cardinality == INFINITE else UNKNOWN)

    @property
    def traits(self) -> Traits:
        return TAKES_ROWS

    @property
    def regrouping(self) -> tuple[int, bool] | None:
        return 0, False

    def open(self, context: Context) -> Cursor:
        return _UnbatchCursor(context)


class _UnbatchCursor(Cursor):
    __slots__ = ("_batches",)

    def __init__(self, context: Context) -> None:
        self._batches = Batches(context)

    def pull(self, n: int) -> Block | None:
        part = self._batches.next(n)
        if part is None:
            return None
        return Block.of_rows([part], None, True) if isinstance(part, Failed) else part.as_block()

    def skip(self, n: int) -> int:
        return self._batches.skip(n)

    def state(self) -> State:
        return self._batches.state()

    def restore(self, state: State) -> None:
        self._batches.restore(state)

    def close(self) -> None:
        self._batches.close()
