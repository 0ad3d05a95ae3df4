"""Datasets of Hugging Face's `datasets` as sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..dataset import Dataset
from ..errors import BadArgument, BadType, PenstockError
from ..io.arrow import FromArrow
from ..io.generator import FromGenerator
from ..io.map_style import FromMapStyle
from ..plan.node import Node, caller_origin, located
from ..plan.op import Op
from .hf_columns import columns_as_stored
from .hf_rows import DecodedRows, RowsTogether, SelectedRows, StreamOf, fills_by_column

__all__ = ["from_hf"]


def from_hf(dataset: Any, fill_null: Any = None) -> Dataset:
    """The rows of a dataset of Hugging Face's `datasets`, as dicts of columns.

    Columns that lie in Arrow's memory or mapped files as they are, are read from there at any place, as by
    `from_arrow`: numbers, also lists and arrays of fixed size, without a copy. Rows that were selected or shuffled, or
    that have something to decode (images, audio, a transform), are asked for one by one, at any place too. An
    `IterableDataset` is a stream.

    Strings are `bytes`, images arrays. Lists of lists are arrays where each row has inner lists of equal lengths, and
    `Ragged` for all rows where one has not; lists of dicts are dicts of lists.

    Args:
        dataset: A `datasets.Dataset` or `datasets.IterableDataset`; of a `DatasetDict` give one split.
        fill_null: A value in the place of nulls, in the columns that can hold it, or a dict of values by column. Other
            nulls are errors in their place, with column and row. What a transform gives is given as it is.

    Memory: nothing where rows are views of Arrow's memory; else the rows asked for.
    State: one integer; a stream is iterated again, and as many rows are dropped.

    >>> import datasets, penstock as ps
    >>> rows = datasets.Dataset.from_dict({"x": [1, 2, 3], "name": ["a", "b", "c"]})
    >>> list(ps.from_hf(rows).skip(2))
    [{'x': np.int64(3), 'name': b'c'}]
    """
    origin = caller_origin()
    try:
        return Dataset(Node(_source(dataset, fill_null), (), origin))
    except PenstockError as error:
        raise located(error, "from_hf", origin) from None


def _source(dataset: Any, fill_null: Any) -> Op:
    import datasets

    if isinstance(dataset, datasets.IterableDataset):
        return FromGenerator(StreamOf(dataset, fill_null), made_by="from_hf")
    if not isinstance(dataset, datasets.Dataset):
        kind = type(dataset).__name__
        what = f"one of the splits {list(dataset)}" if isinstance(dataset, dict) else "a datasets.Dataset"
        raise BadType(f"dataset: expected {what}, got {kind}")
    shown, table, selected = dataset.format, dataset.data.table, dataset._indices
    if shown["type"] == "custom":
        if fill_null is not None:
            raise BadArgument("fill_null: expected rows as they are stored, got rows of a transform; fill them there")
        return FromMapStyle(dataset, len(dataset), made_by="from_hf")
    # Other processes map its files themselves.
    remake = functools.partial(_source, dataset, fill_null)
    names = shown["columns"]
    table, stored = columns_as_stored(table.select(names), dataset.features)
    if len(stored) == len(names) and selected is None:
        return FromArrow(table, names, fill_null, made_by="from_hf", looks_into_lists=True, remake=remake)
    fills = fills_by_column(fill_null, names)
    others = [name for name in names if name not in stored]
    parts: list[Any] = []
    if stored:
        # One value for all columns goes where it fits; by column each must.
        by_name = isinstance(fill_null, Mapping)
        filled = {name: fills[name] for name in stored if name in fills} if by_name else fill_null
        parts.append(SelectedRows(table, stored, filled, None if selected is None else selected.column(0).to_numpy()))
    if others:
        shown_as = dataset if shown["type"] == "numpy" else dataset.with_format("numpy")
        parts.append(DecodedRows(shown_as.select_columns(others), others, fills))
    rows = parts[0] if len(parts) == 1 else RowsTogether(names, parts)
    return FromMapStyle(rows, len(rows), made_by="from_hf", remake=remake)
