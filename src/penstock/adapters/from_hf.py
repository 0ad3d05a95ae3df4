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

__all__ = ["from_hf"]

# Features that lie in Arrow's columns as they are.
_PLAIN = {"Value", "ClassLabel", "Sequence", "List", "LargeList"}


def from_hf(dataset: Any, fill_null: Any = None) -> Dataset:
    """The rows of a dataset of Hugging Face's `datasets`, as dicts of columns.

    Where rows lie in Arrow's memory or mapped files as they are, they are read from there at any place, as by
    `from_arrow`: columns of fixed width without a copy. Rows that must be decoded (images, audio, a transform), or that
    were selected or shuffled, are asked for one by one, at any place too. An `IterableDataset` is a stream.

    Strings are `bytes`.

    Args:
        dataset: A `datasets.Dataset` or `datasets.IterableDataset`; of a `DatasetDict` give one split.
        fill_null: A value in the place of nulls, in the columns that can hold it, or a dict of values by column; for
            rows that are read from Arrow's memory.

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
        _refuse_fill(fill_null, "an IterableDataset")
        return FromGenerator(lambda: dataset, made_by="from_hf")
    if not isinstance(dataset, datasets.Dataset):
        kind = type(dataset).__name__
        what = f"one of the splits {list(dataset)}" if isinstance(dataset, dict) else "a datasets.Dataset"
        raise BadType(f"dataset: expected {what}, got {kind}")
    shown = dataset.format
    if dataset._indices is None and shown["type"] != "custom" and all(map(_is_plain, dataset.features.values())):
        try:
            return FromArrow(dataset.data.table, shown["columns"], fill_null, made_by="from_hf")
        except BadType:
            pass  # a column that only `datasets` can read
    if shown["type"] not in ("custom", "numpy"):
        dataset = dataset.with_format("numpy", columns=shown["columns"])
    _refuse_fill(fill_null, "rows that were selected or must be decoded")
    return FromMapStyle(dataset, len(dataset), made_by="from_hf")


def _refuse_fill(fill_null: Any, of_what: str) -> None:
    if fill_null is not None:
        raise BadArgument(f"fill_null: expected rows that lie in Arrow's memory, got {of_what}; fill them with a map")


def _is_plain(feature: Any) -> bool:
    if isinstance(feature, dict):
        return all(map(_is_plain, feature.values()))
    if type(feature).__name__ not in _PLAIN:
        return False
    inner = getattr(feature, "feature", None)
    return inner is None or _is_plain(inner)
