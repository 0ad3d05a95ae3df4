"""Integers in JSON that int64 cannot hold: Arrow takes them for floats, and other integers with them.

A column of integers stays one: of uint64 if that holds all of them, else of int64, so that those which do not fit are
errors in their place. Where some values are floats, all are.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["about_integers", "with_large_integers"]

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
# What int64 cannot hold has no fewer digits. A quick look: digits in strings are found as well.
_MANY_DIGITS = re.compile(rb"(?<![\d.])\d{19}")


def with_large_integers(schema: Any, lines: Sequence[bytes]) -> Any:
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
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not pa.types.is_float64(kind) or not numbers or not all(isinstance(number, int) for number in numbers):
        return kind
    least, most = min(numbers), max(numbers)
    if least >= _LEAST and most <= _MOST:
        return kind
    return pa.uint64() if least >= 0 and most < 1 << 64 else pa.int64()


def about_integers(line: bytes) -> str:
    """What to do about a line that does not fit, if that may be because of a large integer."""
    if not _MANY_DIGITS.search(line):
        return ""
    return "; for integers beyond int64 give dtypes, uint64 or float64"
