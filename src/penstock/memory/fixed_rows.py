"""Rows of a fixed size in a batch on disk, read to where they are wanted: into the batch that is being made.

`IpcReader.read` reads a batch as a whole, has Arrow look at it and gives views; who stacks them copies them once more.
Where all elements of a batch are arrays and numbers of one shape, the values of a leaf lie one after another in the
file. Then it is enough to know where they begin.

For files that nobody but this process has written: nothing is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..block import Allocate, Block
from ..element import Structure
from .ipc import Stored
from .layout import Layout
from .opened import OpenedFile
from .spill_format import SpillReader

__all__ = ["FixedRows", "RowKind"]

# Smaller ones are better read many at a time, with their whole batch.
_LEAST_ROW_BYTES = 4096
# One alone is not worth what is to be remembered of it: under a small budget there may be very many.
_LEAST_ALONE_BYTES = 1 << 20


class RowKind(NamedTuple):
    """What elements of one structure, and of one dtype and shape in each leaf, are made of."""

    structure: Structure
    leaves: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]

    @property
    def row_bytes(self) -> int:
        return sum(dtype.itemsize * math.prod(shape) for dtype, shape in self.leaves)

    def empty(self, count: int, allocate: Allocate) -> list[np.ndarray]:
        """Columns for so many rows."""
        return [allocate((count, *shape), dtype) for dtype, shape in self.leaves]

    def block(self, columns: list[np.ndarray], count: int) -> Block:
        """The first rows of some columns."""
        if count < len(columns[0]):
            columns = [column[:count] for column in columns]
        return Block.of_columns(self.structure, columns, count)


class FixedRows(NamedTuple):
    """Where the values of each leaf begin in the file that a batch lies in."""

    kind: RowKind
    offsets: tuple[int, ...]

    @staticmethod
    def of(reader: SpillReader, stored: Stored, rows: Sequence[Any], like: FixedRows | None = None) -> FixedRows | None:
        """For a batch that was just written; None where its rows are not all alike, or small.

        Args:
            reader: Reads the file.
            stored: Which batch.
            rows: Its elements.
            like: Those of a batch before, whose kind is used again if it is the same.
        """
        layout = reader.layout
        if layout is None or stored.nbytes < (_LEAST_ROW_BYTES * len(rows) if len(rows) > 1 else _LEAST_ALONE_BYTES):
            return None
        kind = _kind_of(layout.leaves_of(rows[0]), layout)
        if kind is None or any(_kind_of(layout.leaves_of(row), layout) != kind for row in rows[1:]):
            return None
        offsets = reader.value_offsets(stored)
        if offsets is None:
            return None
        return FixedRows(like.kind if like is not None and like.kind == kind else kind, tuple(offsets))

    def read(self, reader: OpenedFile, first: int, count: int, columns: list[np.ndarray], at: int) -> None:
        """Reads rows of the batch, from `first` on, to their places in some columns, from `at` on."""
        for column, offset in zip(columns, self.offsets, strict=True):
            part = column[at : at + count]
            if part.nbytes:
                reader.fill(part.reshape(-1).view(np.uint8), offset + first * (part.nbytes // count))


def _kind_of(leaves: list[Any] | None, layout: Layout) -> RowKind | None:
    """The kind of an element; None for one with leaves that do not stack to what they were."""
    if not leaves:
        return None
    for leaf in leaves:
        # Rows of rank 0 come out of a column as scalars, and a record as a view.
        if not isinstance(leaf, (np.ndarray, np.generic)) or (type(leaf) is np.ndarray and not leaf.ndim):
            return None
        if leaf.dtype.kind == "V" or leaf.dtype.hasobject or not leaf.dtype.isnative:
            return None
    return RowKind(layout.structure, tuple((leaf.dtype, leaf.shape) for leaf in leaves))
