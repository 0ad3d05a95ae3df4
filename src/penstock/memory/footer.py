"""The two things in the FlatBuffers of an Arrow file that pyarrow does not tell: where batches lie, and their lengths.

Bytes may be damaged: what is read may be anything, but never lies outside of them.
"""

from __future__ import annotations

import struct

import numpy as np

from ..errors import FormatError

__all__ = ["blocks", "num_rows"]


def _field(data: bytes, table: int, index: int) -> int:
    """Where a field of a table lies."""
    vtable = table - _unpacked("<i", data, table)
    entry = 4 + 2 * index
    if entry >= _unpacked("<H", data, vtable) or not (place := _unpacked("<H", data, vtable + entry)):
        raise FormatError(f"field {index} of a table is missing")
    return table + place


def _unpacked(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise FormatError("an offset points to before the file")
    (value,) = struct.unpack_from(form, data, place)
    return int(value)


def blocks(footer: bytes) -> list[tuple[int, int, int]]:
    """Offset, bytes of the head and bytes of the body of each batch."""
    field = _field(footer, _unpacked("<I", footer, 0), 3)
    vector = field + _unpacked("<I", footer, field)
    count = _unpacked("<I", footer, vector)
    blocks = np.frombuffer(footer, "<i8,<i4,<i4,<i8", count, vector + 4)
    return [(offset, head, body) for offset, head, _, body in blocks.tolist()]


def num_rows(head: bytes) -> int:
    """The length of the batch that a message begins."""
    message = 8 + _unpacked("<I", head, 8)
    header = _field(head, message, 2)
    batch = header + _unpacked("<I", head, header)
    return _unpacked("<q", head, _field(head, batch, 0))
