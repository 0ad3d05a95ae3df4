"""Integers in text that int64 cannot hold: Arrow takes them for floats, and other integers with them.

A column of integers stays one: of uint64 if that holds all of them, else of int64, so that those which do not fit are
errors in their place. Where some values are floats, all are.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["about_integers", "in_csv", "in_json"]

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
# What int64 cannot hold has no fewer digits. A quick look: digits in strings are found as well.
_INTEGER = re.compile(rb"[+-]?\d{1,400}")  # no float is longer, but for zeros
_MANY_DIGITS = re.compile(rb"(?<![\d.])\d{19}")


def in_csv(table: Any, as_text: Callable[[str], Any]) -> Any:
    """The schema of a table that Arrow has found, with integers where it took large ones for floats.

    Args:
        table: The table.
        as_text: A column of it as text.
    """
    import pyarrow as pa

    fields = []
    for field in table.schema:
        kind = field.type
        if pa.types.is_float64(kind) and any(abs(x or 0) >= _MOST for x in table.column(field.name).to_pylist()):
            texts = [text.strip() for text in as_text(field.name).to_pylist() if text]
            if all(map(_INTEGER.fullmatch, texts)):
                kind = _integer_type(list(map(int, texts)))
        fields.append(field.with_type(kind))
    return pa.schema(fields)


def in_json(schema: Any, lines: Sequence[bytes]) -> Any:
    """A schema that Arrow has found in lines, with integers where it took large ones for floats."""
    import pyarrow as pa

    if not any(map(_MANY_DIGITS.search, lines)):
        return schema
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):  # not JSON, or integers that Python refuses to read
            rows.append(json.loads(line))
    fields = []
    for field in schema:
        values = [row[field.name] for row in rows if isinstance(row, dict) and field.name in row]
        fields.append(field.with_type(_with_integers(field.type, values)))
    return pa.schema(fields)


def _with_integers(kind: Any, values: list[Any]) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        parts = [value for value in values if isinstance(value, dict)]
        fields = [kind.field(i) for i in range(kind.num_fields)]
        names = [field.name for field in fields]
        inner = [[part[name] for part in parts if name in part] for name in names]
        return pa.struct([f.with_type(_with_integers(f.type, v)) for f, v in zip(fields, inner, strict=True)])
    if pa.types.is_list(kind):
        inner_values = [item for value in values if isinstance(value, list) for item in value]
        return pa.list_(kind.value_field.with_type(_with_integers(kind.value_type, inner_values)))
    numbers = [value for value in values if type(value) in (int, float)]
    integers = [number for number in numbers if type(number) is int]
    if not pa.types.is_float64(kind) or not numbers or len(integers) < len(numbers):
        return kind
    return kind if _LEAST <= min(integers) <= max(integers) <= _MOST else _integer_type(integers)


def _integer_type(numbers: list[int]) -> Any:
    import pyarrow as pa

    return pa.uint64() if min(numbers) >= 0 and max(numbers) < 1 << 64 else pa.int64()


def about_integers(line: bytes) -> str:
    """What to do about a line that does not fit, if that may be because of a large integer."""
    if not _MANY_DIGITS.search(line):
        return ""
    return "; for integers beyond int64 give dtypes, uint64 or float64"
