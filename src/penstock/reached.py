"""Reached: what errors keep in memory through objects of any class.

An error may refer to an instance, a closure, a partial, a bound method or a generator, and through that to an array.
What such objects refer to is asked of the garbage collector, so that nothing of the user's is called, and of a few
objects only. An object that somebody else refers to lives longer than the error, and nothing is looked for behind it;
nor behind classes, modules, and the names that functions find there. Arrays, strings, containers and dataclasses count
in any case: the one who refers to them may be the stage that is just letting go of its element.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from sys import getrefcount
from types import CodeType, FrameType, FunctionType, GetSetDescriptorType, ModuleType, NoneType, TracebackType
from typing import Any

import numpy as np

__all__ = ["Reached"]

_MOST_THINGS = 300
# Of what is larger nobody needs to know what is in it; and strings that are shorter do not matter.
_LARGE_BYTES = 4096
_SHORT = 64
_SMALL = (int, float, complex, NoneType, np.generic, type, ModuleType, CodeType)
# Errors are looked at by themselves, and have been relieved of their frames.
_NOT_FOLLOWED = (*_SMALL, BaseException, FrameType, TracebackType)
_STRINGS = (str, bytes, bytearray)
_CONTAINERS = (tuple, list, dict, set, frozenset)
# The list of things, and getrefcount's own argument.
_LISTED = 2


class Reached:
    """What some errors refer to."""

    __slots__ = ("_below", "_places", "_shared", "_things")

    def __init__(self, errors: Iterable[BaseException]) -> None:
        self._things: list[Any] = list(errors)
        self._places = {id(error): place for place, error in enumerate(self._things)}
        self._below: list[list[int]] = []
        num_errors, num_inner = len(self._things), [0] * len(self._things)
        self._follow(num_inner)
        self._shared = {
            place
            for place in range(num_errors, len(self._things))
            if getrefcount(self._things[place]) - _LISTED > num_inner[place] and not _is_data(self._things[place])
        }

    def _follow(self, num_inner: list[int]) -> None:
        """Finds things breadth first, and counts the references among them."""
        for thing in self._things:  # which grow meanwhile
            below: list[int] = []
            for part in _parts(thing):
                place = self._places.get(id(part))
                if place is None and len(self._things) < _MOST_THINGS:
                    place = self._places[id(part)] = len(self._things)
                    self._things.append(part)
                    num_inner.append(0)
                if place is not None:
                    num_inner[place] += 1
                    below.append(place)
            self._below.append(below)

    def bytes_behind(self, value: Any) -> int:
        """Bytes of a value and of all that is reached through it; 0 for what was not found, or lives anyway."""
        place = self._places.get(id(value))
        if place is None or place in self._shared:
            return 0
        places, seen, total = [place], {place}, 0
        for i in places:  # which grow meanwhile
            total += _own_bytes(self._things[i])
            new = [below for below in self._below[i] if below not in seen and below not in self._shared]
            seen.update(new)
            places += new
        return total


# By type, here and below: what is asked of an object may be answered by code of the user's.


def _is_data(thing: Any) -> bool:
    kind = type(thing)
    if issubclass(kind, (np.ndarray, *_STRINGS, *_CONTAINERS)):
        return True
    return any("__dataclass_fields__" in vars(base) for base in kind.__mro__)


def _parts(thing: Any) -> list[Any]:
    """What a thing refers to and may be large, or refer to what is."""
    kind = type(thing)
    if issubclass(kind, _STRINGS) or (kind in _CONTAINERS and sys.getsizeof(thing) > _LARGE_BYTES):
        return []
    if issubclass(kind, np.ndarray):
        has_few_objects = thing.dtype.hasobject and thing.nbytes <= _LARGE_BYTES
        parts: list[Any] = [thing.base, *(thing.ravel().tolist() if has_few_objects else ())]
    elif kind is FunctionType:
        parts = [*(thing.__closure__ or ()), thing.__defaults__, thing.__kwdefaults__]
    else:
        parts = gc.get_referents(thing)
    return [part for part in parts if not issubclass(type(part), _NOT_FOLLOWED) and not _is_short(part)]


def _is_short(part: Any) -> bool:
    return type(part) in _STRINGS and len(part) <= _SHORT


def _own_bytes(thing: Any) -> int:
    """What a thing takes without its parts; of a view nothing, where what it looks at is one of them."""
    kind = type(thing)
    if issubclass(kind, np.ndarray):
        return 0 if isinstance(thing.base, (np.ndarray, *_STRINGS, memoryview)) else int(thing.nbytes)
    if kind in (*_STRINGS, *_CONTAINERS):
        return sys.getsizeof(thing)
    counted = getattr(kind, "nbytes", None)
    nbytes = counted.__get__(thing) if type(counted) is GetSetDescriptorType and kind is not memoryview else 0
    return object.__sizeof__(thing) + (nbytes if type(nbytes) is int else 0)
