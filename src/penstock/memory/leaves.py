"""Leaves in columns: how arrays, scalars, strings and their like lie in an Arrow table, and back.

A scalar or a string is a column. An array is two: its values as a list, and its shape, so that shapes and ranks may
differ from row to row. A `Ragged` or `Sparse` is the columns of the arrays it is made of. Values are written as the
Arrow type that means the same, where there is one of the same width; complex numbers are pairs, and dtypes that Arrow
does not know (long double, records, `datetime64[D]`) are integers or bytes.

pyarrow is imported when the first of these is used.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..element import Failed, Ragged, Sparse, string
from ..errors import BadType, FormatError

__all__ = ["Buffers", "Leaf", "Views", "leaf_from_json", "leaf_of"]

_NATIVE_UNITS = ("s", "ms", "us", "ns")


class Views(Protocol):
    """Makes arrays that look at a buffer of Arrow's without a copy."""

    def __call__(self, buffer: Any, dtype: np.dtype[Any], count: int) -> np.ndarray: ...


class Buffers(NamedTuple):
    """The buffers of a leaf in a batch: which one holds the values, and how many there are."""

    values: int
    num_all: int


class Leaf(Protocol):
    """How one leaf of an element lies in columns."""

    def fits(self, leaf: Any) -> bool: ...

    def fields(self) -> list[tuple[str, Any]]:
        """Endings of the columns' names, and their Arrow types."""

    def columns(self, leaves: list[Any]) -> list[Any]: ...

    def buffers(self) -> Buffers | None:
        """Where values lie that are as in NumPy; None for leaves that are made of others, or anew."""

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]: ...

    def to_json(self) -> dict[str, Any]: ...


@dataclasses.dataclass(frozen=True)
class _Array:
    dtype: np.dtype[Any]

    def fits(self, leaf: Any) -> bool:
        return type(leaf) is np.ndarray and (leaf.dtype == self.dtype or _native(leaf.dtype) == self.dtype)

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_list(_values_type(self.dtype))), (".shape", pa.list_(pa.int64()))]

    def columns(self, leaves: list[Any]) -> list[Any]:
        first = leaves[0]
        if len(leaves) > 1 and first.ndim and {leaf.shape for leaf in leaves} == {first.shape}:
            values = np.concatenate(leaves, dtype=self.dtype).reshape(-1)  # one after the other, as if each were flat
            sizes: Any = np.full(len(leaves), first.size)
        else:
            flat = [np.asarray(leaf, self.dtype).reshape(-1) for leaf in leaves]
            values = flat[0] if len(flat) == 1 else np.concatenate(flat)
            sizes = [a.size for a in flat]
        return [_lists(self.fields()[0][1], sizes, _to_arrow(values)), _shapes(leaves)]

    def buffers(self) -> Buffers | None:
        # Before the values come a mask and offsets of the lists; after them masks, offsets and sizes of the shapes.
        count = _num_value_buffers(self.dtype)
        return Buffers(2 + count - 1, 2 + count + 4)

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        lists, shapes = next(columns), _read_shapes(next(columns), views)
        return _cut(_from_arrow(lists.values, self.dtype, views), _offsets(lists, views), shapes)

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "array", "dtype": _dtype_to_text(self.dtype)}


@dataclasses.dataclass(frozen=True)
class _Strings:
    """An array of byte strings."""

    def fits(self, leaf: Any) -> bool:
        return type(leaf) is np.ndarray and leaf.dtype == string

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_list(pa.large_binary())), (".shape", pa.list_(pa.int64()))]

    def columns(self, leaves: list[Any]) -> list[Any]:
        items = [item for leaf in leaves for item in leaf.reshape(-1).tolist()]
        return [_lists(self.fields()[0][1], [leaf.size for leaf in leaves], _binary(items)), _shapes(leaves)]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        lists, shapes = next(columns), _read_shapes(next(columns), views)
        values = np.empty(len(lists.values), object)
        values[:] = lists.values.to_pylist()
        # Parts of it would keep all the strings of the batch alive.
        return [part.copy() for part in _cut(values, _offsets(lists, views), shapes)]

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "strings"}


