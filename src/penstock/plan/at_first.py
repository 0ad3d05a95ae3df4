"""At first: what functions had captured when a run began, and what of it was written to since, as a glance tells.

The code of a function does not always tell what it writes to (`heapq.heappush(best, x)`, a `defaultdict` that is only
read), nor what others write meanwhile. What changes while a run is open says nothing about what the function is, and
the process that resumes has it as it was at first. What a user changes between two runs is another function.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .contents import function_made_of, is_function, operator_functions
from .node import Node

__all__ = ["begin_runs", "end_runs", "written_to"]

# How much of a value is looked at: some items, and those of containers in it. It is done for each run.
_NUM_ITEMS = 16
_DEEPEST = 1
_LONG = 1000
_PLAIN = (int, float, complex, bool, str, bytes, type(None))


@dataclasses.dataclass
class _Known:
    reference: weakref.ref[Any]
    seen: dict[str, Any]
    written: set[str]
    num_open: int = 0

    def look(self, function: Any) -> None:
        now = _seen(function)
        self.written |= {name for name in now.keys() | self.seen.keys() if now.get(name) != self.seen.get(name)}


#: By the address of a function, as long as that lives.
_KNOWN: dict[int, _Known] = {}


def begin_runs(plan: Node) -> None:
    """A run of a plan begins: none of its functions was called in it yet."""
    for function in _functions_of(plan):
        known = _KNOWN.get(id(function)) or _known(function)
        if known is not None:
            if not known.num_open:
                known.seen = _seen(function)
            known.num_open += 1


def end_runs(plan: Node) -> None:
    """A run that began is over."""
    for function in _functions_of(plan):
        known = _KNOWN.get(id(function))
        if known is not None:
            known.look(function)
            known.num_open -= 1


def written_to(functions: Iterable[Any]) -> set[str]:
    """Which of the things that functions have captured were written to, in this run or those before."""
    found: set[str] = set()
    for function in functions:
        known = _KNOWN.get(id(function))
        if known is not None:
            if known.num_open:
                known.look(function)
            found |= known.written
    return found


def _functions_of(plan: Node) -> Iterator[Any]:
    for node in plan.walk():
        functions = node.__dict__.get("_functions")
        if functions is None:
            functions = node.__dict__["_functions"] = operator_functions(node.op)
        yield from functions


def _known(function: Any) -> _Known | None:
    address, forget = id(function), _KNOWN.pop
    try:
        reference = weakref.ref(function, lambda _: forget(address, None))
    except TypeError:  # one of C's, which captures nothing
        return None
    return _KNOWN.setdefault(address, _Known(reference, {}, set()))


def _seen(function: Any) -> dict[str, Any]:
    return {name: _glance_at(value) for name, value in function_made_of(function)[1]}


def _glance_at(value: Any) -> Any:
    """A glance, or where that fails something that is never the same: then it counts as written to."""
    try:
        return _glance(value, 0)
    except Exception:  # such as a dict to which another thread writes: no run may end, or not begin, for that
        return object()


def _glance(value: Any, depth: int) -> Any:
    """Something to compare with what the same value is later; no copy of it, and nothing that keeps it."""
    if isinstance(value, (str, bytes)) and len(value) > _LONG:
        return len(value), hash(value)
    if isinstance(value, _PLAIN):
        return type(value), value if value == value else "nan"
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, np.ndarray):
        pieces = value.flat[:: max(1, value.size // _NUM_ITEMS)] if value.size else value
        return value.shape, value.dtype.str, pieces.tobytes()
    if depth > _DEEPEST:
        return None
    if isinstance(value, (list, tuple, set, frozenset, dict, bytearray, collections.deque)):
        items = itertools.chain.from_iterable(value.items()) if isinstance(value, dict) else value
        return len(value), [_glance(item, depth + 1) for item in itertools.islice(items, _NUM_ITEMS)]
    if is_function(value):
        return [_glance(part, depth + 1) for _, part in function_made_of(value)[1]]
    return None
