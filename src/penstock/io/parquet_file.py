"""An open Parquet file: what its row groups take to be read, before any of it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import FormatError
from ..leaf import leaf_bytes
from .arrow_arrays import TableColumns
from .arrow_schema import check_schema
from .fetched import FetchedFile
from .parquet_pages import page_sizes
from .parquet_pool import FreedByArrow, RecordBatches
from .paths import is_local, open_arrow

__all__ = ["OpenParquet", "RowGroup", "brief"]

# Writers end a page, and give up a dictionary, at about this size.
_PAGE_BYTES = (1 << 20) + (1 << 13)  # they end a page with the thousand values that go beyond a megabyte
_BUFFER_BYTES = 1 << 13
# What a column takes beside its pages: the buffer, and some room for levels and indices.
_COLUMN_BYTES = 1 << 15
# Beside each string of a dictionary Arrow holds a pointer and a length.
_STRING_BYTES = 16
# The pages of smaller columns are not looked at: they take no more than some times the column.
_SMALL_COLUMN_BYTES = 1 << 15
# What is decoded at a time where the budget has room for no more: some rows, but not much.
_FEW_ROWS, _FEW_BYTES = 64, 1 << 16
# The same where columns are decoded one after the other: more, since each column's part is read by itself.
_MOST_ROWS_IN_TURN, _BYTES_IN_TURN = 1 << 14, 1 << 18
# Where all columns together take no more than this, they are open at a time, however small the budget.
_SMALL_BYTES = 1 << 20
# What is known of a batch on disk: where it begins; and around its bytes, the schema and the head of the batch.
_PLACE_BYTES, _HEAD_BYTES = 8, 1 << 10


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a file's footer says of its rows."""

    num_rows: int
    num_groups: int
    floor_bytes: int
    held_bytes: int


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """What the footer says of one row group.

    Attributes:
        pages_by_column: What the open pages of each column take.
        row_bytes: What a decoded row takes, on average.
    """

    num_rows: int
    pages_by_column: Mapping[str, int]
    row_bytes: int

    @property
    def pages_bytes(self) -> int:
        """What the pages take if all columns are open at a time."""
        return sum(self.pages_by_column.values())

    @property
    def few_rows(self) -> int:
        """Rows to decode at a time where there is room for no more."""
        return max(1, min(_FEW_ROWS, _FEW_BYTES // self.row_bytes))

    @property
    def rows_in_turn(self) -> int:
        """Rows to decode at a time where columns are decoded one after the other."""
        return max(1, min(_MOST_ROWS_IN_TURN, _BYTES_IN_TURN // self.row_bytes))

    @property
    def held_bytes(self) -> int:
        """What it takes to read it with all columns open, a few rows at a time."""
        return self.pages_bytes + self.few_rows * self.row_bytes

    @property
    def in_turn_bytes(self) -> int:
        """What it takes to read one column after the other: the pages of the largest, some rows, and their places."""
        num_columns, num_batches = len(self.pages_by_column), -(-self.num_rows // self.rows_in_turn)
        places = num_columns * (_HEAD_BYTES + num_batches * _PLACE_BYTES)
        return max(self.pages_by_column.values(), default=0) + self.rows_in_turn * self.row_bytes + places

    @property
    def floor_bytes(self) -> int:
        """What it takes to read it at all."""
        return self.held_bytes if self.held_bytes <= _SMALL_BYTES else min(self.held_bytes, self.in_turn_bytes)


class OpenParquet:
    """A file with its footer read."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        source = open_arrow(path)
        self._fetched = None if is_local(path) else FetchedFile(source)
        if self._fetched is not None:
            source = pa.PythonFile(self._fetched, mode="r")
        try:
            # Without a buffer a whole column of a row group would be read at once, and with `pre_buffer` all of them.
            self.file = pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES)
            self.schema = self.file.schema_arrow
            check_schema(self.schema, path)
            _check_paths(self.file.schema)
        except FormatError:
            source.close()
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            size = source.size()
            source.close()
            raise FormatError(f"{path}: expected a Parquet file, got {size:,} bytes: {brief(error)}") from None
        self.metadata = self.file.metadata
        #: How many rows each row group has, also one of which none can be read.
        self.rows_by_group = _rows_by_group(self.metadata)
        self._source = source
        self._is_local = is_local(path)  # elsewhere each look is a request

    def check(self, table: TableColumns) -> None:
        """Refuses a file whose columns are not those of the first."""
        for name, kind in table.types.items():
            if name not in self.schema.names:
                raise FormatError(f"{self.path}: expected a column {name}, got {', '.join(self.schema.names):.200}")
            got = self.schema.field(name).type
            if got != kind:
                raise FormatError(
                    f"{self.path}: expected column {name} of type {kind}, as in the first file, got {got}"
                )

    def fetch(self, number: int, table: TableColumns, room_bytes: int) -> int:
        """Lets what is read of a row group of a remote file be kept, as far as there is room; returns how much that is.

        Args:
            number: Of the row group.
            table: The columns that will be read.
            room_bytes: What may be kept.
        """
        if self._fetched is None:
            return 0
        spans = [_span(column) for _, _, _, column in self._columns(number, table)]
        return self._fetched.expect(spans, room_bytes)

    def forget(self) -> None:
        """Gives up what is kept of a remote file."""
        if self._fetched is not None:
            self._fetched.forget()

    def group(self, number: int, table: TableColumns, by_pages: bool = False) -> RowGroup:
        """What a row group takes, with pages as writers make them at most, or `by_pages` as they are in this file."""
        metadata = self.metadata.row_group(number)
        num_rows = self.rows_by_group[number]
        if num_rows != metadata.num_rows:
            at = f"{self.path}, row group {number}"
            raise FormatError(f"{at}: expected as many rows as values at most, got {metadata.num_rows:,} in the footer")
        varying, levels = 0, 0
        pages: dict[str, int] = {}
        sizes = {leaf.name: leaf.row_bytes for leaf in table.leaves}
        for i, name, path, column in self._columns(number, table):
            nbytes = max(0, column.total_uncompressed_size)
            looks = by_pages and nbytes > (_SMALL_COLUMN_BYTES if self._is_local else _PAGE_BYTES)
            taken = self._pages_bytes(column) if looks else _usual_pages_bytes(column)
            pages[name] = pages.get(name, 0) + taken
            if sizes.get(path) is None:
                varying += nbytes
            of_column = self.file.schema.column(i)
            levels += ((of_column.max_definition_level > 0) + (of_column.max_repetition_level > 0)) * column.num_values
        # Values of their own lengths lie in Arrow's buffers and again as objects.
        strings = sum(leaf.row_bytes is None for leaf in table.leaves) * (leaf_bytes(b"") + 24)
        # Of two bytes each, in memory that grows to twice as much.
        levels_bytes = 4 * max(0, levels)
        row_bytes = table.row_bytes + strings + -(-(2 * varying + levels_bytes) // max(1, num_rows))
        return RowGroup(num_rows, pages, max(1, row_bytes))

    def _columns(self, number: int, table: TableColumns) -> Iterator[tuple[int, str, str, Any]]:
        """The columns of a row group that a table has: number, name in the table, path, and what the footer says."""
        metadata = self.metadata.row_group(number)
        wanted = {leaf.path[0] for leaf in table.leaves}
        for i in range(metadata.num_columns):
            column = metadata.column(i)
            try:
                path = column.path_in_schema
            except UnicodeDecodeError as error:
                where, got = f"{self.path}, row group {number}", error.object[:60]
                raise FormatError(f"{where}: expected names of columns in UTF-8, got {got!r}") from None
            name = path if path in wanted else path.split(".")[0]
            if name in wanted:
                yield i, name, path, column

    def _pages_bytes(self, column: Any) -> int:
        """What the pages of a column take at a time, as their headers say."""
        read_at = self._source.read_at if self._fetched is None else self._fetched.read_at
        pages = page_sizes(lambda nbytes, offset: bytes(read_at(nbytes, offset)), *_span(column))
        # A page as it lies in the file and as it is unpacked, in memory that the next one uses again; where there is
        # nothing to unpack, a page and the next one. And the dictionary, a page like others, as it is looked up. Arrow
        # also asks for as much as a page for the strings that it copies from it, but touches what it needs.
        nbytes = _COLUMN_BYTES + pages.unpacked_bytes + pages.stored_bytes + pages.dictionary_bytes
        return nbytes + _STRING_BYTES * pages.dictionary_values if column.physical_type == "BYTE_ARRAY" else nbytes

    def layout(self, table: TableColumns, most_looked_at: int) -> Layout:
        """What the file's rows take, judged by this many row groups; where it is far away, by its footer."""
        self.check(table)
        num_groups = len(self.rows_by_group)
        looked_at = range(min(num_groups, most_looked_at) if self._is_local else num_groups)
        groups = [self.group(i, table, by_pages=self._is_local) for i in looked_at]
        floor = max((group.floor_bytes for group in groups), default=0)
        held = max((group.held_bytes for group in groups), default=0)
        return Layout(sum(self.rows_by_group), num_groups, floor, held)

    def batches(self, group: int, names: list[str], num_rows: int, freed: FreedByArrow) -> RecordBatches:
        """Some columns of a row group as record batches of so many rows."""
        # In one thread: the allocator keeps a heap for each of Arrow's, which took 30 MB more and no less time.
        return RecordBatches(
            self.file.iter_batches(num_rows, row_groups=[group], columns=names, use_threads=False), freed
        )

    def close(self) -> None:
        self.file.close()
        self._source.close()

    def __enter__(self) -> OpenParquet:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _rows_by_group(metadata: Any) -> list[int]:
    """The rows of each row group; one, which is an error, where the footer gives more than there can be.

    It says how many there are in all, too. Where that is another number it is damaged, and nobody should wait for the
    rows that it makes up.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if sum(rows) == metadata.num_rows and min(rows, default=0) >= 0:
        return rows
    most = [max((group.column(i).num_values for i in range(group.num_columns)), default=0) for group in groups]
    return [n if 0 <= n <= values else 1 for n, values in zip(rows, most, strict=True)]


def _check_paths(schema: Any) -> None:
    """Decodes the paths of columns, as whoever asks for them will; damaged ones are no UTF-8."""
    for i in range(len(schema)):
        schema.column(i).path  # noqa: B018  which must be UTF-8


def _span(column: Any) -> tuple[int, int]:
    """Where a column of a row group begins and ends in the file."""
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = min(start, column.dictionary_page_offset)
    return start, start + max(0, column.total_compressed_size)


def _usual_pages_bytes(column: Any) -> int:
    """What the pages of a column take at a time if they are as large as writers make them."""
    nbytes: int = max(0, column.total_uncompressed_size)
    page = min(nbytes, _PAGE_BYTES)
    # Beside it, the page as it stands in the file; or the next one, if there is nothing to unpack.
    stored: int = max(0, column.total_compressed_size if column.compression != "UNCOMPRESSED" else nbytes - page)
    pages = page + min(stored, _PAGE_BYTES) + _COLUMN_BYTES
    if column.has_dictionary_page:
        # That of strings has a pointer and a length for each.
        pages += 3 * page if column.physical_type == "BYTE_ARRAY" else min(page, nbytes - page)
    return pages


def brief(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
