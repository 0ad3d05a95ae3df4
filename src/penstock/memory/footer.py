"""What the FlatBuffers of an Arrow file say and pyarrow does not tell: where batches lie, their lengths and parts.

Bytes may be damaged: what is read may be anything, but never lies outside of them.
"""

from __future__ import annotations

import struct

import numpy as np

from ..errors import FormatError

__all__ = ["blocks", "buffer_offsets", "compressed_buffers", "num_rows"]


def _field(data: bytes, table: int, index: int) -> int:
    """Where a field of a table lies."""
    place = _optional_field(data, table, index)
    if place is None:
        raise FormatError(f"field {index} of a table is missing")
    return place


def _optional_field(data: bytes, table: int, index: int) -> int | None:
    """The same; None for one that is left out."""
    vtable = table - _unpacked("<i", data, table)
    entry = 4 + 2 * index
    if entry >= _unpacked("<H", data, vtable) or not (place := _unpacked("<H", data, vtable + entry)):
        return None
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
    return _unpacked("<q", head, _field(head, _batch(head), 0))


def buffer_offsets(head: bytes) -> list[int]:
    """Where the buffers of a batch begin, counted from the end of its head."""
    field = _field(head, _batch(head), 2)
    vector = field + _unpacked("<I", head, field)
    buffers = np.frombuffer(head, "<i8,<i8", _unpacked("<I", head, vector), vector + 4)
    return [offset for offset, _ in buffers.tolist()]


def compressed_buffers(head: bytes) -> tuple[int, list[tuple[int, int]]] | None:
    """The codec of a batch, and where each buffer lies in its body and how long it is; None if it is not compressed."""
    batch = _batch(head)
    compression = _optional_field(head, batch, 3)
    if compression is None:
        return None
    codec = _optional_field(head, compression + _unpacked("<I", head, compression), 0)
    field = _field(head, batch, 2)
    vector = field + _unpacked("<I", head, field)
    places = np.frombuffer(head, "<i8,<i8", _unpacked("<I", head, vector), vector + 4)
    return 0 if codec is None else _unpacked("<b", head, codec), places.tolist()


def _batch(head: bytes) -> int:
    message = 8 + _unpacked("<I", head, 8)
    header = _field(head, message, 2)
    return header + _unpacked("<I", head, header)
