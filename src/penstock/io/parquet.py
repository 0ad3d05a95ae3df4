"""Parquet files as a source.

A row group is read in slices, each as large as the budget allows: what is decoded, and the pages that are open in the
columns, are on the ledger before they are read. Rows are not read in any order: to reach one, its page must be decoded
with all that stands before it in the row group. So this is a stream that can skip whole row groups unread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed, leaf_bytes
from ..errors import FormatError
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op, Room
from ..spec import UNKNOWN, Spec
from .arrow_arrays import Decoded, TableColumns
from .parquet_pages import page_sizes
from .paths import expand_paths, is_local, open_arrow, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error, first_look

__all__ = ["FromParquet"]

# Writers end a page, and give up a dictionary, at about this size.
_PAGE_BYTES = (1 << 20) + (1 << 13)  # they end a page with the thousand values that go beyond a megabyte
_BUFFER_BYTES = 1 << 13
# What a column takes beside its pages: the buffer, and some room for levels and indices.
_COLUMN_BYTES = 1 << 15
# Beside each string of a dictionary Arrow holds a pointer and a length.
_STRING_BYTES = 16
# The pages of smaller columns are not looked at: they take no more than some times the column.
_SMALL_COLUMN_BYTES = 1 << 15
# So many row groups are looked at before a run to tell what it needs; that takes 20 ms for one of 35 columns and a
# million rows. Others of the same writer are like them, and what larger ones need is told when they are met.
_MOST_LOOKED_AT = 32
# Decoding more at a time is no quicker.
_MOST_ROWS = 1 << 14
# What is decoded at a time where the budget has room for no more: some rows, but not much.
_FEW_ROWS, _FEW_BYTES = 64, 1 << 16


@dataclasses.dataclass(frozen=True, eq=False)
class FromParquet(StreamsFiles, Op):
    """The rows of Parquet files as dicts of columns.

    Numbers keep their types; strings and binary are `bytes`; a fixed-size list is an array of one more dimension, a
    list an array of its own length, a struct a dict. All files must have the columns of the first, in the same types
    (with `on_error="skip"`, of the first that can be read). A row with a null where none can be, and a damaged row
    group, are errors in their place, and what follows is read.

    Args:
        paths: A path, a pattern, a URI, or a list of them.
        columns: The columns to read; no others are read from the file. None: all.
        fill_null: A value in the place of nulls, in the columns that can hold it, or a dict of values by column.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: for each column the page that is open, of 1 MB or the size of the column in a row group if that is less, as
        much for a dictionary, and as much for compressed data or the next page; and the rows decoded at a time: 16,384,
        or as many as the budget has room for. Larger pages are counted before they are read: their headers tell.
    State: the number of the file, of the row group, and of the row in it, up to which the row group is decoded again.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": [1, 2, 3], "name": ["a", "b", "c"], "y": [4, 5, 6]}), folder + "/t.parquet")
    ...     list(ps.Dataset.from_parquet(folder + "/t.parquet", columns=["x", "name"]).skip(1))
    [{'x': np.int64(2), 'name': b'b'}, {'x': np.int64(3), 'name': b'c'}]
    """

    paths: Any
    columns: Sequence[str] | None = None
    fill_null: Any = None
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _table: TableColumns = dataclasses.field(init=False, repr=False)
    _num_rows: int = dataclasses.field(init=False, repr=False)
    _floor_bytes: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        fields = self.__dict__
        fields["_paths"] = paths = tuple(expand_paths(self.paths, "paths"))
        if not paths:
            raise FormatError("paths: expected one file or more, got none: there are no columns without a file")
        first, (fields["_table"], layout) = first_look(paths, self._look_at, self.on_error)
        layouts = [layout]
        left = _MOST_LOOKED_AT - layout.num_groups
        others = list(paths)
        others.remove(first)
        for path in others:
            try:
                if is_local(path):  # a look at each of the others may take long
                    with _OpenParquet(path) as other:
                        layouts.append(other.layout(self._table, max(0, left)))
                        left -= layouts[-1].num_groups
            except FormatError:
                continue
        knows_all = len(layouts) == len(paths)
        fields["_num_rows"] = sum(layout.num_rows for layout in layouts) if knows_all else UNKNOWN
        fields["_floor_bytes"] = max(layout.floor_bytes for layout in layouts)

    def _look_at(self, path: str) -> tuple[TableColumns, _Layout]:
        with _OpenParquet(path) as first:
            table = TableColumns(first.schema, self.columns, self.fill_null)
            return table, first.layout(table, _MOST_LOOKED_AT)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self._table.spec(self._num_rows if self.on_error == "raise" else UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint:
        one = times(1, sizes.output)
        floor = sizes.at_least_as_seen(None if one is None else 2 * one + self._floor_bytes)
        return Footprint(floor, "open pages of the columns, rows that were decoded, and one on its way", floor)

    def open(self, context: Context) -> Cursor:
        def open_rows(path: str, position: State) -> _Rows:
            return _Rows(path, self._table, context, position)

        return FilesCursor(context, self._paths, open_rows, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        return f"from_parquet({shown_paths(self._paths)}{columns})"


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What a file's footer says of its rows."""

    num_rows: int
    num_groups: int
    floor_bytes: int


