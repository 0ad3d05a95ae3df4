"""Stack: equal elements written side by side as they come, so that no list of them is ever held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block
from ..element import Structure

__all__ = ["Stack"]


class Stack:
    """Columns being filled row by row, or block by block."""

    def __init__(self, structure: Structure, leaves: list[Any], slots: list[np.ndarray]) -> None:
        self._structure = structure
        self._slots = slots
        self._likes = [(type(leaf), leaf.shape, leaf.dtype) for leaf in leaves]
        self._slot, self._shape, self._dtype = slots[0], leaves[0].shape, leaves[0].dtype

    @classmethod
    def for_results_like(cls, first: Any, size: int, allocate: Callable[..., np.ndarray]) -> Stack | None:
        """A stack for results like the first; None where they cannot be stacked as they come."""
        structure = Structure.of(first)
        leaves = structure.flatten(first)
        for leaf in leaves:
            if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.hasobject:
                return None
        return cls(structure, leaves, [allocate((size, *leaf.shape), leaf.dtype) for leaf in leaves])

    def put(self, i: int, result: Any) -> bool:
        """Writes a result to its place; False if it is not like the first one."""
        if self._structure.is_leaf:
            leaves = (result,)
        elif self._structure.is_flat:
            leaves = self._structure.parts_of(result)
            if leaves is None:
                return False
        elif Structure.of(result) == self._structure:
            leaves = tuple(self._structure.flatten(result))
        else:
            return False
        # What was written before an unlike leaf is found does no harm: the row counts as not there.
        for leaf, (kind, shape, dtype), slot in zip(leaves, self._likes, self._slots, strict=True):
            if type(leaf) is not kind or leaf.shape != shape or leaf.dtype != dtype:
                return False
            slot[i] = leaf
        return True

    def quickest_put(self) -> Callable[[int, Any], bool]:
        """`put`, or what does the same for this kind of result. (Not kept: a cycle would hold the slots for long.)"""
        return self._put_array if self._structure.is_leaf and self._likes[0][0] is np.ndarray else self.put

    def _put_array(self, i: int, result: Any) -> bool:
        """`put` for results that are one array, the commonest and the one whose speed is felt."""
        if type(result) is not np.ndarray or result.shape != self._shape or result.dtype != self._dtype:
            return False
        self._slot[i] = result
        return True

    def rows(self, size: int) -> list[Any]:
        """The first rows, one by one."""
        return Block.of_columns(self._structure, [slot[:size] for slot in self._slots], size).rows()

    def block(self, size: int, positions: np.ndarray | None) -> Block:
        return Block.of_columns(self._structure, self._slots, size, positions)

    def put_block(self, start: int, block: Block) -> int | None:
        """Writes the elements of a block from a row on; the number of the first that is unlike, if there is one."""
        columns = block.columns
        if columns is not None and block.structure == self._structure and self._are_like(columns):
            for slot, column in zip(self._slots, columns, strict=True):
                slot[start : start + block.size] = column
            return None
        for i, row in enumerate(block.rows()):
            if not self.put(start + i, row):
                return i
        return None

    def _are_like(self, columns: list[np.ndarray]) -> bool:
        return all(
            column.shape[1:] == shape and column.dtype == dtype
            for column, (_, shape, dtype) in zip(columns, self._likes, strict=True)
        )
