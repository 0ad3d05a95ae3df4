"""Rows of text that Arrow parses many at a time: what CSV and JSON lines share.

A file is read through a window. The whole rows in it are one chunk, which Arrow turns into columns of the types that
were found in the first block of the first file. Where that fails, the chunk is halved until the rows that do not fit
stand alone: they are errors in their place, and all others are read. A half is parsed when it is its turn: of many rows
that do not fit only one is an error at a time.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ..block import Block
from ..cursor import State, expect_list
from ..element import Failed
from ..errors import BadArgument, BadType, FormatError
from ..leaf import string
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Room
from ..spec import TensorSpec
from .arrow_arrays import TableColumns
from .arrow_sizes import made_bytes
from .file_window import DEFAULT_BYTES, SMALLEST_BYTES, FileWindow, closed_on_error, of_stream
from .made_rows import MadeRows
from .paths import compressed_bytes, likes_bytes, open_stream, stored_compression

__all__ = ["ChunkedRows", "RowFormat", "arrow_types", "first_block", "of_chunks", "parsing_pool", "rows_that_parse"]

#: What is read to find the types, at most.
FIRST_BLOCK_BYTES = 1 << 20
# What parsing takes and gives, for each byte of text: a digit and a comma become eight bytes, beside Arrow's own index.
_GROWTH = 10


class RowFormat(Protocol):
    """How rows are cut out of a file, and parsed."""

    table: TableColumns
    #: What a line may consist of that is no row.
    blank: bytes

    def begin(self, path: str, window: FileWindow) -> None:
        """Reads what stands before the first row of a file."""

    def last_end(self, data: bytearray, start: int, stop: int) -> int:
        """Where the last row ends of which `data[start:stop]` begins with the first; `start` if none does."""

    def split(self, text: bytes) -> list[bytes]:
        """The rows of a chunk one by one."""

    def parse(self, text: bytes) -> Any:
        """A chunk as a record batch, or an Arrow error."""

    def explain(self, error: BaseException, text: bytes) -> str:
        """What is wrong with a row, in words: column, expected, got."""


class ChunkedRows:
    """The rows of one file from a position on."""

    def __init__(
        self, path: str, row_format: RowFormat, context: Context, buffer_size: int | None, position: State
    ) -> None:
        self._path = path
        self._format = row_format
        self._context = context
        compression = stored_compression(path)
        share = context.share
        window = FileWindow(open_stream(path, compression), share, buffer_size)
        self._window = window
        self._lease = share.acquire(0)
        self._luxury: Any = None
        self._made = MadeRows(row_format.table, share)  # of the first piece, if that is one of rows
        # What is left of the chunk: text. The first may be parsed: a record batch, or an error in the place of a row.
        self._pieces: deque[Any] = deque()
        with closed_on_error(self):
            self._lease.settle(_GROWTH * SMALLEST_BYTES, single=True)
            self._chunk_bytes = self._reserve(min(len(window.data), buffer_size or DEFAULT_BYTES))
            row_format.begin(path, window)
            start, self._given, self._number = window.offset, 0, 0
            if position is not None:
                start, given, self._number = map(int, expect_list(position, 3))
                window.pass_over(start - window.offset)
                self.skip(given)

    def _reserve(self, window_bytes: int) -> int:
        """How many bytes of text to parse at a time; what that takes is reserved."""
        nbytes, share = window_bytes, self._context.share
        while nbytes > SMALLEST_BYTES and not share.frugal:
            if _GROWTH * nbytes <= share.spare_bytes:
                self._luxury = share.try_acquire(_GROWTH * (nbytes - SMALLEST_BYTES), ahead=True)
                if self._luxury is not None:
                    return nbytes
            nbytes //= 2
        return SMALLEST_BYTES

    def read(self, n: int, room: Room) -> Block | None:
        piece = self._reach_piece()
        if piece is None:
            return None
        if isinstance(piece, FormatError):
            self._pass(1)
            return Block.of_rows([Failed(piece)], has_failures=True)
        block = self._made.block(n, self._context.transit, self._where)
        room.add(block.nbytes, block.size)
        self._pass(block.size)
        return block

    def _where(self, row: int) -> str:
        return f"{self._path}, row {self._number + self._given + self._made.first + row - self._made.row:,}"

    def _pass(self, n: int) -> None:
        """Counts some rows of the first piece as given."""
        self._given += n
        if isinstance(self._pieces[0], FormatError) or not self._made.take(n):
            self._pieces.popleft()

    def _reach_piece(self) -> Any:
        """The next rows that could be parsed, or the error of one that could not; None at the end of the file."""
        while self._pieces or self._next_chunk():
            if not isinstance(self._pieces[0], bytes):
                return self._pieces[0]
            self._parse(self._pieces.popleft())
        return None

    def _next_chunk(self) -> bool:
        """Takes the next rows, as text; False at the end of the file."""
        window = self._window
        self._number += self._given
        self._given = 0
        self._start = window.offset
        end = self._reach_rows()
        if end == window.start:
            return False
        with memoryview(window.data) as view:
            text = bytes(view[window.start : end])
        if _GROWTH * len(text) > self._reserved_bytes:
            self._lease.settle(_GROWTH * len(text), single=True)
        self._pieces.append(text)
        window.drop(end - window.start)
        return True

    @property
    def _reserved_bytes(self) -> int:
        """For a chunk and what is made of it."""
        luxury: int = 0 if self._luxury is None else self._luxury.nbytes
        return self._lease.nbytes + luxury

    def _reach_rows(self) -> int:
        """Where the last whole row in the window ends; its start at the end of the file."""
        window, nbytes = self._window, self._chunk_bytes
        while True:
            end = self._format.last_end(window.data, window.start, min(window.stop, window.start + nbytes))
            if end > window.start:
                return end
            if nbytes < len(window):
                nbytes *= 2  # the first row is longer
            elif not window.double():
                return window.stop

    def _parse(self, text: bytes) -> None:
        """Puts rows in front of the others: parsed, or in two halves if one of them does not fit."""
        import pyarrow as pa

        blank = self._format.blank
        if not text.strip(blank):
            return
        try:
            batch = self._format.parse(text)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            rows = [row for row in self._format.split(text) if row.strip(blank)]
            if len(rows) == 1:
                where = f"{self._path}, row {self._number + self._given:,}"
                self._pieces.appendleft(FormatError(f"{where}{self._format.explain(error, rows[0])}"))
            else:
                half = len(rows) // 2
                self._pieces.extendleft([b"".join(rows[half:]), b"".join(rows[:half])])
            return
        waiting = sum(map(len, self._pieces))
        self._pieces.appendleft(batch)
        self._made.begin(batch, 0, max(0, self._reserved_bytes - batch.nbytes - waiting))

    def skip(self, n: int) -> int:
        skipped = 0
        try:
            while skipped < n and (piece := self._reach_piece()) is not None:
                passed = 1 if isinstance(piece, FormatError) else min(n - skipped, self._made.num_left)
                self._pass(passed)
                skipped += passed
        except FormatError:
            if not skipped:
                raise
        return skipped

    def position(self) -> State:
        """[offset of the chunk, rows of it that were given, number of its first row]."""
        if not self._pieces:
            return [self._window.offset, 0, self._number + self._given]
        return [self._start, self._given, self._number]

    def close(self) -> None:
        self._pieces.clear()
        self._made.leave()
        self._window.close()
        self._lease.release()
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None


def of_chunks(sizes: Sizes, buffer_size: int | None, paths: tuple[str, ...], table: TableColumns) -> Footprint:
    """What a source holds that parses chunks."""
    inflated = compressed_bytes(paths) if any(map(stored_compression, paths)) else 0
    made = made_bytes(table, 1, times(1, sizes.output) or 0)
    footprint = of_stream(sizes, likes_bytes(buffer_size, paths), inflated + _GROWTH * SMALLEST_BYTES + made)
    return dataclasses.replace(footprint, reason="a part of a file, its rows as columns, and one element on its way")


def parsing_pool() -> Any:
    """Where Arrow's parsers take memory from. Its own allocator keeps of what it freed more than chunks take."""
    import pyarrow as pa

    return pa.system_memory_pool()


