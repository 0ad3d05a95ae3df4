"""Records of one length as a source: what `ps.FixedLengthRecordDataset` is made of."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block
from ..cursor import Cursor, State
from ..element import LEAF, Failed
from ..errors import BadArgument, FormatError
from ..indexed import IndexCursor
from ..leaf import leaf_bytes, string
from ..order import Index, RangeOrder
from ..plan.footprint import ElementSize, Footprint, Sizes, one_element
from ..plan.op import Context, Op, Reader, Room, argument
from ..plan.traits import CURSOR, SOURCE, Traits
from ..spec import UNKNOWN, Spec, TensorSpec
from .file_window import FileWindow, closed_on_error, of_stream
from .paths import (
    RandomFile,
    check_compression,
    compressed_bytes,
    expand_paths,
    is_local,
    likes_bytes,
    open_random,
    open_stream,
    shown_paths,
)
from .reading import FilesCursor, StreamsFiles, check_on_error

__all__ = ["FixedLengthRecords"]

# Records that lie side by side are read together, as far as this many bytes and the budget allow.
_MOST_TOGETHER = 256 << 10
# A file that is read at any place stays open; beyond so many, the one used longest ago is closed.
_MOST_OPEN = 64


@dataclasses.dataclass(frozen=True, eq=False)
class FixedLengthRecords(StreamsFiles, Op):
    """Records of one length, as byte strings.

    Files of this machine that are not compressed are read at any place: a `shuffle` on top shuffles indices. A missing
    file is an error in its place, and so is one whose length does not fit: none of its records are read.

    Args:
        filenames: A path, a pattern, a URI, or a list of them.
        record_bytes: The length of a record.
        header_bytes: Bytes at the beginning of each file that are no record.
        footer_bytes: Bytes at the end of each file that are no record.
        buffer_size: Bytes to read at a time of a compressed or remote file, 256 kB or 1 MB unless given; fewer where
            the budget is short.
        compression_type: "GZIP", "ZLIB", or None.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file. Then files are streamed.

    Memory: the records asked for; and of a compressed or remote file the buffer.
    State: one integer; of a compressed or remote file its number and that of the record, and what is compressed is read
        again up to there.
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    filenames: Any
    record_bytes: int
    header_bytes: int | None = None
    footer_bytes: int | None = None
    buffer_size: int | None = None
    compression_type: str | None = None
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _parts: tuple[_Part, ...] | None = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        compression = check_compression("compression_type", self.compression_type)
        object.__setattr__(self, "compression_type", compression)
        object.__setattr__(self, "record_bytes", argument("record_bytes", self.record_bytes))
        if self.record_bytes <= 0:
            raise BadArgument(f"record_bytes: expected at least 1, got {self.record_bytes}")
        for name in ("header_bytes", "footer_bytes", "buffer_size"):
            object.__setattr__(self, name, argument(name, getattr(self, name) or 0, at_least=0))
        object.__setattr__(self, "_paths", tuple(expand_paths(self.filenames)))
        # Which records are left out shows when they are read: by number they could not be told from others. And far
        # away each record would be a request.
        is_stream = compression is not None or self.on_error == "skip" or not all(map(is_local, self._paths))
        object.__setattr__(self, "_parts", None if is_stream else self._look_up())

    def _look_up(self) -> tuple[_Part, ...] | None:
        """Where the records are, by the sizes of the files.

        None where one is not there, which may come later, or does not fit. Then files are read one after the other, and
        the error comes in its place: on indices it could not be told from a record before it is read.
        """
        parts: list[_Part] = []
        for path in self._paths:
            try:
                file = open_random(path)
                size = file.size
                file.close()
            except FormatError:
                return None
            if self._misfit(path, size) is not None:
                return None
            body = size - (self.header_bytes or 0) - (self.footer_bytes or 0)
            parts.append(_Part(path, body // self.record_bytes))
        return tuple(parts)

    def _misfit(self, path: str, size: int) -> FormatError | None:
        """Why a file of this size has no records of this length."""
        header, footer = self.header_bytes or 0, self.footer_bytes or 0
        body = size - header - footer
        if body < 0:
            return FormatError(
                f"{path}: expected a header of {header:,} and a footer of {footer:,} bytes, the file has {size:,} bytes"
            )
        if body % self.record_bytes:
            return FormatError(
                f"{path}: expected records of {self.record_bytes:,} bytes, got {body:,} bytes between header and footer"
                f": {body // self.record_bytes:,} records and {body % self.record_bytes:,} bytes"
            )
        return None

    @property
    def name(self) -> str:
        return "FixedLengthRecordDataset"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), string), self.num_elements)

    @property
    def num_elements(self) -> int:
        return UNKNOWN if self._parts is None else sum(part.count for part in self._parts)

    @property
    def traits(self) -> Traits:
        return CURSOR if self._parts is None else SOURCE

    @property
    def reading_may_fail(self) -> bool:
        return True

    @property
    def element_size(self) -> ElementSize:
        return ElementSize((leaf_bytes(b"") + self.record_bytes,), exact=True)

    def as_stream(self) -> FixedLengthRecords:
        stream = copy.copy(self)
        stream.__dict__["_parts"] = None
        return stream

    def footprint(self, sizes: Sizes) -> Footprint:
        if self._parts is not None:
            return one_element(sizes.output, "record")
        return of_stream(sizes, self._buffer, compressed_bytes(self._paths) if self.compression_type else 0)

    @property
    def _buffer(self) -> int:
        likes = likes_bytes(self.buffer_size, self._paths, self.compression_type is not None)
        return max(likes or 0, 2 * self.record_bytes)

    def reader(self, context: Context) -> Reader:
        assert self._parts is not None
        return _RecordReader(self._parts, self.record_bytes, self.header_bytes or 0, context)

    def open(self, context: Context) -> Cursor:
        if self._parts is not None:
            order = RangeOrder(self.num_elements)
            return IndexCursor(self.reader(context), order, fitting=context.transit.fitting)

        def open_records(path: str, position: State) -> _StreamedRecords:
            return _StreamedRecords(self, path, context, position or 0)

        return FilesCursor(context, self._paths, open_records, self.on_error)

    def describe(self) -> str:
        compression = "" if self.compression_type is None else f", {self.compression_type}"
        return f"FixedLengthRecordDataset({shown_paths(self._paths)}, {self.record_bytes:_}{compression})"


