"""Functions as numba sees them: code, and the values that it finds when it compiles, which it never looks at again.

Where all of these are plain, they are a key for what was compiled, and a copy of the function has them and nothing else
of the user's: neither may be changed by what happens to the function's surroundings later.
"""

from __future__ import annotations

import builtins
import dis
import math
from collections.abc import Hashable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["frozen"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_LIBRARIES = (np, math)


class _NotPlain(Exception):
    """A value that may be another one the next time, though it is the same object."""


def frozen(function: Any) -> tuple[Hashable, FunctionType] | None:
    """A key of the function as it is now, and a copy that stays so; None where it refers to what may change."""
    if type(function) is not FunctionType:
        return None
    try:
        outside = {name: _global(function, name) for name in sorted(set(_global_names(function.__code__)))}
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
        defaults = (function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items())))
        key = (function.__code__, _key(tuple(outside.items())), _key(tuple(captured)), _key(defaults))
    except (_NotPlain, ValueError):  # a cell that nothing was assigned to yet
        return None
    names = {"__name__": function.__module__, "__builtins__": builtins, **outside}
    cells = tuple([CellType(value) for value in captured])
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    return key, copy


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
        elif step.opname in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            raise _NotPlain
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _global(function: FunctionType, name: str) -> Any:
    if name in function.__globals__:
        return function.__globals__[name]
    if not hasattr(builtins, name):
        raise _NotPlain
    return getattr(builtins, name)


def _key(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return type(value), tuple([_key(each) for each in value])
    if type(value) in _PLAIN or isinstance(value, np.number | np.bool_):
        return type(value), repr(value)  # which tells 0.0 from -0.0
    if isinstance(value, ModuleType) and value in _LIBRARIES:
        return value.__name__
    # What libraries and Python have under its name is theirs, and stays as it is.
    name = getattr(value, "__name__", "")
    # Not `getattr`, with which NumPy warns of names that it has no more: `str` is one.
    if callable(value) and any(vars(library).get(name) is value for library in (*_LIBRARIES, builtins)):
        return name, value
    raise _NotPlain
