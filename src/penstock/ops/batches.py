"""Batches in pieces of any size: `Piece`, some rows of one, and `Batches`, which `unbatch` and `rebatch` read with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import State, expect_list
from ..element import LEAF, Failed, Structure, nbytes_of
from ..errors import OverBudget, PlanError, StateError
from ..plan.op import Context
from ..spec import element_bytes
from .stacking import leading_dimension, num_rows, slice_rows, split_rows

__all__ = ["Batches", "Piece"]

# Rows that are skipped are loaded by so many: batches that nobody wants must not lie in memory together.
_SKIPPED_AT_ONCE = 1024
# Batches are pulled together, and stacked for cutting, only up to so much in all.
_JOINED_BYTES = 1 << 16


class Piece(NamedTuple):
    """Some consecutive rows of one batch."""

    structure: Structure
    leaves: list[Any]
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def cut(self) -> list[Any]:
        """The leaves, cut to these rows: views wherever they can be."""
        return [slice_rows(leaf, self.start, self.stop) for leaf in self.leaves]

    def as_block(self) -> Block:
        """The rows as elements."""
        if all(type(leaf) is np.ndarray for leaf in self.leaves):
            return Block.of_columns(self.structure, self.cut(), self.size)
        by_leaf = [split_rows(leaf, self.start, self.stop) for leaf in self.leaves]
        return Block.of_rows([self.structure.unflatten(leaves) for leaves in zip(*by_leaf, strict=True)])


class Batches:
    """Cuts batches into pieces.

    As many batches are pulled as a demand will use up: where they come stacked by the rows that the spec says each has,
    else by those that the last one had, and only while they are small. They are cut as one, without a look at each;
    those that do not come stacked are, first. Batches that have rows left are their maker's, who is not asked again
    before. The position is that of the input before the block at hand, and how many rows and failures came since.
    """

    __slots__ = (
        "_batches",
        "_before",
        "_block",
        "_come_stacked",
        "_context",
        "_given",
        "_held_bytes",
        "_input",
        "_joined_bytes",
        "_last_bytes",
        "_last_rows",
        "_leaves",
        "_rows",
        "_size",
        "_start",
        "_structure",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._input = context.input()
        element = context.node.input.spec.element
        self._size = 0 if element_bytes(element) is None else leading_dimension(element) or 0
        self._come_stacked = False
        # Of one of the batches before.
        self._last_rows = self._last_bytes = 0
        self._joined_bytes = min(_JOINED_BYTES, context.share.budget_bytes // 64)
        self._held_bytes = 0
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

    def next(self, n: int, demand: int = 1) -> Piece | Failed | None:
        """The next 1 to n rows of one batch, or what failed instead; None at the end.

        `demand`, if that is more, is how many rows will be taken from here on: batches are pulled together for them.
        """
        failed = self._load(max(n, demand))
        if failed is not None:
            self._passed(1)
            return failed
        if self._block is None:
            return None
        piece = Piece(self._structure, self._leaves, self._start, min(self._rows, self._start + n))
        self._start = piece.stop
        self._passed(piece.size)
        return piece

    def no_rows(self) -> Piece | Failed | None:
        """None of the rows of the next batch, or what failed instead; None at the end."""
        failed = self._load(1)
        if failed is not None:
            self._passed(1)
            return failed
        return None if self._block is None else Piece(self._structure, self._leaves, self._start, self._start)

    def _load(self, demand: int) -> Failed | None:
        """Sees that rows lie ready, or that there is no block at the end; what failed instead."""
        while self._start == self._rows:
            if self._batches:
                failed = self._begin(self._batches.pop())
                if failed is not None:
                    return failed
                continue
            self._forget()
            before = self._input.state()
            block = self._input.pull(self._num_wanted(demand))
            if block is None:
                return None
            self._come_stacked = self._size > 0 and block.columns is not None
            block = self._stacked(block)
            self._block, self._before = block, before
            columns = block.columns
            if columns is not None and _can_merge(columns):
                self._structure, self._leaves = block.structure, [_merged(column) for column in columns]
                self._rows, self._last_rows = len(self._leaves[0]), columns[0].shape[1]
            else:
                self._batches = block.rows()[::-1]
        return None

    def _num_wanted(self, demand: int) -> int:
        """How many batches to pull for so many rows."""
        if self._come_stacked:
            return max(1, demand // self._size)
        if not self._last_rows:
            return 1
        return max(1, min(demand // self._last_rows, self._joined_bytes // max(1, self._last_bytes)))

    def _stacked(self, block: Block) -> Block:
        """The same batches stacked, where they are small and alike: one copy, instead of a look at each."""
        if block.columns is not None or block.has_failures:
            return block
        self._last_bytes = nbytes_of(block.rows()[0])
        if block.size == 1 or self._last_bytes * block.size > self._joined_bytes:
            return block
        try:
            return concat_blocks([block], self._context.arena.empty) or block
        except OverBudget:  # it was a luxury
            return block

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
        self._last_rows = rows
        return None

    def _passed(self, size: int) -> None:
        """Notes that rows were given: a block that has none left is let go."""
        self._given += size
        if self._start == self._rows and not self._batches:
            self._forget()

    def hold(self, piece: Piece) -> None:
        """Puts what a piece lies in on this stage's account until `release`: others will be loaded meanwhile."""
        block = Block.of_rows([piece.structure.unflatten(piece.leaves)], has_failures=False)
        arena, share = self._context.arena, self._context.share
        arena.take_over(block)
        nbytes = arena.unaccounted_bytes(block)
        share.charge(nbytes)
        self._held_bytes += nbytes

    def release(self) -> None:
        """Nobody uses the pieces any longer that were held."""
        if self._held_bytes:
            self._context.share.discharge(self._held_bytes)
            self._held_bytes = 0

    def skip(self, n: int) -> int:
        """Moves on by n rows; returns how many there were."""
        skipped = 0
        while skipped < n:
            part = self.next(min(n - skipped, _SKIPPED_AT_ONCE))
            if part is None:
                break
            skipped += 1 if isinstance(part, Failed) else part.size
        return skipped

    def state(self) -> State:
        return [self._input.state(), 0] if self._block is None else [self._before, self._given]

    def restore(self, state: State) -> None:
        before, given = expect_list(state, 2)
        self._forget()
        self._input.restore(before)
        if self.skip(given) != given:
            raise StateError(f"the saved position is {given} rows into batches that no longer have them")

    def close(self) -> None:
        self._forget()
        self.release()
        self._input.close()


def _can_merge(columns: list[np.ndarray]) -> bool:
    """Whether stacked batches are one large batch without a copy: all have equally many rows, which lie in sequence."""
    first = columns[0]
    return all(
        column.ndim > 1 and 0 < column.shape[1] == first.shape[1] and column.flags.c_contiguous for column in columns
    )


def _merged(column: np.ndarray) -> np.ndarray:
    return column.reshape(column.shape[0] * column.shape[1], *column.shape[2:])
