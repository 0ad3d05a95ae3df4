"""At first: what functions had captured before they were called, as far as a glance tells.

What has changed when a position is saved is what a function, or somebody beside it, writes to, whatever the way: the
code does not always tell (`heapq.heappush(best, x)`, a `defaultdict` that is only read). It says nothing about what the
function is, and the process that resumes has it as it was at first.
"""

from __future__ import annotations

import weakref
from typing import Any

from .contents import function_made_of, operator_functions
from .looked_at import Look
from .node import Node

__all__ = ["changed_since", "note_at_first"]

_GLANCE_BYTES = 4096
_MOST = 64

#: By the address of a function, as long as that lives.
_AT_FIRST: dict[int, tuple[weakref.ref[Any], dict[str, str | None]]] = {}


def note_at_first(plan: Node) -> None:
    """To be called before the functions of a plan are; does nothing for those that were looked at before."""
    for node in plan.walk():
        for function in operator_functions(node.op):
            if id(function) not in _AT_FIRST:
                _note(function)


def changed_since(function: Any) -> set[str]:
    """Which of the things that a function has captured are others than at first."""
    if id(function) not in _AT_FIRST:
        return set()
    was, now = _AT_FIRST[id(function)][1], _glance(function)
    return {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}


def _note(function: Any) -> None:
    address, forget = id(function), _AT_FIRST.pop
    try:
        reference = weakref.ref(function, lambda _: forget(address, None))
    except TypeError:  # one of C's, which captures nothing
        return
    _AT_FIRST[address] = reference, _glance(function)


def _glance(function: Any) -> dict[str, str | None]:
    look = Look(_GLANCE_BYTES, _MOST, skips_written=False)
    return {name: look.text(value) for name, value in function_made_of(function)[1]}
