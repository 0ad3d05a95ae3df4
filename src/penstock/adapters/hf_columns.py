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
    """A table whose arrays are lists of fixed sizes, without a copy, and the columns that mean what lies in them."""
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
    """Arrays as lists of their sizes; as the lists they are stored in where one is missing, or has any length."""
    import pyarrow as pa

    chunks = [chunk.storage for chunk in column.chunks]
    kind = column.type.storage_type
    if None in shape or column.null_count:
        return pa.chunked_array(chunks, kind)
    for _ in shape:
        kind = kind.value_type
    for size in reversed(shape):
        kind = pa.list_(kind, size)
    return pa.chunked_array([_fixed(chunk, shape) for chunk in chunks], kind)


def _fixed(lists: Any, shape: tuple[int | None, ...]) -> Any:
    import pyarrow as pa

    for _ in shape:
        lists = lists.flatten()
    for size in reversed(shape):
        lists = pa.FixedSizeListArray.from_arrays(lists, size)
    return lists
