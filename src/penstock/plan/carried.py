"""Carried: bytes of arrays that live by one dataset alone, and whether caches do.

The sources of a dataset that a user's function returned give elements of arrays. One of the user's, of which every such
dataset shows a part, lives anyway; one that the function has made lives as long as the dataset. Which is which follows
from who refers to it: references from within the plan are counted, and compared with all that there are. The same goes
for caches: one that the function has made keeps elements as long as the dataset is there.

Only memory whose owner is known is looked at: of arrays, `bytes` and `bytearray`. Mapped files are the page cache's,
and what other libraries lend may be somebody's table.
"""

from __future__ import annotations

import dataclasses
from sys import getrefcount
from typing import Any

import numpy as np

from ..element import arrays_in
from ..leaf import is_dataset, leaf_bytes
from .node import Node
from .op import Op

__all__ = ["array_bytes", "carried_bytes"]


def carried_bytes(dataset: Any, small_bytes: int, given: Any = None) -> int | None:
    """Bytes of arrays that will be free when the dataset is dropped; None if that frees nothing that elements look at.

    Arrays of no more than `small_bytes` are not looked for. A cache that lives by the dataset alone counts its elements
    itself: 0. So does what lies in `given`, the element that the dataset was made of: the caller counts that, and lets
    it go with the dataset. The caller must refer to the dataset by one variable.
    """
    if array_bytes(dataset.node) <= small_bytes:
        return None
    plan = _Plan(dataset)
    if getrefcount(plan.things[0]) > _BY_ONE_VARIABLE:
        return None
    own = plan.own_things()
    nbytes = sum(map(_own_bytes, own))
    if nbytes or any(isinstance(thing, Op) and thing.kept is not None for thing in own):
        return nbytes
    return 0 if plan.has_any_of(_made_arrays(given)) else None


_OF_CACHE = 1 << 62


def array_bytes(node: Node) -> int:
    """Bytes of all arrays in a plan, whoever holds them; more than any number if it has a cache."""
    total: int = node.op.array_bytes if node.op.kept is None else _OF_CACHE
    while len(node.inputs) == 1:
        node = node.inputs[0]
        total += node.op.array_bytes if node.op.kept is None else _OF_CACHE
    for child in node.inputs:
        total += array_bytes(child)
    return total


class _Plan:
    """All that a dataset refers to and that may hold arrays, with the references within it."""

    def __init__(self, dataset: Any) -> None:
        self.things = [dataset]
        self._num_inner = [0]
        self._below: list[list[int]] = []
        places = {id(dataset): 0}
        for thing in self.things:  # which grow meanwhile
            below: list[int] = []
            for part in _parts(thing):
                place = places.setdefault(id(part), len(places))
                if place == len(self.things):
                    self.things.append(part)
                    self._num_inner.append(0)
                self._num_inner[place] += 1
                below.append(place)
            self._below.append(below)

    def own_things(self) -> list[Any]:
        """Those that nobody else refers to."""
        # What is referred to from outside, and by that all below it, is somebody else's too.
        shared = [i for i in range(1, len(self.things)) if getrefcount(self.things[i]) - _LISTED > self._num_inner[i]]
        seen = set(shared)
        for i in shared:  # which grows meanwhile
            new = [place for place in self._below[i] if place not in seen]
            seen.update(new)
            shared += new
        return [thing for i, thing in enumerate(self.things) if i not in seen]

    def has_any_of(self, arrays: list[np.ndarray]) -> bool:
        wanted = {id(array) for array in arrays}
        return any(id(thing) in wanted for thing in self.things)


# The list of things, and getrefcount's own argument.
_LISTED = 2


def _parts(thing: Any) -> list[Any]:
    """What a thing refers to and may hold arrays."""
    if isinstance(thing, (np.ndarray, memoryview)):
        owner = thing.base if isinstance(thing, np.ndarray) else thing.obj
        return [owner] if isinstance(owner, (np.ndarray, bytes, bytearray, memoryview)) else []
    if is_dataset(thing):
        parts: Any = [thing.node]
    elif isinstance(thing, dict):
        parts = thing.values()
    elif isinstance(thing, (tuple, list)):
        parts = thing
    elif isinstance(thing, (bytes, bytearray)) or (isinstance(thing, Op) and thing.held_bytes):
        return []  # elements of a window are on the account of who made it
    else:
        parts = [getattr(thing, field.name, None) for field in dataclasses.fields(thing)]
    return [part for part in parts if isinstance(part, (np.ndarray, tuple, list, dict)) or _has_fields(part)]


def _has_fields(part: Any) -> bool:
    return dataclasses.is_dataclass(part) and not isinstance(part, type)


def _made_arrays(given: Any) -> list[np.ndarray]:
    """The arrays that an element lies in, without those of the user's on which it is a window."""
    if given is None or is_dataset(given):
        return []
    arrays = [array for array in arrays_in(given) if array.base is None or array.flags.writeable]
    for array in arrays:  # which grow meanwhile
        if isinstance(array.base, np.ndarray):
            arrays.append(array.base)
    return arrays


def _own_bytes(thing: Any) -> int:
    if isinstance(thing, np.ndarray):
        return leaf_bytes(thing) if thing.base is None else 0
    return len(thing) if isinstance(thing, (bytes, bytearray)) else 0


def _references_by_one_variable() -> int:
    """What is counted for a thing in the list that only its caller has, by one variable: depends on the interpreter."""

    def count(thing: Any) -> int:
        things = [thing]
        return getrefcount(things[0])

    alone = np.empty(0)
    return count(alone)


_BY_ONE_VARIABLE = _references_by_one_variable()
