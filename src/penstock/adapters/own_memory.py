"""Which arrays of an element nobody else has, for frameworks that write to what they are given.

Who has an array is read off reference counts, as it is for slots (ADR 0005): an array is an element's own if the
element is held by nobody but who asks, each nest in it by the one around it, the array by its nest, and its memory by
the array. A view of the user's arrays is held by these; what a cache keeps, or a function has put aside, by them; one
array in two places of an element by both. Whoever holds an element for another reason, such as a debugger, costs a
copy and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from ..element import LEAF, Structure
from ..memory.arena import Slots
from ..runtime.run import Run
from .feed import Convert

__all__ = ["each_own_leaf", "has_one_holder", "is_own"]

# The one reference, and getrefcount's own argument. What is asked for must not have a name: that is a reference, too.
_ONE_HOLDER = 2


def has_one_holder(nest: Any, key: str) -> bool:
    """Whether an attribute is held by nobody but the object that it is one of."""
    return getrefcount(getattr(nest, key)) == _ONE_HOLDER


def is_own(array: np.ndarray, slots: Slots) -> bool:
    """Whether the memory of an array, which has one holder itself, is looked at by nothing else."""
    if not array.flags.writeable:  # a window on what somebody keeps
        return False
    if array.base is None:
        return array.flags.owndata
    if slots.is_alone(array):
        return True
    return type(array.base) is np.ndarray and array.base.flags.owndata and getrefcount(array.base) == _ONE_HOLDER


def each_own_leaf(convert: Callable[[Any, bool, Slots], Any], fit: Callable[[Any], Any] | None = None) -> Convert:
    """The function that converts each leaf of an element of a run, and keeps its structure.

    `convert` is told whether the leaf has one holder, and where batches of the run lie. `fit` goes over the result.
    """

    def convert_element(element: Any, run: Run) -> Any:
        held = [element]
        del element  # the list has it now, and the caller, if that has a name for it
        converted = convert_part(getrefcount(held[0]) == _ONE_HOLDER, held[0], run.slots)
        return converted if fit is None else fit(converted)

    # Holders are counted before a part is an argument, which is one more.
    def convert_part(is_alone: bool, part: Any, slots: Slots) -> Any:
        kind = type(part)
        if kind is np.ndarray:
            return convert(part, is_alone, slots)
        if kind is tuple:
            places = range(len(part))
            return tuple([
                convert_part(is_alone and getrefcount(part[i]) == _ONE_HOLDER, part[i], slots) for i in places
            ])  # fmt: skip
        if kind is dict:
            return {
                key: convert_part(is_alone and getrefcount(part[key]) == _ONE_HOLDER, part[key], slots) for key in part
            }
        structure = Structure.of(part)
        if structure.is_leaf:
            return convert(part, is_alone, slots)
        parts = list(structure.fields(part))  # a second holder of each
        converted = [
            convert_part(is_alone and getrefcount(parts[i]) == _ONE_HOLDER + 1, parts[i], slots)
            for i in range(len(parts))
        ]
        return Structure(structure.kind, structure.keys, (LEAF,) * len(parts)).unflatten(converted)

    return convert_element
