"""Arrow arrays as NumPy columns: what every table format shares.

Numbers are views of Arrow's buffers where that is possible. Strings and binary are `bytes`; a fixed-size list is one
more dimension; a list is an array of its own length; a struct is a dict; times with a zone are in UTC. Nulls come as a
mask beside the values, since NumPy has none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure, string
from ..errors import BadArgument, BadType, FormatError
from ..spec import Spec, TensorSpec

__all__ = ["Decoded", "TableColumns", "has_null"]

#: Values, and where they are null (None: nowhere).
Converted = tuple[Any, "np.ndarray | None"]
#: Makes columns of an Arrow array, given what replaces nulls.
_Convert = Callable[[Any, Any], Converted]
Allocate = Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray]


class _Leaf:
    """One column, or one field of a struct."""

    def __init__(self, path: tuple[str, ...], kind: Any, fill: Any, must_fit: bool) -> None:
        self.path = path
        self.name = ".".join(path)
        self.shape, self.dtype, self._convert = _conversion(self.name, kind)
        self.fill = _fitting_fill(self.dtype, fill)
        #: What was given in the place of nulls, which need not fit.
        self.given_fill = fill
        if fill is not None and self.fill is None and must_fit:
            raise BadArgument(f"fill_null: expected a value for {self.name} of {self.dtype}, got {fill!r:.60}")
        self.spec = TensorSpec(self.shape, self.dtype)
        #: The shape, where each dimension is known.
        self.sizes: tuple[int, ...] = tuple(n for n in self.shape if n is not None)
        #: Whether elements have sizes of their own.
        self.varies = self.shape[:1] == (None,)
        self.row_bytes = self.spec.nbytes
        #: Whether values that are not null are views of Arrow's buffers.
        self.is_view = self.row_bytes is not None and not _is_copied(kind)

    def of(self, array: Any, around: np.ndarray | None = None) -> Converted:
        """The values of an Arrow array, views where that is possible; `around` is where a struct around it is null."""
        values, mask = self._convert(array, self.fill)
        if around is not None:
            around = around if mask is None else around.reshape(-1, *[1] * (mask.ndim - 1))
            mask = around if mask is None else mask | around
        if mask is None or self.fill is None:
            return values, mask
        if isinstance(values, list):  # nulls inside were filled already; a list that is null has no values
            return [row[:0] if mask[i] else row for i, row in enumerate(values)], None
        values = values.copy()
        values[mask] = self.fill
        return values, None


def _fitting_fill(dtype: np.dtype[Any], fill: Any) -> Any:
    """A fill value as one of this dtype, or None if it is none."""
    if fill is None or (dtype == string) != isinstance(fill, (str, bytes)):
        return None
    if dtype == string:
        return fill.encode() if isinstance(fill, str) else fill
    try:
        value = np.asarray(fill).astype(dtype)[()]
        return value if dtype.kind == "f" or value == fill else None
    except (TypeError, ValueError, OverflowError):
        return None


# --- conversions ------------------------------------------------------------------------------------------------


def _conversion(name: str, kind: Any) -> tuple[tuple[int | None, ...], np.dtype[Any], _Convert]:
    """The shape and dtype of an element of this Arrow type, and what makes columns of its arrays."""
    from pyarrow import types

    if types.is_dictionary(kind):
        shape, dtype, inner = _conversion(name, kind.value_type)
        return shape, dtype, lambda array, fill: inner(_without_dictionary(array), fill)
    if types.is_boolean(kind):
        return (), np.dtype(np.bool_), _bools
    if _is_text(kind):
        return (), string, _strings
    if types.is_fixed_size_list(kind):
        inner_shape, dtype, inner = _conversion(name, kind.value_type)
        if inner_shape[:1] == (None,):
            raise _refused(name, kind)
        return (kind.list_size, *inner_shape), dtype, lambda array, fill: _fixed_lists(array, kind.list_size, inner)
    if types.is_list(kind) or types.is_large_list(kind):
        inner_shape, dtype, inner = _conversion(name, kind.value_type)
        if inner_shape[:1] == (None,):
            raise _refused(name, kind)
        return (None, *inner_shape), dtype, lambda array, fill: _lists(array, inner, fill)
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
        return (), dtype, lambda array, fill: _numbers(array, np.dtype(np.int32), dtype)
    return (), dtype, lambda array, fill: _numbers(array, dtype, None)


def _without_dictionary(array: Any) -> Any:
    """The values that a dictionary's numbers stand for."""
    import pyarrow as pa

    if not _is_view(array.type.value_type):
        return array.dictionary_decode()
    # Polars's categories are strings of a kind that Arrow cannot gather.
    return array.dictionary.cast(pa.large_binary()).take(array.indices)


