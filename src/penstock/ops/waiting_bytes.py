"""What elements take that wait in a shuffle's buffer (`waiting`): in memory, and at least, where most are on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..element import nbytes_of
from ..memory.singly import lent_bytes, nest_bytes, objects_in
from ..plan.footprint import ElementSize
from ..spec import UNSEEN, spec_leaves, structure_of_spec

__all__ = [
    "ALONE_INDEX_BYTES",
    "FILE_INDEX_BYTES",
    "LEAST_BATCH_BYTES",
    "held_bytes",
    "least_memory_needed",
    "memory_needed",
]

# Measured: a number, a pair, a size and their place in a dict; the objects of an array.
_ENTRY_BYTES = 200
_ARRAY_BYTES = 112
#: What is known of a file, and of an element that is a batch of its own.
FILE_INDEX_BYTES = 600
ALONE_INDEX_BYTES = 300
_SOME_FILES = 8
# So many files, at most, have little left in them for each one that is full.
_FILES_LEFT = 2
# Of larger elements the objects weigh little, and what some of them took together says how large these were.
_SMALL_BYTES = 4 << 10
#: In smaller batches of small elements what Arrow says of a batch would weigh as much as the elements.
LEAST_BATCH_BYTES = 4 << 10


def held_bytes(element: Any) -> int:
    """Bytes that an element occupies while it waits; windows on the user's own arrays are not ours."""
    if type(element) is np.ndarray and element.dtype.kind != "O":  # most are, and come by the million
        is_view = element.base is not None and not element.flags.writeable
        return (0 if is_view else element.nbytes) + _ENTRY_BYTES + _ARRAY_BYTES
    if isinstance(element, (np.generic, bytes)):
        return nbytes_of(element) + _ENTRY_BYTES
    return nbytes_of(element) - lent_bytes(element) + _ENTRY_BYTES + objects_in(element)


def memory_needed(count: int, size: ElementSize | None, spec: Any, seen_bytes: int = 0) -> int | None:
    """Bytes of so many elements that wait, if all of them do so in memory.

    `seen_bytes` are what as many were seen to take, or 0.
    """
    if size is None:
        return None
    return count * ((0 if size.is_view else size.nbytes) + _around(size, spec, seen_bytes // max(1, count)))


def _around(size: ElementSize, spec: Any, seen_each: int) -> int:
    """Bytes of the objects around an element; of one whose size was measured only the spec knows the leaves.

    Where not even that does, as behind a function, what elements were seen to take on average says more.
    """
    if spec is UNSEEN:
        num_leaves, is_nest = len(size.leaves), len(size.leaves) > 1
    else:
        num_leaves, is_nest = len(spec_leaves(spec)), not structure_of_spec(spec).is_leaf
    around = _ENTRY_BYTES + _ARRAY_BYTES * num_leaves + (nest_bytes(num_leaves) if is_nest else 0)
    typical = size.typical_bytes or sum(size.leaves)
    if spec is UNSEEN and typical <= _SMALL_BYTES:  # a quarter more, as of all that was measured
        around = max(around, (seen_each - typical) * 5 // 4)
    return around


def least_memory_needed(count: int, buffer_size: int, size: ElementSize, spec: Any, seen_bytes: int = 0) -> int:
    """Bytes without which so many elements cannot wait even on disk: an index of them, and some on their way.

    The buffer may be for more elements than there are. `seen_bytes` are what so many were seen to take, or 0.
    """
    typical = min(size.nbytes, int(1.25 * size.typical_bytes) or size.nbytes)
    seen_each = seen_bytes // max(1, count)
    each = typical + _around(size, spec, seen_each)
    alone = ALONE_INDEX_BYTES if each >= LEAST_BATCH_BYTES else 32 * each // LEAST_BATCH_BYTES + 1
    # A file has half of what was in memory, so that there are the fewer of them the more is, and stays until the last
    # of it was drawn. What both take together is least where both take the same.
    gathered = math.isqrt(2 * FILE_INDEX_BYTES * _FILES_LEFT * count * each)
    # With no memory to spare a file has as much as one small batch, or one element.
    files = min(count, count * each // LEAST_BATCH_BYTES) * FILE_INDEX_BYTES
    index = count * alone + _SOME_FILES * FILE_INDEX_BYTES + min(files, 2 * gathered)
    one = max(memory_needed(1, size, spec, seen_each) or 0, size.slots(1))
    # Where all can stay, none need go.
    index = min(index, one + count * each + _SOME_FILES * FILE_INDEX_BYTES)
    least = index + 2 * one + 2 * LEAST_BATCH_BYTES
    # Draws are known ahead for all that the buffer could hold, but take an eighth of what there is at most.
    return least + min(24 * buffer_size, 24 * count + least // 7)
