"""Elements as they are kept: arrays that nobody can change, and what they keep alive."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ..block import Block
from ..element import Structure, arrays_in, detach, has_scalars_only, read_only
from ..leaf import Ragged, Sparse, leaf_bytes
from .singly import nest_bytes

__all__ = ["Sealed", "in_native_order", "sealed", "sealed_columns"]


def in_native_order(element: Any) -> Any:
    """The element with the machine's order of bytes in all arrays, which is what files give back."""
    if isinstance(element, np.ndarray):
        return element if element.dtype.isnative else element.astype(element.dtype.newbyteorder("="))
    if isinstance(element, Ragged):
        return Ragged(in_native_order(element.values), in_native_order(element.row_splits))
    if isinstance(element, Sparse):
        parts = element.indices, element.values, element.dense_shape
        return Sparse(*map(in_native_order, parts))
    if has_scalars_only(element):
        return element
    structure = Structure.of(element)
    if structure.is_leaf:
        return element
    leaves = structure.flatten(element)
    converted = [leaf if isinstance(leaf, np.generic) else in_native_order(leaf) for leaf in leaves]
    if all(map(operator.is_, converted, leaves)):
        return element
    return structure.unflatten(converted)


class Sealed(NamedTuple):
    """An element with arrays that nobody can change, as it will be given again."""

    element: Any
    #: What it keeps alive.
    nbytes: int
    #: How long it is on disk, where it has no objects around it, and a view is not next to nothing.
    length: int
    #: What its arrays look at that is somebody else's, by its id: the user's own, or what a cache below keeps.
    lent: frozenset[int] = frozenset()


def sealed(element: Any, copies: bool = False) -> Sealed:
    """An element that is to be kept; `copies`: as one that has nothing in common with what came."""
    if type(element) is bytes or isinstance(element, np.generic):
        length = leaf_bytes(element)
        return Sealed(_copied(element) if copies else element, length + _SCALAR_BYTES, length)
    structure = Structure.of(element)
    leaves = list(map(_copied, structure.flatten(element))) if copies else structure.flatten(detach(element))
    nbytes = sum(map(_kept_bytes, leaves), _PLACE_BYTES if structure.is_leaf else nest_bytes(len(leaves)))
    arrays = [array for leaf in leaves if not isinstance(leaf, np.generic) for array in arrays_in(leaf)]
    lent = [id(array.base) for array in arrays if array.base is not None]
    length = sum(map(leaf_bytes, leaves))
    return Sealed(structure.unflatten([read_only(leaf) for leaf in leaves]), nbytes, length, frozenset(lent))


def _copied(leaf: Any) -> Any:
    """A leaf that nobody else has."""
    if isinstance(leaf, Ragged):
        return Ragged(_copied(leaf.values), _copied(leaf.row_splits))
    if isinstance(leaf, Sparse):
        return Sparse(_copied(leaf.indices), _copied(leaf.values), _copied(leaf.dense_shape))
    if type(leaf) is bytes:
        return bytes(memoryview(leaf))
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def sealed_columns(block: Block, copies: bool = False) -> list[Sealed] | None:
    """The elements of a block of stacked numbers and texts: each costs a tenth of what `sealed` takes.

    None for other blocks, and for views of what is somebody else's, unless all are copied.
    """
    columns = block.columns
    if columns is None or not all(_is_text(c) or (c.dtype.kind in "biufc" and c.dtype.isnative) for c in columns):
        return None
    if not copies and not all(column.flags.writeable or column.ndim == 1 for column in columns):
        return None
    numbers = [c for c in columns if not _is_text(c)]
    length = sum(c[0].nbytes for c in numbers)
    nbytes = length + sum(_ARRAY_BYTES if c.ndim > 1 else _SCALAR_BYTES for c in columns)
    structure = block.structure
    if not structure.is_leaf:
        nbytes += nest_bytes(len(columns))
    elif columns[0].ndim > 1:
        nbytes += _PLACE_BYTES
    leaves = [_leaves(c, copies) for c in columns]
    elements = leaves[0] if structure.is_leaf else map(structure.unflatten, zip(*leaves, strict=True))
    if len(numbers) == len(columns):
        return [Sealed(element, nbytes, length) for element in elements]
    of_texts = [list(map(leaf_bytes, c)) for c in columns if _is_text(c)]
    text_bytes = map(sum, zip(*of_texts, strict=True))
    return [Sealed(element, nbytes + n, length + n) for element, n in zip(elements, text_bytes, strict=True)]


def _is_text(column: np.ndarray) -> bool:
    return column.dtype.hasobject and column.ndim == 1


def _leaves(column: np.ndarray, copies: bool) -> list[Any]:
    if column.ndim > 1:
        return [read_only(part.copy()) for part in column]
    return list(map(_copied, column)) if copies and _is_text(column) else list(column)


# An array's object and that of the view which is given out; a scalar's object and its place in a list; that
# of any other element.
_ARRAY_BYTES = 256
_SCALAR_BYTES = 40
_PLACE_BYTES = 64


def _kept_bytes(leaf: Any) -> int:
    if isinstance(leaf, np.number):
        return int(leaf.nbytes) + _SCALAR_BYTES
    # What is a read-only view even now is a window on an array that lives anyway.
    if isinstance(leaf, np.ndarray) and leaf.base is not None:
        return _ARRAY_BYTES
    return leaf_bytes(leaf) + (_ARRAY_BYTES if isinstance(leaf, np.ndarray) else _SCALAR_BYTES)
