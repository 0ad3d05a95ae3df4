"""Functions as compilers see them: code, and the values that it finds when it is compiled, never to look again.

Where all of these are plain, they are a key for what was compiled, and a copy of the function has them and nothing else
of the user's: neither may be changed by what happens to the function's surroundings later.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
from collections.abc import Hashable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["frozen"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_LIBRARIES = (np, math)
# Where these are named, what the function finds may be another thing the next time.
_CHANGING = {"open", "input", "eval", "exec", "globals", "locals", "vars", "__import__", "id", "breakpoint"}
_CHANGING |= {"random", "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"}


class _NotPlain(Exception):
    """A value that may be another one the next time, though it is the same object."""


def frozen(
    function: Any, libraries: tuple[ModuleType, ...] = (), *, is_run: bool = False
) -> tuple[Hashable, FunctionType] | None:
    """A key of the function as it is now, and a copy that stays so; None where it refers to what may change.

    Args:
        function: The user's.
        libraries: Modules, beside NumPy's, of which all stays as it is.
        is_run: Whether it is run to be compiled, and finds whatever it looks for elsewhere: in a file, say.
    """
    if type(function) is not FunctionType:
        return None
    libraries = (*_LIBRARIES, *libraries)
    try:
        if is_run and not _CHANGING.isdisjoint(_all_names(function.__code__)):
            return None
        outside = {name: _global(function, name) for name in _global_names(function.__code__)}
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
        defaults = (function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items())))
        values = [_key(value, libraries) for value in (tuple(outside.items()), tuple(captured), defaults)]
        key = (function.__code__, *values)
    except (_NotPlain, ValueError):  # a cell that nothing was assigned to yet
        return None
    names = {"__name__": function.__module__, "__builtins__": builtins, **outside}
    cells = tuple([CellType(value) for value in captured])
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    return key, copy


@functools.lru_cache(64)
def _global_names(code: CodeType) -> list[str]:
    return sorted(set(_globals_in(code)))


@functools.lru_cache(64)
def _all_names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*[_all_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)])


def _globals_in(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
        elif step.opname in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            raise _NotPlain
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_in(inner)


def _global(function: FunctionType, name: str) -> Any:
    if name in function.__globals__:
        return function.__globals__[name]
    if not hasattr(builtins, name):
        raise _NotPlain
    return getattr(builtins, name)


def _key(value: Any, libraries: tuple[ModuleType, ...]) -> Hashable:
    if isinstance(value, tuple):
        return type(value), tuple([_key(each, libraries) for each in value])
    if type(value) in _PLAIN or isinstance(value, np.number | np.bool_):
        return type(value), repr(value)  # which tells 0.0 from -0.0
    if isinstance(value, ModuleType) and value in libraries:
        return value.__name__
    # What libraries and Python have under its name is theirs, and stays as it is.
    name = getattr(value, "__name__", "")
    # Not `getattr`, with which NumPy warns of names that it has no more: `str` is one.
    if callable(value) and any(vars(library).get(name) is value for library in (*libraries, builtins)):
        return name, value
    raise _NotPlain
