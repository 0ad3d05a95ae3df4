"""Carried: bytes of arrays that live by one dataset alone, and whether caches do.

The sources of a dataset that a user's function returned give elements of arrays. One of the user's, of which every such
dataset shows a part, lives anyway; one that the function has made lives as long as the dataset. Which is which follows
from who refers to it: references from within the plan are counted, and compared with all that there are. The same goes
for caches: one that the function has made keeps elements as long as the dataset is there.

A dataset that is opened as soon as it is made has them on the account of who opened it (`carried_bytes`). One that goes
on as an element is told what it alone keeps alive (`note_made`), and counts it from then on wherever elements are.

Only memory whose owner is known is looked at: of arrays, `bytes` and `bytearray`. Mapped files are the page cache's,
and what other libraries lend may be somebody's table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ..element import Structure, arrays_in
from ..leaf import is_dataset, leaf_bytes
from .node import Node
from .op import Op

__all__ = ["ArraySource", "array_bytes", "carried_bytes", "note_made"]

# Arrays of one element that are left out of account: as the objects are that a dataset consists of.
_SMALL_BYTES = 1024
# What else may hold arrays than what has fields.
_NESTS = (tuple, list, dict)


class ArraySource(Op):
    """A source of arrays. Most are the user's own; those that were made for a dataset which is an element it holds."""

    @property
    def held_bytes(self) -> int:
        nbytes: int = self.__dict__.get("_made_bytes", 0)
        return nbytes

    @property
    def held_elements(self) -> Sequence[Any]:
        made: Sequence[Any] = self.__dict__.get("_made", ())
        return made

    def note_made(self, made: list[Any]) -> None:
        """These arrays, or what they look at, live by its dataset alone."""
        self.__dict__["_made"] = made
        self.__dict__["_made_bytes"] = sum(map(_own_bytes, made))


def note_made(value: Any, element: Any, given: Any = None) -> None:
    """Has datasets in an element count the arrays that will live by them alone, for as long as they are there.

    To be called by who was given a variable with the value, has made an element of it, and has no other variables.

    Args:
        value: What a function of the user's returned.
        element: The same as an element.
        given: What the function was called with, which goes when it is done.
    """
    if _bytes_in_datasets(element) <= _SMALL_BYTES or not (isinstance(value, _NESTS) or _has_parts(value)):
        return
    is_whole = element is value
    roots = [value] if is_whole else [value, element]
    plan = _Plan(*roots, *_not_windows(given))
    del roots
    if getrefcount(plan.things[0]) <= (_BY_MAKERS if is_whole else _BY_MAKERS_OF_NEST):  # else somebody keeps it
        plan.note_made()


def _bytes_in_datasets(element: Any) -> int:
    """Bytes of all arrays in the datasets of an element, whoever holds them."""
    return sum([array_bytes(leaf.node) for leaf in Structure.of(element).flatten(element) if is_dataset(leaf)])


def carried_bytes(dataset: Any, small_bytes: int, given: Any = None) -> int | None:
    """Bytes of arrays that will be free when the dataset is dropped; None if that frees nothing that elements look at.

    Arrays of no more than `small_bytes` are not looked for. A cache that lives by the dataset alone counts its elements
    itself: 0. So does what lies in `given`, the element that the dataset was made of: the caller counts that, and lets
    it go with the dataset; and what was noted when the dataset was an element. The caller must refer to the dataset by
    one variable.
    """
    if array_bytes(dataset.node) <= small_bytes:
        return None
    plan = _Plan(dataset)
    if getrefcount(plan.things[0]) <= _BY_ONE_VARIABLE:
        own = [plan.things[i] for i in plan.own_places()]
        nbytes = sum(map(_own_bytes, own))
        if nbytes or any(isinstance(thing, Op) and thing.kept is not None for thing in own):
            return nbytes
        if plan.has_any_of(_made_arrays(given)):
            return 0
    return 0 if plan.has_noted else None


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
    """All that a dataset, or an element, refers to and that may hold arrays, with the references within it."""

    def __init__(self, *roots: Any) -> None:
        self.things = list(roots)
        self._num_roots = len(roots)
        self._num_inner = [0] * len(roots)
        self._below: list[list[int]] = []
        places = {id(root): i for i, root in enumerate(roots)}
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

    def own_places(self) -> list[int]:
        """Of the things that nobody else refers to; who has the roots is not looked at."""
        # What is referred to from outside, and by that all below it, is somebody else's too.
        things, inner = self.things, self._num_inner
        others = [i for i in range(self._num_roots, len(things)) if getrefcount(things[i]) - _LISTED > inner[i]]
        shared = self._with_all_below(others, self._num_roots)
        return [i for i in range(len(things)) if i not in shared]

    def _with_all_below(self, places: list[int], first: int = 0) -> set[int]:
        """These places, and all from the first one on that lie below them."""
        seen = set(places)
        for i in places:  # which grow meanwhile
            new = [place for place in self._below[i] if place >= first and place not in seen]
            seen.update(new)
            places += new
        return seen

    @property
    def has_noted(self) -> bool:
        """Whether any source holds arrays that were made for it."""
        return any(isinstance(thing, ArraySource) and thing.held_bytes for thing in self.things)

    def note_made(self) -> None:
        """Tells each source which memory is its own; what two have in common, the first."""
        own = set(self.own_places())
        for i in sorted(own):
            source = self.things[i]
            if isinstance(source, ArraySource):
                made = own & self._with_all_below([i])
                own -= made
                source.note_made([self.things[place] for place in made if _own_bytes(self.things[place])])

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
    return [part for part in parts if isinstance(part, (np.ndarray, *_NESTS)) or _has_parts(part)]


def _has_parts(part: Any) -> bool:
    return _has_fields(part) or is_dataset(part)


def _has_fields(part: Any) -> bool:
    return dataclasses.is_dataclass(part) and not isinstance(part, type)


def _not_windows(given: Any) -> list[np.ndarray]:
    """The arrays of an element, without windows on those of the user's."""
    if given is None or is_dataset(given):
        return []
    return [array for array in arrays_in(given) if array.base is None or array.flags.writeable]


def _made_arrays(given: Any) -> list[np.ndarray]:
    """The same, and what they lie in."""
    arrays = _not_windows(given)
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


def _references_by_makers(is_whole: bool) -> int:
    """The same for what a function has returned, in the hands of those who make an element of it."""

    def noted(value: Any, element: Any) -> int:
        things = [value] if element is value else [value, element]
        return getrefcount(things[0])

    def as_element(value: Any) -> int:
        element = value if is_whole else (value,)[:0]
        return noted(value, element)

    result = np.empty(0)
    return as_element(result)


_BY_ONE_VARIABLE = _references_by_one_variable()
_BY_MAKERS = _references_by_makers(is_whole=True)
_BY_MAKERS_OF_NEST = _references_by_makers(is_whole=False)
