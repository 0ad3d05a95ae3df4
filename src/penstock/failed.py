"""Failed: an error in the place of an element, relieved of what it would keep in memory while it waits.

Errors carry data: the whole string that could not be decoded, or an array among their arguments. One that waits in a
queue or a shuffle's buffer would hold it there, for as long as elements do. So what is large is taken out of an error
when it becomes an element, something short stands in for it, and what is left is counted as an element's bytes are. An
object of any class is large if the error alone keeps something large alive through it (`reached`).
"""

from __future__ import annotations

import operator
import sys
from contextlib import suppress
from types import MemberDescriptorType, ModuleType, NoneType
from typing import Any

import numpy as np

from .frames import ARGS, forget_frames
from .reached import Reached

__all__ = ["Failed"]

# More than this is taken out, but for the beginning of a string.
_LARGE_BYTES = 4096
_KEPT_LENGTH = 200
_NOT_KEPT = "not kept while the error waited"
# So deep it is looked for in containers.
_DEPTH = 3
_MOST_NOTES = 32

# Measured: an object of this class; a line of a traceback, of which the frame is shared with others.
_OWN_BYTES = 96
_LINE_BYTES = 64

_OF_KNOWN_SIZE = (str, bytes, bytearray, int, float, complex, NoneType, type, ModuleType, np.generic, np.ndarray)
_CONTAINERS = (tuple, list, dict, set, frozenset)


class Failed:
    """An element whose making raised: it travels in its place and raises when it is delivered.

    Errors as values is what lets a shuffle hold a failure in its slot, and a run go on after it. Wherever it waits it
    keeps nothing alive but itself, and that is little.
    """

    __slots__ = ("error", "error_bytes")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        errors = forget_frames(error)
        relief = _Relief(Reached(errors))
        for one in errors:
            relief.relieve(one)
        #: What the error takes, with those that it refers to.
        self.error_bytes: int = _OWN_BYTES + sum(map(relief.bytes_of, errors))

    def __repr__(self) -> str:
        return f"Failed({self.error!r})"


