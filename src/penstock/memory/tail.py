"""The tail of kept elements: the last few, which are not enough for a chunk yet.

Elements that are small and alike are copied into columns as they come, once, and the full columns are the chunk. Others
stay as they are, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..block import Block, stack_leaves
from ..element import Structure, nbytes_of
from ..errors import SpecMismatch
from .chunk import CHUNK_OBJECT_BYTES, Chunk, in_memory
from .joint import JointAccount
from .sealing import Sealed, sealed

__all__ = ["Columns", "Tail", "columns_for"]

# Elements come to lie in columns if they are no larger than this, and so many fit in a chunk; and so many do at first.
_ALIKE_BYTES = 16 << 10
_LEAST_ALIKE = 8
_FIRST_ALIKE = 32
# Others are stacked when they are enough for a chunk, which is another copy: if they are smaller.
_STACKED_BYTES = 1024


class Columns:
    """Columns with room for some elements like the one that is given, filled from the beginning."""

    __slots__ = ("_columns", "_structure", "capacity", "size")

    def __init__(self, structure: Structure, leaves: list[Any], capacity: int) -> None:
        self._structure = structure
        self._columns = [np.empty((capacity, *leaf.shape), leaf.dtype.newbyteorder("=")) for leaf in leaves]
        self.capacity = capacity
        self.size = 0

    def add(self, block: Block) -> Block | None:
        """Copies elements, for which there is room, and gives them as they lie here; None if they are not alike."""
        leaves = self._leaves_of(block)
        if leaves is None:
            return None
        parts = [column[self.size : self.size + block.size] for column in self._columns]
        if not all(map(_put, leaves, parts)):
            return None
        self.size += block.size
        return self._read_only(parts, block.size)

    def _leaves_of(self, block: Block) -> Iterable[Any] | None:
        if block.columns is not None:
            return block.columns if block.structure.same_layout(self._structure) else None
        try:
            return zip(*[self._structure.flatten(row) for row in block.rows()], strict=True)
        except SpecMismatch:
            return None

    def _read_only(self, parts: list[np.ndarray], size: int) -> Block:
        for part in parts:
            part.flags.writeable = False
        return Block.of_columns(self._structure, parts, size)

    def part(self, start: int, stop: int) -> Block:
        """Some of the elements."""
        stop = min(stop, self.size)
        return self._read_only([column[start:stop] for column in self._columns], stop - start)

    def as_block(self) -> Block:
        """All of them: the columns as such if these are full, so that who looks at one is seen to."""
        if self.size < self.capacity:
            return Block.of_rows(self.part(0, self.size).rows(), has_failures=False)
        return self._read_only(self._columns, self.size)


def _put(leaves: Any, into: np.ndarray) -> bool:
    """Copies leaves into a part of a column, if all are like the others there."""
    if not _is_alike(leaves[0], into):
        return False
    if len(leaves) == 1:
        into[0] = leaves[0]
    elif isinstance(leaves, np.ndarray):
        into[...] = leaves
    else:
        return stack_leaves(leaves, lambda *_: into) is not None
    return True


def _is_alike(leaf: Any, column: np.ndarray) -> bool:
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.shape != column.shape[1:]:
        return False
    return leaf.dtype == column.dtype or leaf.dtype.newbyteorder("=") == column.dtype


class Tail:
    """Elements one by one, or in columns; and what counts them.

    Attributes:
        size: How many.
        nbytes: What is on the ledgers of them.
        length: As long as they would be on disk, about.
        columns: Where they lie, if not one by one.
    """

    def __init__(self, columns: Columns | None = None, nbytes: int = 0) -> None:
        self.nbytes = nbytes
        self.length = 0
        self.columns = columns
        self._rows: list[Any] = []
        self._lent: set[int] = set()

    @property
    def size(self) -> int:
        return len(self._rows) if self.columns is None else self.columns.size

    def add(self, new: list[Sealed], nbytes: int, length: int) -> None:
        """More elements one by one, which are on the ledgers."""
        assert self.columns is None
        self._rows += [one.element for one in new]
        self.nbytes += nbytes
        self.length += length
        self._lent.update(*[one.lent for one in new])

    def fitting(self, lengths: list[int], start: int, most_rows: int, most_bytes: int) -> tuple[int, int]:
        """How far elements may come in, one at least: the first that may not, and the length of those before it."""
        stop, length = start + 1, lengths[start]
        while stop < len(lengths) and self.size + stop - start < most_rows:
            if self.length + length + lengths[stop] > most_bytes:
                break
            length += lengths[stop]
            stop += 1
        return stop, length

    def part(self, start: int, stop: int) -> Block:
        """Some of the elements."""
        if self.columns is not None:
            return self.columns.part(start, stop)
        return Block.of_rows(self._rows[start:stop], has_failures=False)

    @property
    def stacked_bytes(self) -> int:
        """How large elements are, at most, that should be stacked in a chunk; those in columns so as to fill these."""
        return _STACKED_BYTES if self.columns is None else _ALIKE_BYTES

    def as_chunk(self) -> Chunk:
        """All of them."""
        block = Block.of_rows(self._rows, has_failures=False) if self.columns is None else self.columns.as_block()
        return in_memory(block, self.nbytes, self._lent)


def columns_for(
    block: Block, num_more: int, num_together: Callable[[int], int], account: JointAccount, copies: bool = False
) -> Tail | None:
    """An empty tail with columns for elements like these, which is on the ledgers; None if singly is better.

    Args:
        num_more: For how many there should be room.
        num_together: How many elements of a size may lie in one chunk.
        copies: Whether those that are kept singly are copies, too.
    """
    first = block[:1].rows()[0]
    structure, each = Structure.of(first), nbytes_of(first)
    leaves = structure.flatten(first)
    # What looks at memory that lives anyway takes less as it is.
    if each > _ALIKE_BYTES or each > sealed(first, copies).nbytes or not all(map(_has_size, leaves)):
        return None
    capacity = min(max(_FIRST_ALIKE, num_more), num_together(each))
    nbytes = capacity * each + CHUNK_OBJECT_BYTES
    if capacity < max(block.size, _LEAST_ALIKE) or not account.charge(nbytes, leaves_plenty=True):
        return None
    return Tail(Columns(structure, leaves, capacity), nbytes)


def _has_size(leaf: Any) -> bool:
    """Whether all leaves like this one take the same: no strings, nothing ragged."""
    return isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject
