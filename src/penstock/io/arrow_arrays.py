"""Tables of Arrow's as NumPy columns: what every table format shares.

Numbers are views of Arrow's buffers where that is possible. Strings and binary are `bytes`; a fixed-size list is one
more dimension; a list is an array of its own length, lists of lists one of more dimensions; a struct is a dict; times
with a zone are in UTC. A row with a null is no element, nor is one with lists of unequal lengths in one: but where the
whole table is looked at such are `Ragged`, and lists of structs are dicts of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure
from ..errors import BadArgument, BadType, FormatError
from ..leaf import Ragged, string
from ..spec import RaggedSpec, Spec, TensorSpec
from .arrow_nested import NestedLists, field_in_lists, is_nested, struct_in_lists, without_structs
from .arrow_values import Convert, Converted, conversion, has_null, is_copied, mask_of

__all__ = ["Decoded", "TableColumns"]

Allocate = Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray]


class _Leaf:
    """One column, or one field of a struct.

    Args:
        path: The names that lead to it.
        kind: Its type.
        fill: What replaces nulls.
        must_fit: Whether it is an error if that is none of its values.
        arrays: All of its arrays, each with where a struct around it is null, to find whether lists in lists are arrays
            or `Ragged`; None: uneven ones are refused.
    """

    def __init__(
        self,
        path: tuple[str, ...],
        kind: Any,
        fill: Any,
        must_fit: bool,
        arrays: list[tuple[Any, np.ndarray | None]] | None,
    ) -> None:
        self.path = path
        self.name = ".".join(path)
        is_looked_at = is_nested(kind) and arrays is not None
        self.spec: TensorSpec | RaggedSpec
        self._convert: Convert
        if is_looked_at:
            lists = NestedLists(self.name, kind)
            self.fill = _fitting_fill(lists.dtype, fill)
            self.spec, self._convert = lists.look_at(arrays or (), self.fill is not None), lists.convert
        else:
            shape, dtype, self._convert = conversion(self.name, kind)
            self.fill = _fitting_fill(dtype, fill)
            self.spec = TensorSpec(shape, dtype)
        self.dtype = self.spec.dtype
        shape = self.spec.shape or ()
        #: What was given in the place of nulls, which need not fit.
        self.given_fill = fill
        if fill is not None and self.fill is None and must_fit:
            raise BadArgument(f"fill_null: expected a value for {self.name} of {self.dtype}, got {fill!r:.60}")
        #: The shape, where each dimension is known.
        self.sizes: tuple[int, ...] = tuple(n for n in shape if n is not None)
        #: Whether elements have sizes of their own.
        self.varies = is_looked_at or shape[:1] == (None,)
        #: Whether an element may be refused for what it is: lists in a list may be of unequal lengths.
        self.may_be_uneven = not is_looked_at and shape[1:2] == (None,)
        self.row_bytes = self.spec.nbytes
        #: Whether values that are not null are views of Arrow's buffers.
        self.is_view = self.row_bytes is not None and not is_looked_at and not is_copied(kind)

    @property
    def null_refused(self) -> str:
        """Why a row with a null cannot be an element."""
        given = self.given_fill
        fits = f"fill_null={given!r:.40} is none of {self.dtype}: give one that is"
        advice = "give a fill_null" if given is None else fits
        return f"expected a value in column {self.name}, got null; {advice}, or skip such rows"

    @property
    def uneven_refused(self) -> str:
        """Why a row with lists of unequal lengths cannot be one."""
        return f"expected lists of one length inside each other in column {self.name}, got unequal ones; skip such rows"

    def of(self, array: Any, around: np.ndarray | None = None) -> Converted:
        """The values of an Arrow array, views where that is possible; `around` is where a struct around it is null."""
        values, mask = self._convert(array, self.fill)
        if around is not None:
            around = around if mask is None else around.reshape(-1, *[1] * (mask.ndim - 1))
            mask = around if mask is None else mask | around
        if mask is None or self.fill is None:
            return values, mask
        if isinstance(values, list):  # nulls inside were filled already; a list that is null has no values
            return [_emptied(row) if row is not None and mask[i] else row for i, row in enumerate(values)], None
        values = values.copy()
        values[mask] = self.fill
        return values, None


def _emptied(row: Any) -> Any:
    return Ragged(_emptied(row.values), row.row_splits[:1]) if isinstance(row, Ragged) else row[:0]


def _fitting_fill(dtype: np.dtype[Any], fill: Any) -> Any:
    """A fill value as one of this dtype, or None if it is none."""
    if fill is None or (dtype == string) != isinstance(fill, (str, bytes)):
        return None
    if dtype == string:
        return fill.encode() if isinstance(fill, str) else fill
    try:
        with np.errstate(all="ignore"):  # a NaN, say, for an integer: that it is none is the answer
            value = np.asarray(fill).astype(dtype)[()]
        return value if dtype.kind == "f" or value == fill else None
    except (TypeError, ValueError, OverflowError):
        return None


# --- tables -----------------------------------------------------------------------------------------------------


class TableColumns:
    """The columns of a table as leaves of a dict.

    Args:
        schema: The table's.
        columns: The names of the columns to read; None for all. The order is the one given.
        fill_null: A value in the place of nulls, for the columns that can hold it, or a dict of values by column.
            Elsewhere nulls are refused.
        batches: All record batches, to be looked at: unequal lists in lists, and lists of structs, can be read only
            then.
    """

    def __init__(
        self, schema: Any, columns: Any = None, fill_null: Any = None, batches: Iterable[Any] | None = None
    ) -> None:
        self._batches = None if batches is None else list(batches)
        try:
            self._find(schema, columns, fill_null)
        except UnicodeDecodeError as error:
            raise FormatError(f"expected names of columns in UTF-8, got {error.object[:60]!r}") from None
        finally:
            self._batches = None  # they were looked at

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
            _refuse_twice([field.name for field in fields], f" in {'.'.join(path)}")
            return {field.name: self._nest((*path, field.name), field.type, fill) for field in fields}
        arrays = None
        if self._batches is not None:
            if (inner := struct_in_lists(kind)) is not None:
                names = [inner.field(i).name for i in range(inner.num_fields)]
                _refuse_twice(names, f" in {'.'.join(path)}")
                return {name: self._nest((*path, name), without_structs(kind, name), fill) for name in names}
            arrays = [_array_at(batch, path) for batch in self._batches] if is_nested(kind) else []
        self.leaves.append(_Leaf(path, kind, fill, self._must_fit, arrays))
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

    def arrays(self, batch: Any, leaves: Iterable[_Leaf] | None = None) -> list[tuple[Any, np.ndarray | None]]:
        """The Arrow array of each leaf, or of some, in a record batch, and where a struct around it is null."""
        return [_array_at(batch, leaf.path) for leaf in (self.leaves if leaves is None else leaves)]

    def with_nulls(self, batch: Any) -> list[_Leaf]:
        """The leaves that have a null somewhere in a record batch."""
        pairs = zip(self.leaves, self.arrays(batch), strict=True)
        return [leaf for leaf, (array, around) in pairs if around is not None or has_null(array)]

    def decode(self, batch: Any) -> Decoded:
        """A record batch as columns: views of its buffers where that is possible."""
        columns: list[Any] = []
        bad: dict[int, str] = {}
        for leaf, (array, around) in zip(self.leaves, self.arrays(batch), strict=True):
            values, mask = leaf.of(array, around)
            if mask is not None:
                rows = np.flatnonzero(mask.reshape(len(mask), -1).any(1)).tolist()
                bad = dict.fromkeys(rows, leaf.null_refused) | bad
            if leaf.may_be_uneven:
                bad = {row: leaf.uneven_refused for row, value in enumerate(values) if value is None} | bad
            columns.append(values)
        return Decoded(self, columns, bad, batch.num_rows)


def _array_at(batch: Any, path: tuple[str, ...]) -> tuple[Any, np.ndarray | None]:
    """The array of a column, or of a field in it, and where a struct around it is null."""
    from pyarrow import types

    array, around = batch.column(path[0]), None
    for name in path[1:]:
        if not types.is_struct(array.type):
            array = field_in_lists(array, name)
            continue
        mask = mask_of(array)
        around = mask if around is None else around if mask is None else around | mask
        array = array.field(array.type.get_field_index(name))
    return array, around


class Decoded:
    """Some rows of a table as columns, of which elements are made.

    Attributes:
        columns: Values for each leaf: an array, or a list of arrays where lengths vary.
        bad: The rows that are no elements, and why.
    """

    def __init__(self, table: TableColumns, columns: list[Any], bad: dict[int, str], num_rows: int) -> None:
        self._table = table
        self.columns = columns
        self.bad = bad
        self.num_rows = num_rows
        self._as_rows = bool(bad) or any(leaf.varies for leaf in table.leaves)

    def block(self, start: int, stop: int, allocate: Allocate, where: Callable[[int], str]) -> Block:
        """The rows from `start` to `stop`, copied: they keep nothing else. `where(row)` names one that is bad."""
        structure, parts = self._table.structure, [values[start:stop] for values in self.columns]
        if self._as_rows:
            return self._rows(start, [_rows_of(part) for part in parts], where)
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

    def views(self, where: Callable[[int], str]) -> Block:
        """All rows, as they are: of memory that lives by itself, such as a table's own."""
        if self._as_rows:
            return self._rows(0, [list(values) for values in self.columns], where)
        return Block.of_columns(self._table.structure, self.columns, self.num_rows)

    def _rows(self, start: int, parts: list[list[Any]], where: Callable[[int], str]) -> Block:
        structure, rows = self._table.structure, []
        for i, leaves in enumerate(zip(*parts, strict=True), start):
            is_bad = i in self.bad
            rows.append(Failed(FormatError(f"{where(i)}: {self.bad[i]}")) if is_bad else structure.unflatten(leaves))
        return Block.of_rows(rows)


def _rows_of(values: Any) -> list[Any]:
    """Values one by one, none of them a view of the others."""
    if isinstance(values, list) or (values.dtype.hasobject and values.ndim == 1):
        return list(values)
    return list(values) if values.ndim == 1 else [row.copy() for row in values]


def _shape_of(nest: Any) -> Any:
    """The nest with leaves that `Structure.of` takes for such."""
    return {name: _shape_of(part) for name, part in nest.items()} if isinstance(nest, dict) else b""


def _refuse_twice(names: list[str], where: str = "") -> None:
    """Refuses names of which a dict could hold only one."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise BadArgument(f"expected columns with names of their own{where}, got {twice} more than once")


def _chosen(names: list[str], columns: Any) -> list[str]:
    _refuse_twice(names)
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
