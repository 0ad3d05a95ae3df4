"""Flat arrays: how strings and arrays of any shape lie one after another, with lengths and shapes beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._native import cut_records
from ..errors import BadType, FormatError

__all__ = ["INT64", "Take", "cut", "cut_bytes", "ends", "flat_bytes", "ranks_and_shapes", "shapes_from", "take_bytes"]

INT64 = np.dtype(np.int64)
# Of an array of strings, which may be most of what there is room for, so many are looked at together.
_AT_A_TIME = 4096
_JOINED_BYTES = 1 << 18

#: Gives the next of some flat arrays, as one of a dtype.
Take = Callable[[np.dtype[Any]], np.ndarray]


def flat_bytes(items: list[Any] | np.ndarray) -> list[np.ndarray]:
    """The lengths of byte strings, and what is in them."""
    lengths = np.empty(len(items), np.int64)
    for part in _parts(len(items)):
        some = list(items[part])
        strange = {type(item).__name__ for item in some if type(item) is not bytes}
        if strange:
            raise BadType(f"expected byte strings, got an array that holds {', '.join(sorted(strange))}")
        lengths[part] = list(map(len, some))
    if len(items) == 1:  # it may be large
        return [lengths, np.frombuffer(items[0], np.uint8)]
    data, start = np.empty(lengths.sum(), np.uint8), 0
    for part in _parts(len(items)):
        for string in items[part] if lengths[part].sum() > _JOINED_BYTES else [b"".join(items[part])]:
            data.data[start : start + len(string)] = string
            start += len(string)
    return [lengths, data]


def cut_bytes(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The strings that lie one after another, as an array of objects: few of them are in a list besides."""
    strings = np.empty(len(offsets) - 1, object)
    for part in _parts(len(strings)):
        starts = offsets[part]
        strings[part] = cut_records((data, starts, np.diff(offsets[part.start : part.start + len(starts) + 1])))
    return strings


def take_bytes(take: Take) -> np.ndarray:
    """The strings that `flat_bytes` has laid out."""
    offsets = ends(take(INT64))
    return cut_bytes(take(np.dtype(np.uint8)), offsets)


def _parts(count: int) -> list[slice]:
    """So many things, some at a time."""
    return [slice(start, min(start + _AT_A_TIME, count)) for start in range(0, count, _AT_A_TIME)]


def ranks_and_shapes(leaves: list[Any]) -> list[np.ndarray]:
    """How many dimensions each array has, and the sizes of all dimensions one after another."""
    shape = leaves[0].shape
    if len(leaves) > 1 and {leaf.shape for leaf in leaves} == {shape}:
        return [np.full(len(leaves), len(shape), np.int64), np.tile(np.array(shape, np.int64), len(leaves))]
    sizes = np.array([n for leaf in leaves for n in leaf.shape], np.int64)
    return [np.array([leaf.ndim for leaf in leaves], np.int64), sizes]


def shapes_from(offsets: np.ndarray, sizes: np.ndarray) -> list[tuple[int, ...]] | tuple[tuple[int, ...], int]:
    """The shapes of all arrays; where they are all the same, only that one and how many there are."""
    if sizes.size and sizes.min() < 0:
        raise FormatError(f"an array of shape {sizes.tolist()[:8]}")
    num_rows = len(offsets) - 1
    rank = int(offsets[1] - offsets[0]) if num_rows else 0
    if num_rows and (np.diff(offsets) == rank).all():
        table = sizes.reshape(num_rows, rank)
        if (table == table[0]).all():
            return tuple(table[0].tolist()), num_rows
    return [tuple(sizes[a:b].tolist()) for a, b in itertools.pairwise(offsets.tolist())]


def ends(lengths: list[int] | np.ndarray, dtype: np.dtype[Any] = INT64) -> np.ndarray:
    """Where things of some lengths end that lie one after another; and in front, where the first begins."""
    offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def cut(values: np.ndarray, offsets: np.ndarray, shapes: Any) -> list[np.ndarray]:
    """The arrays whose values lie one after another."""
    if isinstance(shapes, tuple):
        shape, count = shapes
        if math.prod(shape) * count != values.size or offsets[-1] != values.size:
            raise FormatError(f"{values.size:,} values for {count:,} arrays of shape {shape}")
        # Rows of rank 0 must stay arrays, and come out of a list as scalars.
        return list(values.reshape(count, *shape)) if shape else [values[i : i + 1].reshape(()) for i in range(count)]
    parts = [values[a:b] for a, b in itertools.pairwise(offsets.tolist())]
    if any(part.size != math.prod(shape) for part, shape in zip(parts, shapes, strict=True)):
        raise FormatError("arrays with more or fewer values than their shapes say")
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
