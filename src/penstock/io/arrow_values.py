"""Arrow arrays as NumPy's values, by type: what is a view of Arrow's buffers, and what is copied.

A list is an array of its own length; lists of lists are arrays of more dimensions, where the lists in one are of one
length: where they are not, there is None in the row's place. Nulls come as a mask beside the values.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import BadType
from ..leaf import string

__all__ = ["Convert", "Converted", "conversion", "has_null", "is_copied", "is_view", "mask_of"]

#: Values, and where they are null (None: nowhere).
Converted = tuple[Any, "np.ndarray | None"]
#: Makes columns of an Arrow array, given what replaces nulls.
Convert = Callable[[Any, Any], Converted]


def conversion(name: str, kind: Any) -> tuple[tuple[int | None, ...], np.dtype[Any], Convert]:
    """The shape and dtype of an element of this Arrow type, and what makes columns of its arrays; it can be pickled."""
    from pyarrow import types

    if types.is_dictionary(kind):
        shape, dtype, inner = conversion(name, kind.value_type)
        return shape, dtype, functools.partial(_looked_up, inner)
    if types.is_boolean(kind):
        return (), np.dtype(np.bool_), _bools
    if _is_text(kind):
        return (), string, _strings
    if types.is_fixed_size_list(kind):
        inner_shape, dtype, inner = conversion(name, kind.value_type)
        if inner_shape[:1] == (None,):
            raise _refused(name, kind)
        return (kind.list_size, *inner_shape), dtype, functools.partial(_fixed_lists, kind.list_size, inner)
    if types.is_list(kind) or types.is_large_list(kind):
        depth, below = _list_depth(kind)
        inner_shape, dtype, inner = conversion(name, below)
        shape = *[None] * depth, *inner_shape
        if depth == 1:
            return shape, dtype, functools.partial(_lists, inner)
        return shape, dtype, functools.partial(_nested_lists, depth, inner_shape, inner)
    if not types.is_primitive(kind) or types.is_time(kind) or types.is_interval(kind):
        raise _refused(name, kind)
    if types.is_timestamp(kind):  # with a time zone, too: what is stored is the time in UTC
        dtype = np.dtype(f"datetime64[{kind.unit}]")
    elif types.is_date32(kind):
        dtype = np.dtype("datetime64[D]")
    elif types.is_date64(kind):
        dtype = np.dtype("datetime64[ms]")
    elif types.is_duration(kind):
        dtype = np.dtype(f"timedelta64[{kind.unit}]")
    else:
        dtype = np.dtype(kind.to_pandas_dtype())
    if types.is_date32(kind):
        return (), dtype, functools.partial(_numbers, np.dtype(np.int32), dtype)
    return (), dtype, functools.partial(_numbers, dtype, None)


def _looked_up(inner: Convert, array: Any, fill: Any) -> Converted:
    """The values that a dictionary's numbers stand for."""
    import pyarrow as pa

    if not is_view(array.type.value_type):
        return inner(array.dictionary_decode(), fill)
    # Polars's categories are strings of a kind that Arrow cannot gather.
    return inner(array.dictionary.cast(pa.large_binary()).take(array.indices), fill)


