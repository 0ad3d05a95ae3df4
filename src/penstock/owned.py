"""Results of functions that look at memory which only they keep alive, as elements that own their bytes.

A view counts as the bytes that it shows, and a read-only one as none: it is taken for a window on an array of the
user's, which lives anyway. But whoever holds the view of an array that nobody else has holds that array, a thousand
times what is counted if that was cropped; and what `np.frombuffer` makes of `bytes`, `to_numpy` of Arrow's memory,
`np.asarray` of a JAX array or `np.from_dlpack` of anything keeps memory alive that is no array's. Such views are copied
as they come, so that they are counted like any other. So are read-only views of arrays that somebody else holds: that
may be a function that keeps the last file it read. Left alone are views of windows that the function was given, of
mapped files, whose bytes are the page cache's, and those that can be changed and show all that they keep alive, such as
an array in another shape, or a part of one that somebody else holds: these are counted.
"""

from __future__ import annotations

import mmap
from sys import getrefcount
from typing import Any

import numpy as np

from .element import Structure, arrays_in
from .leaf import Ragged, Sparse

__all__ = ["owned"]

# What is held besides an array's object: less is not worth a copy, of what may be a number repeated a million times.
_SMALLEST = 64
# The name and getrefcount's own argument.
_NO_VIEW = 2


def owned(element: Any, given: Any = None) -> Any:
    """`element`, with copies of the arrays that look at memory which nobody else is known to hold.

    Args:
        element: What a function returned.
        given: What it was called with.

    >>> owned(np.frombuffer(b"ab", np.uint8)).flags.owndata
    True
    >>> owned(np.zeros(1000)[:10]).flags.owndata
    True
    """
    kind = type(element)
    if kind is tuple or kind is dict:
        # Most elements end here, in a third of the time that a look through any nest takes.
        for part in element if kind is tuple else element.values():
            if type(part) is np.ndarray:
                if part.base is not None:
                    break
            elif not isinstance(part, np.generic):
                break
        else:
            return element
    arrays = arrays_in(element)
    for array in arrays:
        if array.base is not None and _is_to_be_copied(array, arrays, given):
            return _copied(element, arrays, given)
    return element


def _copied(element: Any, arrays: list[np.ndarray], given: Any) -> Any:
    """The element with copies of such arrays; which they are is found before any is copied."""
    alone = {id(a) for a in arrays if a.base is not None and _is_to_be_copied(a, arrays, given)}
    if not _is_nest(element):
        return _with_copies(element, alone)
    return Structure.of(element).map(lambda leaf: _with_copies(leaf, alone), element)


def _with_copies(leaf: Any, alone: set[int]) -> Any:
    if isinstance(leaf, Ragged):
        return Ragged(_with_copies(leaf.values, alone), _with_copies(leaf.row_splits, alone))
    if isinstance(leaf, Sparse):
        parts = leaf.indices, leaf.values, leaf.dense_shape
        return Sparse(*[_with_copies(part, alone) for part in parts])
    return leaf.copy() if id(leaf) in alone else leaf


def _is_nest(element: Any) -> bool:
    return not isinstance(element, (np.ndarray, Ragged, Sparse))


def _is_to_be_copied(array: np.ndarray, arrays: list[np.ndarray], given: Any) -> bool:
    return _pins(array, arrays, given) if array.flags.writeable else _holds_alone(array, arrays, given)


def _pins(array: np.ndarray, arrays: list[np.ndarray], given: Any) -> bool:
    """Whether more memory than the element shows lives by a view in it that can be changed, and by nothing else."""
    root, memory = _root(array)
    if root.nbytes - array.nbytes <= _SMALLEST or isinstance(memory, mmap.mmap):
        return False
    shown, num_views = array.nbytes, 1
    if len(arrays) > 1:
        shown, num_views = 0, 0
        for other in arrays:
            if other is root:
                return False
            if _root(other)[0] is root:
                shown += other.nbytes
                num_views += 1
        if root.nbytes - shown <= _SMALLEST:
            return False
    # What the function was given goes when it is done, unless it is the part of a slot, which others hold and count.
    for known in () if given is None else arrays_in(given):
        if known is root:
            return memory is None
        num_views += known.base is not None and _root(known)[0] is root
    return getrefcount(root) - _NO_VIEW <= num_views


def _holds_alone(array: np.ndarray, arrays: list[np.ndarray], given: Any) -> bool:
    """Whether the memory that a read-only view looks at may come to live by this element alone."""
    root, memory = _root(array)
    # A view of what came is a window if that was one. Most are found here, without a look through any nest.
    kind = type(given)
    for part in given if kind is tuple else given.values() if kind is dict else (given,):
        if type(part) is np.ndarray and part.base is root:
            return part.flags.writeable
    for known in () if given is None else arrays_in(given):
        if _root(known)[0] is root:
            return known.base is None or known.flags.writeable
    if memory is not None:
        return not isinstance(memory, mmap.mmap)
    if root.nbytes <= _SMALLEST or any(other is root for other in arrays):
        return False
    if array.nbytes <= root.nbytes:
        return True  # whoever else holds it may let go of it before this element goes: a function that keeps some files
    num_views = 0
    for other in arrays:
        num_views += other.base is root
    return getrefcount(root) - _NO_VIEW <= num_views


def _root(array: np.ndarray) -> tuple[np.ndarray, Any]:
    """The array that all views of a memory have as their base, and what it looks at itself; None if it owns it."""
    memory: Any = array.base
    while isinstance(memory, np.ndarray):
        array, memory = memory, memory.base
    return array, memory
