"""Reads: which attributes of its object a method may read, as far as its code tells.

Known by name are those that stand behind `self.` in the method, and in methods and properties of the class which it
names in turn. Where the object itself goes to somebody else (`f(self)`, `for x in self`), or attributes are looked up
in another way, it may be any of them. So a method is not taken for another because something else in its object is.
"""

from __future__ import annotations

import dis
import functools
import weakref
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

__all__ = ["attributes_read"]

# What may follow the object: then it is not given to anybody. `LOAD_SUPER_ATTR` is `super().name`.
_OF_OBJECT = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR")
_LOADS_VARIABLE = ("LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST", "LOAD_CLASSDEREF")
_BETWEEN = ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "RESUME")


#: By class, as long as that lives, and by the code of methods: these themselves may have captured large arrays.
_KNOWN: weakref.WeakKeyDictionary[type, dict[CodeType, frozenset[str] | None]] = weakref.WeakKeyDictionary()


def attributes_read(method: FunctionType, kind: type) -> frozenset[str] | None:
    """Names among which are all attributes that a method reads of an object of this class; None if it may be any."""
    known = _KNOWN.setdefault(kind, {})
    if method.__code__ not in known:
        known[method.__code__] = _found(method, kind)
    return known[method.__code__]


def _found(method: FunctionType, kind: type) -> frozenset[str] | None:
    looked_up: Any = kind.__getattribute__
    if looked_up is not object.__getattribute__ or hasattr(kind, "__getattr__"):
        return None
    names: set[str] = set()
    known = [method]
    for function in known:  # and those that are added meanwhile
        code = function.__code__
        if not code.co_argcount or _gives_away(code, code.co_varnames[0]):
            return None
        named = _names(code)
        if "__dict__" in named:
            return None
        for name in named - names:
            found = _functions_named(name, kind)
            if found is None:
                return None
            known += [other for other in found if other not in known]
        names |= named
    return frozenset(names)


def _names(code: CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(code.co_freevars, code.co_varnames, *inner)


def _gives_away(code: CodeType, name: str) -> bool:
    """Whether the variable is used for anything but its attributes."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _BETWEEN]
    for i, step in enumerate(steps):
        if not step.opname.startswith(_LOADS_VARIABLE):
            continue
        loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)  # newer Pythons load two in one
        is_last = loaded[-1] == name and i + 1 < len(steps) and steps[i + 1].opname in _OF_OBJECT
        if name in loaded[:-1] or (loaded[-1] == name and not is_last):
            return True
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return any(name in const.co_freevars and _gives_away(const, name) for const in inner)


def _functions_named(name: str, kind: type) -> list[FunctionType] | None:
    """Methods and properties of a class under this name, in all its bases; None if there is one of another kind."""
    found: list[FunctionType] = []
    for base in kind.__mro__:
        member = base.__dict__.get(name)
        if isinstance(member, (staticmethod, classmethod, type)) or not hasattr(type(member), "__get__"):
            continue  # it gets no object, or is none of code's
        if type(member).__name__ in ("member_descriptor", "getset_descriptor"):  # one of `__slots__`
            continue
        functions = list(_functions_in(member))
        if not functions or not all(isinstance(function, FunctionType) for function in functions):
            return None
        found += functions
    return found


def _functions_in(member: Any) -> Iterator[Any]:
    if isinstance(member, property):
        yield from (function for function in (member.fget, member.fset, member.fdel) if function is not None)
    elif isinstance(member, (functools.cached_property, functools.partialmethod)):
        yield member.func
    else:
        yield getattr(member, "__wrapped__", None) if not isinstance(member, FunctionType) else member
