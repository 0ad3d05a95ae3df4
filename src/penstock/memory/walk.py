"""From batch to batch of an Arrow file: each says how long it is, and the next one begins where it ends.

Bytes may be damaged: nothing that they say is taken for more than what the file has room for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..errors import FormatError
from .footer import BLOCK, blocks_place, body_bytes, num_rows

__all__ = ["Found", "Stored", "batch_at", "batches_in_footer"]

#: Reads so many bytes of a file, from one on.
_Read = Callable[[int, int], bytes]

# The head of a batch is about as long as this, and no longer than so much for each column.
_HEAD_BYTES = 1024
_MOST_HEAD_BYTES = 4096
_CONTINUES = 0xFFFFFFFF


class Stored(NamedTuple):
    """Where a batch lies in its file."""

    offset: int
    nbytes: int
    num_rows: int


class Found(NamedTuple):
    """A batch that was looked up in its file; of its bytes, the last are those of its buffers."""

    stored: Stored
    body_bytes: int

    @property
    def in_footer(self) -> tuple[int, int, int]:
        """What the footer says of it: offset, bytes of the head, bytes of the body."""
        return self.stored.offset, self.stored.nbytes - self.body_bytes, self.body_bytes


def batch_at(read: _Read, offset: int, end: int, num_columns: int) -> Found | None:
    """The batch that begins at a byte; None where there are no more before another byte."""
    head = read(offset, max(0, min(_HEAD_BYTES, end - offset)))
    mark, length = struct.unpack_from("<Ii", head)
    if mark == _CONTINUES and length == 0:
        return None
    if mark != _CONTINUES or not 0 < length <= min(_MOST_HEAD_BYTES * (1 + num_columns), end - offset - 8):
        raise FormatError("a batch does not begin like this")
    if 8 + length > len(head):
        head = read(offset, 8 + length)
    head = head[: 8 + length]
    body = body_bytes(head)
    stored = Stored(offset, len(head) + body, num_rows(head))
    if body < 0 or stored.num_rows < 1 or offset + stored.nbytes > end:
        raise FormatError(f"it would have {stored.num_rows:,} rows and {stored.nbytes:,} bytes")
    return Found(stored, body)


def batches_in_footer(read: _Read, start: int, nbytes: int) -> Iterator[tuple[int, int, int]]:
    """Offset, bytes of the head and bytes of the body of each batch that a footer names, read one by one."""
    count, place = blocks_place(_Footer(read, start, nbytes))
    for i in range(count):
        offset, head_bytes, _, body = BLOCK.unpack(read(start + place + i * BLOCK.size, BLOCK.size))
        yield offset, head_bytes, body


class _Footer:
    """The bytes of a footer, read when they are looked at."""

    def __init__(self, read: _Read, start: int, nbytes: int) -> None:
        self._read, self._start, self._nbytes = read, start, nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __getitem__(self, part: slice, /) -> bytes:
        return self._read(self._start + part.start, part.stop - part.start)