def _is_copied(kind: Any) -> bool:
    """Whether numbers of this type are stored in another way than NumPy's."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return _is_copied(kind.value_type)
    return bool(types.is_boolean(kind) or types.is_date32(kind) or types.is_dictionary(kind))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or _is_view(kind)
    )


def _is_view(kind: Any) -> bool:
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


def _mask(array: Any) -> np.ndarray | None:
    if not array.null_count:
        return None
    return _bits(array.is_null())


def _numbers(array: Any, stored: np.dtype[Any], wanted: np.dtype[Any] | None) -> Converted:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        values = np.zeros(len(array), stored)
    else:
        values = np.frombuffer(buffer, stored, len(array), array.offset * stored.itemsize)
    return values if wanted is None else values.astype(wanted), _mask(array)


def _bits(array: Any) -> np.ndarray:
    """The values of booleans, which Arrow has in single bits."""
    start = array.offset % 8
    packed = np.frombuffer(array.buffers()[1] or b"", np.uint8, -(-(start + len(array)) // 8), array.offset // 8)
    return np.unpackbits(packed, count=start + len(array), bitorder="little")[start:].view(np.bool_)


def _bools(array: Any, fill: Any) -> Converted:
    mask = _mask(array)
    full = array if mask is None else array.fill_null(False)
    return _bits(full), mask


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
    mask = _mask(array)
    if mask is not None:
        values[mask] = None
    return values, mask


def _fixed_lists(array: Any, size: int, inner: _Convert) -> Converted:
    count = len(array)
    child = array.values.slice(array.offset * size, count * size)
    values, below = inner(child, None)
    values = values.reshape(count, size, *values.shape[1:])
    mask = _mask(array)
    if below is not None:
        below = below.reshape(count, size, *below.shape[1:])
        mask = below if mask is None else below | mask.reshape(-1, *[1] * (below.ndim - 1))
    return values, mask


def _lists(array: Any, inner: _Convert, fill: Any) -> Converted:
    """Rows as arrays of their own, so that none keeps the others."""
    ends = _numbers(offsets := array.offsets, np.dtype(offsets.type.to_pandas_dtype()), None)[0]
    first = int(ends[0]) if len(ends) else 0
    values, below = inner(array.values.slice(first, int(ends[-1]) - first if len(ends) else 0), fill)
    if below is not None and fill is not None:
        values = values.copy()
        values[below] = fill
        below = None
    ends = (ends - first).tolist()
    rows = [values[a:b].copy() for a, b in itertools.pairwise(ends)]
    mask = _mask(array)
    if below is not None:
        inside = [bool(below[a:b].any()) for a, b in itertools.pairwise(ends)]
        mask = np.array(inside) if mask is None else mask | inside
    return rows, mask


# --- tables -----------------------------------------------------------------------------------------------------


class TableColumns:
    """The columns of a table as leaves of a dict.

    Args:
        schema: The table's.
        columns: The names of the columns to read; None for all. The order is the one given.
        fill_null: A value in the place of nulls, for the columns that can hold it, or a dict of values by column.
            Elsewhere nulls are refused.
    """

    def __init__(self, schema: Any, columns: Any = None, fill_null: Any = None) -> None:
        try:
            self._find(schema, columns, fill_null)
        except UnicodeDecodeError as error:
            raise FormatError(f"expected names of columns in UTF-8, got {error.object[:60]!r}") from None

    def _find(self, schema: Any, columns: Any, fill_null: Any) -> None:
        self.names = _chosen(schema.names, columns)
        by_name = isinstance(fill_null, Mapping)
        fills: Mapping[str, Any] = fill_null if by_name else dict.fromkeys(self.names, fill_null)
        unknown = [name for name in fills if name not in self.names]
        if unknown:
            raise BadArgument(f"fill_null: expected columns among {self.names}, got {unknown}")
        self._must_fit = by_name
        self.leaves: list[_Leaf] = []
        self.types = {name: schema.field(name).type for name in self.names}
        nest = {name: self._nest((name,), kind, fills.get(name)) for name, kind in self.types.items()}
        self.element = nest
        self.structure = Structure.of(_shape_of(nest))
        #: The numbers of leaves that have one shape and dtype.
        self.alike: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
        for i, leaf in enumerate(self.leaves):
            self.alike.setdefault((leaf.sizes, leaf.dtype), []).append(i)

    def _nest(self, path: tuple[str, ...], kind: Any, fill: Any) -> Any:
        from pyarrow import types

        if types.is_struct(kind) and kind.num_fields:
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return {field.name: self._nest((*path, field.name), field.type, fill) for field in fields}
        self.leaves.append(_Leaf(path, kind, fill, self._must_fit))
        return self.leaves[-1].spec

    def spec(self, cardinality: int) -> Spec:
        return Spec(self.element, cardinality)

    @property
    def is_exact(self) -> bool:
        """Whether all elements have one size."""
        return all(leaf.row_bytes is not None for leaf in self.leaves)

    @property
    def row_bytes(self) -> int:
        """Bytes of an element, as far as they are known."""
        return sum(leaf.row_bytes or 0 for leaf in self.leaves)

    def arrays(self, batch: Any) -> list[tuple[Any, np.ndarray | None]]:
        """The Arrow array of each leaf in a record batch, and where a struct around it is null."""
        found: list[tuple[Any, np.ndarray | None]] = []
        for leaf in self.leaves:
            array, around = batch.column(leaf.path[0]), None
            for name in leaf.path[1:]:
                mask = _mask(array)
                around = mask if around is None else around if mask is None else around | mask
                array = array.field(array.type.get_field_index(name))
            found.append((array, around))
        return found

    def with_nulls(self, batch: Any) -> list[_Leaf]:
        """The leaves that have a null somewhere in a record batch."""
        pairs = zip(self.leaves, self.arrays(batch), strict=True)
        return [leaf for leaf, (array, around) in pairs if around is not None or has_null(array)]

    def decode(self, batch: Any) -> Decoded:
        """A record batch as columns: views of its buffers where that is possible."""
        columns: list[Any] = []
        bad: dict[int, _Leaf] = {}
        for leaf, (array, around) in zip(self.leaves, self.arrays(batch), strict=True):
            values, mask = leaf.of(array, around)
            if mask is not None:
                for row in np.flatnonzero(mask.reshape(len(mask), -1).any(1)).tolist():
                    bad.setdefault(row, leaf)
            columns.append(values)
        return Decoded(self, columns, bad, batch.num_rows)


class Decoded:
    """Some rows of a table as columns, of which elements are made.

    Attributes:
        columns: Values for each leaf: an array, or a list of arrays where lengths vary.
        bad: The rows that have a null, and the column where; they could not be filled.
    """

    def __init__(self, table: TableColumns, columns: list[Any], bad: dict[int, _Leaf], num_rows: int) -> None:
        self._table = table
        self.columns = columns
        self.bad = bad
        self.num_rows = num_rows
        self._as_rows = bool(bad) or any(leaf.varies for leaf in table.leaves)

    def block(self, start: int, stop: int, allocate: Allocate, where: Callable[[int], str]) -> Block:
        """The rows from `start` to `stop`, copied: they keep nothing else. `where(row)` names one that has a null."""
        structure, parts = self._table.structure, [values[start:stop] for values in self.columns]
        if self._as_rows:
            rows: list[Any] = []
            for i, leaves in enumerate(zip(*map(_rows_of, parts), strict=True), start):
                is_bad = i in self.bad
                rows.append(Failed(_null_error(where(i), self.bad[i])) if is_bad else structure.unflatten(leaves))
            return Block.of_rows(rows)
        # Those of one kind in one piece of memory, and with one call: a table may have many columns.
        columns: list[Any] = [None] * len(parts)
        size = stop - start
        for (shape, dtype), numbers in self._table.alike.items():
            if dtype.hasobject:
                for i in numbers:
                    columns[i] = parts[i].copy()
                continue
            slot = allocate((len(numbers), size, *shape), dtype)
            np.concatenate([parts[i] for i in numbers], 0, slot.reshape(len(numbers) * size, *shape))
            for i, column in zip(numbers, slot, strict=True):
                columns[i] = column
        return Block.of_columns(structure, columns, size)


def _null_error(where: str, leaf: _Leaf) -> FormatError:
    """Why a row cannot be an element."""
    given = leaf.given_fill
    advice = (
        "give a fill_null" if given is None else f"fill_null={given!r:.40} is none of {leaf.dtype}: give one that is"
    )
    return FormatError(f"{where}: expected a value in column {leaf.name}, got null; {advice}, or skip such rows")


def _rows_of(values: Any) -> list[Any]:
    """Values one by one, none of them a view of the others."""
    if isinstance(values, list) or (values.dtype.hasobject and values.ndim == 1):
        return list(values)
    return list(values) if values.ndim == 1 else [row.copy() for row in values]


def _shape_of(nest: Any) -> Any:
    """The nest with leaves that `Structure.of` takes for such."""
    return {name: _shape_of(part) for name, part in nest.items()} if isinstance(nest, dict) else b""


def _chosen(names: list[str], columns: Any) -> list[str]:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise BadArgument(f"expected columns with names of their own, got {twice} more than once")
    if columns is None:
        chosen = list(names)
    elif isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise BadType(f"columns: expected a list of names, got {columns!r:.60}")
    else:
        chosen = list(columns)
    missing = [name for name in chosen if name not in names]
    if missing:
        raise BadArgument(f"columns: expected some of {', '.join(names)}, got {', '.join(missing)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise BadArgument(f"columns: expected one name or more, each once, got {chosen}")
    return chosen
