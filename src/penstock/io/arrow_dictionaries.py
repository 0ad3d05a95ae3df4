"""What Arrow's dictionaries take, and what rows take that are looked up in them.

A column with a dictionary has numbers, and all values once beside them. pyarrow counts the whole dictionary for every
slice of the numbers, of one row too; a row that is made takes its own value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrow_values import is_view

__all__ = ["dictionary_bytes", "has_dictionary", "looked_up_bytes"]

# So many rows are looked up at a time: what that takes is not on the ledger.
_AT_A_TIME = 1 << 13


def has_dictionary(kind: Any) -> bool:
    """Whether a type is a dictionary, or has one in it."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return True
    return any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def dictionary_bytes(array: Any) -> int:
    """What the dictionaries of an array, or of the columns of a batch, take."""
    from pyarrow import types

    parts = _parts(array)
    if parts is not None:
        return sum(map(dictionary_bytes, parts))
    nbytes: int = array.dictionary.nbytes if types.is_dictionary(array.type) else 0
    return nbytes


def looked_up_bytes(array: Any) -> int:
    """What an array, or a batch, takes with the values in it that its dictionaries have for it, and no others."""
    from pyarrow import types

    parts = _parts(array)
    if parts is not None:
        own: int = array.nbytes - sum(part.nbytes for part in parts)
        return max(0, own) + sum(map(looked_up_bytes, parts))
    if not types.is_dictionary(array.type):
        nbytes: int = array.nbytes
        return nbytes
    numbers, values = array.indices, array.dictionary
    by_part = (_places(numbers.slice(start, _AT_A_TIME)) for start in range(0, len(numbers), _AT_A_TIME))
    return int(numbers.nbytes) + _copied_bytes(values) + sum(_gathered_bytes(values, places) for places in by_part)


def _places(numbers: Any) -> np.ndarray:
    """The numbers that are not null."""
    numbers = numbers.drop_null()
    if not len(numbers):
        return np.empty(0, np.int64)
    dtype = np.dtype(numbers.type.to_pandas_dtype())
    found = np.frombuffer(numbers.buffers()[1], dtype, len(numbers), numbers.offset * dtype.itemsize)
    return found.astype(np.int64)


def _parts(array: Any) -> list[Any] | None:
    """The arrays of which a batch or an array is made; None of one that has no others in it."""
    import pyarrow as pa

    if isinstance(array, pa.RecordBatch):
        return list(array.columns)
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(i) for i in range(kind.num_fields)]
    is_list = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return [array.flatten()] if is_list else None


def _copied_bytes(values: Any) -> int:
    """What it takes to gather any values: of those that are views, a copy of all is made first."""
    return int(values.nbytes + _view_lengths(values).sum(dtype=np.int64)) if is_view(values.type) else 0


def _gathered_bytes(values: Any, places: np.ndarray) -> int:
    """What the values at some places take once they are gathered."""
    from pyarrow import types

    kind, count = values.type, len(places)
    if not count:
        return 0
    if types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        return -(-int(kind.bit_width) // 8) * count
    if is_view(kind):
        return int(_view_lengths(values)[places].sum(dtype=np.int64)) + 8 * count
    is_large = types.is_large_string(kind) or types.is_large_binary(kind)
    if not is_large and not types.is_string(kind) and not types.is_binary(kind):
        return int(values.nbytes) * count  # of what is in a list nobody knows the largest
    dtype = np.dtype(np.int64 if is_large else np.int32)
    ends = np.frombuffer(values.buffers()[1], dtype, len(values) + 1, values.offset * dtype.itemsize)
    return int((ends[places + 1] - ends[places]).sum(dtype=np.int64)) + count * dtype.itemsize


def _view_lengths(values: Any) -> np.ndarray:
    """How long strings are: a view has 16 bytes, and the first four say it."""
    return np.frombuffer(values.buffers()[1], np.int32, 4 * len(values), 16 * values.offset)[::4]
