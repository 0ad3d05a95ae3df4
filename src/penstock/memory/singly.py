"""What it costs to hold elements one by one: Python's objects around their bytes.

A million arrays of 100 bytes are 100 MB of data and 220 MB of objects. Who holds elements singly, in a list or by key,
counts both; where elements lie stacked in one array there is nothing to add. Figures are as measured, for 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, arrays_in

__all__ = ["NEST_BYTES", "lent_bytes", "objects_bytes", "objects_of_block", "objects_per_element"]

# A tuple of an element's number, the element and its size; the number; places in lists, while the element is held and
# while it is taken apart.
_ENTRY_BYTES = 128
_ARRAY_BYTES = 112
#: A tuple or dict.
NEST_BYTES = 100


def objects_bytes(element: Any) -> int:
    """Bytes of the objects that one element consists of, and of its place among others, beside its data."""
    if type(element) is np.ndarray:
        return _ENTRY_BYTES + _ARRAY_BYTES
    if isinstance(element, (np.generic, bytes)):
        return _ENTRY_BYTES
    if type(element) is Failed:
        return 0
    return _ENTRY_BYTES + NEST_BYTES + _ARRAY_BYTES * len(arrays_in(element))


def lent_bytes(element: Any) -> int:
    """Bytes of an element that others count: read-only views show the user's arrays, or what a cache keeps."""
    if isinstance(element, (np.generic, bytes)):
        return 0
    return sum([a.nbytes for a in arrays_in(element) if a.base is not None and not a.flags.writeable])


def objects_of_block(block: Block) -> int:
    """The same for all elements of a block; none for those that lie stacked."""
    if block.columns is not None or not block.size:
        return 0
    if block.records is not None:
        return _ENTRY_BYTES * block.size
    return objects_bytes(block.rows()[0]) * block.size


def objects_per_element(num_leaves: int) -> int:
    """What `objects_bytes` says of elements with so many leaves, if all of these are arrays."""
    return _ENTRY_BYTES + _ARRAY_BYTES * num_leaves + (NEST_BYTES if num_leaves > 1 else 0)
