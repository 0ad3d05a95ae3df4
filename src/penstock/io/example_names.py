"""Names of records, which errors about them say: tf.io's `example_names`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import BadArgument, BadType, RecordError

__all__ = ["with_names"]

_Result = TypeVar("_Result")


def with_names(
    given: Any, num_records: int | None, parse: Callable[[], _Result], argument: str = "example_names"
) -> _Result:
    """What `parse` returns; an error of it about a record says the record's name too.

    Args:
        given: A name for each record, or one where a record is parsed alone; None, or an empty list, for no names.
        num_records: How many records there are; None for one alone.
        parse: Parses them.
        argument: How the argument is called.
    """
    names = _names(given, num_records, argument)
    try:
        return parse()
    except RecordError as error:
        if names:
            error.args = (f"example {names[error.record or 0]!r}: {error}",)
        raise


def _names(given: Any, num_records: int | None, argument: str) -> Sequence[str]:
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return ()
    is_one = isinstance(given, (str, bytes))
    names = [given] if is_one else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, (str, bytes)) for name in names):
        raise BadType(f"{argument}: expected names, got {type(given).__name__} {given!r:.60}")
    if is_one != (num_records is None) or len(names) != (num_records or 1):
        expected = "one name" if num_records is None else f"{num_records:,} names, as there are records"
        raise BadArgument(f"{argument}: expected {expected}, got {'one name' if is_one else f'{len(names):,} names'}")
    return [name.decode(errors="replace") if isinstance(name, bytes) else name for name in names]