@dataclasses.dataclass(frozen=True)
class _Scalar:
    dtype: np.dtype[Any]

    def fits(self, leaf: Any) -> bool:
        return isinstance(leaf, np.generic) and (leaf.dtype == self.dtype or _native(leaf.dtype) == self.dtype)

    def fields(self) -> list[tuple[str, Any]]:
        return [("", _values_type(self.dtype))]

    def columns(self, leaves: list[Any] | np.ndarray) -> list[Any]:
        if isinstance(leaves, np.ndarray):
            return [_to_arrow(leaves)]
        values = np.empty(len(leaves), self.dtype)
        for i, leaf in enumerate(leaves):  # records cannot be assigned all at once
            values[i] = leaf
        return [_to_arrow(values)]

    def buffers(self) -> Buffers | None:
        count = _num_value_buffers(self.dtype)
        return Buffers(count - 1, count)

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        values = list(_from_arrow(next(columns), self.dtype, views))
        # A record is a view; other scalars have their value.
        return [value.copy() for value in values] if self.dtype.kind == "V" else values

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "scalar", "dtype": _dtype_to_text(self.dtype)}


@dataclasses.dataclass(frozen=True)
class _Bytes:
    def fits(self, leaf: Any) -> bool:
        return type(leaf) is bytes

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_binary())]

    def columns(self, leaves: list[Any]) -> list[Any]:
        return [_binary(leaves)]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        return list(next(columns).to_pylist())

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "bytes"}


@dataclasses.dataclass(frozen=True)
class _Nothing:
    def fits(self, leaf: Any) -> bool:
        return leaf is None

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.null())]

    def columns(self, leaves: list[Any]) -> list[Any]:
        import pyarrow as pa

        return [pa.nulls(len(leaves))]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        next(columns)
        return [None] * num_rows

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "none"}


@dataclasses.dataclass(frozen=True)
class _Parts:
    """A `Ragged` or a `Sparse`: the columns of the arrays that it is made of."""

    kind: type
    parts: tuple[Any, ...]

    @property
    def _names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.kind)]

    def fits(self, leaf: Any) -> bool:
        pairs = zip(self.parts, self._names, strict=True)
        return type(leaf) is self.kind and all(part.fits(getattr(leaf, name)) for part, name in pairs)

    def fields(self) -> list[tuple[str, Any]]:
        pairs = zip(self.parts, self._names, strict=True)
        return [(f".{name}{suffix}", kind) for part, name in pairs for suffix, kind in part.fields()]

    def columns(self, leaves: list[Any]) -> list[Any]:
        pairs = zip(self.parts, self._names, strict=True)
        return [c for part, name in pairs for c in part.columns([getattr(leaf, name) for leaf in leaves])]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        read = [part.read(columns, num_rows, views) for part in self.parts]
        return [self.kind(*row) for row in zip(*read, strict=True)]

    def to_json(self) -> dict[str, Any]:
        return {"leaf": self.kind.__name__.lower(), "parts": [part.to_json() for part in self.parts]}


_COMPOSITES = {"ragged": Ragged, "sparse": Sparse}


def leaf_of(leaf: Any) -> Leaf:
    """How to lay out leaves like this one; `BadType` if none can be stored."""
    if type(leaf) is np.ndarray:
        return _Strings() if leaf.dtype == string else _Array(_storable(leaf.dtype))
    if isinstance(leaf, np.generic):
        return _Scalar(_storable(leaf.dtype))
    if type(leaf) is bytes:
        return _Bytes()
    if leaf is None:
        return _Nothing()
    if isinstance(leaf, (Ragged, Sparse)):
        fields = dataclasses.fields(leaf)
        return _Parts(type(leaf), tuple(leaf_of(getattr(leaf, field.name)) for field in fields))
    what = "a failed element" if isinstance(leaf, Failed) else type(leaf).__name__
    raise BadType(f"expected arrays, scalars, bytes, Ragged, Sparse or None, got {what}: it cannot be stored")


