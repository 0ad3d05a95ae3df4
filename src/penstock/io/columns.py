"""Columns: how rows of one array are read, by the kind of array it is.

A column gives rows that lie side by side with `view`, and scattered ones with `pick`, which is told more indices than
it is to read now: the rows that will be next are asked for before they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from .._native import gather
from ..block import Block
from ..element import Structure
from ..memory.arena import Arena
from ..order import Index

__all__ = ["Column", "ColumnReader", "column_of"]


class Column(Protocol):
    """Rows of one array."""

    def view(self, part: slice) -> np.ndarray:
        """Rows that lie side by side: without a copy where that is possible."""

    def pick(self, index: np.ndarray, start: int, size: int) -> np.ndarray:
        """The rows `index[start : start + size]`; those behind are likely to be picked next."""


def column_of(array: np.ndarray, arena: Arena) -> Column:
    """The column of an array that is not of text."""
    plain = array.view(np.ndarray)  # a memmap's own slicing is slow
    plain.flags.writeable = False
    if plain.dtype.hasobject:
        return _ObjectColumn(plain)
    return _PlainColumn(plain, arena) if plain.flags.c_contiguous else _StridedColumn(plain, arena)


class _PlainColumn:
    """Scattered rows are gathered into a slot."""

    __slots__ = ("_arena", "_make", "array")

    def __init__(self, array: np.ndarray, arena: Arena) -> None:
        self.array = array
        self._arena = arena
        self._make: Callable[[int], np.ndarray] | None = None  # most columns that are opened are read in order

    def view(self, part: slice) -> np.ndarray:
        return self.array[part]

    def pick(self, index: np.ndarray, start: int, size: int) -> np.ndarray:
        slot = (self._make or self._maker())(size)
        gather(self.array, index, start, slot)
        return slot

    def _maker(self) -> Callable[[int], np.ndarray]:
        self._make = self._arena.maker(self.array.shape[1:], self.array.dtype)
        return self._make


class _StridedColumn(_PlainColumn):
    """Rows that are not in one piece each."""

    __slots__ = ()

    def pick(self, index: np.ndarray, start: int, size: int) -> np.ndarray:
        slot = (self._make or self._maker())(size)
        # clip: the indices are ours and in range, and any other mode makes take() go through a copy.
        return self.array.take(index[start : start + size], 0, slot, "clip")


class _ObjectColumn:
    """Rows are references to the user's objects."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def view(self, part: slice) -> np.ndarray:
        return self._array[part]

    def pick(self, index: np.ndarray, start: int, size: int) -> np.ndarray:
        return self._array.take(index[start : start + size], 0)


class ColumnReader:
    """Reads rows of columns: a read-only view for a slice, one gather into a reused slot for indices."""

    def __init__(self, structure: Structure, columns: list[np.ndarray], arena: Arena) -> None:
        self._structure = structure
        self._columns = [column_of(column, arena) for column in columns]

    def read(self, index: Index) -> Block:
        if not isinstance(index, slice):
            return self.gather(index, 0, index.size)
        columns = [column.view(index) for column in self._columns]
        return Block(index.stop - index.start, self._structure, columns, None, False, None)

    def gather(self, index: np.ndarray, start: int, size: int) -> Block:
        columns: list[np.ndarray] = []
        for column in self._columns:  # not a comprehension: that is a call, which small batches feel
            columns.append(column.pick(index, start, size))
        return Block(size, self._structure, columns, None, False, None)