@dataclasses.dataclass(frozen=True)
class _Part:
    """The records of one file."""

    path: str
    count: int


class _RecordReader:
    """Reads records by number."""

    def __init__(self, parts: tuple[_Part, ...], record_bytes: int, header_bytes: int, context: Context) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *[part.count for part in parts]])
        self._record_bytes = record_bytes
        self._header_bytes = header_bytes
        self._context = context
        self._transit = context.transit
        self._files: dict[int, RandomFile] = {}

    def read(self, index: Index) -> Block:
        size = index.stop - index.start if isinstance(index, slice) else index.size
        self._transit.begin(size)
        rows = self._consecutive(index.start, index.stop) if isinstance(index, slice) else self._scattered(index)
        if any(type(row) is Failed for row in rows):
            return Block.of_rows(rows, has_failures=True)
        column = np.empty(len(rows), object)
        column[:] = rows
        return Block.of_columns(LEAF, [column], len(rows))

    def _scattered(self, index: np.ndarray) -> list[Any]:
        rows: list[Any] = [None] * index.size
        # In the order of the files, as far as what was asked for goes.
        for i in np.argsort(index, kind="stable").tolist():
            rows[i] = self._consecutive(int(index[i]), int(index[i]) + 1)[0]
        return rows

    def _consecutive(self, start: int, stop: int) -> list[Any]:
        rows: list[Any] = []
        while start < stop:
            number = int(np.searchsorted(self._starts, start, "right")) - 1
            part, first = self._parts[number], int(self._starts[number])
            count = min(stop - start, first + part.count - start)
            rows += self._of_part(number, start - first, count)
            start += count
        return rows

    def _of_part(self, number: int, first: int, count: int) -> list[Any]:
        part = self._parts[number]
        try:
            file = self._file(number)
            rows: list[Any] = []
            while len(rows) < count:
                rows += self._together(file, part, first + len(rows), count - len(rows))
            return rows
        except FormatError as error:
            self._context.count_failed(part.path, count)
            return [Failed(self._context.located(error))] * count

    def _together(self, file: RandomFile, part: _Part, first: int, count: int) -> list[bytes]:
        """Some records, in one read if there is memory for them twice."""
        each, offset = self._record_bytes, self._header_bytes + first * self._record_bytes
        count = max(1, min(count, _MOST_TOGETHER // each))
        share = self._context.share
        lease = None if count == 1 else share.try_acquire(count * each, ahead=True)
        count = count if lease else 1
        try:
            self._transit.add(count * (each + leaf_bytes(b"")), count)
            data = file.read_at(offset, count * each)
            if len(data) < count * each:
                raise FormatError(
                    f"{part.path}: expected record {first:,} to {first + count - 1:,} at byte {offset:,}, "
                    f"the file has become shorter: {offset + len(data):,} bytes"
                )
            return [data] if count == 1 else [data[i : i + each] for i in range(0, len(data), each)]
        finally:
            if lease:
                lease.release()

    def _file(self, number: int) -> RandomFile:
        file = self._files.pop(number, None)
        if file is None:
            if len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            file = open_random(self._parts[number].path)
        self._files[number] = file  # the last is the latest
        return file

    def close(self) -> None:
        """Closes the files; what is read later opens them again."""
        while self._files:
            self._files.popitem()[1].close()


class _StreamedRecords:
    """The records of a file that is read from its beginning, from a number on."""

    def __init__(self, op: FixedLengthRecords, path: str, context: Context, position: int) -> None:
        self._op = op
        self._path = path
        self._number = 0
        header, begin = op.header_bytes or 0, 0
        if op.compression_type is None:  # how long it is can be known before
            file = open_random(path)
            file.close()
            misfit = op._misfit(path, file.size)
            if misfit is not None:
                raise misfit
            begin, self._number = header + position * op.record_bytes, position
        stream = open_stream(path, op.compression_type, begin)
        self._window = FileWindow(stream, context.share, op._buffer, begin)
        with closed_on_error(self):
            if op.compression_type is None:
                return
            if self._window.pass_over(header) < header:
                raise FormatError(f"{path}: expected a header of {header:,} bytes, got {self._window.offset:,} bytes")
            self.skip(position)

    def _has_one(self) -> bool:
        """Whether another record follows; what follows the last must be the footer."""
        window, each, footer = self._window, self._op.record_bytes, self._op.footer_bytes or 0
        if window.need(each + footer):
            return True
        if len(window) != footer:
            raise FormatError(
                f"{self._path}: expected records of {each:,} bytes and a footer of {footer:,}, "
                f"got {len(window):,} bytes after record {self._number:,}"
            )
        return False

    def read(self, n: int, room: Room) -> Block | None:
        rows: list[Any] = []
        try:
            while len(rows) < n and self._has_one():
                rows.append(self._window.take(self._op.record_bytes))
                self._number += 1
                if not room.add(leaf_bytes(rows[-1])):
                    break
        except FormatError:
            if not rows:
                raise
        return Block.of_rows(rows, has_failures=False) if rows else None

    def skip(self, n: int) -> int:
        skipped = 0
        try:
            while skipped < n and self._has_one():
                self._window.drop(self._op.record_bytes)
                skipped += 1
                self._number += 1
        except FormatError:
            if not skipped:
                raise
        return skipped

    def position(self) -> State:
        return self._number

    def close(self) -> None:
        self._window.close()
