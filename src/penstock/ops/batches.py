"""Batches in pieces of any size: `Piece`, some rows of one, and `Batches`, which `rebatch` reads with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..block import Block
from ..cursor import Feed, State, expect_list
from ..element import Failed, Structure
from ..errors import PlanError, StateError
from ..plan.op import Context
from .stacking import num_rows, slice_rows, split_rows

__all__ = ["Batches", "Piece"]


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
    """Reads batches one at a time and gives their rows in pieces.

    A batch is on the ledger until its last rows were taken and `release` was called, except what lies in a slot of the
    arena or is the user's own: that is accounted for already. The position is that before the batch at hand, and a row
    number.
    """

    __slots__ = ("_before", "_charged", "_context", "_feed", "_leaves", "_rows", "_spent", "_start", "_structure")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._feed = Feed(context.input())
        self._charged = 0
        self._spent = 0
        self._forget()

    def _forget(self) -> None:
        self._structure: Structure | None = None
        self._leaves: list[Any] = []
        self._rows = 0
        self._start = 0
        self._before: State = None
        self._spent += self._charged
        self._charged = 0

    def load(self) -> Structure | Failed | None:
        """Makes sure that a batch with rows left is at hand; what failed instead, or None at the end."""
        while self._structure is None:
            before = self._feed.state()
            element = self._feed.next()
            if element is Feed.END:
                return None
            if type(element) is Failed:
                return element
            structure = Structure.of(element)
            leaves = structure.flatten(element)
            try:
                rows = num_rows(leaves)
            except PlanError as error:
                return Failed(self._context.located(error))
            if rows:
                block = Block.of_rows([element], has_failures=False)
                self._context.arena.take_over(block)  # its maker will be asked for the next one
                charge = self._context.arena.unaccounted_bytes(block)
                self._context.share.charge(charge)
                self._charged = charge
                self._structure, self._leaves, self._rows, self._before = structure, leaves, rows, before
        return self._structure

    def take(self, n: int) -> Piece:
        """Up to n rows of the batch at hand."""
        assert self._structure is not None
        start, stop = self._start, min(self._rows, self._start + n)
        piece = Piece(self._structure, self._leaves, start, stop)
        self._start = stop
        if stop == self._rows:
            self._forget()
        return piece

    def release(self) -> None:
        """Takes batches that have no rows left off the ledger: nobody holds their pieces any longer."""
        if self._spent:
            self._context.share.discharge(self._spent)
            self._spent = 0

    def state(self) -> State:
        return [self._feed.state(), 0] if self._structure is None else [self._before, self._start]

    def restore(self, state: State) -> None:
        before, start = expect_list(state, 2)
        self._feed.restore(before)
        if start:
            loaded = self.load()
            if not isinstance(loaded, Structure) or self._rows <= start:
                raise StateError(f"the saved position is {start} rows into a batch that no longer has them")
            self._start = start

    def close(self) -> None:
        self._forget()
        self.release()
        self._feed.close()
