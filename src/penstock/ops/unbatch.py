"""unbatch: the rows of batches, one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import LEAF, Failed, Structure
from ..errors import PlanError, StateError
from ..plan.op import Context, Op
from ..spec import INFINITE, UNKNOWN, Spec, element_bytes, map_specs
from .batches import Piece
from .stacking import leading_dimension, num_rows, unbatched_spec

__all__ = ["Unbatch"]

# Rows that are skipped are loaded by so many: batches that nobody wants must not lie in memory together.
_SKIPPED_AT_ONCE = 1024


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
    def regrouping(self) -> tuple[int, bool] | None:
        return 0, False

    def open(self, context: Context) -> Cursor:
        element = context.node.input.spec.element
        size = None if element_bytes(element) is None else leading_dimension(element)
        return _UnbatchCursor(context, size or 0)


class _UnbatchCursor(Cursor):
    """Cuts batches into rows.

    Where batches come stacked, and the spec says that all have `size` rows, as many are pulled as a demand is sure to
    use up, and are cut as one, without a look at each. Between pulls at most one batch has rows left; it is its
    maker's, who is not asked again before. The position is that of the input before the block at hand, and how many
    elements came since.
    """

    __slots__ = (
        "_batches",
        "_before",
        "_block",
        "_come_stacked",
        "_context",
        "_given",
        "_input",
        "_leaves",
        "_rows",
        "_size",
        "_start",
        "_structure",
    )

    def __init__(self, context: Context, size: int) -> None:
        self._context = context
        self._input = context.input()
        self._size = size
        self._come_stacked = False
        self._forget()

    def _forget(self) -> None:
        self._block: Block | None = None
        self._before: State = None
        self._given = 0
        # Of the block at hand: batches that were not begun, in reverse, and the one being cut.
        self._batches: list[Any] = []
        self._structure = LEAF
        self._leaves: list[Any] = []
        self._rows = self._start = 0

    def pull(self, n: int) -> Block | None:
        part = self._next(n)
        if part is None:
            return None
        return Block.of_rows([part], None, True) if isinstance(part, Failed) else part.as_block()

    def _next(self, n: int) -> Piece | Failed | None:
        """The next 1 to n rows of one batch, or what failed instead; None at the end."""
        failed = self._load(n)
        if failed is not None:
            self._passed(1)
            return failed
        if self._block is None:
            return None
        piece = Piece(self._structure, self._leaves, self._start, min(self._rows, self._start + n))
        self._start = piece.stop
        self._passed(piece.size)
        return piece

    def _load(self, n: int) -> Failed | None:
        """Sees that rows lie ready, or that there is no block at the end; what failed instead."""
        while self._start == self._rows:
            if self._batches:
                failed = self._begin(self._batches.pop())
                if failed is not None:
                    return failed
                continue
            self._forget()
            before = self._input.state()
            block = self._input.pull(max(1, n // self._size) if self._come_stacked else 1)
            if block is None:
                return None
            self._block, self._before = block, before
            columns = block.columns
            self._come_stacked = self._size > 0 and columns is not None
            if columns is not None and _can_merge(columns):
                self._structure, self._leaves = block.structure, [_merged(column) for column in columns]
                self._rows = len(self._leaves[0])
            else:
                self._batches = block.rows()[::-1]
        return None

    def _begin(self, element: Any) -> Failed | None:
        """Lays a batch ready to be cut; what failed instead."""
        if type(element) is Failed:
            return element
        structure = LEAF if type(element) is np.ndarray else Structure.of(element)
        leaves = structure.flatten(element)
        try:
            rows = num_rows(leaves)
        except PlanError as error:
            return Failed(self._context.located(error))
        self._structure, self._leaves, self._rows, self._start = structure, leaves, rows, 0
        return None

    def _passed(self, size: int) -> None:
        """Notes that elements were given: a block that has none left is let go."""
        self._given += size
        if self._start == self._rows and not self._batches:
            self._forget()

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n:
            part = self._next(min(n - skipped, _SKIPPED_AT_ONCE))
            if part is None:
                break
            skipped += 1 if isinstance(part, Failed) else part.size
        return skipped

    def state(self) -> State:
        return [self._input.state(), 0] if self._block is None else [self._before, self._given]

    def restore(self, state: State) -> None:
        before, given = expect_list(state, 2)
        self._input.restore(before)
        if self.skip(given) != given:
            raise StateError(f"the saved position is {given} rows into batches that no longer have them")

    def close(self) -> None:
        self._forget()
        self._input.close()


def _can_merge(columns: list[np.ndarray]) -> bool:
    """Whether stacked batches are one large batch without a copy: all have equally many rows, which lie in sequence."""
    first = columns[0]
    return all(
        column.ndim > 1 and 0 < column.shape[1] == first.shape[1] and column.flags.c_contiguous for column in columns
    )


def _merged(column: np.ndarray) -> np.ndarray:
    return column.reshape(column.shape[0] * column.shape[1], *column.shape[2:])
