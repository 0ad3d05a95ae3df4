"""What the FlatBuffers of an Arrow file say and pyarrow does not tell: where batches lie, their lengths and parts.

Bytes may be damaged: what is read may be anything, but never lies outside of them.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

import numpy as np

from ..errors import FormatError

__all__ = [
    "BLOCK",
    "before_blocks",
    "blocks",
    "blocks_place",
    "body_bytes",
    "buffer_offsets",
    "compressed_buffers",
    "dictionaries_place",
    "footer_of_none",
    "num_rows",
]

#: Offset, bytes of the head, nothing, bytes of the body: a batch in a footer.
BLOCK = struct.Struct("<qiiq")
# Where a buffer begins in the body of its batch, and its length.
_BUFFER = struct.Struct("<qq")
# The kind of a message that is a dictionary.
_DICTIONARY = 2


class Bytes(Protocol):
    """Bytes, or those of a file that are read when they are looked at."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


def _field(data: Bytes, table: int, index: int) -> int:
    """Where a field of a table lies."""
    place = _optional_field(data, table, index)
    if place is None:
        raise FormatError(f"field {index} of a table is missing")
    return place


def _optional_field(data: Bytes, table: int, index: int) -> int | None:
    """The same; None for one that is left out."""
    vtable = table - _unpacked("<i", data, table)
    entry = 4 + 2 * index
    if entry >= _unpacked("<H", data, vtable) or not (place := _unpacked("<H", data, vtable + entry)):
        return None
    return table + place


def _number(form: str, data: Bytes, table: int, index: int) -> int:
    """A number of a table, which is left out where it is 0."""
    place = _optional_field(data, table, index)
    return 0 if place is None else _unpacked(form, data, place)


def _unpacked(form: str, data: Bytes, place: int) -> int:
    if not 0 <= place <= len(data) - struct.calcsize(form):
        raise FormatError("an offset points to where nothing is")
    (value,) = struct.unpack(form, data[place : place + struct.calcsize(form)])
    return int(value)


def blocks(footer: bytes) -> list[tuple[int, int, int]]:
    """Offset, bytes of the head and bytes of the body of each batch."""
    count, place = blocks_place(footer)
    blocks = np.frombuffer(footer, "<i8,<i4,<i4,<i8", count, place)
    return [(offset, head, body) for offset, head, _, body in blocks.tolist()]


def blocks_place(footer: Bytes) -> tuple[int, int]:
    """How many batches a footer names, and where it begins to."""
    return _named_at(footer, _field(footer, _unpacked("<I", footer, 0), 3))


def dictionaries_place(footer: Bytes) -> tuple[int, int]:
    """The same of dictionaries, which are batches of their own."""
    field = _optional_field(footer, _unpacked("<I", footer, 0), 2)
    return (0, 0) if field is None else _named_at(footer, field)


def _named_at(footer: Bytes, field: int) -> tuple[int, int]:
    vector = field + _unpacked("<I", footer, field)
    count = _unpacked("<I", footer, vector)
    if count * BLOCK.size > len(footer) - vector - 4:
        raise FormatError(f"it names {count:,} batches, and is too short for that")
    return count, vector + 4


def before_blocks(footer: bytes, count: int) -> bytes:
    """What comes before the blocks in the footer of a file of so many batches, given that of a file of none."""
    field = _field(footer, _unpacked("<I", footer, 0), 3)
    # Behind all the rest, so that nothing else moves; blocks begin at a multiple of 8.
    vector = len(footer) + -(len(footer) + 4) % 8
    made = bytearray(footer.ljust(vector, b"\0"))
    struct.pack_into("<I", made, field, vector - field)
    return bytes(made) + struct.pack("<I", count)


def body_bytes(head: bytes) -> int:
    """How long the buffers are that follow the head of a batch."""
    return _number("<q", head, _message(head), 3)


def num_rows(head: bytes) -> int:
    """The length of the batch that a message begins."""
    return _number("<q", head, _batch(head), 0)


def buffer_offsets(head: bytes) -> list[int]:
    """Where the buffers of a batch begin, counted from the end of its head."""
    return [offset for offset, _ in _buffers(head, _batch(head))]


def compressed_buffers(head: bytes) -> tuple[int, list[tuple[int, int]]] | None:
    """The codec of a batch, and where each buffer lies in its body and how long it is; None if it is not compressed."""
    batch = _batch(head)
    compression = _optional_field(head, batch, 3)
    if compression is None:
        return None
    codec = _number("<b", head, compression + _unpacked("<I", head, compression), 0)
    return codec, _buffers(head, batch)


def _buffers(head: bytes, batch: int) -> list[tuple[int, int]]:
    """Where each buffer of a batch lies in its body, and how long it is."""
    field = _field(head, batch, 2)
    vector = field + _unpacked("<I", head, field)
    count = _unpacked("<I", head, vector)
    if count * _BUFFER.size > len(head) - vector - 4:
        raise FormatError(f"a batch names {count:,} buffers, and its head is too short for that")
    return list(_BUFFER.iter_unpack(head[vector + 4 : vector + 4 + count * _BUFFER.size]))


def _batch(head: bytes) -> int:
    """Where the table of a batch lies; of a dictionary, that of the batch in it."""
    message = _message(head)
    place = _field(head, message, 2)
    place += _unpacked("<I", head, place)
    if _number("<B", head, message, 1) == _DICTIONARY:
        place = _field(head, place, 1)
        place += _unpacked("<I", head, place)
    return place


def _message(head: bytes) -> int:
    return 8 + _unpacked("<I", head, 8)


def footer_of_none(schema: Any) -> bytes:
    """The footer of a file without batches."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, schema).close()
    data: bytes = sink.getvalue().to_pybytes()
    (footer_bytes,) = struct.unpack_from("<i", data, len(data) - 10)
    return data[-10 - footer_bytes : -10]
