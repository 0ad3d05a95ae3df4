"""Whether results may be written while elements are still read: `out` may lie in the memory of `elems`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.exceptions import TooHardError

from ..errors import BadArgument
from ..plan.node import Node
from .elems import Elems

__all__ = ["check_apart"]

# Steps in which NumPy mostly finds out; it may take very many for views with strides of many kinds.
_WORK = 10_000


def check_apart(arrays: list[Any], elems: Elems) -> None:
    """Refuses arrays for results in one another, or in arrays of elements unless each result replaces its own element.

    Elements are read ahead, by threads and in blocks: one that was overwritten before would give a wrong result.
    """
    for one, other in itertools.combinations([array for array in arrays if isinstance(array, np.ndarray)], 2):
        if _shared(one, other):
            raise BadArgument("out: two of its arrays share memory, so results would overwrite each other")
    in_order = not elems.dataset.node.inputs  # an operator may read an element later than its place says, or twice
    for source in _sources(elems.dataset.node):
        for array in arrays:
            if not isinstance(array, np.ndarray) or not _shared(array, source) or len(array) <= 1:
                continue
            if in_order and _row_by_row(array, source):
                continue
            raise BadArgument(
                "out: lies in the memory of elems in another place or layout, so results would overwrite elements that "
                "are not read yet; give elems itself, to work in place, or an array of its own"
            )


def _sources(node: Node) -> list[np.ndarray]:
    """The arrays that a pipeline reads from."""
    found = list(getattr(node.op, "aliased_arrays", ()))
    return found + [array for below in node.inputs for array in _sources(below)]


def _shared(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        return np.shares_memory(one, other, _WORK)  # type: ignore[arg-type]  # any number of steps will do
    except TooHardError:
        return True


def _row_by_row(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a row of either array shares memory with that row of the other that has the same number, and no other."""
    if one.strides[0] != other.strides[0]:
        return False
    starts, ends = zip(_bounds(one[:1]), _bounds(other[:1]), strict=True)
    return max(ends) - min(starts) <= abs(one.strides[0])


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """The addresses of its first byte, and of that after its last."""
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0]
    return start + sum(step for step in steps if step < 0), start + array.itemsize + sum(s for s in steps if s > 0)
