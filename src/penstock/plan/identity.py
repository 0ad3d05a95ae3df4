"""Identity: a pipeline as text that is the same in another process, and another when what it yields may be.

For files that outlive a process. An operator is its fingerprint (name and arguments) and, where it has functions, a
hash of what they are made of: bytecode, constants, defaults, and the plain values that they close over. Not looked at:
the user's arrays and files, global variables, what a function calls in other modules.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
from types import CodeType
from typing import Any

import numpy as np

from .node import Node
from .op import Op

__all__ = ["identity_of", "same_operator"]

_CODE = " with code "
_PYTHON = " of Python "
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)


def identity_of(node: Node) -> list[str]:
    """The operators of a plan, one text each, sources first."""
    return [_operator(child.op) for child in node.walk()]


def _operator(op: Op) -> str:
    hidden = (*op.internal, *op.tuning)
    functions = [
        value
        for field in dataclasses.fields(op)
        if field.name not in hidden and callable(value := getattr(op, field.name))
    ]
    if not functions:
        return op.fingerprint()
    code = hashlib.blake2b(repr([_of(function) for function in functions]).encode(), digest_size=6).hexdigest()
    return f"{op.fingerprint()}{_CODE}{code}{_PYTHON}{'{}.{}'.format(*sys.version_info[:2])}"


def same_operator(was: str, now: str) -> bool:
    """Whether two texts may be those of one operator: of code that other versions of Python made nothing is known."""
    if was == now:
        return True
    (old, _, old_python), (new, _, new_python) = was.rpartition(_PYTHON), now.rpartition(_PYTHON)
    return old_python != new_python and old.rpartition(_CODE)[0] == new.rpartition(_CODE)[0] != ""


def _of(value: Any, depth: int = 0) -> Any:
    """A value as nested tuples of plain ones."""
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, CodeType):
        # Neither file nor lines: moving a function changes nothing.
        return "code", value.co_code.hex(), value.co_names, [_of(item, depth + 1) for item in value.co_consts]
    if depth > 8:
        return "deep"
    if isinstance(value, tuple):
        return "tuple", [_of(item, depth + 1) for item in value]
    if isinstance(value, frozenset):
        return "frozenset", sorted(repr(_of(item, depth + 1)) for item in value)
    if isinstance(value, np.ndarray):
        return "array", value.shape, str(value.dtype)
    if isinstance(value, functools.partial):
        return "partial", [_of(part, depth + 1) for part in (value.func, value.args, _items(value.keywords))]
    if callable(value):
        return _of_function(value, depth)
    # What can change (a list, an object) may be where a function keeps what it has seen: that is not what it is.
    return type(value).__module__, type(value).__qualname__


def _items(named: dict[str, Any] | None) -> tuple[Any, ...]:
    return tuple((named or {}).items())


def _of_function(function: Any, depth: int) -> Any:
    bound = getattr(function, "__self__", None)
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        called = type(function).__call__
        if getattr(called, "__code__", None) is None:  # written in C
            return getattr(function, "__module__", None), getattr(function, "__qualname__", type(function).__qualname__)
        fields = _items(getattr(function, "__dict__", None))
        return type(function).__qualname__, _of(called, depth + 1), _of(fields, depth + 1)
    cells = [_contents(cell) for cell in plain.__closure__ or ()]
    owner = None if bound is None else type(bound).__qualname__
    parts = (code, plain.__defaults__, _items(plain.__kwdefaults__), tuple(cells), owner)
    return plain.__qualname__, [_of(part, depth + 1) for part in parts]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
