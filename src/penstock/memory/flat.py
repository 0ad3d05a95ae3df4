"""Flat arrays: how strings and arrays of any shape lie one after another, with lengths and shapes beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import BadType, FormatError

__all__ = ["INT64", "Take", "cut", "ends", "flat_bytes", "ranks_and_shapes", "shapes_from", "take_bytes"]

INT64 = np.dtype(np.int64)

#: Gives the next of some flat arrays, as one of a dtype.
Take = Callable[[np.dtype[Any]], np.ndarray]


def flat_bytes(items: list[Any]) -> list[np.ndarray]:
    """The lengths of byte strings, and what is in them."""
    strange = {type(item).__name__ for item in items if type(item) is not bytes}
    if strange:
        raise BadType(f"expected byte strings, got an array that holds {', '.join(sorted(strange))}")
    data = items[0] if len(items) == 1 else b"".join(items)  # one alone may be large
    return [np.array(list(map(len, items)), np.int64), np.frombuffer(data, np.uint8)]


def take_bytes(take: Take) -> list[bytes]:
    """The strings that `flat_bytes` has laid out."""
    offsets, data = ends(take(INT64)).tolist(), take(np.dtype(np.uint8)).data
    return [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]


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
