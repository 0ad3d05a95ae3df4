"""Rows of Hugging Face's `datasets` that are asked for one by one, with nulls filled or refused by column and row."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..element import Failed
from ..errors import BadArgument, FormatError
from ..io.arrow_arrays import TableColumns
from ..io.arrow_values import has_null

__all__ = ["DecodedRows", "RowsTogether", "SelectedRows", "StreamOf", "fills_by_column"]


class SelectedRows:
    """Rows of a table in an order of their own, each as it would be in the table's order.

    Args:
        table: Arrow's, whole.
        columns: The columns to read.
        fill_null: As for `from_arrow`.
        numbers: Where in the table each row lies; None: in its order.
    """

    def __init__(self, table: Any, columns: list[str], fill_null: Any, numbers: np.ndarray | None) -> None:
        self._batches = [batch for batch in table.select(columns).to_batches() if batch.num_rows]
        self._columns = TableColumns(table.schema, columns, fill_null, self._batches)
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)]).tolist()
        self._numbers = numbers

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._numbers is None else len(self._numbers)

    def __getitem__(self, place: int) -> Any:
        number = place if self._numbers is None else int(self._numbers[place])
        i = bisect.bisect_right(self._starts, number) - 1
        one = self._columns.decode(self._batches[i].slice(number - self._starts[i], 1))
        (row,) = one.block(0, 1, np.empty, lambda _: _where(place, number)).rows()
        if isinstance(row, Failed):
            raise row.error
        return row


class RowsTogether:
    """Rows of which some columns are read in one way, and some in another.

    Args:
        columns: The names of all, in their order.
        parts: Who gives rows of some of them.
    """

    def __init__(self, columns: list[str], parts: list[Any]) -> None:
        self._columns = columns
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, place: int) -> Any:
        row = {name: value for part in self._parts for name, value in part[place].items()}
        return {name: row[name] for name in self._columns}


class DecodedRows:
    """Rows that `datasets` makes of more than columns: images, audio.

    Args:
        dataset: In the format in which its rows are wanted.
        columns: The columns that it shows.
        fills: Values in the place of nulls, by column.
    """

    def __init__(self, dataset: Any, columns: list[str], fills: Mapping[str, Any]) -> None:
        self._dataset = dataset
        self._fills = fills
        self._kinds = {name: getattr(dataset.features[name], "dtype", None) for name in columns}
        table = dataset.data.table
        # A format may hide a null: NumPy's makes it a NaN.
        self._with_nulls = {
            name: table.column(name) for name in columns if any(map(has_null, table.column(name).chunks))
        }

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, place: int) -> Any:
        row = self._dataset[place]
        if not self._with_nulls:
            return row
        numbers = self._dataset._indices
        number = place if numbers is None else numbers.column(0)[place].as_py()
        for name, column in self._with_nulls.items():
            one = column.slice(number, 1)
            if any(map(has_null, one.chunks)):
                row[name] = self._filled(name, whole=bool(one.null_count), where=_where(place, number))
        return row

    def _filled(self, name: str, whole: bool, where: str) -> Any:
        fill = self._fills.get(name)
        if fill is None or not whole:
            raise _null_error(where, name, "give a fill_null" if whole else "fill it with a map of `datasets`")
        try:
            return np.array(fill, self._kinds[name])
        except (TypeError, ValueError):  # no dtype of NumPy's, or not of this one
            return fill


class StreamOf:
    """Goes through an `IterableDataset`, each time anew; as itself, and no function, it can be pickled.

    Args:
        rows: The dataset.
        fill_null: A value for all columns, or a dict by column.
    """

    def __init__(self, rows: Any, fill_null: Any) -> None:
        self._rows = rows
        self._fill_null = fill_null

    def __call__(self) -> Iterator[Any]:
        return _Stream(self._rows, self._fill_null)

    def __str__(self) -> str:
        return type(self._rows).__name__


class _Stream:
    """The rows of an `IterableDataset`; goes on behind a row that was refused."""

    def __init__(self, rows: Any, fill_null: Any) -> None:
        self._rows = iter(rows)
        self._features: Mapping[str, Any] = rows.features or {}  # not every stream knows them
        self._fill_null = fill_null
        self._place = -1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        row = next(self._rows)
        self._place += 1
        if not isinstance(row, dict):
            return row
        fills = self._fill_null if isinstance(self._fill_null, Mapping) else dict.fromkeys(row, self._fill_null)
        features = self._features
        return {name: self._filled(value, name, fills.get(name), features.get(name)) for name, value in row.items()}

    def _filled(self, value: Any, name: str, fill: Any, feature: Any) -> Any:
        if value is None:
            if fill is None:
                raise _null_error(f"row {self._place}", name, "give a fill_null")
            return fill
        if type(value) is dict:
            kinds = feature if isinstance(feature, dict) else {}
            return {key: self._filled(part, f"{name}.{key}", fill, kinds.get(key)) for key, part in value.items()}
        if type(value) is list:
            inner = getattr(feature, "feature", None)
            known = inner if isinstance(inner, dict) else {}
            dicts = [part or {} for part in value if part is None or type(part) is dict]
            # What a dict lacks is null in it, as in a table of them.
            keys = dict.fromkeys(itertools.chain(known, *dicts)) if len(dicts) == len(value) else {}
            if keys:  # dicts in a list: lists in a dict, as where tables are read
                lists = {key: [part.get(key) for part in dicts] for key in keys}
                kinds = {key: SimpleNamespace(feature=known.get(key)) for key in keys}
                return {key: self._filled(lists[key], f"{name}.{key}", fill, kinds[key]) for key in keys}
            return [self._filled(part, name, fill, inner) for part in value]
        return value


def fills_by_column(fill_null: Any, columns: list[str]) -> Mapping[str, Any]:
    """The values in the place of nulls, whether one was given for all columns, or some by name."""
    if not isinstance(fill_null, Mapping):
        return dict.fromkeys(columns, fill_null)
    unknown = [name for name in fill_null if name not in columns]
    if unknown:
        raise BadArgument(f"fill_null: expected columns among {columns}, got {unknown}")
    return fill_null


def _where(place: int, number: int) -> str:
    return f"row {place}" if place == number else f"row {place}, {number} of the table"


def _null_error(where: str, column: str, advice: str) -> FormatError:
    return FormatError(f"{where}: expected a value in column {column}, got null; {advice}, or skip such rows")
