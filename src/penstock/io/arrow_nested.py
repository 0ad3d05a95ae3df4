"""Arrow's lists in lists, and lists of structs, where the whole table is at hand.

A list of structs is read as a struct of lists. Whether lists in lists make arrays is known only when all of them were
looked at: those are of one kind in a column, arrays where each row is rectangular, and `Ragged` where one is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..leaf import Ragged
from ..memory.to_arrow import numbers
from ..spec import RaggedSpec, TensorSpec
from .arrow_values import Converted, conversion, mask_of

__all__ = ["NestedLists", "field_in_lists", "is_nested", "struct_in_lists", "without_structs"]

# As many rows are looked at at a time: their lengths are held meanwhile.
_ROWS_AT_ONCE = 1 << 16


def is_nested(kind: Any) -> bool:
    """Whether this is a type of lists whose elements have lengths of their own."""
    return _is_any_list(kind) and _varies(kind.value_type)


def struct_in_lists(kind: Any) -> Any:
    """The type of the structs in these lists; None if there are none in them."""
    from pyarrow import types

    if not _is_any_list(kind):
        return None
    inner = kind.value_type
    return inner if types.is_struct(inner) and inner.num_fields else struct_in_lists(inner)


def without_structs(kind: Any, name: str) -> Any:
    """The type of what `field_in_lists` makes of arrays of this type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return kind.field(name).type
    inner = without_structs(kind.value_type, name)
    if _is_fixed(kind):
        return pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner)


