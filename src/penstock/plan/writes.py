"""Writes: what a function writes to, as far as its code tells.

Known by name are variables and attributes that it assigns, and those that it changes in place: of which it calls a
method that does so (`seen.append(x)`, `buffer.fill(0)`), or which it gives to a function that does
(`np.copyto(buffer, x)`). What else it writes to may be a part of anything, and a local variable another name of
anything: then all that is known is that it does.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CHANGES_ITSELF", "NOTHING", "Writes", "methods_of", "writes_of", "writes_of_function"]

_OF_CONTAINERS = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"),
    *("pop", "popitem", "popleft", "remove", "reverse", "setdefault", "update"),
)
# Methods of arrays; those of lists that an array has, too.
_OF_ARRAYS = frozenset(("fill", "itemset", "partition", "put", "resize", "setfield", "sort"))
#: Methods that change their object.
CHANGES_ITSELF = _OF_ARRAYS.union(_OF_CONTAINERS)
# Functions and methods that change their first argument: `np.copyto`, `np.add.at`, `rng.shuffle`, `file.readinto`.
_CHANGES_FIRST = frozenset(
    (
        *("at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"),
        *("readinto", "readinto1", "recv_into", "shuffle"),
    )
)
# Arguments that say where a result goes, as in `np.add(x, 1, out=buffer)`; OpenCV's `dst`.
_TARGETS = ("out", "dst")
_ASSIGNS = ("STORE_DEREF", "DELETE_DEREF", "STORE_ATTR", "DELETE_ATTR")
_ASSIGNS_ITEMS = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
# What loads a value by a name that is not another one's. A local variable may be.
_LOADS_NAMED = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
_LOADS_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_BETWEEN = ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL")
# Where an object's attributes are first given.
_MAKERS = ("__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__")


class Writes(NamedTuple):
    """What some code writes to."""

    #: Names of variables and attributes that it assigns.
    assigned: frozenset[str]
    #: Names of those whose value it changes.
    changed: frozenset[str]
    #: Whether it writes to what has no name of its own: items of something, or a local variable's value.
    unnamed: bool

    def joined(self, other: Writes) -> Writes:
        """What both write to."""
        return Writes(self.assigned | other.assigned, self.changed | other.changed, self.unnamed or other.unnamed)


NOTHING = Writes(frozenset(), frozenset(), False)


@functools.lru_cache(maxsize=1024)
def writes_of(code: CodeType) -> Writes:
    """What a function's code writes to, and that of functions in it."""
    assigned: set[str] = set()
    changed: set[str] = set()
    unnamed = False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _BETWEEN]
    for i, step in enumerate(steps):
        if step.opname in _ASSIGNS:
            assigned.add(str(step.argval))
        elif step.opname in _ASSIGNS_ITEMS:
            unnamed = True
        elif step.opname == "BINARY_OP" and step.argrepr.endswith("=") and i + 1 < len(steps):
            changed.update(_names(steps[i + 1]))  # as a default is, by `buffer += x`
        elif step.opname in _LOADS_ATTRIBUTE and i:
            name, targets = step.argval, []
            if name in CHANGES_ITSELF:
                targets.append(steps[i - 1])
            if name in _CHANGES_FIRST and i + 1 < len(steps):
                targets.append(_end_of_name(steps, i + 1))
            for target in targets:
                changed.update(_names(target))
                is_array = name in _OF_ARRAYS or name in _CHANGES_FIRST
                unnamed = unnamed or (is_array and target.opname not in _LOADS_NAMED)
    for const in code.co_consts:
        unnamed = unnamed or (isinstance(const, tuple) and any(name in const for name in _TARGETS))
    writes = Writes(frozenset(assigned), frozenset(changed), unnamed)
    inner = [writes_of(const) for const in code.co_consts if isinstance(const, CodeType)]
    return functools.reduce(Writes.joined, inner, writes)


def _names(step: dis.Instruction) -> list[str]:
    """The variables that a step loads or stores; newer Pythons do two in one."""
    if not step.opname.startswith(("LOAD_", "STORE_")):
        return []
    return [str(name) for name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))]


def _end_of_name(steps: list[dis.Instruction], i: int) -> dis.Instruction:
    """The step that ends the loading of `a`, or of `a.b.c`, which begins at one."""
    while i + 1 < len(steps) and steps[i + 1].opname in _LOADS_ATTRIBUTE:
        i += 1
    return steps[i]


def writes_of_function(function: Any) -> Writes:
    """What a function writes to, or any method of the object that is called; also by functions of the same module."""
    writes = NOTHING
    for plain in _functions_of(function):
        writes = writes.joined(writes_of(plain.__code__))
        if not writes.unnamed and _gives_target(plain.__code__, plain.__globals__):
            writes = writes._replace(unnamed=True)
    return writes


def methods_of(kind: type) -> Iterator[FunctionType]:
    """The methods of a class, but for those that make its objects."""
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if isinstance(member, FunctionType) and name not in _MAKERS:
                yield member


def _functions_of(function: Any) -> list[FunctionType]:
    while hasattr(function, "func") and hasattr(function, "keywords"):  # a partial
        function = function.func
    function = getattr(function, "pyfunc", function)  # of np.vectorize
    plain = getattr(function, "__func__", function)
    owner = getattr(function, "__self__", None) if isinstance(plain, FunctionType) else function
    found = [plain] if isinstance(plain, FunctionType) else []
    if owner is not None and not isinstance(owner, type):
        found += methods_of(type(owner))
    for known in found:  # and those that are added meanwhile
        found += [other for other in _called_by(known) if other not in found]
    return found


def _called_by(function: FunctionType) -> list[FunctionType]:
    """Functions of its own module that a function refers to: it may give them what it has captured."""
    values = [function.__globals__.get(name) for name in _global_names(function.__code__)]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not bound yet
            values.append(cell.cell_contents)
    functions = [value for value in values if isinstance(value, FunctionType)]
    return [value for value in dict.fromkeys(functions) if value.__globals__ is function.__globals__]


def _global_names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_global_names(const) for const in code.co_consts if isinstance(const, CodeType)))


def _gives_target(code: CodeType, scope: dict[str, Any]) -> bool:
    """Whether a function is called with an array for its result as a positional argument: `np.add(x, 1, buffer)`."""
    # By the height of the stack: what is called lies just below its arguments.
    pending: list[tuple[int, Any]] = []
    height, found = 0, None
    for step in dis.get_instructions(code):
        num_given = step.arg or 0
        if step.opname in ("CALL", "PRECALL") and num_given > 1:
            for below, called in pending:
                if height - num_given in (below, below + 1) and num_given > _num_inputs(called):
                    return True
        height += dis.stack_effect(step.opcode, step.arg, jump=False)
        pending = [(below, called) for below, called in pending if below <= height]
        if step.opname == "LOAD_GLOBAL":
            found = scope.get(str(step.argval))
        elif step.opname in _LOADS_ATTRIBUTE and isinstance(found, ModuleType):
            found = getattr(found, str(step.argval), None)
        elif step.opname not in _BETWEEN:
            found = None
        if found is not None and not isinstance(found, ModuleType):
            pending.append((height, found))
            found = None
    return any(_gives_target(const, scope) for const in code.co_consts if isinstance(const, CodeType))


def _num_inputs(function: Any) -> int:
    """How many arguments a function takes before the one that says where its result goes."""
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return next((names.index(name) for name in _TARGETS if name in names[1:]), sys.maxsize)
