"""Leaves in columns: how arrays, scalars, strings and their like lie in an Arrow table, and back.

A scalar or a string is a column. An array is two: its values as a list, and its shape, so that shapes and ranks may
differ from row to row. A `Ragged` or `Sparse` is the columns of the arrays it is made of. Values are written as the
Arrow type that means the same, where there is one of the same width; complex numbers are pairs, and dtypes that Arrow
does not know (long double, records, `datetime64[D]`, numbers in the other order of bytes) are integers or bytes.

pyarrow is imported when the first of these is used. For files without it, leaves are flat arrays (`flat`, `unflat`):
about the buffers of those columns.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..element import Failed
from ..errors import BadType, FormatError
from ..leaf import Ragged, Sparse, string
from .dtype_text import dtype_from_text, dtype_to_text, native, storable
from .flat import INT64, Take, cut, cut_bytes, ends, flat_bytes, ranks_and_shapes, shapes_from, take_bytes
from .to_arrow import strings

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

    @property
    def flat_values(self) -> Buffers | None:
        """Which of the arrays of `flat` holds the values; None for leaves that are made of others, or anew."""

    def fits(self, leaf: Any) -> bool: ...

    def fields(self) -> list[tuple[str, Any]]:
        """Endings of the columns' names, and their Arrow types."""

    def columns(self, leaves: list[Any]) -> list[Any]: ...

    def buffers(self) -> Buffers | None:
        """Where values lie that are as in NumPy; None for leaves that are made of others, or anew."""

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]: ...

    def flat(self, leaves: Any) -> list[np.ndarray]:
        """The same without Arrow: contiguous arrays; those of a single element are not copied."""

    def unflat(self, take: Take, num_rows: int) -> list[Any]: ...

    def to_json(self) -> dict[str, Any]: ...


@dataclasses.dataclass(frozen=True)
class _Array:
    dtype: np.dtype[Any]
    keeps_order: bool = False
    flat_values: ClassVar[Buffers | None] = Buffers(1, 4)

    def fits(self, leaf: Any) -> bool:
        return type(leaf) is np.ndarray and _is_stored_as(leaf.dtype, self)

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_list(_values_type(self.dtype))), (".shape", pa.list_(pa.int64()))]

    def columns(self, leaves: list[Any]) -> list[Any]:
        sizes, values = self._stacked(leaves)
        return [_lists(self.fields()[0][1], sizes, _to_arrow(values)), _shapes(leaves)]

    def _stacked(self, leaves: list[Any]) -> tuple[list[int] | np.ndarray, np.ndarray]:
        """The values one after another, and how many each has."""
        first = leaves[0]
        if len(leaves) > 1 and first.ndim and {leaf.shape for leaf in leaves} == {first.shape}:
            values = np.concatenate(leaves, dtype=self.dtype).reshape(-1)  # one after the other, as if each were flat
            return np.full(len(leaves), first.size), values
        flat = [np.asarray(leaf, self.dtype).reshape(-1) for leaf in leaves]
        return [a.size for a in flat], flat[0] if len(flat) == 1 else np.concatenate(flat)

    def buffers(self) -> Buffers | None:
        # Before the values come a mask and offsets of the lists; after them masks, offsets and sizes of the shapes.
        count = _num_value_buffers(self.dtype)
        return Buffers(2 + count - 1, 2 + count + 4)

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        lists, shapes = next(columns), _read_shapes(next(columns), views)
        return cut(_from_arrow(lists.values, self.dtype, views), _offsets(lists, views), shapes)

    def flat(self, leaves: Any) -> list[np.ndarray]:
        sizes, values = self._stacked(leaves)
        return [np.asarray(sizes, np.int64), np.ascontiguousarray(values), *ranks_and_shapes(leaves)]

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        sizes, values = take(INT64), take(self.dtype)
        return cut(values, ends(sizes), shapes_from(ends(take(INT64)), take(INT64)))

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "array", "dtype": dtype_to_text(self.dtype)}


