"""Stack: equal elements written side by side as they come, so that no list of them is ever held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._native import write_row
from ..block import Allocate, Block
from ..element import Structure

__all__ = ["Likeness", "Reader", "Stack", "leaves_reader"]

#: Gives the leaves of a result, or None where it has another structure.
Reader = Callable[[Any], tuple[Any, ...] | None]
#: Writes a result to its place; says False if it is unlike the others.
Put = Callable[[int, Any], bool]


class Likeness:
    """What results have in common that can be stacked as they come: structure; type, shape and dtype of each leaf.

    The type of a number says all: its shape is None here, which means not to look further.
    """

    __slots__ = ("leaves", "leaves_of", "structure")

    def __init__(self, structure: Structure, leaves: list[Any]) -> None:
        self.structure = structure
        self.leaves_of = leaves_reader(structure)
        self.leaves = [(type(leaf), None if _is_number(leaf) else leaf.shape, leaf.dtype) for leaf in leaves]

    @classmethod
    def of(cls, result: Any) -> Likeness | None:
        """That of one result; None where such cannot be stacked."""
        structure = Structure.of(result)
        leaves = structure.flatten(result)
        for leaf in leaves:
            if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.hasobject:
                return None
        return cls(structure, leaves)

    def has(self, result: Any) -> bool:
        """Whether a result is like the others."""
        leaves = self.leaves_of(result)
        if leaves is None:
            return False
        for leaf, (kind, shape, dtype) in zip(leaves, self.leaves, strict=True):
            if type(leaf) is not kind or (shape is not None and (leaf.shape != shape or leaf.dtype != dtype)):
                return False
        return True

    def stack(self, size: int, allocate: Allocate) -> Stack:
        """Room for so many."""
        return Stack(self, [allocate((size, *(shape or ())), dtype) for _, shape, dtype in self.leaves])


def leaves_reader(structure: Structure) -> Reader:
    """What gives the leaves of a result of this structure, or None for another.

    For who looks at each leaf anyway: one that is a nest counts as a leaf.

    >>> leaves_reader(Structure.of((np.float64(), {"a": np.int64()})))((0.5, {"a": 2}))
    (0.5, 2)
    """
    if structure.is_leaf:
        return lambda result: (result,)
    kind: Any = structure.kind
    fields, count = structure.fields, len(structure.keys)
    has_length = issubclass(kind, (tuple, dict))

    def flat(result: Any) -> tuple[Any, ...] | None:
        if type(result) is not kind or (has_length and len(result) != count):
            return None
        try:
            return fields(result)
        except KeyError:
            return None

    if structure.is_flat:
        return flat
    readers = [None if child.is_leaf else leaves_reader(child) for child in structure.children]

    def deep(result: Any) -> tuple[Any, ...] | None:
        parts = flat(result)
        if parts is None:
            return None
        leaves: list[Any] = []
        for part, read in zip(parts, readers, strict=True):
            if read is None:
                leaves.append(part)
                continue
            below = read(part)
            if below is None:
                return None
            leaves += below
        return tuple(leaves)

    return deep


def _is_number(leaf: Any) -> bool:
    """Of other scalars one type has many dtypes: lengths, units, fields."""
    return isinstance(leaf, np.generic) and leaf.dtype.kind in "biufc"


class Stack:
    """Columns being filled row by row, or block by block."""

    __slots__ = ("_like", "_slots")

    def __init__(self, like: Likeness, slots: list[np.ndarray]) -> None:
        self._like = like
        self._slots = slots

    def putter(self) -> Put:
        """What writes results to their places, with all it needs at hand: it is called for each.

        What was written before an unlike leaf is found does no harm: the row counts as not there.
        """
        leaves_of, slots = self._like.leaves_of, tuple(self._slots)
        kinds = tuple([kind for kind, _, _ in self._like.leaves])

        def put(i: int, result: Any) -> bool:
            leaves = leaves_of(result)
            return leaves is not None and write_row(slots, kinds, i, leaves)

        return put

    def rows(self, size: int) -> list[Any]:
        """The first rows, one by one."""
        return Block.of_columns(self._like.structure, [slot[:size] for slot in self._slots], size).rows()

    def block(self, size: int, positions: np.ndarray | None) -> Block:
        return Block.of_columns(self._like.structure, self._slots, size, positions)

    def cut_short(self, size: int, cut: Callable[[np.ndarray, int], np.ndarray]) -> None:
        """Leaves only the first rows, as `cut` gives them of each column."""
        self._slots = [cut(slot, size) for slot in self._slots]

    def put_block(self, start: int, block: Block) -> int | None:
        """Writes the elements of a block from a row on; the number of the first that is unlike, if there is one."""
        columns = block.columns
        if columns is not None and self._like.structure.same_layout(block.structure) and self._are_like(columns):
            for slot, column in zip(self._slots, columns, strict=True):
                slot[start : start + block.size] = column
            return None
        put = self.putter()
        for i, row in enumerate(block.rows()):
            if not put(start + i, row):
                return i
        return None

    def _are_like(self, columns: list[np.ndarray]) -> bool:
        return all(
            column.shape[1:] == slot.shape[1:] and column.dtype == slot.dtype
            for column, slot in zip(columns, self._slots, strict=True)
        )
