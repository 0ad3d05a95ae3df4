"""What a saved position remembers of its operators, besides their arguments: code, captured values and data, as hashes.

Enough to tell that a function or the data are others than before, at little cost: a few texts of 12 characters for each
operator. They are made when a position is first asked for, and kept with the plan. Other processes make the same: no
address or line goes into them. Of sources they know the names of all files, and what elements are like.

Whoever resumes must not be refused for nothing. So only that is looked at which stays as it is while a pipeline runs:
code, numbers and text that a function has captured, arrays, and lists, dicts or frozen dataclasses of those. Not looked
at are values that the function itself writes to, objects of other kinds, and global variables; nor code that another
version of Python compiled. Of arrays above `WHOLE_BYTES` a sample counts. Processes that share a dataset load each
other's positions, and may have captured their own numbers: so between them captured values are not compared.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any

import numpy as np

from ..spec import UNSEEN, describe
from .array_sample import about, holds_objects, sampled
from .contents import digest, function_made_of, operator_functions, operator_made_of
from .node import Node, is_ours
from .writes import NOTHING, Writes, writes_of_function

__all__ = ["Remembered", "first_change", "is_of_another_process", "remembered"]

#: By what it is: "code", "captured k", "data".
Remembered = dict[str, str]

WHOLE_BYTES = 1 << 20
_NUM_PIECES = 64
_PIECE = 16  # elements side by side
# Longer lists take long to look at.
_MOST_PARTS = 4096
_DEEPEST = 8
_CODE, _PYTHON, _DATA, _PART, _FILES, _ELEMENTS = "code", "python", "data", "part", "files", "elements"
#: What processes that share a dataset have in common, and how it is told that it has changed.
_OF_ALL = {
    _CODE: "has a function with other code",
    _DATA: "has other data",
    _FILES: "has other files",
    _ELEMENTS: "has elements of other names, structure or types",
}
_NUMBERS = (int, float, complex, bool, type(None))
_MUTABLE = (list, dict, set, bytearray, np.ndarray)


def remembered(node: Node) -> Remembered:
    """What is remembered of the operator of a node; nothing where there is nothing but its arguments."""
    kept: Remembered | None = node.__dict__.get("_remembered")
    if kept is None:
        kept = node.__dict__["_remembered"] = _of_operator(node)
    return kept


def is_of_another_process(was: Sequence[Remembered], now: Sequence[Remembered]) -> bool:
    """Whether a plan was that of another of the processes that share a dataset."""
    return [kept.get(_PART) for kept in was] != [kept.get(_PART) for kept in now]


def first_change(was: Remembered, now: Remembered, *, ignores_captured: bool) -> str:
    """Which thing is another, in words; empty where none is known to be."""
    is_same_python = was.get(_PYTHON) == now.get(_PYTHON)
    for name, text in was.items():
        other = now.get(name, text)
        if other == text or name in (_PYTHON, _PART) or (name == _CODE and not is_same_python):
            continue
        if name in _OF_ALL:
            return _OF_ALL[name]
        if ignores_captured:
            continue
        shown = all(_is_shown(word) for word in (text, other))
        return f"has another {name}: it was {text} and is {other}" if shown else f"has another {name}"
    return ""


def _of_operator(node: Node) -> Remembered:
    found: Remembered = {}
    what, captured = operator_made_of(node)
    codes = _without_names(what)
    if codes and not any(isinstance(code, CodeType) and is_ours(code.co_filename) for code in codes):
        found[_CODE], found[_PYTHON] = digest(codes), "{}.{}".format(*sys.version_info[:2])
    writes = functools.reduce(Writes.joined, map(writes_of_function, operator_functions(node.op)), NOTHING)
    written = writes.assigned | writes.changed
    for name, value in captured:
        text = None if name.partition(" ")[2] in written else _text(value, writes.unnamed, 0)
        if text is not None:
            found[name] = digest([found[name], text]) if name in found else text
    arrays = getattr(node.op, "aliased_arrays", None) or getattr(node.op, "rows_to_know_by", None)
    if arrays:
        found[_DATA] = digest([_of_array(array) for array in arrays])
    names = getattr(node.op, "file_names", None)
    if names:
        found[_FILES] = digest(list(names))
    if not node.inputs and node.spec.element is not UNSEEN:
        found[_ELEMENTS] = digest(describe(node.spec.element))
    if node.op.part is not None:
        found[_PART] = f"{node.op.part_index} of {node.op.part[0]}"
    return found


def _without_names(what: list[Any]) -> list[Any]:
    """A function is known by its code: where it stands in a program may change."""
    flat = [part for function in what for part in (function if isinstance(function, list) else [function])]
    has_code = any(isinstance(part, CodeType) for part in flat)
    return [part for part in flat if not (has_code and isinstance(part, str))]


def _is_shown(text: str) -> bool:
    return not (len(text) == 12 and all(c in "0123456789abcdef" for c in text))


def _text(value: Any, are_items_written: bool, depth: int) -> str | None:
    """A number as it is, other values as a hash; None where nothing can be said."""
    if isinstance(value, np.generic):
        return digest([value.dtype.str, value.item()])
    if type(value) in _NUMBERS:
        text = repr(value)
        return text if len(text) <= 24 and _is_shown(text) else digest(value)
    if isinstance(value, (str, bytes, np.dtype, type)):
        return digest(value.str if isinstance(value, np.dtype) else value)
    if depth > _DEEPEST or (are_items_written and isinstance(value, _MUTABLE)):
        return None
    if type(value) is np.ndarray or isinstance(value, np.memmap):
        return digest(_of_array(value))
    if isinstance(value, (tuple, list, set, frozenset, dict)):
        return _of_container(value, are_items_written, depth)
    if isinstance(getattr(value, "__code__", None), CodeType) or isinstance(value, functools.partial):
        what, captured = function_made_of(value)
        parts = [_text(part, True, depth + 1) for _, part in captured]  # who writes to what is not known here
        return digest([*_without_names(what), *parts])
    params = getattr(value, "__dataclass_params__", None)
    if params is not None and params.frozen:
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _of_container(fields, are_items_written, depth)
    return None


def _of_container(value: Any, are_items_written: bool, depth: int) -> str | None:
    if len(value) > _MOST_PARTS:
        return digest([type(value).__name__, len(value)])
    parts = [part for item in value.items() for part in item] if isinstance(value, dict) else list(value)
    texts = [_text(part, are_items_written, depth + 1) for part in parts]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    return digest([type(value).__name__, *(sorted(known) if isinstance(value, (set, frozenset)) else known)])


def _of_array(array: np.ndarray) -> list[Any]:
    """Shape, dtype and contents; of a large one those of pieces."""
    looked_at = sampled(array, WHOLE_BYTES, _NUM_PIECES, _PIECE)
    if not holds_objects(looked_at):
        return [*about(array), digest(looked_at)]
    return [*about(array), digest([_text(part, True, _DEEPEST) for part in looked_at.ravel().tolist()])]
