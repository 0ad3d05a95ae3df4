"""Datasets of Hugging Face's `datasets` as sources."""

from __future__ import annotations

from typing import Any

from ..dataset import Dataset
from ..errors import BadArgument, BadType, PenstockError
from ..io.arrow import FromArrow
from ..io.generator import FromGenerator
from ..io.map_style import FromMapStyle
from ..plan.node import Node, caller_origin, located
from ..plan.op import Op
from .hf_rows import DecodedRows, SelectedRows, Stream

__all__ = ["from_hf"]

# Features that lie in Arrow's columns as they are.
_PLAIN = {"Value", "ClassLabel", "Sequence", "List", "LargeList"}


def from_hf(dataset: Any, fill_null: Any = None) -> Dataset:
    """The rows of a dataset of Hugging Face's `datasets`, as dicts of columns.

    Where rows lie in Arrow's memory or mapped files as they are, they are read from there at any place, as by
    `from_arrow`: columns of fixed width without a copy. Rows that were selected or shuffled, or that must be decoded
    (images, audio, a transform), are asked for one by one, at any place too. An `IterableDataset` is a stream.

    Strings are `bytes`.

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
        return FromGenerator(lambda: Stream(dataset, fill_null), made_by="from_hf")
    if not isinstance(dataset, datasets.Dataset):
        kind = type(dataset).__name__
        what = f"one of the splits {list(dataset)}" if isinstance(dataset, dict) else "a datasets.Dataset"
        raise BadType(f"dataset: expected {what}, got {kind}")
    shown, table, selected = dataset.format, dataset.data.table, dataset._indices
    if shown["type"] == "custom":
        if fill_null is not None:
            raise BadArgument("fill_null: expected rows as they are stored, got rows of a transform; fill them there")
        return FromMapStyle(dataset, len(dataset), made_by="from_hf")
    if all(map(_is_plain, dataset.features.values())):
        try:
            if selected is None:
                return FromArrow(table, shown["columns"], fill_null, made_by="from_hf")
            rows = SelectedRows(table, shown["columns"], fill_null, selected.column(0).to_numpy())
            return FromMapStyle(rows, len(rows), made_by="from_hf")
        except BadType:
            pass  # a column that only `datasets` can read
    if shown["type"] != "numpy":
        dataset = dataset.with_format("numpy", columns=shown["columns"])
    return FromMapStyle(DecodedRows(dataset, shown["columns"], fill_null), len(dataset), made_by="from_hf")


def _is_plain(feature: Any) -> bool:
    if isinstance(feature, dict):
        return all(map(_is_plain, feature.values()))
    if type(feature).__name__ not in _PLAIN:
        return False
    inner = getattr(feature, "feature", None)
    return inner is None or (_is_plain(inner) and not _is_list(inner))


def _is_list(feature: Any) -> bool:
    """Whether it is a list of any length. Where such lists are in lists, `datasets` gives what no array can be, too."""
    return getattr(feature, "feature", None) is not None and getattr(feature, "length", -1) < 0
