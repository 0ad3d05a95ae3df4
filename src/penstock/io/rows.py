"""Elements in memory as a source: what `window` and `group_by_window` put into the datasets they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..block import MANY_DTYPES, Block
from ..cursor import Cursor
from ..element import LEAF, nbytes_of
from ..inorder import InOrderCursor
from ..leaf import is_dataset, leaf_bytes
from ..memory.arena import Arena
from ..memory.singly import held_in
from ..order import Index
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import UNSEEN, Spec, merge, spec_of

__all__ = ["FromRows", "FromStack"]

# What is smaller gets no slot in the arena.
_SMALL_BYTES = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class FromRows(Op):
    """Some elements that lie in memory already.

    Memory: nothing beyond the elements.
    State: one integer.
    """

    rows: list[Any]
    gives_what_it_holds = True

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        if not self.rows:
            return Spec(UNSEEN, 0)
        first = self.rows[0]
        element = spec_of(first)
        if not _all_alike(first, self.rows):
            for row in self.rows[1:]:
                element = merge(element, spec_of(row))
        return Spec(element, len(self.rows))

    @property
    def traits(self) -> Traits:
        return SOURCE

    @property
    def num_elements(self) -> int:
        return len(self.rows)

    @cached_property
    def held_bytes(self) -> int:
        if self.rows and is_dataset(self.rows[0]):
            return sum(map(nbytes_of, held_in(*self.rows)))  # windows that overlap have elements in common
        return sum(map(nbytes_of, self.rows))

    @property
    def held_elements(self) -> Sequence[Any]:
        return self.rows

    def reader(self, context: Context) -> Reader:
        return _RowReader(self.rows)

    def open(self, context: Context) -> Cursor:
        return InOrderCursor(_RowReader(self.rows), len(self.rows))

    def describe(self) -> str:
        return f"rows({len(self.rows)})"


def _all_alike(first: Any, rows: Sequence[Any]) -> bool:
    """Whether all are arrays, scalars or texts of one shape and dtype, or tuples or dicts of such, as is the rule.

    Seen without making a spec of each.
    """
    kind = type(first)
    if kind is np.ndarray:
        shape, dtype = first.shape, first.dtype
        return all(type(row) is np.ndarray and row.shape == shape and row.dtype == dtype for row in rows)
    if not all(type(row) is kind for row in rows):
        return False
    if kind is tuple:
        count = len(first)
        return all(len(row) == count for row in rows) and all(
            _all_alike(part, [row[i] for row in rows]) for i, part in enumerate(first)
        )
    if kind is dict:
        keys = first.keys()
        if not all(row.keys() == keys for row in rows):
            return False
        return all(_all_alike(first[key], [row[key] for row in rows]) for key in keys)
    return kind is bytes or (isinstance(first, np.number) and first.dtype.kind not in MANY_DTYPES)


class _RowReader:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def read(self, index: Index) -> Block:
        rows = self._rows[index] if isinstance(index, slice) else [self._rows[i] for i in index.tolist()]
        return Block.of_rows(rows, has_failures=False)


@dataclasses.dataclass(frozen=True, eq=False)
class FromStack(Op):
    """Some elements of one leaf each that lie in memory already, stacked.

    Memory: nothing beyond the elements.
    State: one integer.
    """

    column: np.ndarray
    known: Spec

    def __init__(self, column: np.ndarray, known: Spec) -> None:
        fields = self.__dict__
        fields["column"] = column
        fields["known"] = known

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self.known

    @property
    def traits(self) -> Traits:
        return SOURCE

    @property
    def num_elements(self) -> int:
        return self.known.cardinality

    @property
    def held_bytes(self) -> int:
        return leaf_bytes(self.column)

    @property
    def held_elements(self) -> Sequence[Any]:
        return (self.column,)

    def reader(self, context: Context) -> Reader:
        return _StackReader(self.column, context.arena)

    def read_all(self, context: Context) -> Block:
        return _copied(self.column, context.arena)

    def open(self, context: Context) -> Cursor:
        return InOrderCursor(_StackReader(self.column, context.arena), len(self.column))

    def describe(self) -> str:
        return f"rows({len(self.column)})"


def _copied(part: np.ndarray, arena: Arena) -> Block:
    """A copy: the elements are no array of the user's, so a view would hide from the ledger what it pins."""
    if part.nbytes < _SMALL_BYTES:
        copy = part.copy()
    else:
        copy = arena.empty(part.shape, part.dtype)
        copy[...] = part
    return Block(len(copy), LEAF, [copy], None, False, None)


class _StackReader:
    __slots__ = ("_arena", "_column")

    def __init__(self, column: np.ndarray, arena: Arena) -> None:
        self._column = column
        self._arena = arena

    def read(self, index: Index) -> Block:
        part = self._column[index]
        if isinstance(index, slice):
            return _copied(part, self._arena)
        return Block(len(part), LEAF, [part], None, False, None)  # a copy already