class _Relief:
    """Takes out of errors what is large; what several of them have in common is replaced by the same."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached
        # With what they stand in for, or another object could have its number meanwhile.
        self._stand_ins: dict[int, tuple[Any, Any]] = {}

    def relieve(self, error: BaseException) -> None:
        """Errors may be of any class, and not let us: then they stay as they are."""
        with suppress(Exception):
            if isinstance(error, AttributeError) and self._may_be_large(error.obj):
                error.obj = type(error.obj)  # by which Python finds a name that may have been meant
        text = self._relieve_unicode(error)
        with suppress(Exception):
            args = ARGS.__get__(error)
            lighter = tuple([self._light(value) for value in args])
            if not all(map(operator.is_, args, lighter)):
                ARGS.__set__(error, lighter)
        fields: dict[str, Any] = {}
        with suppress(Exception):
            fields = error.__dict__
        for name, value in list(fields.items()):
            with suppress(Exception):
                if (light := self._light_notes(value) if name == "__notes__" else self._light(value)) is not value:
                    fields[name] = light
        for member in _members(error):
            with suppress(Exception):
                value = member.__get__(error)
                if (light := self._light(value)) is not value:
                    member.__set__(error, light)
        with suppress(Exception):
            if text and str(error) != text:
                error.add_note(text)

    def _relieve_unicode(self, error: BaseException) -> str:
        """The text of an error that looks up in its object which byte or letter it is about."""
        if not isinstance(error, (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)):
            return ""
        with suppress(Exception):
            coded = error.object
            if self._size_of(coded) > _LARGE_BYTES:
                # That one stays, or is out of range: it must not look at what was put there.
                length = max(_KEPT_LENGTH, error.end if error.end <= _LARGE_BYTES else 0)
                self._stand_ins[id(coded)] = coded, _beginning(coded, length)
            return str(error)
        return ""

    def _light_notes(self, notes: list[str]) -> list[str]:
        """A list in any case, or Python could not show them."""
        light = [self._light(note) for note in notes[:_MOST_NOTES]]
        return notes if len(light) == len(notes) and all(map(operator.is_, light, notes)) else light

    def _light(self, value: Any, depth: int = _DEPTH) -> Any:
        """The value, or something short if it is large."""
        if id(value) in self._stand_ins:
            return self._stand_ins[id(value)][1]
        size = self._size_of(value, depth)
        if size <= _LARGE_BYTES:
            return value
        made = self._stand_in(value, size, depth)
        self._stand_ins[id(value)] = value, made
        return made

    def _stand_in(self, value: Any, size: int, depth: int) -> Any:
        if isinstance(value, (bytes, bytearray, str)):
            return _beginning(value, _KEPT_LENGTH)
        if isinstance(value, np.ndarray):
            if value.nbytes <= _LARGE_BYTES and not value.dtype.hasobject:
                return value.copy()  # of a few rows of something large
            return f"<{value.dtype} array of shape {value.shape}, {size:,} bytes: {_NOT_KEPT}>"
        kind = type(value)
        if depth and kind in (tuple, list, dict) and sys.getsizeof(value) <= _LARGE_BYTES:
            items = value.items() if kind is dict else enumerate(value)
            light = {key: self._light(item, depth - 1) for key, item in items}
            lighter = light if kind is dict else kind(light.values())
            if self._size_of(lighter, depth) <= _LARGE_BYTES:
                return lighter
        count = f" of {len(value):,}" if isinstance(value, _CONTAINERS) else ""
        return f"<{kind.__name__}{count}, {size:,} bytes or more: {_NOT_KEPT}>"

    def _may_be_large(self, value: Any) -> bool:
        """Of objects of other classes nobody knows what they hold."""
        return not isinstance(value, _OF_KNOWN_SIZE) or self._size_of(value) > _LARGE_BYTES

    def _size_of(self, value: Any, depth: int = _DEPTH) -> int:
        """About how many bytes a value keeps in memory; of what is large it suffices to know that it is."""
        if isinstance(value, (BaseException, type, ModuleType)):  # counted by itself, or there in any case
            return 0
        size = 0
        with suppress(Exception):  # of a class of the user's
            if isinstance(value, np.ndarray):
                return self._array_bytes(value)
            size = max(sys.getsizeof(value), _nbytes(value))
            if not depth or not isinstance(value, (*_OF_KNOWN_SIZE, *_CONTAINERS)):
                return max(size, self._reached.bytes_behind(value))
            if isinstance(value, _CONTAINERS):
                for item in (*value, *value.values()) if isinstance(value, dict) else value:
                    if size > _LARGE_BYTES:
                        break
                    size += self._size_of(item, depth - 1)
        return size

    def _array_bytes(self, array: np.ndarray) -> int:
        """Of a view, what it looks at, which it keeps."""
        owner: Any = array
        while getattr(owner, "base", None) is not None:
            owner = owner.base
        size = max(array.nbytes, _nbytes(owner) or sys.getsizeof(owner, 0))
        if array.dtype.hasobject and size <= _LARGE_BYTES:
            size += sum([self._size_of(item, 1) for item in array.reshape(-1).tolist()])
        return size

    def bytes_of(self, error: BaseException) -> int:
        """What an error takes, by itself."""
        size = sys.getsizeof(error, 0)
        held: dict[int, Any] = {}
        with suppress(Exception):
            args, fields = ARGS.__get__(error), error.__dict__
            size += sys.getsizeof(args) + sys.getsizeof(fields)
            held.update((id(value), value) for value in (*args, *fields.values()))
        for member in _members(error):
            with suppress(Exception):
                value = member.__get__(error)
                held[id(value)] = value
        step = error.__traceback__
        while step is not None:
            size += _LINE_BYTES
            step = step.tb_next
        return size + sum(map(self._size_of, held.values()))


def _beginning(value: Any, length: int) -> Any:
    unit = "characters" if isinstance(value, str) else "bytes"
    rest = f"... ({len(value) - length:,} {unit} more, {_NOT_KEPT})"
    return value[:length] + (rest if isinstance(value, str) else rest.encode())


def _members(error: BaseException) -> list[Any]:
    """What it has beside its dict: fields of Python's own errors, and those of `__slots__`."""
    kinds = type(error).__mro__
    return [field for kind in kinds for field in vars(kind).values() if isinstance(field, MemberDescriptorType)]


def _nbytes(value: Any) -> int:
    # Of its class, or a `__getattr__` of the user's would be called.
    nbytes = getattr(value, "nbytes", 0) if hasattr(type(value), "nbytes") else 0
    return nbytes if isinstance(nbytes, int) else 0
