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
from ..ops.stack import Likeness
from ..plan.op import Room

__all__ = ["StackedCalls", "leaves_reader"]

# Larger results cost more to copy once more than to be looked at one by one.
_SMALL_BYTES = 1 << 14
# And all of a block may take this part of the budget, as `map_fn` asks for no more at a time.
_PART = 8
# Python's numbers as the leaves that they become; an integer may be too large, and becomes another.
_AS_LEAF: dict[type, Callable[[Any], Any]] = {float: np.float64, int: np.int64, bool: np.bool_}

Reader = Callable[[Any], tuple[Any, ...] | None]


class StackedCalls(Calls):
    """Calls whose results are stacked where they are small, whatever part of a demand a block is."""

    _saw_plain = False

    def until_full(self, block: Block, place: int, room: Room | None) -> Block:
        like, saw_plain = self._like, self._saw_plain
        if room is not None and room.is_of_part and like is not None and self._are_small(like, block.size):
            room = _NoPart(room)
        made = super().until_full(block, place, room)
        if self._like is None and made.columns is None and not made.has_failures:
            self._like = Likeness.of(made.rows()[0])  # the first comes alone, and many may follow
        found = self._like
        is_new = found is not like or self._saw_plain is not saw_plain
        if found is not None and is_new and (self._saw_plain or _is_deep(found.structure)):
            found.leaves_of = leaves_reader(found.structure, self._saw_plain)
        return made

    def _raw(self, row: Any, key: int) -> Any:
        result = super()._raw(row, key)  # the first of a block, which stands for the others
        self._saw_plain = self._saw_plain or _has_plain(result)
        return result

    def _are_small(self, like: Likeness, size: int) -> bool:
        each: int = sum(dtype.itemsize * math.prod(shape or ()) for _, shape, dtype in like.leaves)
        return each <= _SMALL_BYTES and each * size <= self._context.share.budget_bytes // _PART


class _NoPart:
    """A room for a block that is all there is, and no part of a batch."""

    __slots__ = ("add", "is_of_part", "takes_all")

    def __init__(self, room: Room) -> None:
        self.is_of_part, self.takes_all, self.add = False, room.takes_all, room.add


def _is_deep(structure: Structure) -> bool:
    """Whether there are nests in it; of others the engine's own way to the leaves is the quickest."""
    return not (structure.is_leaf or structure.is_flat)


def _has_plain(result: Any) -> bool:
    """Whether there are numbers of Python's in a result, or a list of components."""
    if isinstance(result, (tuple, dict)):
        return any(map(_has_plain, result.values() if isinstance(result, dict) else result))
    return type(result) is list or type(result) in _AS_LEAF


def leaves_reader(structure: Structure, takes_plain: bool) -> Reader:
    """What gives the leaves of what a function returned, or None where that has another structure.

    For who looks at each leaf anyway: one that is a nest counts as a leaf. With `takes_plain` Python's numbers become
    leaves here, and so does a list of components, which to the engine is a tuple.

    >>> leaves_reader(Structure.of((np.float64(), {"a": np.int64()})), takes_plain=True)((0.5, {"a": 2}))
    (np.float64(0.5), np.int64(2))
    """
    if structure.is_leaf:
        return lambda result: (result,)
    parts_of = _parts_reader(structure)
    if not takes_plain:
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


def _parts_reader(structure: Structure) -> Reader:
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
    readers = [None if child.is_leaf else _parts_reader(child) for child in structure.children]

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
