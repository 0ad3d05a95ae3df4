"""Rows of numbers and short texts as strings of bytes: one object each, where a tuple of fifty numbers is fifty-one.

Tables give their rows stacked by column, generators as tuples or dicts. Who must hold rows one by one, and for long,
holds a string of each, and makes columns of some of them again: that takes a fraction of the memory and of the time.

A row's string begins with its numbers and the lengths of its texts, in a fixed width; the texts follow.

They are written and read some at a time, so that there is never much of a block in both forms at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..block import MANY_DTYPES, Block
from ..element import Failed, Structure
from ..errors import SpecMismatch

__all__ = ["RowStrings"]

# Larger rows cost more to copy than their objects do.
_MOST_BYTES = 2048
# What is written or read at a time.
_PIECE_BYTES = 16 << 10
# Of a text its length is among the numbers.
_LENGTH = np.dtype(np.uint32)
# What a text is taken to have where only some at a time are to be looked at; none has more than `_MOST_BYTES`.
_TEXT_BYTES = 64


class RowStrings:
    """How the rows of one table are written. Elements that are byte strings themselves are never written like this."""

    __slots__ = ("_dtype", "_dtypes", "_structure", "_texts", "_types")

    def __init__(self, structure: Structure, dtype: np.dtype[Any], types: list[type]) -> None:
        self._structure = structure
        self._dtype = dtype
        self._types = types  # of the leaves of a row that is not stacked
        self._texts = [i for i, kind in enumerate(types) if kind is bytes]
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
            if not all(isinstance(leaf, (np.generic, bytes)) for leaf in leaves):
                return None
            columns = [np.array([leaf], object if type(leaf) is bytes else None) for leaf in leaves]
        else:
            structure = block.structure
        if len(columns) < 2 or any(column.dtype.hasobject and column.ndim > 1 for column in columns):
            return None
        dtype = _row_dtype(columns)
        types = [bytes if column.dtype.hasobject else column.dtype.type for column in columns]
        made = cls(structure, dtype, types)
        text_bytes = sum(len(columns[i][0]) for i in made._texts)
        return made if dtype.itemsize > 0 and dtype.itemsize + text_bytes <= _MOST_BYTES else None

    @property
    def width(self) -> int:
        """Bytes of a row without its texts."""
        return self._dtype.itemsize

    def written(self, block: Block) -> list[Any]:
        """The rows of a block; those that are not like the first stay as they are."""
        columns = block.columns
        if columns is not None:
            if not self._structure.same_layout(block.structure) or _row_dtype(columns) != self._dtype:
                return list(map(self._as_it_is, block.rows()))
            if not self._has_long(columns):
                return self._strings(columns, block.size)
        rows = block.rows()
        leaves = [self._leaves_of(row) for row in rows]
        like_first = [row for row in leaves if row is not None]
        # Lists: of a tuple NumPy would make one record where a column is of records.
        strings = iter(self._strings([list(column) for column in zip(*like_first, strict=True)], len(like_first)))
        return [row if few is None else next(strings) for row, few in zip(rows, leaves, strict=True)]

    def _strings(self, columns: Sequence[Any], size: int) -> list[bytes]:
        """Of stacked rows, or of what those have in each place that are not stacked."""
        if not size:
            return []
        table = np.empty(size, self._dtype)
        for i, (name, column) in enumerate(zip(self._dtype.names or (), columns, strict=True)):
            table[name] = list(map(len, column)) if i in self._texts else column
        numbers, width = table.view(np.uint8).data, self.width
        strings = [bytes(numbers[start : start + width]) for start in range(0, len(numbers), width)]
        if self._texts:
            strings = list(map(b"".join, zip(strings, *[columns[i] for i in self._texts], strict=True)))
        return strings

    def _leaves_of(self, row: Any) -> tuple[Any, ...] | None:
        try:
            leaves = self._structure.flatten(row)
        except SpecMismatch:
            leaves = []
        # Of the same types: others would be cast, and come out as something else.
        is_like = list(map(type, leaves)) == self._types and all(leaves[i].dtype == dtype for i, dtype in self._dtypes)
        if is_like and sum([len(leaves[i]) for i in self._texts]) <= _MOST_BYTES:
            return tuple(leaves)
        self._as_it_is(row)
        return None

    def _has_long(self, columns: list[np.ndarray]) -> bool:
        """Whether some of stacked rows have so long texts that they had better stay as they are."""
        return any(max(map(len, columns[i])) > _MOST_BYTES // len(self._texts) for i in self._texts)

    def _as_it_is(self, row: Any) -> Any:
        if type(row) is bytes:  # nobody could tell it from what was written
            raise SpecMismatch(f"expected elements like the first ones, {self._structure}, got a byte string")
        return row

    @property
    def num_at_once(self) -> int:
        """How many rows are written or read at a time."""
        return max(1, _PIECE_BYTES // (self.width + _TEXT_BYTES * len(self._texts)))

    def read(self, rows: list[Any]) -> Block:
        """The block of these rows; some may be elements that were left as they are. Empties the list."""
        are_strings = [type(row) is bytes for row in rows]
        others = [row for row in rows if type(row) is not bytes]
        size, start = sum(are_strings), 0
        columns = [self._column(i, size) for i in range(len(self._types))]
        rows.reverse()
        while rows:
            piece = [row for row in (rows.pop() for _ in range(min(len(rows), self.num_at_once))) if type(row) is bytes]
            for column, part in zip(columns, self._parts(piece), strict=True):
                column[start : start + len(piece)] = part
            start += len(piece)
        block = Block.of_columns(self._structure, columns, size)
        if not others:
            return block
        elements, left = iter(block.rows()), iter(others)
        return Block.of_rows([next(elements if is_string else left) for is_string in are_strings])

    def _column(self, i: int, size: int) -> np.ndarray:
        field = self._dtype[i]
        return np.empty(size, object) if i in self._texts else np.empty((size, *field.shape), field.base)

    def _parts(self, strings: list[bytes]) -> Iterator[Any]:
        """What these rows have in each column."""
        width = self.width
        heads = [string[:width] for string in strings] if self._texts else strings
        table = np.frombuffer(b"".join(heads), self._dtype)
        begins = np.full(len(strings), width)
        for i, name in enumerate(self._dtype.names or ()):
            if i in self._texts:
                ends = begins + table[name]
                yield [s[begin:end] for s, begin, end in zip(strings, begins.tolist(), ends.tolist(), strict=True)]
                begins = ends
            else:
                yield table[name]


def _row_dtype(columns: list[np.ndarray]) -> np.dtype[Any]:
    fields = [(_LENGTH if column.dtype.hasobject else column.dtype, column.shape[1:]) for column in columns]
    return np.dtype([(f"f{i}", *field) for i, field in enumerate(fields)])
