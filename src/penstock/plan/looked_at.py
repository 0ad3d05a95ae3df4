"""Looked at: what a function has captured, each value as a text that other processes agree on.

A number is its own text, other values are a hash. Whoever resumes must not be refused for nothing: so only that is
looked at which stays as it is while a pipeline runs, and nothing is said of objects of other kinds, nor of what the
function itself writes to. Equal dicts have equal texts, whatever their order.

It takes no long time, either. Of large arrays pieces count, of long lists items at equal distances, of long dicts and
sets their length; of what lies in a container the less, the more there is of it. A function is looked at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .array_sample import about, holds_objects, sampled
from .contents import Captured, digest, function_made_of, in_one_order, is_function
from .writes import Writes, writes_of_function

__all__ = ["Look", "is_hash", "unwritten", "without_names"]

_NUM_PIECES = 64
_PIECE = 16  # elements side by side
_MOST_ITEMS = 4096  # of one container
_DEEPEST = 8
_NUMBERS = (int, float, complex, bool, type(None))
_MUTABLE = (list, dict, set, bytearray, np.ndarray)


def is_hash(text: str) -> bool:
    """Whether a text is a hash, and no number to show."""
    return len(text) == 12 and all(c in "0123456789abcdef" for c in text)


def unwritten(captured: Captured, writes: Writes) -> Captured:
    """What a function has captured, but for variables and attributes that it writes to."""
    written = writes.assigned | writes.changed
    return [(name, value) for name, value in captured if name.partition(" ")[2] not in written]


def without_names(what: list[Any]) -> list[Any]:
    """What functions are made of: where there is code, that is what counts, and not where it stands in a program."""
    flat = [part for function in what for part in (function if isinstance(function, list) else [function])]
    has_code = any(hasattr(part, "co_code") for part in flat)
    return [part for part in flat if not (has_code and isinstance(part, str))]


class Look:
    """Looks at values.

    Args:
        whole_bytes: Of an array up to so many every byte counts.
        most: How many values it looks at in one that has others in it.
    """

    def __init__(self, whole_bytes: int, most: int) -> None:
        self._whole_bytes = whole_bytes
        self._most = most
        # By address: functions that refer to each other would be looked at again and again. Kept, with them, so that no
        # address is used twice.
        self._functions: dict[int, tuple[Any, str]] = {}

    def text(self, value: Any, are_items_written: bool = False) -> str | None:
        """A value's text; None where nothing can be said."""
        return self._text(value, are_items_written, 0, self._most)

    def data(self, array: np.ndarray) -> list[Any]:
        """Shape, dtype and contents; of a large array those of pieces."""
        looked_at = sampled(array, self._whole_bytes, _NUM_PIECES, _PIECE)
        if not holds_objects(looked_at):
            return [*about(array), digest(looked_at)]
        return [*about(array), digest([self._text(part, True, _DEEPEST, 1) for part in looked_at.ravel().tolist()])]

    def _text(self, value: Any, are_items_written: bool, depth: int, most: int) -> str | None:
        if isinstance(value, np.generic):
            return digest([value.dtype.str, value.item()])
        if type(value) in _NUMBERS:
            text = repr(value)
            return text if len(text) <= 24 and not is_hash(text) else digest(value)
        if isinstance(value, (str, bytes, np.dtype, type)):
            return digest(value.str if isinstance(value, np.dtype) else value)
        if depth > _DEEPEST or (are_items_written and isinstance(value, _MUTABLE)):
            return None
        if type(value) is np.ndarray or isinstance(value, np.memmap):
            return digest(self.data(value))
        if isinstance(value, (tuple, list, set, frozenset, dict)):
            return self._of_container(value, are_items_written, depth, most)
        if is_function(value):
            return self._of_function(value, depth, most)
        params = getattr(type(value), "__dataclass_params__", None)
        if params is not None and params.frozen:
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._of_container(fields, are_items_written, depth, most)
        return None

    def _of_container(self, value: Any, are_items_written: bool, depth: int, most: int) -> str | None:
        name, length, most_items = type(value).__name__, len(value), min(most, _MOST_ITEMS)
        if length > most_items and not isinstance(value, (tuple, list)):
            return digest([name, length])
        each = max(1, most // max(1, length))

        def text(part: Any) -> str | None:
            return self._text(part, are_items_written, depth + 1, each)

        texts: list[Any]
        if isinstance(value, dict):
            texts = [text(part) for item in in_one_order(value) for part in item]
            return None if None in texts else digest([name, *texts])
        if length > most_items:
            places = np.linspace(0, length - 1, max(1, most_items)).astype(np.int64).tolist()
            texts = [length, *(text(value[place]) for place in places)]
        else:
            texts = [text(part) for part in value]
        if None in texts:
            return None
        return digest([name, *(sorted(texts) if isinstance(value, (set, frozenset)) else texts)])

    def _of_function(self, function: Any, depth: int, most: int) -> str:
        known = self._functions.get(id(function))
        if known is not None:
            return known[1]
        self._functions[id(function)] = function, "itself"
        what, captured = function_made_of(function)
        captured = unwritten(captured, writes_of_function(function))
        each = max(1, most // max(1, len(captured)))
        # Who else writes to what it has captured is not known here.
        parts = [self._text(part, True, depth + 1, each) for _, part in captured]
        text = digest([*without_names(what), *parts])
        self._functions[id(function)] = function, text
        return text
