"""Temporaries: what a user's function takes for a moment beside what it returns.

They are not on the ledger: nobody knows them before a call, and after it they are gone. So they are measured where a
sample is run (`explain(sample=…)`), and shown. `tracemalloc` counts what Python and NumPy allocate, and is on during a
call only: it makes functions of many small objects seven times slower, which no run should pay for (ADR 0008).

It counts for the whole process. So measured calls take turns, and a user who runs `tracemalloc` himself keeps it as it
is: its peak is his, and nothing is measured then.

`map_fn` measures some calls too, and puts what it finds on the ledger: a function of one element at a time is all there
is to its pipeline.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import forked
from ..element import arrays_in
from ..plan.op import Op
from .meter import Meter

__all__ = ["call_measured", "measuring"]

# One call at a time, or one would count what the other takes.
_TURN = forked.reentrant_lock()
# A function may wait for another call of it: then neither is worth waiting for.
_PATIENCE_S = 1.0


def measuring(op: Op, meter: Meter) -> Op:
    """The operator with its users' functions measured, or itself if it has none."""
    functions = {field.name: getattr(op, field.name) for field in dataclasses.fields(op) if "Callable" in field.type}
    functions = {name: function for name, function in functions.items() if function is not None}
    if not functions:
        return op
    # A copy as it is: an operator made anew would check its arguments again.
    measured = copy.copy(op)
    for name, function in functions.items():
        object.__setattr__(measured, name, _measured(function, meter))
    return measured


def _measured(function: Callable[..., Any], meter: Meter) -> Callable[..., Any]:
    def measured(*args: Any, **kwargs: Any) -> Any:
        result = call_measured(meter.saw_temporaries, function, args, kwargs)
        return _MeasuredIterator(result, meter) if isinstance(result, Iterator) else result

    return functools.update_wrapper(measured, function)


class _MeasuredIterator:
    """What a generator function returned: its work is done when it is asked for the next value."""

    def __init__(self, values: Iterator[Any], meter: Meter) -> None:
        self._values = values
        self._meter = meter

    def __iter__(self) -> _MeasuredIterator:
        return self

    def __next__(self) -> Any:
        return call_measured(self._meter.saw_temporaries, next, (self._values,), {})

    def close(self) -> None:
        close = getattr(self._values, "close", None)
        if close is not None:
            close()


def call_measured(
    saw: Callable[[int], None], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls a function, and tells `saw` the bytes that it took beside its result, where they could be measured."""
    if not _TURN.acquire(timeout=_PATIENCE_S):
        return function(*args, **kwargs)
    try:
        if tracemalloc.is_tracing():  # the user's; or this is a call within a measured one
            return function(*args, **kwargs)
        tracemalloc.start()
        try:
            result = function(*args, **kwargs)
            if tracemalloc.is_tracing():  # else the function itself has ended it
                # Only what was allocated since the start is counted, so both begin at nothing.
                left, peak = tracemalloc.get_traced_memory()
                saw(peak - left + min(left, _held_beside(result, args)))
            return result
        finally:
            tracemalloc.stop()
    finally:
        _TURN.release()


def _held_beside(result: Any, args: tuple[Any, ...]) -> int:
    """Bytes that a result keeps alive and does not show: a view of a few rows keeps the whole array."""
    given = {id(_owner(array)) for arg in args for array in arrays_in(arg)}
    beside: dict[int, int] = {}
    for array in arrays_in(result):
        owner = _owner(array)
        if id(owner) not in given:
            beside[id(owner)] = beside.get(id(owner), owner.nbytes) - array.nbytes
    return sum(nbytes for nbytes in beside.values() if nbytes > 0)


def _owner(array: np.ndarray) -> np.ndarray:
    return array.base if isinstance(array.base, np.ndarray) else array