def first_block(path: str) -> tuple[bytearray, bool]:
    """The beginning of a file, and whether it is all of it."""
    stream = open_stream(path, stored_compression(path))
    block = bytearray(FIRST_BLOCK_BYTES)
    size, is_all = 0, False
    try:
        while size < len(block):
            with memoryview(block) as view:
                count = stream.readinto(view[size:])
            if not count:
                is_all = True
                break
            size += count
    except FormatError:
        if not size:  # else what is there tells the types, and the error comes in its place
            raise
    finally:
        stream.close()
    del block[size:]
    return block, is_all


def rows_that_parse(text: bytes, split: Callable[[bytes], list[bytes]], parse: Callable[[bytes], Any]) -> bytes:
    """A block without the rows that cannot be parsed: they say nothing of types, and are errors when they are read."""
    import pyarrow as pa

    try:
        parse(text)
        return text
    except (pa.ArrowException, UnicodeDecodeError):
        rows = split(text)
    if len(rows) < 2:
        return b""
    half = len(rows) // 2
    parts = b"".join(rows[:half]), b"".join(rows[half:])
    return b"".join(rows_that_parse(part, split, parse) for part in parts)


def arrow_types(schema: Any, dtypes: Any, columns: Any, text: Any, parse: Callable[[Any], Any]) -> Any:
    """The schema that was found, with the types that the user gave; what looks like a date stays text, also inside.

    Args:
        schema: The names and types that were found.
        dtypes: Those that the user gave, by name: of a list what is in it, and a dict of an object.
        columns: The names that are wanted, of which the types must be known; None for all.
        text: The type of strings.
        parse: Parses something as a type; an `ArrowNotImplementedError` says that the format has none such.
    """
    import pyarrow as pa

    given = {} if dtypes is None else dtypes
    if not isinstance(given, dict):
        raise BadType(f"dtypes: expected a dict of dtypes by column, got {type(given).__name__} {given!r:.60}")
    _check_known(given, schema.names, "")
    fields = []
    for field in schema:
        kind = _typed(field.name, field.type, given.get(field.name), text, parse)
        empty = _without_values(field.name, kind)
        if empty and (columns is None or field.name in columns):
            raise BadType(f"column {empty}: expected values in the first block, it is empty; give its type in dtypes")
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _check_known(given: dict[str, Any], names: list[str], inside: str) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise BadArgument(f"dtypes: expected some of {', '.join(names)}{inside}, got {', '.join(map(str, unknown))}")


