"""Rows of numbers as strings of bytes: one object each, where a tuple of fifty numbers is fifty-one.

Tables give their rows stacked by column, generators as tuples or dicts. Who must hold rows one by one, and for long,
holds a string of each, and makes columns of some of them again: that takes a tenth of the memory and of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure
from ..errors import SpecMismatch
from ..memory.singly import are_alike

__all__ = ["RowStrings"]

# Larger rows cost more to copy than their objects do.
_MOST_BYTES = 2048


class RowStrings:
    """How the rows of one table are written. Elements that are byte strings themselves are never written like this."""

    __slots__ = ("_dtype", "_structure", "_types")

    def __init__(self, structure: Structure, dtype: np.dtype[Any], types: list[type]) -> None:
        self._structure = structure
        self._dtype = dtype
        self._types = types  # of the leaves of a row that is not stacked

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
            written = [row if few is None else next(strings) for row, few in zip(rows, leaves, strict=True)]
            return written
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
        if list(map(type, leaves)) == self._types:
            return tuple(leaves)
        self._as_it_is(row)
        return None

    def _as_it_is(self, row: Any) -> Any:
        if type(row) is bytes:  # nobody could tell it from what was written
            raise SpecMismatch(f"expected elements like the first ones, {self._structure}, got a byte string")
        return row

    def read(self, rows: list[Any]) -> Block:
        """The block of these rows; some may be elements that were left as they are."""
        strings = [row for row in rows if type(row) is bytes]
        table = np.frombuffer(b"".join(strings), self._dtype)
        columns = [np.ascontiguousarray(table[name]) for name in self._dtype.names or ()]
        block = Block.of_columns(self._structure, columns, len(strings))
        if len(strings) == len(rows):
            return block
        elements = iter(block.rows())
        return Block.of_rows([next(elements) if type(row) is bytes else row for row in rows])


def _row_dtype(columns: list[np.ndarray]) -> np.dtype[Any]:
    return np.dtype([(f"f{i}", column.dtype, column.shape[1:]) for i, column in enumerate(columns)])
