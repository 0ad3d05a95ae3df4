"""What the record batches of an Arrow IPC file take to be read, told by their heads before any of them is.

Bytes may be damaged: what no batch can be is a `FormatError`, and nothing that they say is taken for more than what the
file has room for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import FormatError
from ..leaf import string
from ..memory.compression import unpacking
from ..memory.footer import BLOCK, blocks, blocks_place, dictionaries_place, num_rows
from .arrow_arrays import TableColumns

__all__ = ["BatchSize", "BatchSizes", "buffers_of", "bytes_made_of", "few_rows", "made_bytes", "stored_sizes"]

_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
# Rows that are objects are made a few at a time where there is room for no more.
_FEW_ROWS, _FEW_BYTES = 64, 1 << 16
# What an array that is a row takes beside its values, and a string, each with its place among others.
_ARRAY_BYTES, _STRING_BYTES = 160, 56


class BatchSize(NamedTuple):
    """What one record batch takes.

    Attributes:
        reading_bytes: While it is read: as it lies in the file, as it is unpacked, and what the codec needs.
        held_bytes: When it was read.
        is_packed: Whether it is compressed.
    """

    num_rows: int
    reading_bytes: int
    held_bytes: int
    is_packed: bool

    def row_bytes(self, table: TableColumns) -> int:
        """What a row takes that was made of it, on average."""
        return made_bytes(table, self.num_rows, self.held_bytes) // max(1, self.num_rows)

    def least_bytes(self, table: TableColumns) -> int:
        """What it takes to read it and to make elements of a few of its rows at a time."""
        row_bytes = self.row_bytes(table)
        return max(self.reading_bytes, self.held_bytes + few_rows(row_bytes) * row_bytes)


def made_bytes(table: TableColumns, num_rows: int, nbytes: int) -> int:
    """What rows take that were made of so many bytes in Arrow's buffers; 0 where they are views of those.

    How many strings lists of any length have only the rows themselves tell: see `bytes_made_of`.
    """
    if all(leaf.is_view for leaf in table.leaves):
        return 0
    strings = sum(math.prod(leaf.sizes) for leaf in table.leaves if leaf.dtype == string and not leaf.varies)
    arrays = sum(leaf.varies for leaf in table.leaves)
    return 2 * nbytes + num_rows * (strings * _STRING_BYTES + arrays * _ARRAY_BYTES)


def bytes_made_of(table: TableColumns, rows: Any, nbytes: int | None = None) -> int:
    """The same for rows that are at hand; `nbytes` is what they take in Arrow's buffers, unless it is what they say."""
    made = made_bytes(table, rows.num_rows, rows.nbytes if nbytes is None else nbytes)
    lists = [leaf for leaf in table.leaves if leaf.dtype == string and leaf.varies]
    return made + _STRING_BYTES * sum(_num_values(array) for array, _ in table.arrays(rows, lists))


def _num_values(lists: Any) -> int:
    """How many values are in lists, or in lists in lists."""
    while hasattr(lists, "flatten") and lists.type.num_fields == 1:
        lists = lists.flatten()
    return len(lists)