def _typed(name: str, kind: Any, given: Any, text: Any, parse: Callable[[Any], Any]) -> Any:
    """A type that was found, with what the user gave in its place or inside it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.list_(_typed(name, kind.value_type, given, text, parse))
    if pa.types.is_struct(kind) and (given is None or isinstance(given, dict)):
        fields, given = [kind.field(i) for i in range(kind.num_fields)], given or {}
        _check_known(given, [field.name for field in fields], f" in {name}")
        inner = [_typed(f"{name}.{field.name}", field.type, given.get(field.name), text, parse) for field in fields]
        return pa.struct([(field.name, below) for field, below in zip(fields, inner, strict=True)])
    if given is not None:
        return _arrow_type(name, given, text, parse)
    return text if pa.types.is_temporal(kind) or pa.types.is_string(kind) else kind


def _without_values(name: str, kind: Any) -> str:
    """The name of what is null wherever it is, in a column of this type; empty if there is none."""
    from pyarrow import types

    if types.is_list(kind):
        return _without_values(name, kind.value_type)
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return next(filter(None, (_without_values(f"{name}.{field.name}", field.type) for field in fields)), "")
    return name if types.is_null(kind) else ""


def _arrow_type(name: str, given: Any, text: Any, parse: Callable[[Any], Any]) -> Any:
    """What Arrow calls a type that the user gave, if text can be parsed as such."""
    import pyarrow as pa

    try:
        dtype = TensorSpec((), given).dtype
        kind = text if dtype == string else pa.from_numpy_dtype(dtype)
        parse(kind)
    except pa.ArrowInvalid:  # that value is none, others are
        pass
    except (TypeError, pa.ArrowNotImplementedError):
        raise BadType(
            f"dtypes: expected a type that text can be parsed as for column {name} (integers, float32, float64, bool, "
            f"bytes, datetime64), got {given!r:.60}; for others, convert in a map"
        ) from None
    return kind
