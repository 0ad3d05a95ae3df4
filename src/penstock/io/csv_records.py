"""CSV records as tf.data reads them: what `ps.CsvDataset` is made of."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed, Structure, nbytes_of
from ..errors import BadArgument, BadType, FormatError
from ..leaf import leaf_bytes, string
from ..options import flag
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, Room, argument
from ..spec import Spec, TensorSpec
from .csv_fields import CsvField
from .file_window import FileWindow, closed_on_error, of_stream
from .paths import check_compression, compressed_bytes, expand_paths, likes_bytes, open_stream, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error

__all__ = ["CsvRecords"]

_END = re.compile(rb"[\r\n]")


@dataclasses.dataclass(frozen=True, eq=False)
class CsvRecords(StreamsFiles, Op):
    """The records of CSV files as tuples of fields.

    A record ends with LF, CR LF or CR. A record that does not fit, and a header with wrong quotes, are errors in their
    place, and the next one follows.

    Args:
        filenames: A path, a pattern, a URI, or a list of them.
        record_defaults: For each field a dtype, if it must be there, or what it is where it is empty, in a list.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        header: Whether the first record of each file is left out.
        field_delim: What stands between fields.
        use_quote_delim: Whether quotes are not part of a field: within them, delimiters and line ends are.
        na_value: Another text that stands for an empty field.
        select_cols: The numbers of the fields to read, rising. None: all.
        exclude_cols: The numbers of the fields not to read; either this or `select_cols`.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer record, and the records asked for.
    State: the number of the file, an offset in it (after decompression), and the number of the record.
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    filenames: Any
    record_defaults: Sequence[Any]
    compression_type: str | None = None
    buffer_size: int | None = None
    header: bool = False
    field_delim: str = ","
    use_quote_delim: bool = True
    na_value: str = ""
    select_cols: Sequence[int] | None = None
    exclude_cols: Sequence[int] | None = None
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _fields: tuple[CsvField, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.na_value, str):
            raise BadType(f"na_value: expected a text, got {self.na_value!r:.60}")
        check_on_error(self.on_error)
        fields = self.__dict__
        fields.update({name: flag(name, fields[name]) for name in ("header", "use_quote_delim")})
        fields["compression_type"] = check_compression("compression_type", self.compression_type)
        if self.buffer_size is not None:
            fields["buffer_size"] = argument("buffer_size", self.buffer_size, at_least=0)
        if not isinstance(self.record_defaults, (list, tuple)) or not self.record_defaults:
            raise BadType(f"record_defaults: expected a list of dtypes or defaults, got {self.record_defaults!r:.60}")
        fields["_fields"] = tuple(CsvField.of(i, default) for i, default in enumerate(self.record_defaults))
        if len(self.field_delim.encode()) != 1:
            raise BadArgument(f"field_delim: expected one character, got {self.field_delim!r}")
        self._check_columns()
        fields["_paths"] = tuple(expand_paths(self.filenames))

    def _check_columns(self) -> None:
        if self.select_cols is not None and self.exclude_cols is not None:
            raise BadArgument("select_cols: expected either this or exclude_cols, got both")
        for name in ("select_cols", "exclude_cols"):
            chosen = getattr(self, name)
            if chosen is None:
                continue
            numbers = [argument(name, number, at_least=0) for number in chosen]
            if any(a >= b for a, b in itertools.pairwise(numbers)):
                raise BadArgument(f"{name}: expected rising numbers, got {numbers}")
            self.__dict__[name] = tuple(numbers)
        if self.select_cols is not None and len(self.select_cols) != len(self.record_defaults):
            expected = f"as many as record_defaults, {len(self.record_defaults)}"
            raise BadArgument(f"select_cols: expected {expected}, got {len(self.select_cols)}")

    @property
    def name(self) -> str:
        return "CsvDataset"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(tuple(TensorSpec((), field.dtype) for field in self._fields))

    def footprint(self, sizes: Sizes) -> Footprint:
        inflating = compressed_bytes(self._paths) if self.compression_type else 0
        return of_stream(sizes, likes_bytes(self.buffer_size, self._paths, bool(inflating)), inflating)

    def open(self, context: Context) -> Cursor:
        def open_records(path: str, position: State) -> _Records:
            return _Records(self, path, context, position)

        return FilesCursor(context, self._paths, open_records, self.on_error)

    def describe(self) -> str:
        kinds = ", ".join("string" if field.dtype == string else field.dtype.name for field in self._fields)
        return f"CsvDataset({shown_paths(self._paths)}, [{kinds:.60}])"

    def _selected(self, texts: list[bytes]) -> list[bytes]:
        if self.select_cols is not None:
            return [texts[i] for i in self.select_cols if i < len(texts)]
        if self.exclude_cols is not None:
            return [text for i, text in enumerate(texts) if i not in self.exclude_cols]
        return texts

    def columns(self, records: list[list[bytes]]) -> list[np.ndarray] | None:
        """The fields of some records as columns; None if not all fit, or only one by one."""
        if self.select_cols is not None or self.exclude_cols is not None:
            records = [self._selected(record) for record in records]
        num_fields = len(self._fields)
        if any(len(record) != num_fields for record in records):
            return None
        na = self.na_value.encode()
        try:
            return [
                field.column(texts, na) for field, texts in zip(self._fields, zip(*records, strict=True), strict=True)
            ]
        except (ValueError, OverflowError):
            return None

    def element(self, texts: list[bytes]) -> Any:
        """A record's fields as an element."""
        texts = self._selected(texts)
        if len(texts) != len(self._fields):
            raise FormatError(f"expected {len(self._fields)} fields, got {len(texts)}")
        na = self.na_value.encode()
        return tuple([field.value(text, na) for field, text in zip(self._fields, texts, strict=True)])


