"""Schemas as files have them: whether they can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import FormatError

__all__ = ["check_names", "check_schema"]


def check_schema(schema: Any, path: str) -> None:
    """Refuses what damage makes of a schema and Arrow takes as it is: names that are no text, sizes below zero."""
    from pyarrow import types

    try:
        for field in _fields(schema):
            if types.is_fixed_size_list(field.type) and field.type.list_size < 0:
                size = field.type.list_size
                raise FormatError(f"{path}: expected lists of some size in column {field.name}, got a size of {size:,}")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected names of columns in UTF-8, got {error.object[:60]!r}") from None


def check_names(schema: Any) -> None:
    """Decodes all names, as whoever asks for them will: a `UnicodeDecodeError` if one is not in UTF-8."""
    for _ in _fields(schema):
        pass


def _fields(fields: Iterable[Any]) -> Iterator[Any]:
    """Fields at any depth of structs and lists, each with a name that was decoded."""
    from pyarrow import types

    for field in fields:
        field.name  # noqa: B018  which must be UTF-8
        yield field
        kind = field.type
        if types.is_struct(kind):
            yield from _fields(kind.field(i) for i in range(kind.num_fields))
        elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            yield from _fields([kind.value_field])