def leaf_from_json(value: Any) -> Leaf:
    """What `to_json` wrote."""
    kind = value["leaf"]
    if kind in _COMPOSITES:
        parts = tuple(leaf_from_json(part) for part in value["parts"])
        if len(parts) != len(dataclasses.fields(_COMPOSITES[kind])):
            raise FormatError(f"a {kind} leaf with {len(parts)} parts")
        return _Parts(_COMPOSITES[kind], parts)
    if kind in ("array", "scalar"):
        dtype = _dtype_from_text(value["dtype"])
        return _Array(dtype) if kind == "array" else _Scalar(dtype)
    plain: dict[str, Leaf] = {"strings": _Strings(), "bytes": _Bytes(), "none": _Nothing()}
    return plain[kind]


# --- values in Arrow --------------------------------------------------------------------------------------------


@functools.cache
def _values_type(dtype: np.dtype[Any]) -> Any:
    import pyarrow as pa

    if dtype.kind == "b":
        return pa.bool8()  # a byte each, as in NumPy: Arrow's own are bits, and would have to be unpacked
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        return pa.from_numpy_dtype(dtype)
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return pa.list_(pa.float32() if dtype.itemsize == 8 else pa.float64(), 2)
    if dtype.kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if unit in _NATIVE_UNITS and count == 1:
            return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
        return pa.int64()
    return pa.list_(pa.uint8(), dtype.itemsize)


def _num_value_buffers(dtype: np.dtype[Any]) -> int:
    """A mask and the values; one mask more where a value is a list of a fixed length."""
    import pyarrow as pa

    return 3 if isinstance(_values_type(dtype), pa.FixedSizeListType) else 2


def _to_arrow(values: np.ndarray) -> Any:
    """A flat array as Arrow values, without a copy where it is contiguous."""
    import pyarrow as pa

    kind = _values_type(values.dtype)
    # As bytes: dates and records have no buffers of their own.
    data = pa.py_buffer(np.ascontiguousarray(values).view(np.uint8))
    if isinstance(kind, pa.FixedSizeListType):
        inner = pa.Array.from_buffers(kind.value_type, len(values) * kind.list_size, [None, data])
        return pa.Array.from_buffers(kind, len(values), [None], children=[inner])
    if isinstance(kind, pa.ExtensionType):
        stored = pa.Array.from_buffers(kind.storage_type, len(values), [None, data])
        return pa.ExtensionArray.from_storage(kind, stored)
    return pa.Array.from_buffers(kind, len(values), [None, data])


def _from_arrow(values: Any, dtype: np.dtype[Any], views: Views) -> np.ndarray:
    # Of lists of a fixed length and of extensions, the last buffer is that of the values within.
    return views(values.buffers()[-1], dtype, len(values))


def _binary(items: list[Any]) -> Any:
    import pyarrow as pa

    strange = {type(item).__name__ for item in items if type(item) is not bytes}
    if strange:
        raise BadType(f"expected byte strings, got an array that holds {', '.join(sorted(strange))}")
    # By hand: `pa.array` would take memory from Arrow's allocator, which keeps it, and load pandas, if there is one.
    offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum(list(map(len, items)), out=offsets[1:])
    data = items[0] if len(items) == 1 else b"".join(items)  # one alone may be large
    return pa.Array.from_buffers(pa.large_binary(), len(items), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _lists(kind: Any, lengths: list[int] | np.ndarray, values: Any) -> Any:
    import pyarrow as pa

    wide = isinstance(kind, pa.LargeListType)
    offsets = np.zeros(len(lengths) + 1, np.int64 if wide else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(offsets)], children=[values])


