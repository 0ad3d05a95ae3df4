"""Results stacked as they are made, for `map_fn`: read quickly from the nests that functions return.

All go to arrays in the end, so small ones are never kept as objects: to make an element of each, count it and take it
apart again takes ten times as long as a small function. What is unlike the others takes the way of any map.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block
from ..element import Structure
from ..ops.calling import Calls
from ..ops.stack import Likeness, Reader, leaves_reader
from ..plan.op import Room

__all__ = ["StackedCalls", "plain_reader"]

# Larger results cost more to copy once more than to be looked at one by one.
_SMALL_BYTES = 1 << 14
# And all of a block may take this part of the budget, as `map_fn` asks for no more at a time.
_PART = 8
# Python's numbers as the leaves that they become; an integer may be too large, and becomes another.
_AS_LEAF: dict[type, Callable[[Any], Any]] = {float: np.float64, int: np.int64, bool: np.bool_}


class StackedCalls(Calls):
    """Calls whose results are stacked where they are small, whatever part of a demand a block is."""

    _saw_plain = False
    _reads_plain: Likeness | None = None  # the one that was told to

    def until_full(self, block: Block, place: int, room: Room | None) -> Block:
        like = self._like
        if room is not None and room.is_of_part and like is not None and self._are_small(like, block.size):
            room = _RoomForAll(room)
        made = super().until_full(block, place, room)
        if self._like is None and made.columns is None and not made.has_failures:
            self._like = Likeness.of(made.rows()[0])  # the first comes alone, and many may follow
        like = self._like
        if self._saw_plain and like is not None and like is not self._reads_plain:
            like.leaves_of = plain_reader(like.structure)
            self._reads_plain = like
        return made

    def _raw(self, row: Any, key: int) -> Any:
        result = super()._raw(row, key)  # the first of a block, which stands for the others
        self._saw_plain = self._saw_plain or _has_plain(result)
        return result

    def _are_small(self, like: Likeness, size: int) -> bool:
        each: int = sum(dtype.itemsize * math.prod(shape or ()) for _, shape, dtype in like.leaves)
        return each <= _SMALL_BYTES and each * size <= self._context.share.budget_bytes // _PART


class _RoomForAll:
    """A room for a block that is all there is, and no part of a batch."""

    __slots__ = ("add", "is_of_part", "takes_all")

    def __init__(self, room: Room) -> None:
        self.is_of_part, self.takes_all, self.add = False, room.takes_all, room.add


def _has_plain(result: Any) -> bool:
    """Whether there are numbers of Python's in a result, or a list of components."""
    if isinstance(result, (tuple, dict)):
        return any(map(_has_plain, result.values() if isinstance(result, dict) else result))
    return type(result) is list or type(result) in _AS_LEAF


def plain_reader(structure: Structure) -> Reader:
    """As `leaves_reader`, of what a function returned: Python's numbers become leaves here.

    So does a list of components, which to the engine is a tuple.

    >>> plain_reader(Structure.of((np.float64(), {"a": np.int64()})))((0.5, {"a": 2}))
    (np.float64(0.5), np.int64(2))
    """
    parts_of = leaves_reader(structure)
    if structure.is_leaf:
        return parts_of
    takes_lists = structure.kind is tuple

    def leaves_of(result: Any) -> tuple[Any, ...] | None:
        if takes_lists and type(result) is list:
            result = tuple(result)
        leaves = parts_of(result)
        if leaves is None or _AS_LEAF.keys().isdisjoint(map(type, leaves)):
            return leaves
        try:
            return tuple([leaf if (made := _AS_LEAF.get(type(leaf))) is None else made(leaf) for leaf in leaves])
        except OverflowError:
            return None

    return leaves_of