@dataclasses.dataclass(frozen=True)
class _Group:
    """What the footer says of one row group."""

    num_rows: int
    pages_bytes: int
    row_bytes: int

    @property
    def few_rows(self) -> int:
        """Rows to decode at a time where there is room for no more."""
        return max(1, min(_FEW_ROWS, _FEW_BYTES // self.row_bytes))


class _OpenParquet:
    """A file with its footer read."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        source = open_arrow(path)
        try:
            # Without a buffer a whole column of a row group would be read at once, and with `pre_buffer` all of them.
            self.file = pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES)
            self.schema = self.file.schema_arrow
            _check_names(self.file, self.schema)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            size = source.size()
            source.close()
            raise FormatError(f"{path}: expected a Parquet file, got {size:,} bytes: {_brief(error)}") from None
        self.metadata = self.file.metadata
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

    def group(self, number: int, table: TableColumns, by_pages: bool = False) -> _Group:
        """What a row group takes, with pages as writers make them at most, or `by_pages` as they are in this file."""
        metadata = self.metadata.row_group(number)
        pages, varying, levels = 0, 0, 0
        wanted = {leaf.path[0]: leaf for leaf in table.leaves}
        sizes = {leaf.name: leaf.row_bytes for leaf in table.leaves}
        for i in range(metadata.num_columns):
            column = metadata.column(i)
            if column.path_in_schema.split(".")[0] not in wanted and column.path_in_schema not in wanted:
                continue
            nbytes = max(0, column.total_uncompressed_size)
            looks = by_pages and nbytes > (_SMALL_COLUMN_BYTES if self._is_local else _PAGE_BYTES)
            pages += self._pages_bytes(column) if looks else _usual_pages_bytes(column)
            if sizes.get(column.path_in_schema) is None:
                varying += nbytes
            of_column = self.file.schema.column(i)
            levels += ((of_column.max_definition_level > 0) + (of_column.max_repetition_level > 0)) * column.num_values
        num_rows = max(0, metadata.num_rows)
        # Values of their own lengths lie in Arrow's buffers and again as objects.
        strings = sum(leaf.row_bytes is None for leaf in table.leaves) * (leaf_bytes(b"") + 24)
        # Of two bytes each, in memory that grows to twice as much.
        levels_bytes = 4 * max(0, levels)
        row_bytes = table.row_bytes + strings + -(-(2 * varying + levels_bytes) // max(1, num_rows))
        return _Group(num_rows, pages, max(1, row_bytes))

    def _pages_bytes(self, column: Any) -> int:
        """What the pages of a column take at a time, as their headers say."""
        start = column.data_page_offset
        if column.has_dictionary_page:
            start = min(start, column.dictionary_page_offset)
        pages = page_sizes(self._source.read_at, start, start + column.total_compressed_size)
        # A page as it lies in the file and as it is unpacked, in memory that the next one uses again; where there is
        # nothing to unpack, a page and the next one. And the dictionary, a page like others, as it is looked up. Arrow
        # also asks for as much as a page for the strings that it copies from it, but touches what it needs.
        nbytes = _COLUMN_BYTES + pages.unpacked_bytes + pages.stored_bytes + pages.dictionary_bytes
        return nbytes + _STRING_BYTES * pages.dictionary_values if column.physical_type == "BYTE_ARRAY" else nbytes

    def layout(self, table: TableColumns, most_looked_at: int) -> _Layout:
        """What the file's rows take, judged by this many row groups; where it is far away, by its footer."""
        self.check(table)
        num_groups = self.metadata.num_row_groups
        looked_at = range(min(num_groups, most_looked_at) if self._is_local else num_groups)
        groups = [self.group(i, table, by_pages=self._is_local) for i in looked_at]
        floor = max((group.pages_bytes + group.few_rows * group.row_bytes for group in groups), default=0)
        return _Layout(max(0, self.metadata.num_rows), num_groups, floor)

    def close(self) -> None:
        self.file.close()
        self._source.close()

    def __enter__(self) -> _OpenParquet:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _check_names(file: Any, schema: Any) -> None:
    """Decodes the names of columns, as whoever asks for them will; damaged ones are no UTF-8."""
    schema.names  # noqa: B018  which must be UTF-8
    for i in range(len(file.schema)):
        file.schema.column(i).path  # noqa: B018  likewise


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


def _brief(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


class _Rows:
    """The rows of one file from a position on."""

    def __init__(self, path: str, table: TableColumns, context: Context, position: State) -> None:
        self._path = path
        self._table = table
        self._context = context
        group, row = expect_list([0, 0] if position is None else position, 2)
        self._group, self._row = int(group), int(row)
        self._open = _OpenParquet(path)
        self._pages = context.share.acquire(0)
        self._decoded_lease = context.share.acquire(0)
        self._luxury: Any = None
        self._batches: Iterator[Any] | None = None
        self._decoded: Decoded | None = None
        self._offset = 0  # of the next row in what is decoded
        self._to_drop = self._row  # rows of the group before the position
        try:
            self._open.check(table)
        except BaseException:
            self.close()
            raise
        self._before = sum(self._open.metadata.row_group(i).num_rows for i in range(self._group))

    def read(self, n: int, room: Room) -> Block | None:
        while self._decoded is None:
            if self._group >= self._open.metadata.num_row_groups:
                return None
            failed = self._decode()
            if failed is not None:
                return Block.of_rows([Failed(failed)], has_failures=True)
        decoded, start = self._decoded, self._offset
        stop = min(start + n, decoded.num_rows)
        if self._table.is_exact and not decoded.bad:
            stop = min(stop, start + self._context.transit.fitting(n))
            block = decoded.block(start, stop, self._context.arena.empty, self._where)
        else:
            block, stop = self._counted(decoded, start, stop, room)
        self._row += stop - start
        self._offset = stop
        if stop == decoded.num_rows:
            self._forget()
        return block

    def _counted(self, decoded: Decoded, start: int, stop: int, room: Room) -> tuple[Block, int]:
        """Rows of sizes that only they themselves tell, as many as there is room for."""
        most = self._context.transit.room_bytes
        while True:
            block = decoded.block(start, stop, np.empty, self._where)
            nbytes = block.nbytes
            if nbytes <= most or stop - start == 1:
                break
            stop = start + max(1, (stop - start) // 2)
        room.add(nbytes, block.size)
        return block, stop

    def _where(self, row: int) -> str:
        return f"{self._path}, row {self._before + self._row + row - self._offset:,}"

    def _decode(self) -> FormatError | None:
        """Decodes some rows; an error if the row group cannot be read, and is left."""
        import pyarrow as pa

        try:
            if self._batches is None:
                self._begin_group()
            assert self._batches is not None
            batch = next(self._batches, None)
            if batch is None:
                self._end_group()
                return None
            self._decoded_lease.settle(max(self._decoded_lease.nbytes, self._excess(batch)), single=True)
            decoded = self._table.decode(batch)
        except (pa.ArrowException, OSError) as error:
            at = f"row group {self._group}, after row {self._before + self._row:,}"
            self._end_group()
            return FormatError(f"{self._path}, {at}: expected Parquet data, got: {_brief(error)}")
        dropped = min(self._to_drop, decoded.num_rows)
        self._to_drop -= dropped
        if dropped < decoded.num_rows:
            self._decoded, self._offset = decoded, dropped
        return None

    def _excess(self, batch: Any) -> int:
        """What a batch takes beyond what was reserved for it as a luxury."""
        num_rows: int = batch.num_rows
        objects = sum(leaf.row_bytes is None for leaf in self._table.leaves) * leaf_bytes(b"") * num_rows
        held: int = 0 if self._luxury is None else self._luxury.nbytes
        nbytes: int = batch.nbytes
        return max(0, nbytes + objects - held)

    def _begin_group(self) -> None:
        group, share = self._open.group(self._group, self._table, by_pages=True), self._context.share
        self._pages.settle(group.pages_bytes)
        self._decoded_lease.settle(group.few_rows * group.row_bytes)
        rows = group.few_rows
        wanted = 0 if share.frugal else min(_MOST_ROWS, group.num_rows, share.spare_bytes // group.row_bytes)
        if wanted > rows:
            self._luxury = share.try_acquire((wanted - rows) * group.row_bytes, ahead=True)
            rows = rows if self._luxury is None else wanted
        # In one thread: the allocator keeps a heap for each of Arrow's, which took 30 MB more and no less time.
        names = self._table.names
        self._batches = self._open.file.iter_batches(rows, row_groups=[self._group], columns=names, use_threads=False)

    def _end_group(self) -> None:
        self._forget()
        self._batches = None
        if self._group < self._open.metadata.num_row_groups:
            self._before += self._open.metadata.row_group(self._group).num_rows
        self._group += 1
        self._row = self._to_drop = 0
        self._release()

    def _forget(self) -> None:
        self._decoded = None
        self._offset = 0

    def _release(self) -> None:
        self._pages.release()
        self._decoded_lease.release()
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n and self._group < self._open.metadata.num_row_groups:
            left = self._open.metadata.row_group(self._group).num_rows - self._row
            if left <= n - skipped:
                self._end_group()
                skipped += left
                continue
            if self._decoded is None:
                self._to_drop += n - skipped
                self._row += n - skipped
                return n
            passed = min(n - skipped, self._decoded.num_rows - self._offset)
            self._offset += passed
            self._row += passed
            skipped += passed
            if self._offset == self._decoded.num_rows:
                self._forget()
        return skipped

    def position(self) -> State:
        return [self._group, self._row]

    def close(self) -> None:
        self._forget()
        self._batches = None
        self._release()
        self._open.close()