def few_rows(row_bytes: int) -> int:
    """How many rows to make at a time where there is room for no more."""
    return max(1, min(_FEW_ROWS, _FEW_BYTES // max(1, row_bytes)))


def stored_sizes(source: Any) -> list[int]:
    """What each record batch of a file takes there, as the footer alone tells: two reads, however many batches."""
    size = source.size()
    (footer_bytes,) = struct.unpack("<i", source.read_at(4, max(0, size - 10)))
    footer = source.read_at(max(0, min(size, footer_bytes)), max(0, size - 10 - footer_bytes))
    return [max(0, head + body) for _, head, body in blocks(footer)]


class BatchSizes:
    """The sizes of the record batches of one file.

    Args:
        source: The file.
        chosen: The numbers of the buffers of each batch that will be read; None for all.
    """

    def __init__(self, source: Any, chosen: Sequence[int] | None) -> None:
        self._source = source
        self._chosen = chosen
        self._size = source.size()
        end = self._read(self._size - 10, 10)
        if end[4:] != _MAGIC:
            raise FormatError("the file does not end as an Arrow file does")
        (footer_bytes,) = struct.unpack("<i", end[:4])
        start = self._size - 10 - footer_bytes
        footer = self._read(start, footer_bytes)
        self.num_batches, place = blocks_place(footer)
        self._blocks_at = start + place
        self._num_dictionaries, place = dictionaries_place(footer)
        self._dictionaries_at = start + place

    def of(self, number: int) -> BatchSize:
        """The size of one of them."""
        return self._named_at(self._blocks_at + number * BLOCK.size, self._chosen)

    def dictionaries(self) -> BatchSize:
        """The size of all dictionaries, which Arrow reads before the first batch, those of other columns too."""
        places = range(self._num_dictionaries)
        sizes = [self._named_at(self._dictionaries_at + i * BLOCK.size, None) for i in places]
        held = sum(size.held_bytes for size in sizes)
        beside = max((size.reading_bytes - size.held_bytes for size in sizes), default=0)
        return BatchSize(sum(size.num_rows for size in sizes), held + beside, held, any(s.is_packed for s in sizes))

    def _named_at(self, place: int, chosen: Sequence[int] | None) -> BatchSize:
        """The size of what the footer names at a byte of the file."""
        offset, head_bytes, _, body_bytes = BLOCK.unpack(self._read(place, BLOCK.size))
        head = self._read(offset, head_bytes)
        if body_bytes < 0 or offset + head_bytes + body_bytes > self._size:
            raise FormatError(f"a batch of {body_bytes:,} bytes at byte {offset:,} of {self._size:,}")
        if not head.startswith(_CONTINUES):  # files of old have the length alone
            head = _CONTINUES + head
        body = offset + head_bytes
        found = unpacking(head, lambda start, count: self._read(body + start, count), body_bytes, chosen)
        rows = max(0, num_rows(head))
        if found is None:
            return BatchSize(rows, body_bytes, body_bytes, is_packed=False)
        both = found.raw_bytes + found.stored_bytes
        held = both if found.keeps_stored else found.raw_bytes
        return BatchSize(rows, both + found.context_bytes, held, is_packed=True)

    def largest(self, table: TableColumns, most_looked_at: int) -> int:
        """What it takes to read the largest of the first of them, with all dictionaries."""
        looked_at = range(min(self.num_batches, most_looked_at))
        largest = max((self.of(i).least_bytes(table) for i in looked_at), default=0)
        return largest and largest + self.dictionaries().reading_bytes

    def _read(self, start: int, count: int) -> bytes:
        if not 0 <= start <= start + count <= self._size:
            raise FormatError("an offset points to where nothing is")
        data: bytes = self._source.read_at(count, start)
        return data


def buffers_of(schema: Any, names: Sequence[str]) -> list[int] | None:
    """The numbers of the buffers of some columns; None where a type does not tell how many it has."""
    chosen: list[int] = []
    before = 0
    for field in schema:
        count = _num_buffers(field.type)
        if count is None:
            return None
        if field.name in names:
            chosen.extend(range(before, before + count))
        before += count
    return chosen


def _num_buffers(kind: Any) -> int | None:
    from pyarrow import types

    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind) or types.is_fixed_size_binary(kind) or types.is_primitive(kind):
        return 2
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        return 3
    own = 1 if types.is_struct(kind) or types.is_fixed_size_list(kind) else 2
    if own == 2 and not types.is_list(kind) and not types.is_large_list(kind):
        return None
    below = [_num_buffers(kind.field(i).type) for i in range(kind.num_fields)]
    return None if None in below else own + sum(count or 0 for count in below)