@dataclasses.dataclass(frozen=True)
class _Strings:
    """An array of byte strings."""

    flat_values: ClassVar[Buffers | None] = None

    def fits(self, leaf: Any) -> bool:
        return type(leaf) is np.ndarray and leaf.dtype == string

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_list(pa.large_binary())), (".shape", pa.list_(pa.int64()))]

    def columns(self, leaves: list[Any]) -> list[Any]:
        items = strings(self._items(leaves))
        return [_lists(self.fields()[0][1], [leaf.size for leaf in leaves], items), _shapes(leaves)]

    def _items(self, leaves: list[np.ndarray]) -> list[Any] | np.ndarray:
        """Their strings one after another; those of a single array, which may be large, are in no list besides."""
        if len(leaves) == 1:
            return leaves[0].reshape(-1)
        return [item for leaf in leaves for item in leaf.reshape(-1).tolist()]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        lists, shapes = next(columns), _read_shapes(next(columns), views)
        return self._cut(_from_binary(lists.values), _offsets(lists, views), shapes)

    def flat(self, leaves: Any) -> list[np.ndarray]:
        sizes = np.array([leaf.size for leaf in leaves], np.int64)
        return [sizes, *flat_bytes(self._items(leaves)), *ranks_and_shapes(leaves)]

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        sizes, items = take(INT64), take_bytes(take)
        return self._cut(items, ends(sizes), shapes_from(ends(take(INT64)), take(INT64)))

    def _cut(self, items: np.ndarray, offsets: np.ndarray, shapes: Any) -> list[np.ndarray]:
        # Parts of it would keep all the strings of the batch alive.
        return [part.copy() for part in cut(items, offsets, shapes)]

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "strings"}


@dataclasses.dataclass(frozen=True)
class _Scalar:
    dtype: np.dtype[Any]
    keeps_order: bool = False
    flat_values: ClassVar[Buffers | None] = Buffers(0, 1)

    def fits(self, leaf: Any) -> bool:
        return isinstance(leaf, np.generic) and _is_stored_as(leaf.dtype, self)

    def fields(self) -> list[tuple[str, Any]]:
        return [("", _values_type(self.dtype))]

    def columns(self, leaves: list[Any] | np.ndarray) -> list[Any]:
        return [_to_arrow(values) for values in self.flat(leaves)]

    def flat(self, leaves: Any) -> list[np.ndarray]:
        if isinstance(leaves, np.ndarray):
            return [leaves]
        values = np.empty(len(leaves), self.dtype)
        for i, leaf in enumerate(leaves):  # records cannot be assigned all at once
            values[i] = leaf
        return [values]

    def buffers(self) -> Buffers | None:
        count = _num_value_buffers(self.dtype)
        return Buffers(count - 1, count)

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        return self._scalars(_from_arrow(next(columns), self.dtype, views))

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        return self._scalars(take(self.dtype))

    def _scalars(self, values: np.ndarray) -> list[Any]:
        # A record is a view; other scalars have their value.
        return [value.copy() for value in values] if self.dtype.kind == "V" else list(values)

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "scalar", "dtype": dtype_to_text(self.dtype)}


def _is_stored_as(dtype: np.dtype[Any], leaf: _Array | _Scalar) -> bool:
    return dtype == leaf.dtype or (not leaf.keeps_order and native(dtype) == leaf.dtype)


@dataclasses.dataclass(frozen=True)
class _Bytes:
    flat_values: ClassVar[Buffers | None] = None

    def fits(self, leaf: Any) -> bool:
        return type(leaf) is bytes

    def fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        return [("", pa.large_binary())]

    def columns(self, leaves: list[Any]) -> list[Any]:
        return [strings(leaves)]

    def buffers(self) -> Buffers | None:
        return None

    def read(self, columns: Iterator[Any], num_rows: int, views: Views) -> list[Any]:
        return list(next(columns).to_pylist())

    def flat(self, leaves: Any) -> list[np.ndarray]:
        return flat_bytes(leaves)

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        return list(take_bytes(take))

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "bytes"}