class _Records:
    """The records of one file from a position on."""

    def __init__(self, op: CsvRecords, path: str, context: Context, position: State) -> None:
        self._op = op
        self._path = path
        self._delimiter = op.field_delim.encode()
        self._quotes = op.use_quote_delim
        self._context = context
        self._structure = Structure.of(tuple([b""] * len(op._fields)))
        self._each_bytes = 64  # of a record, about
        # An element has no more bytes than this and its text.
        self._fixed_bytes = sum(field.dtype.itemsize + leaf_bytes(b"") for field in op._fields)
        offset, self._number = (0, 0) if position is None else map(int, expect_list(position, 2))
        compressed = op.compression_type is not None
        begin = 0 if compressed else offset
        stream = open_stream(path, op.compression_type, begin)
        self._window = FileWindow(stream, context.share, op.buffer_size, begin)
        with closed_on_error(self):
            if compressed:
                self._window.pass_over(offset)
            #: What is wrong with the header, which is told in the place of a first element, as in tf.data.
            self._bad_header = self._header() if position is None and op.header else ""

    def _header(self) -> str:
        """Reads the header; what is wrong with it."""
        header = self._record()
        if header is None:
            raise FormatError(f"{self._path}: expected a header, the file is empty")
        return header[1]

    def _record(self) -> tuple[list[bytes], str] | None:
        """The next record: its fields, and what is wrong with it; None at the end."""
        window = self._window
        looked = 0
        while True:
            if len(window) > looked:
                found = self._plain() or (self._quoted() if self._op.use_quote_delim else None)
                if found is not None:
                    fields, wrong, end = found
                    window.drop(end - window.start)
                    return fields, wrong
            looked = len(window)
            if not window.double() and looked == len(window):
                if not looked:
                    return None
                return self._last()

    def _plain(self) -> tuple[list[bytes], str, int] | None:
        """The next record if it has no quotes and is there to its end."""
        window = self._window
        match = _END.search(window.data, window.start, window.stop)
        if match is None:
            return None
        at = match.start()
        end = at + 1
        if window.data[at] == 13:
            if end == window.stop and not window.ended:
                return None  # an LF may follow
            end += end < window.stop and window.data[end] == 10
        line = bytes(window.data[window.start : at])
        if self._op.use_quote_delim and b'"' in line:
            return None
        return line.split(self._delimiter), "", end

    def _last(self) -> tuple[list[bytes], str]:
        """The last record, which has no line end."""
        window = self._window
        rest = bytes(window.data[window.start : window.stop])
        if self._op.use_quote_delim and b'"' in rest:
            found = self._quoted(is_last=True)
            assert found is not None
            fields, wrong, end = found
            window.drop(end - window.start)
            return fields, wrong
        window.drop(len(window))
        return rest.removesuffix(b"\r").split(self._delimiter), ""

    def _quoted(self, is_last: bool = False) -> tuple[list[bytes], str, int] | None:
        """The next record, field by field; None if it is not there to its end."""
        window, data = self._window, self._window.data
        at, stop = window.start, window.stop
        fields: list[bytes] = []
        wrong = ""
        delimiter = self._delimiter[0]
        while True:
            if at < stop and data[at] == 34:
                field, at, is_closed, is_clean = _quoted_field(data, at + 1, stop, delimiter)
                if not is_clean:
                    wrong = wrong or f"expected two quotes for one inside a field, got {field[:60]!r}"
                if not is_closed:
                    if not is_last:
                        return None
                    wrong = wrong or "expected a quote at the end of the field, the file ends before"
            else:
                begin = at
                while at < stop and data[at] not in (delimiter, 10, 13):
                    at += 1
                field = bytes(data[begin:at])
                if b'"' in field:
                    wrong = wrong or f"expected a quote only around a field, got {field[:60]!r}"
            fields.append(field)
            if at >= stop:
                return (fields, wrong, stop) if is_last else None
            if data[at] == delimiter:
                at += 1
                continue
            if data[at] == 13 and at + 1 == stop and not is_last:
                return None
            at += 2 if data[at] == 13 and at + 1 < stop and data[at + 1] == 10 else 1
            return fields, wrong, at

    def _next(self) -> Any:
        """The next element or failure; None at the end."""
        record = self._record()
        if record is None:
            return None
        return self._checked(*record)

    def _checked(self, fields: list[bytes], wrong: str) -> Any:
        """A record as an element, or a failure."""
        number, self._number = self._number, self._number + 1
        try:
            if wrong:
                raise FormatError(wrong)
            return self._op.element(fields)
        except FormatError as error:
            return Failed(FormatError(f"{self._path}, record {number:,}: {error}"))

    def read(self, n: int, room: Room) -> Block | None:
        if self._bad_header:
            error = FormatError(f"{self._path}, header: {self._bad_header}")
            self._bad_header = ""
            return Block.of_rows([Failed(error)], has_failures=True)
        block = self._plain_records(n, room)
        if block is not None:
            return block
        rows: list[Any] = []
        try:
            while len(rows) < n and (row := self._next()) is not None:
                rows.append(row)
                if not room.add(nbytes_of(row)):
                    break
        except FormatError:
            if not rows:
                raise
        return Block.of_rows(rows) if rows else None

    def _plain_records(self, n: int, room: Room) -> Block | None:
        """The next records, if neither quotes nor CRs are near: most files have none, and this is the quick way."""
        window, data = self._window, self._window.data
        start = window.start
        cut = data.rfind(b"\n", start, min(window.stop, start + n * self._each_bytes))
        if cut < 0 or data.find(b"\r", start, cut) >= 0 or (self._quotes and data.find(b'"', start, cut) >= 0):
            return None
        lines = bytes(data[start:cut]).split(b"\n", n)[:n]
        size, taken = len(lines), sum(map(len, lines)) + len(lines)
        self._each_bytes = max(8, -(-taken * 9 // (8 * size)))
        nbytes = taken + size * self._fixed_bytes
        if (
            nbytes > self._context.transit.room_bytes or b"_" in data[start : start + taken]
        ):  # Python's digits have some
            return None
        columns = self._op.columns([line.split(self._delimiter) for line in lines])
        if columns is None:
            return None
        room.add(nbytes, size)
        window.drop(taken)
        self._number += size
        return Block.of_columns(self._structure, columns, size)

    def skip(self, n: int) -> int:
        skipped = int(n > 0 and bool(self._bad_header))
        if skipped:
            self._bad_header = ""
        try:
            while skipped < n and self._record() is not None:
                skipped += 1
                self._number += 1
        except FormatError:
            if not skipped:
                raise
        return skipped

    def position(self) -> State:
        return None if self._bad_header else [self._window.offset, self._number]

    def close(self) -> None:
        self._window.close()


def _quoted_field(data: bytearray, at: int, stop: int, delimiter: int) -> tuple[bytes, int, bool, bool]:
    """A field in quotes from behind the first one: its text, where it ends, whether it does, and if quotes are right.

    After a quote that neither ends the field nor has another one behind it, the end is looked for further on, as
    tf.data does.
    """
    field = bytearray()
    is_clean = True
    while True:
        quote = data.find(b'"', at, stop)
        if quote < 0 or quote + 1 == stop:
            closed = quote >= 0
            field += data[at : quote if closed else stop]
            return bytes(field), stop, closed, is_clean
        field += data[at:quote]
        following = data[quote + 1]
        if following in (delimiter, 10, 13):
            return bytes(field), quote + 1, True, is_clean
        field += b'"'
        is_clean = is_clean and following == 34
        at = quote + 2 if following == 34 else quote + 1
