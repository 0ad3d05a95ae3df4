"""What it costs to hold elements one by one: Python's objects around their bytes.

A million arrays of 100 bytes are 100 MB of data and 220 MB of objects. Who holds elements singly, in a list or by key,
counts both; where elements lie stacked in one array there is nothing to add. Figures are as measured, for 64 bits.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, arrays_in, has_scalars_only, parts_of
from ..leaf import is_dataset
from .transit import MOST_SINGLY

__all__ = [
    "FEW",
    "are_alike",
    "failures_in",
    "held_in",
    "lent_bytes",
    "nest_bytes",
    "num_at_once",
    "objects_bytes",
    "objects_in",
    "objects_of_block",
    "objects_per_element",
]

# A tuple of an element's number, the element and its size; the number; places in lists, while the element is held and
# while it is taken apart.
_ENTRY_BYTES = 128
_ARRAY_BYTES = 112
_SCALAR_BYTES = 32
# What Python's garbage collection keeps of each tuple or dict.
_TRACKED_BYTES = 16
#: Of fewer elements the objects do not matter.
FEW = 64
# Objects of elements that are on their way from a stage are not counted, and so they take no more than this.
_ON_THEIR_WAY_BYTES = 2 << 20


def objects_bytes(element: Any) -> int:
    """Bytes of the objects that one element consists of, and of its place among others, beside its data."""
    if isinstance(element, np.generic):  # its place is counted for one that large
        return _ENTRY_BYTES
    return _ENTRY_BYTES + objects_in(element)


def objects_in(element: Any) -> int:
    """The same without its place."""
    kind = type(element)
    if kind is np.ndarray:
        return _ARRAY_BYTES
    if kind is bytes:
        return 0
    if issubclass(kind, np.generic):
        return _SCALAR_BYTES
    if kind is Failed:
        return int(element.error_bytes)
    if has_scalars_only(element):
        parts = element.values() if kind is dict else element
        num_texts = sum([type(part) is bytes for part in parts])
        return sys.getsizeof(element) + _TRACKED_BYTES + _SCALAR_BYTES * (len(element) - num_texts)
    keys, parts = parts_of(element)
    if keys is None:  # one leaf that is made of several arrays, or of none
        return _ARRAY_BYTES * len(arrays_in(element))
    of_parts = [_SCALAR_BYTES if isinstance(part, np.number) else objects_in(part) for part in parts]
    return sum(of_parts, sys.getsizeof(element) + _TRACKED_BYTES)


def num_at_once(element: Any, also_bytes: int = 0) -> int:
    """How many elements like this one may be on their way from a stage: their objects are on nobody's account.

    `also_bytes` are what else is on none, of each.
    """
    return max(1, min(MOST_SINGLY, _ON_THEIR_WAY_BYTES // max(1, objects_in(element) + also_bytes)))


def are_alike(block: Block) -> bool:
    """Whether all elements of a block take the same, in data and objects."""
    return block.columns is not None and not any(column.dtype.hasobject for column in block.columns)


def lent_bytes(element: Any) -> int:
    """Bytes of an element that others count: read-only views show the user's arrays, or what a cache keeps."""
    if isinstance(element, (np.generic, bytes)) or has_scalars_only(element):
        return 0
    if is_dataset(element):
        return sum(map(lent_bytes, held_in(element)))
    return sum([a.nbytes for a in arrays_in(element) if a.base is not None and not a.flags.writeable])


def held_in(*datasets: Any) -> list[Any]:
    """What windows, and windows of windows, carry in themselves: each thing once, in however many it is."""
    held: dict[int, Any] = {}
    for dataset in datasets:
        for node in dataset.node.walk():
            for element in node.op.held_elements:
                inner = held_in(element) if is_dataset(element) else (element,)
                held.update((id(thing), thing) for thing in inner)
    return list(held.values())


def objects_of_block(block: Block) -> int:
    """What `objects_bytes` says of all elements of a block, by the first; none for those that lie stacked.

    Nor for those that failed, which are not like the others: see `failures_in`.
    """
    if block.columns is not None or not block.size:
        return 0
    if block.records is not None:
        return _ENTRY_BYTES * block.size
    if block.has_failures:
        return sum([objects_bytes(row) for row in block.rows() if type(row) is not Failed])
    return objects_bytes(block.rows()[0]) * block.size


def failures_in(block: Block) -> int:
    """Bytes of the errors in a block."""
    return sum([row.error_bytes for row in block.rows() if type(row) is Failed]) if block.has_failures else 0


def nest_bytes(num_leaves: int) -> int:
    """What a tuple or dict of so many leaves takes itself, at most."""
    return max(200, 16 + 60 * num_leaves)


def objects_per_element(num_leaves: int) -> int:
    """What `objects_bytes` says of elements with so many leaves, at most."""
    return _ENTRY_BYTES + _ARRAY_BYTES * num_leaves + (nest_bytes(num_leaves) if num_leaves > 1 else 0)
