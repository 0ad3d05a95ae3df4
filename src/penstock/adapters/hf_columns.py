"""Columns of Hugging Face's `datasets` that can be read as they are stored."""

from __future__ import annotations

from typing import Any

from ..errors import BadType
from ..io.arrow_arrays import TableColumns

__all__ = ["columns_as_stored"]

# Features that lie in Arrow's columns as they are.
_PLAIN = {"Value", "ClassLabel", "Sequence", "List", "LargeList", "Translation"}
_ARRAYS = {"Array2D", "Array3D", "Array4D", "Array5D"}


def columns_as_stored(table: Any, features: Any) -> tuple[Any, list[str]]:
    """The table with arrays as lists, and the columns that mean what lies in them.

    Nothing is copied here. Lists of fixed sizes can be read without a copy, too, others cannot: see `_as_lists`.
    """
    stored = []
    for i, name in enumerate(table.column_names):
        feature = features[name]
        if type(feature).__name__ in _ARRAYS:
            table = table.set_column(i, name, _as_lists(table.column(name), feature.shape))
        elif not _is_plain(feature):
            continue
        try:
            TableColumns(table.schema, [name], None, ())
        except BadType:  # only `datasets` can read it
            continue
        stored.append(name)
    return table, stored


def _is_plain(feature: Any) -> bool:
    if isinstance(feature, dict):
        return all(map(_is_plain, feature.values()))
    if type(feature).__name__ not in _PLAIN:
        return False
    inner = getattr(feature, "feature", None)
    return inner is None or _is_plain(inner)


def _as_lists(column: Any, shape: tuple[int | None, ...]) -> Any:
    """Arrays as lists of their sizes; as the lists they are stored in where one has any length, or is not all there."""
    import pyarrow as pa

    stored = [chunk.storage for chunk in column.chunks]
    kind = column.type.storage_type
    sizes = [size for size in shape if size is not None]
    fixed = [_fixed(lists, sizes) for lists in stored] if len(sizes) == len(shape) else [None]
    if any(lists is None for lists in fixed):
        return pa.chunked_array(stored, kind)
    for _ in sizes:
        kind = kind.value_type
    for size in reversed(sizes):
        kind = pa.list_(kind, size)
    return pa.chunked_array(fixed, kind)


def _fixed(lists: Any, shape: list[int]) -> Any:
    """Lists of lists on the same memory, of these sizes; None if one of them is null, or there are more or fewer."""
    import pyarrow as pa

    for size in shape:
        if lists.null_count:
            return None
        values = lists.flatten()
        if len(values) != len(lists) * size:
            return None
        lists = values
    for size in reversed(shape):
        lists = pa.FixedSizeListArray.from_arrays(lists, size)
    return lists