def _shapes(leaves: list[Any]) -> Any:
    import pyarrow as pa

    shape = leaves[0].shape
    if len(leaves) > 1 and {leaf.shape for leaf in leaves} == {shape}:
        table = np.tile(np.array(shape, np.int64), len(leaves))
        return _lists(pa.list_(pa.int64()), np.full(len(leaves), len(shape)), _to_arrow(table))
    sizes = np.array([n for leaf in leaves for n in leaf.shape], np.int64)
    return _lists(pa.list_(pa.int64()), [leaf.ndim for leaf in leaves], _to_arrow(sizes))


def _offsets(lists: Any, views: Views) -> np.ndarray:
    import pyarrow as pa

    wide = isinstance(lists.type, pa.LargeListType)
    return views(lists.buffers()[1], np.dtype(np.int64 if wide else np.int32), len(lists) + 1)


def _read_shapes(lists: Any, views: Views) -> list[tuple[int, ...]] | tuple[tuple[int, ...], int]:
    """The shapes of all arrays; where they are all the same, only that one and how many there are."""
    offsets = _offsets(lists, views)
    sizes = _from_arrow(lists.values, np.dtype(np.int64), views)
    if sizes.size and sizes.min() < 0:
        raise FormatError(f"an array of shape {sizes.tolist()[:8]}")
    num_rows, rank = len(lists), int(offsets[1] - offsets[0]) if len(lists) else 0
    if num_rows and (np.diff(offsets) == rank).all():
        table = sizes.reshape(num_rows, rank)
        if (table == table[0]).all():
            return tuple(table[0].tolist()), num_rows
    ends = offsets.tolist()
    return [tuple(sizes[a:b].tolist()) for a, b in itertools.pairwise(ends)]


def _cut(values: np.ndarray, offsets: np.ndarray, shapes: Any) -> list[np.ndarray]:
    """The arrays whose values lie one after another."""
    if isinstance(shapes, tuple):
        shape, count = shapes
        if math.prod(shape) * count != values.size or offsets[-1] != values.size:
            raise FormatError(f"{values.size:,} values for {count:,} arrays of shape {shape}")
        # Rows of rank 0 must stay arrays, and come out of a list as scalars.
        return list(values.reshape(count, *shape)) if shape else [values[i : i + 1].reshape(()) for i in range(count)]
    ends = offsets.tolist()
    parts = [values[a:b] for a, b in itertools.pairwise(ends)]
    if any(part.size != math.prod(shape) for part, shape in zip(parts, shapes, strict=True)):
        raise FormatError("arrays with more or fewer values than their shapes say")
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


# --- dtypes as text ----------------------------------------------------------------------------------------------


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _storable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    dtype = _native(dtype)
    try:
        same = _dtype_from_text(_dtype_to_text(dtype)) == dtype
    except (FormatError, ValueError, TypeError):
        same = False
    if not same:
        raise BadType(f"expected numbers, dates or strings, got an array of dtype {dtype}: it cannot be stored")
    return dtype


@functools.cache
def _dtype_to_text(dtype: np.dtype[Any]) -> str:
    if dtype.type.__module__ == "ml_dtypes":
        return f"ml_dtypes.{dtype.name}"
    descr: Any = np.lib.format.dtype_to_descr(dtype)
    return descr if isinstance(descr, str) else repr(descr)


def _dtype_from_text(text: str) -> np.dtype[Any]:
    if text.startswith("ml_dtypes."):
        import ml_dtypes

        known: np.dtype[Any] = np.dtype(getattr(ml_dtypes, text.partition(".")[2]))
        return known
    descr: Any = ast.literal_eval(text) if text.startswith("[") else text
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject or not dtype.itemsize or not dtype.isnative:
        raise FormatError(f"a column of dtype {dtype}")
    return dtype
