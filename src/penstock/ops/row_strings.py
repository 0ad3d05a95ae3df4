"""Rows of numbers as strings of bytes: one object each, where a tuple of fifty numbers is fifty-one.

Tables give their rows stacked by column, generators as tuples or dicts. Who must hold rows one by one, and for long,
holds a string of each, and makes columns of some of them again: that takes a fraction of the memory and of the time.

They are written and read some at a time, so that there is never much of a block in both forms at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block import MANY_DTYPES, Block
from ..element import Failed, Structure
from ..errors import SpecMismatch
from ..memory.singly import are_alike

__all__ = ["RowStrings"]

# Larger rows cost more to copy than their objects do.
_MOST_BYTES = 2048
# What is written or read at a time.
_PIECE_BYTES = 16 << 10


class RowStrings:
    """How the rows of one table are written. Elements that are byte strings themselves are never written like this."""

    __slots__ = ("_dtype", "_dtypes", "_structure", "_types")

    def __init__(self, structure: Structure, dtype: np.dtype[Any], types: list[type]) -> None:
        self._structure = structure
        self._dtype = dtype
        self._types = types  # of the leaves of a row that is not stacked
        # Of those types one stands for many dtypes: these are compared, too, which takes longer.
        self._dtypes = [(i, dtype[i]) for i in range(len(types)) if dtype[i].kind in MANY_DTYPES]

    @classmethod
    def of(cls, block: Block) -> RowStrings | None:
        """That for rows like the first of these; None where it does not pay."""
        columns = block.columns
        if columns is None:
            first = block.rows()[0]
            structure = Structure.of(first)
            leaves = [] if type(first) is Failed else structure.flatten(first)
            if not all(isinstance(leaf, np.generic) for leaf in leaves):
                return None
            columns, types = [np.asarray(leaf)[None] for leaf in leaves], list(map(type, leaves))
        else:
            structure, types = block.structure, [column.dtype.type for column in columns]
            if not are_alike(block):
                return None
        if len(columns) < 2:
            return None
        dtype = _row_dtype(columns)
        return cls(structure, dtype, types) if 0 < dtype.itemsize <= _MOST_BYTES else None

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return self._dtype.itemsize

    def written(self, block: Block) -> list[Any]:
        """The rows of a block; those that are not like the first stay as they are."""
        columns = block.columns
        if columns is None:
            rows = block.rows()
            leaves = [self._leaves_of(row) for row in rows]
            strings = iter(self._strings(np.array([row for row in leaves if row is not None], self._dtype)))
            return [row if few is None else next(strings) for row, few in zip(rows, leaves, strict=True)]
        if not self._structure.same_layout(block.structure) or _row_dtype(columns) != self._dtype:
            return list(map(self._as_it_is, block.rows()))
        table = np.empty(block.size, self._dtype)
        for name, column in zip(self._dtype.names or (), columns, strict=True):
            table[name] = column
        return self._strings(table)

    def _strings(self, table: np.ndarray) -> list[bytes]:
        text, width = table.view(np.uint8).data, self.width
        return [bytes(text[start : start + width]) for start in range(0, len(text), width)]

    def _leaves_of(self, row: Any) -> tuple[Any, ...] | None:
        try:
            leaves = self._structure.flatten(row)
        except SpecMismatch:
            leaves = []
        # Of the same types: others would be cast, and come out as something else.
        if list(map(type, leaves)) == self._types and all(leaves[i].dtype == dtype for i, dtype in self._dtypes):
            return tuple(leaves)
        self._as_it_is(row)
        return None

    def _as_it_is(self, row: Any) -> Any:
        if type(row) is bytes:  # nobody could tell it from what was written
            raise SpecMismatch(f"expected elements like the first ones, {self._structure}, got a byte string")
        return row

    @property
    def num_at_once(self) -> int:
        """How many rows are written or read at a time."""
        return max(1, _PIECE_BYTES // self.width)

    def read(self, rows: list[Any]) -> Block:
        """The block of these rows; some may be elements that were left as they are. Empties the list."""
        are_strings = [type(row) is bytes for row in rows]
        others = [row for row in rows if type(row) is not bytes]
        fields = [self._dtype[i] for i in range(len(self._types))]
        size, start = sum(are_strings), 0
        columns = [np.empty((size, *field.shape), field.base) for field in fields]
        rows.reverse()
        while rows:
            piece = [row for row in (rows.pop() for _ in range(min(len(rows), self.num_at_once))) if type(row) is bytes]
            table = np.frombuffer(b"".join(piece), self._dtype)
            for name, column in zip(self._dtype.names or (), columns, strict=True):
                column[start : start + len(piece)] = table[name]
            start += len(piece)
        block = Block.of_columns(self._structure, columns, size)
        if not others:
            return block
        elements, left = iter(block.rows()), iter(others)
        return Block.of_rows([next(elements if is_string else left) for is_string in are_strings])


def _row_dtype(columns: list[np.ndarray]) -> np.dtype[Any]:
    return np.dtype([(f"f{i}", column.dtype, column.shape[1:]) for i, column in enumerate(columns)])
