"""NumPy's values as Arrow arrays, by hand.

`pa.array` would load pandas, if there is one, which takes 35 MB that no budget knows of; and it takes memory from
Arrow's allocator, which keeps it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .flat import ends, flat_bytes

__all__ = ["numbers", "strings"]


def numbers(values: np.ndarray) -> Any:
    """A flat array of numbers, booleans or times that Arrow has a type for, of the same memory where it can be."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype)
    if kind == pa.bool_():
        data = np.packbits(values, bitorder="little")
    elif kind == pa.date32():  # half as wide as NumPy's
        data = values.view(np.int64).astype(np.int32)
    else:
        data = np.ascontiguousarray(values)
    # As bytes: times have no buffers of their own.
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data.view(np.uint8))])


def strings(items: list[Any] | np.ndarray) -> Any:
    """Byte strings."""
    import pyarrow as pa

    lengths, data = flat_bytes(items)
    buffers = [None, pa.py_buffer(ends(lengths)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(items), buffers)