@dataclasses.dataclass(frozen=True)
class _Nothing:
    flat_values: ClassVar[Buffers | None] = None

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

    def flat(self, leaves: Any) -> list[np.ndarray]:
        return []

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        return [None] * num_rows

    def to_json(self) -> dict[str, Any]:
        return {"leaf": "none"}


@dataclasses.dataclass(frozen=True)
class _Parts:
    """A `Ragged` or a `Sparse`: the columns of the arrays that it is made of."""

    kind: type
    parts: tuple[Any, ...]
    flat_values: ClassVar[Buffers | None] = None

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

    def flat(self, leaves: Any) -> list[np.ndarray]:
        pairs = zip(self.parts, self._names, strict=True)
        return [a for part, name in pairs for a in part.flat([getattr(leaf, name) for leaf in leaves])]

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        read = [part.unflat(take, num_rows) for part in self.parts]
        return [self.kind(*row) for row in zip(*read, strict=True)]

    def to_json(self) -> dict[str, Any]:
        return {"leaf": self.kind.__name__.lower(), "parts": [part.to_json() for part in self.parts]}


_COMPOSITES = {"ragged": Ragged, "sparse": Sparse}


def leaf_of(leaf: Any, keeps_order: bool = False) -> Leaf:
    """How to lay out leaves like this one; `BadType` if none can be stored."""
    if type(leaf) is np.ndarray:
        return _Strings() if leaf.dtype == string else _Array(storable(leaf.dtype, keeps_order), keeps_order)
    if isinstance(leaf, np.generic):
        return _Scalar(storable(leaf.dtype, keeps_order), keeps_order)
    if type(leaf) is bytes:
        return _Bytes()
    if leaf is None:
        return _Nothing()
    if isinstance(leaf, (Ragged, Sparse)):
        fields = dataclasses.fields(leaf)
        return _Parts(type(leaf), tuple(leaf_of(getattr(leaf, field.name), keeps_order) for field in fields))
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
        dtype = dtype_from_text(value["dtype"])
        return _Array(dtype) if kind == "array" else _Scalar(dtype)
    plain: dict[str, Leaf] = {"strings": _Strings(), "bytes": _Bytes(), "none": _Nothing()}
    return plain[kind]


# --- values in Arrow --------------------------------------------------------------------------------------------


@functools.cache
def _values_type(dtype: np.dtype[Any]) -> Any:
    import pyarrow as pa

    if not dtype.isnative:
        return pa.list_(pa.uint8(), dtype.itemsize)
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


def _from_binary(items: Any) -> np.ndarray:
    if not len(items):  # Arrow may leave out where none begins
        return np.empty(0, object)
    _, offsets, data = (np.frombuffer(buffer or b"", np.uint8) for buffer in items.buffers())
    return cut_bytes(data, offsets.view(np.int64)[: len(items) + 1])


def _lists(kind: Any, lengths: list[int] | np.ndarray, values: Any) -> Any:
    import pyarrow as pa

    wide = isinstance(kind, pa.LargeListType)
    offsets = ends(lengths, np.dtype(np.int64 if wide else np.int32))
    return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(offsets)], children=[values])


def _shapes(leaves: list[Any]) -> Any:
    import pyarrow as pa

    ranks, sizes = ranks_and_shapes(leaves)
    return _lists(pa.list_(pa.int64()), ranks, _to_arrow(sizes))


def _offsets(lists: Any, views: Views) -> np.ndarray:
    import pyarrow as pa

    wide = isinstance(lists.type, pa.LargeListType)
    return views(lists.buffers()[1], np.dtype(np.int64 if wide else np.int32), len(lists) + 1)


def _read_shapes(lists: Any, views: Views) -> list[tuple[int, ...]] | tuple[tuple[int, ...], int]:
    return shapes_from(_offsets(lists, views), _from_arrow(lists.values, INT64, views))
