"""Elements in files that need no pyarrow: for what a run has on disk where there are no addresses to load it.

A batch is a head and flat arrays (see `flat`), each at a multiple of 64 bytes, as in Arrow's files:

    mark, checksum of the rest of the head, number of rows, number of arrays
    for each array: its bytes, the checksum of them

Nothing in it says which elements these are: who wrote a file has its `PlainKind`, and nobody else needs to read it.
Checksums find what others have done to it, before its lengths are believed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._native import crc32c
from ..errors import BadArgument
from .layout import Layout
from .opened import OpenedFile
from .sink import Sink, open_new
from .spill import SpillSpace
from .walk import Found, Stored

__all__ = ["PlainKind", "PlainReader", "PlainWriter"]

_MARK = b"penstock"
_BEGINNING = struct.Struct("<8sIxxxx")
_COUNTS = struct.Struct("<qq")
_ARRAY = struct.Struct("<qIxxxx")
_ALIGNMENT = 64
# No element has so many parts: where bytes are damaged, one may seem to.
_MOST_ARRAYS = 1 << 20


class PlainKind(NamedTuple):
    """Which elements a file holds."""

    layout: Layout


class _Place(NamedTuple):
    """An array of a batch: where it begins there, and what its bytes are."""

    start: int
    nbytes: int
    checksum: int


class PlainWriter:
    """Writes elements of one structure into a new file.

    Args:
        space: Where the file lies and its bytes count; they are reserved before they are written.
        kind: Which elements it holds, where that is known before the first is written.

    After an error the file is good for nothing but `discard`.
    """

    def __init__(self, path: str, space: SpillSpace, kind: PlainKind | None = None) -> None:
        self.path = path
        self.kind = kind
        self._space = space
        with space.writing(0):
            self._sink = Sink(open_new(path), space)

    @property
    def bytes_written(self) -> int:
        return self._sink.bytes_written

    def write(self, rows: Sequence[Any]) -> Stored:
        """Appends elements as one batch. A single one is not copied, several are stacked first."""
        if not rows:
            raise BadArgument("expected at least one element to write, got none")
        if self.kind is None:
            self.kind = PlainKind(Layout.of(rows[0]))
        return self.write_by_leaf(self.kind.layout.taken_apart(rows, self.path), len(rows))

    def write_by_leaf(self, by_leaf: Sequence[Any], num_rows: int) -> Stored:
        """Appends elements, given as the values of each leaf: a list, or an array of scalars."""
        assert self.kind is not None
        # As bytes: dates and records have no buffers of their own.
        arrays = [a.reshape(-1).view(np.uint8) for a in self.kind.layout.flat(by_leaf)]
        rest = _COUNTS.pack(num_rows, len(arrays)) + b"".join(_ARRAY.pack(a.nbytes, crc32c(a)) for a in arrays)
        offset = self.bytes_written
        self._put(_BEGINNING.pack(_MARK, crc32c(rest)) + rest)
        for array in arrays:
            self._put(array)
        self._sink.put()
        return Stored(offset, self.bytes_written - offset, num_rows)

    def _put(self, data: Any) -> None:
        nbytes = self._sink.write(data)
        self._sink.write(bytes(_aligned(nbytes) - nbytes))

    def reader(self) -> PlainReader:
        """Reads what was written so far, and what will be."""
        return PlainReader(self.path, self._space, writer=self)

    def close(self) -> None:
        """The file is complete. A second call does nothing."""
        self._sink.close()

    def discard(self) -> None:
        """Removes the file, complete or not, and gives its bytes back to the space; not in a forked child."""
        self._sink.discard(self.path)


class PlainReader(OpenedFile):
    """Reads batches of a file that `PlainWriter` wrote.

    Args:
        space: Whose file it is.
        kind: Which elements it holds.
        writer: Who is still writing it, in place of the kind.
    """

    def __init__(
        self, path: str, space: SpillSpace, kind: PlainKind | None = None, writer: PlainWriter | None = None
    ) -> None:
        super().__init__(path, space)
        self._of = kind if writer is None else writer

    @property
    def layout(self) -> Layout | None:
        """How elements lie in the file; None where it holds none yet."""
        kind = self._of.kind if isinstance(self._of, PlainWriter) else self._of
        return None if kind is None else kind.layout

    @property
    def makes_copies(self) -> bool:
        """Whether elements are not all views of what was read: strings are made anew."""
        return self.layout is not None and self.layout.makes_copies

    def read(
        self, stored: Stored, into: Callable[[int], np.ndarray] | None = None, writeable: bool = False
    ) -> list[Any]:
        """The elements of a batch: views, read-only unless asked for otherwise, of one buffer that it was read into.

        Args:
            stored: Which batch.
            into: Makes the buffer, an array of so many bytes; `np.empty` if not given.
            writeable: For who alone will use the elements.
        """
        buffer = np.empty(stored.nbytes, np.uint8) if into is None else into(stored.nbytes)
        self.fill(buffer, stored.offset)
        arrays = self._places(buffer.data, stored)
        if any(crc32c(buffer[start : start + nbytes]) != checksum for start, nbytes, checksum in arrays):
            raise self._damaged(stored)
        places = iter(arrays)

        def take(dtype: np.dtype[Any]) -> np.ndarray:
            start, nbytes, _ = next(places)
            if not nbytes:
                return np.empty(0, dtype)
            array = np.ndarray((nbytes // dtype.itemsize,), dtype, buffer, start)
            array.flags.writeable = writeable
            return array

        layout = self.layout
        assert layout is not None
        return layout.unflat(take, stored.num_rows)

    def value_offsets(self, stored: Stored) -> list[int] | None:
        """At which bytes of the file the values of each leaf begin; None where they do not lie there as in NumPy."""
        arrays = None if self.layout is None else self.layout.flat_values()
        if arrays is None:
            return None
        places = self._places(self._head_at(stored.offset), stored)
        return [stored.offset + places[i].start for i in arrays]

    def batch_at(self, offset: int, end: int) -> Found | None:
        """The batch that begins at a byte; None where there are no more before another byte."""
        if offset >= end:
            return None
        head = self._head_at(offset)
        num_rows, _ = _COUNTS.unpack_from(head, _BEGINNING.size)
        body = sum(_aligned(nbytes) for nbytes, _ in _ARRAY.iter_unpack(head[_BEGINNING.size + _COUNTS.size :]))
        stored = Stored(offset, _aligned(head.nbytes) + body, num_rows)
        self._places(head, stored)  # where its checksum is not that of what it says, it is refused
        return Found(stored, body)

    def _head_at(self, offset: int) -> memoryview:
        _, count = _COUNTS.unpack(self.read_bytes(offset + _BEGINNING.size, _COUNTS.size))
        if not 0 <= count <= _MOST_ARRAYS:
            raise self.wrong(f"the batch at byte {offset:,} is damaged: it would have {count:,} arrays")
        return memoryview(self.read_bytes(offset, _BEGINNING.size + _COUNTS.size + count * _ARRAY.size))

    def _places(self, batch: memoryview, stored: Stored) -> list[_Place]:
        """Where the arrays of a batch lie in it, by its head."""
        start = _BEGINNING.size + _COUNTS.size
        if stored.nbytes < start:
            raise self._damaged(stored)
        mark, checksum = _BEGINNING.unpack_from(batch)
        num_rows, count = _COUNTS.unpack_from(batch, _BEGINNING.size)
        end = start + count * _ARRAY.size
        if mark != _MARK or num_rows != stored.num_rows or not start <= end <= batch.nbytes:
            raise self._damaged(stored)
        if crc32c(batch[_BEGINNING.size : end]) != checksum:
            raise self._damaged(stored)
        places, place = [], _aligned(end)
        for nbytes, checksum in _ARRAY.iter_unpack(batch[start:end]):
            places.append(_Place(place, nbytes, checksum))
            place = _aligned(place + nbytes)
        if place != stored.nbytes:
            raise self._damaged(stored)
        return places

    def _damaged(self, stored: Stored) -> Exception:
        return self.wrong(f"the batch at byte {stored.offset:,} is damaged: its bytes do not have its checksum")


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