def field_in_lists(array: Any, name: str) -> Any:
    """One field of the structs in lists, in lists of the same lengths. Nothing but the rows of `array` is touched."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_struct(kind):
        return array.flatten()[kind.get_field_index(name)]  # with the nulls of the structs
    mask = array.is_null() if array.null_count else None
    if pa.types.is_fixed_size_list(kind):
        inner = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(field_in_lists(inner, name), kind.list_size, mask=mask)
    ends = _ends(array)
    inner = field_in_lists(array.values.slice(ends[0], ends[-1] - ends[0]), name)
    lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(numbers(ends - ends[0]), inner, mask=mask)


class NestedLists:
    """Lists in lists of one column, as arrays or as `Ragged`.

    Args:
        name: The column's.
        kind: Its type.
    """

    def __init__(self, name: str, kind: Any) -> None:
        self._first = kind.list_size if _is_fixed(kind) else None
        self._depth = 1
        while is_nested(kind):
            kind = kind.value_type
            self._depth += 1
        self._each_shape, self.dtype, self._convert = conversion(name, kind.value_type)
        self._sizes: list[int | None] = [None] * (self._depth - 1)
        self._is_rectangular = True

    def look_at(self, arrays: Iterable[tuple[Any, np.ndarray | None]], is_filled: bool) -> TensorSpec | RaggedSpec:
        """What rows are like: which lengths all lists of a level have, and whether those of each row are equal.

        A row with a null in its lists counts only where that is filled: else it is no element.

        Args:
            arrays: All of the column's, each with where a struct around it is null.
            is_filled: Whether nulls are: a list that is null is then an empty one.
        """
        found: list[set[int]] = [set() for _ in self._sizes]
        for array, around in arrays:
            if is_filled and (around is not None or array.null_count):
                self._first = None
            for start in range(0, len(array), _ROWS_AT_ONCE):
                rows = array.slice(start, _ROWS_AT_ONCE)
                levels, base = _levels(rows, self._depth)
                refused = np.zeros(len(rows), np.bool_) if is_filled else _with_null(levels, mask_of(base), len(rows))
                ends = np.arange(len(rows) + 1)
                for i, (lengths, _) in enumerate(levels):
                    if i:
                        counts = np.repeat(~refused, np.diff(ends))
                        changes = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
                        self._is_rectangular &= bool(np.isin(changes[counts[changes]], ends).all())
                        if counts.any() and len(found[i - 1]) < 2:
                            found[i - 1].update((int(lengths[counts].min()), int(lengths[counts].max())))
                    ends = _splits(lengths)[ends]
        if self._is_rectangular:
            self._sizes = [min(sizes) if len(sizes) == 1 else None for sizes in found]
        shape = (self._first, *self._sizes, *self._each_shape)
        return (TensorSpec if self._is_rectangular else RaggedSpec)(shape, self.dtype)

    def convert(self, array: Any, fill: Any) -> Converted:
        """The rows, each in memory of its own; where nulls are filled, lists that are null are empty ones."""
        levels, base = _levels(array, self._depth)
        values, below = self._convert(base, fill)
        if below is not None and fill is not None:
            values = values.copy()
            values[below] = fill
            below = None
        below = None if below is None else np.asarray(below.reshape(len(below), -1).any(1))
        bad = np.zeros(len(array), np.bool_) if fill is not None else _with_null(levels, below, len(array))
        bounds = np.arange(len(array) + 1)  # of each row, among the lists of a level
        inner: list[tuple[np.ndarray, list[int]]] = []
        for lengths, _ in levels:
            splits = _splits(lengths)
            inner.append((splits, bounds.tolist()))
            bounds = splits[bounds]
        ends = bounds.tolist()
        made = self._array if self._is_rectangular else _ragged
        rows = [None if bad[i] else made(values[ends[i] : ends[i + 1]].copy(), inner[1:], i) for i in range(len(array))]
        return rows, bad if bad.any() else None

    def _array(self, values: np.ndarray, inner: list[tuple[np.ndarray, list[int]]], row: int) -> np.ndarray:
        bounds = inner[0][1]
        shape = [bounds[row + 1] - bounds[row]]
        for size, (splits, bounds) in zip(self._sizes, inner, strict=True):
            if size is None:
                first = bounds[row]
                size = int(splits[first + 1] - splits[first]) if bounds[row + 1] > first else 0
            shape.append(size)
        return values.reshape(*shape, *self._each_shape)


def _ragged(values: Any, inner: list[tuple[np.ndarray, list[int]]], row: int) -> Ragged:
    for splits, bounds in reversed(inner):
        part = splits[bounds[row] : bounds[row + 1] + 1]
        values = Ragged(values, part - part[0])
    assert isinstance(values, Ragged)
    return values


def _levels(array: Any, depth: int) -> tuple[list[tuple[np.ndarray, np.ndarray | None]], Any]:
    """The lengths of the lists of each level and which of them are null, and what is in the innermost."""
    levels = []
    for _ in range(depth):
        mask = mask_of(array)
        if _is_fixed(array.type):
            lengths = np.full(len(array), array.type.list_size)
        else:
            lengths = np.diff(_ends(array))
        if mask is not None:
            lengths = np.where(mask, 0, lengths)
        levels.append((lengths, mask))
        array = array.flatten()  # without what lies in lists that are null
    return levels, array


def _ends(lists: Any) -> np.ndarray:
    """Where each list begins among the values, and where the last one ends."""
    import pyarrow as pa

    dtype = np.dtype(np.int64 if pa.types.is_large_list(lists.type) else np.int32)
    if not len(lists):  # and maybe no buffer
        return np.zeros(1, dtype)
    return np.frombuffer(lists.buffers()[1], dtype, len(lists) + 1, lists.offset * dtype.itemsize)


def _splits(lengths: np.ndarray) -> np.ndarray:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def _with_null(
    levels: list[tuple[np.ndarray, np.ndarray | None]], below: np.ndarray | None, num_rows: int
) -> np.ndarray:
    """Which rows have a null in them: a list of some level, or a value below."""
    found = np.zeros(num_rows, np.bool_)
    bounds = np.arange(num_rows + 1)  # of each row, among the lists of a level
    for lengths, mask in levels:
        if mask is not None:
            found |= _any_between(mask, bounds)
        bounds = _splits(lengths)[bounds]
    return found if below is None else found | _any_between(below, bounds)


def _any_between(mask: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Whether one is true from each bound to the next."""
    counts = _splits(mask)[bounds]
    found: np.ndarray = counts[1:] > counts[:-1]
    return found


def _is_fixed(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_fixed_size_list(kind))


def _is_any_list(kind: Any) -> bool:
    from pyarrow import types

    return _is_fixed(kind) or bool(types.is_list(kind) or types.is_large_list(kind))


def _varies(kind: Any) -> bool:
    return _is_any_list(kind) and (not _is_fixed(kind) or _varies(kind.value_type))
