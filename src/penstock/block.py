"""Blocks: up to n consecutive elements, the unit of flow.

A block is *columns* (each leaf stacked on a leading axis) or *rows* (a list of elements). Columns are what array
sources give and what `batch` wants; rows are what Python functions make. Only rows can hold a `Failed` element.

Rows that are byte strings may lie in a buffer as yet (`of_records`): who reads them there need not cut them out.
Records know where they came from (`origins`), for errors of those who cannot make use of them.

`positions` number the elements in the order in which a keyed operator (`random_map`) first met them; they travel with
the block so that the key survives a rewrite that moves a shuffle past the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._native import cut_records
from .element import LEAF, Failed, Structure, detach, nbytes_of
from .leaf import leaf_bytes

__all__ = ["MANY_DTYPES", "Block", "Origins", "concat_blocks", "origin_at", "stack_leaves"]

#: Kinds of scalars of which one type has many dtypes: lengths, units, fields.
MANY_DTYPES = "USMmV"

#: Makes an uninitialised array of a shape and dtype; the arena's `empty`, or `np.empty`.
Allocate = Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray]

#: Who names file and number of a record, and the place there of the first element.
Origins = tuple[Callable[[int], tuple[str, int] | None], int]


def origin_at(origins: Origins | None, i: int) -> tuple[str, int] | None:
    """The file of element i and its number there, where that is known."""
    return None if origins is None else origins[0](origins[1] + i)


class Block:
    """Some consecutive elements, as columns or as rows."""

    __slots__ = ("_rows", "columns", "has_failures", "origins", "positions", "records", "size", "structure")

    def __init__(
        self,
        size: int,
        structure: Structure,
        columns: list[np.ndarray] | None,
        rows: list[Any] | None,
        has_failures: bool,
        positions: np.ndarray | None,
    ) -> None:
        self.size = size
        self.structure = structure
        self.columns = columns
        self._rows = rows
        self.has_failures = has_failures
        self.positions = positions
        #: (buffer, offsets, lengths) of byte strings that may not be cut out yet.
        self.records: tuple[Any, np.ndarray, np.ndarray] | None = None
        self.origins: Origins | None = None

    @classmethod
    def of_records(cls, buffer: Any, offsets: np.ndarray, lengths: np.ndarray) -> Block:
        """A block of byte strings that lie in a buffer, which nobody may change as long as the block lives."""
        block = cls(len(offsets), LEAF, None, None, False, None)
        block.records = (buffer, offsets, lengths)
        return block

    @classmethod
    def of_columns(
        cls, structure: Structure, columns: list[np.ndarray], size: int, positions: np.ndarray | None = None
    ) -> Block:
        """A block whose leaf j of element i is `columns[j][i]`."""
        return cls(size, structure, columns, None, False, positions)

    @classmethod
    def of_rows(cls, rows: list[Any], positions: np.ndarray | None = None, has_failures: bool | None = None) -> Block:
        """A block of elements, each normalized, or `Failed`."""
        if has_failures is None:
            has_failures = any(type(row) is Failed for row in rows)
        return cls(len(rows), LEAF, None, rows, has_failures, positions)

    def copied(self) -> Block:
        """The same elements in memory of their own."""
        columns = None if self.columns is None else [column.copy() for column in self.columns]
        rows = list(map(detach, self.rows())) if columns is None else None
        made = Block(self.size, self.structure, columns, rows, self.has_failures, self.positions)
        made.origins = self.origins
        return made

    def origin(self, i: int) -> tuple[str, int] | None:
        return origin_at(self.origins, i)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        if self.columns is not None:
            return sum(leaf_bytes(column) for column in self.columns)
        if self._rows is None and self.records is not None:
            return int(self.records[2].sum()) + self.size * leaf_bytes(b"")
        return sum(map(nbytes_of, self._rows or ()))

    def rows(self) -> list[Any]:
        """The elements one by one; rows of columns are views."""
        if self._rows is not None:
            return self._rows
        if self.records is not None:
            self._rows = cut_records(self.records)
            self.records = None  # who keeps what was cut out must not keep the buffer
            return self._rows
        assert self.columns is not None
        structure = self.structure
        if structure.is_leaf:
            return list(self.columns[0])
        if structure.is_flat_tuple:
            return list(zip(*self.columns, strict=True))
        if structure.is_flat and structure.kind is dict:
            return _dicts(structure.keys, self.columns)
        return [structure.unflatten(leaves) for leaves in zip(*self.columns, strict=True)]

    def __getitem__(self, part: slice) -> Block:
        start, stop, _ = part.indices(self.size)
        positions = None if self.positions is None else self.positions[start:stop]
        if self.columns is not None:
            return Block.of_columns(
                self.structure, [column[start:stop] for column in self.columns], stop - start, positions
            )
        if self.records is not None:
            buffer, offsets, lengths = self.records
            block = Block.of_records(buffer, offsets[start:stop], lengths[start:stop])
            block.positions = positions
        else:
            assert self._rows is not None
            block = Block.of_rows(self._rows[start:stop], positions, None if self.has_failures else False)
        if self.origins is not None:
            block.origins = self.origins[0], self.origins[1] + start
        return block

    def as_element(self) -> Any:
        """The columns as one element: a batch."""
        assert self.columns is not None
        if self.structure is LEAF:
            return self.columns[0]
        return self.structure.unflatten(self.columns)

    def __repr__(self) -> str:
        return f"Block({self.size} {'columns' if self.columns is not None else 'rows'})"


def _dicts(keys: tuple[Any, ...], columns: list[np.ndarray]) -> list[Any]:
    """Copies of one dict, filled column by column: a third of the time of making each from its pairs."""
    unfilled = dict.fromkeys(keys)
    rows = [unfilled.copy() for _ in range(len(columns[0]))]
    for key, column in zip(keys, columns, strict=True):
        for row, leaf in zip(rows, column, strict=True):
            row[key] = leaf
    return rows


def stack_leaves(leaves: Sequence[Any], allocate: Allocate) -> np.ndarray | None:
    """Leaves of equal shape and dtype stacked on a new axis; None if they are not equal."""
    first = leaves[0]
    if type(first) is bytes:
        if any(type(leaf) is not bytes for leaf in leaves):
            return None
        out = np.empty(len(leaves), dtype=object)
        out[:] = leaves
        return out
    if isinstance(first, np.generic):
        if len(set(map(type, leaves))) != 1:
            return None
        if first.dtype.kind in MANY_DTYPES and any(leaf.dtype != first.dtype for leaf in leaves):
            return None
        out = allocate((len(leaves),), first.dtype)
        out[:] = leaves
        return out
    if type(first) is not np.ndarray:
        return None
    shape, dtype = first.shape, first.dtype
    for leaf in leaves:
        if type(leaf) is not np.ndarray or leaf.shape != shape or leaf.dtype != dtype:
            return None
    if dtype.kind == "O":
        return np.stack(leaves)
    out = allocate((len(leaves), *shape), dtype)
    np.concatenate(leaves, axis=0, out=out.reshape(len(leaves) * shape[0], *shape[1:]))
    return out


def concat_blocks(blocks: list[Block], allocate: Allocate) -> Block | None:
    """Blocks joined as columns, or None where elements differ in structure, dtype or shape."""
    if len(blocks) == 1 and blocks[0].columns is not None:
        return blocks[0]
    if all(block.columns is not None and block.structure.same_layout(blocks[0].structure) for block in blocks):
        return _concat_columns(blocks, allocate)
    rows = [row for block in blocks for row in block.rows()]
    structure = Structure.of(rows[0])
    if structure.is_leaf:
        columns = [stack_leaves(rows, allocate)]
    else:
        from_rows = [structure.flatten(row) for row in rows]
        columns = [stack_leaves(leaves, allocate) for leaves in zip(*from_rows, strict=True)]
    stacked = [column for column in columns if column is not None]
    return Block.of_columns(structure, stacked, len(rows)) if len(stacked) == len(columns) else None


def _concat_columns(blocks: list[Block], allocate: Allocate) -> Block | None:
    size = sum(block.size for block in blocks)
    columns = []
    for parts in zip(*[block.columns or () for block in blocks], strict=True):
        first = parts[0]
        if any(part.shape[1:] != first.shape[1:] or part.dtype != first.dtype for part in parts):
            return None
        out = (
            np.empty((size, *first.shape[1:]), object)
            if first.dtype.kind == "O"
            else allocate((size, *first.shape[1:]), first.dtype)
        )
        np.concatenate(parts, axis=0, out=out)
        columns.append(out)
    return Block.of_columns(blocks[0].structure, columns, size)