def is_copied(kind: Any) -> bool:
    """Whether numbers of this type are stored in another way than NumPy's."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return is_copied(kind.value_type)
    return bool(types.is_boolean(kind) or types.is_date32(kind) or types.is_dictionary(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or is_view(kind)
    )


def is_view(kind: Any) -> bool:
    """Whether strings lie anywhere, each where its view says."""
    from pyarrow import types

    views = [getattr(types, f"is_{view}_view", None) for view in ("string", "binary")]
    return any(is_view is not None and is_view(kind) for is_view in views)


def _refused(name: str, kind: Any) -> BadType:
    return BadType(
        f"column {name}: expected numbers, strings, lists or fixed-size lists of them, or structs, got {kind}; "
        "choose other columns, or cast it"
    )


def has_null(array: Any) -> bool:
    """Whether there is a null in an array, or in the lists in it."""
    from pyarrow import types

    if array.null_count:
        return True
    kind = array.type
    if types.is_dictionary(kind):
        return bool(array.dictionary.null_count)
    nested = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    return nested and has_null(array.flatten())


def mask_of(array: Any) -> np.ndarray | None:
    if not array.null_count:
        return None
    return _bits(array.is_null())


def _numbers(stored: np.dtype[Any], wanted: np.dtype[Any] | None, array: Any, fill: Any = None) -> Converted:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        values = np.zeros(len(array), stored)
    else:
        values = np.frombuffer(buffer, stored, len(array), array.offset * stored.itemsize)
        values.flags.writeable = False  # some of Arrow's buffers are not: a NumPy array may lie below
    return values if wanted is None else values.astype(wanted), mask_of(array)


def _bits(array: Any) -> np.ndarray:
    """The values of booleans, which Arrow has in single bits."""
    start = array.offset % 8
    packed = np.frombuffer(array.buffers()[1] or b"", np.uint8, -(-(start + len(array)) // 8), array.offset // 8)
    return np.unpackbits(packed, count=start + len(array), bitorder="little")[start:].view(np.bool_)


def _bools(array: Any, fill: Any) -> Converted:
    values, mask = _bits(array), mask_of(array)
    if mask is not None:
        values[mask] = False  # Arrow has anything there
    return values, mask


def _strings(array: Any, fill: Any) -> Converted:
    import pyarrow as pa

    if not pa.types.is_binary(array.type) and not pa.types.is_large_binary(array.type):
        array = array.cast(pa.large_binary() if not pa.types.is_string(array.type) else pa.binary())
    # Not `to_numpy`: it imports pandas, which takes 35 MB.
    buffers = array.buffers()
    kind = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    values = np.empty(len(array), object)
    if len(array):
        ends = np.frombuffer(buffers[1], kind, len(array) + 1, array.offset * np.dtype(kind).itemsize).tolist()
        text = memoryview(buffers[2] if buffers[2] is not None else b"")
        values[:] = [text[start:end].tobytes() for start, end in itertools.pairwise(ends)]
    mask = mask_of(array)
    if mask is not None:
        values[mask] = None
    return values, mask


def _fixed_lists(size: int, inner: Convert, array: Any, fill: Any) -> Converted:
    count = len(array)
    child = array.values.slice(array.offset * size, count * size)
    values, below = inner(child, None)
    values = values.reshape(count, size, *values.shape[1:])
    mask = mask_of(array)
    if below is not None:
        below = below.reshape(count, size, *below.shape[1:])
        mask = below if mask is None else below | mask.reshape(-1, *[1] * (below.ndim - 1))
    return values, mask


def _lists(inner: Convert, array: Any, fill: Any) -> Converted:
    """Rows as arrays of their own, so that none keeps the others."""
    ends, child = _unlisted(array)
    values, below = _filled(*inner(child, fill), fill)
    ends = ends.tolist()
    rows = [values[a:b].copy() for a, b in itertools.pairwise(ends)]
    mask = mask_of(array)
    if below is not None:
        inside = [bool(below[a:b].any()) for a, b in itertools.pairwise(ends)]
        mask = np.array(inside) if mask is None else mask | inside
    return rows, mask


def _nested_lists(depth: int, inner_shape: Any, inner: Convert, array: Any, fill: Any) -> Converted:
    """Rows as arrays of some dimensions. Lists of Arrow's that lie side by side are one piece: none is looked at."""
    row_ends, child = _unlisted(array)
    levels: list[tuple[np.ndarray, np.ndarray | None]] = []  # of the lists inside: where they end, where they are null
    for _ in range(depth - 1):
        null = mask_of(child) if fill is None else None
        ends, child = _unlisted(child)
        levels.append((ends, null))
    values, below = _filled(*inner(child, fill), fill)
    below = None if below is None else np.asarray(below.reshape(len(below), -1).any(1))
    mask = mask_of(array)
    lacks = np.zeros(len(array), np.bool_) if mask is None else mask.copy()
    rows: list[np.ndarray | None] = []
    for row, (a, b) in enumerate(itertools.pairwise(row_ends.tolist())):
        shape, is_even = [b - a], True
        for ends, null in levels:
            lacks[row] |= null is not None and bool(null[a:b].any())
            sizes = np.diff(ends[a : b + 1])
            shape.append(int(sizes[0]) if len(sizes) else 0)
            is_even = is_even and bool((sizes == shape[-1]).all())
            a, b = int(ends[a]), int(ends[b])
        lacks[row] |= below is not None and bool(below[a:b].any())
        rows.append(values[a:b].reshape(*shape, *inner_shape).copy() if is_even else None)
    return rows, lacks if lacks.any() else None


def _list_depth(kind: Any) -> tuple[int, Any]:
    """How many lists of any length are around each other, and what is inside."""
    from pyarrow import types

    depth = 0
    while types.is_list(kind) or types.is_large_list(kind):
        depth, kind = depth + 1, kind.value_type
    return depth, kind


def _unlisted(array: Any) -> tuple[np.ndarray, Any]:
    """Where the lists of an array end among what is in them, after a first 0; and that."""
    offsets = array.offsets
    ends = _numbers(np.dtype(offsets.type.to_pandas_dtype()), None, offsets)[0]
    if not len(ends):
        return np.zeros(1, np.int64), array.values[:0]
    first = int(ends[0])
    return ends - first, array.values.slice(first, int(ends[-1]) - first)


def _filled(values: Any, below: np.ndarray | None, fill: Any) -> Converted:
    if below is None or fill is None:
        return values, below
    values = values.copy()
    values[below] = fill
    return values, None
