"""Parquet files as a source.

A row group is read in slices, each as large as the budget allows: what is decoded, and the pages that are open in the
columns, are on the ledger before they are read. If the pages of all columns are too much, columns are read in turn.
Rows are not read in any order: to reach one, its page must be decoded with all that stands before it in the row group.
So this is a stream that can skip whole row groups unread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, FormatError, OverBudget, SpillError
from ..memory.arrow_library import load as load_arrow
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op, Room
from ..spec import UNKNOWN, Spec
from .arrow_arrays import TableColumns
from .columns_in_turn import ColumnsInTurn
from .made_rows import MadeRows
from .parquet_file import Layout, OpenParquet, RowGroup, brief
from .parquet_pool import FreedByArrow, RecordBatches
from .paths import expand_paths, is_local, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error, first_look

__all__ = ["FromParquet"]

# So many row groups are looked at before a run to tell what it needs; that takes 20 ms for one of 35 columns and a
# million rows. Others of the same writer are like them, and what larger ones need is told when they are met.
_MOST_LOOKED_AT = 32
# Decoding more at a time is no quicker; and while it does, Arrow's allocator keeps twice as much.
_MOST_ROWS, _MOST_BYTES = 1 << 14, 4 << 20
# What Arrow's allocator may keep of what it freed: this part of the budget.
_KEPT_PART = 8
# All columns are open at a time if their pages take no more than this part of what stages have in common.
_PART_FOR_PAGES = 0.75
# So many rows that cannot be read are told at a time: errors are not on the ledger.
_MOST_FAILED = 256


@dataclasses.dataclass(frozen=True, eq=False)
class FromParquet(StreamsFiles, Op):
    """The rows of Parquet files as dicts of columns.

    Numbers keep their types; strings and binary are `bytes`; a fixed-size list is an array of one more dimension, a
    list an array of its own length, a struct a dict. Lists of one length in a list are an array of more dimensions. All
    files must have the columns of the first that can be read, in the same types.
    A row with a null where none can be, or with lists of unequal lengths in one, and each row of a damaged row group
    that cannot be read any more, are errors in their place, and what follows is read.

    Args:
        paths: A path, a pattern, a URI, or a list of them.
        columns: The columns to read; no others are read from the file. None: all.
        fill_null: A value in the place of nulls, in the columns that can hold it, or a dict of values by column.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: for each column the page that is open, of 1 MB or the size of the column in a row group if that is less, as
        much for a dictionary, and as much for compressed data or the next page; and the rows decoded at a time: 16,384,
        or as many as the budget has room for. Larger pages are counted before they are read: their headers tell. Where
        there is no room for the pages of all columns, a row group is decoded one column after the other, and its rows
        are put together from a file in the spill directory. Of a remote file also the columns of a row group as they
        are stored, or parts of them, where the budget has room to spare.
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
    _held_bytes: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        load_arrow("pyarrow.parquet", "Parquet files")
        fields = self.__dict__
        fields["_paths"] = paths = tuple(expand_paths(self.paths, "paths"))
        if not paths:
            raise BadArgument("paths: expected one file or more, got none: there are no columns without a file")
        first, (fields["_table"], layout) = first_look(paths, self._look_at)
        layouts = [layout]
        left = _MOST_LOOKED_AT - layout.num_groups
        others = list(paths)
        others.remove(first)
        for path in others:
            try:
                if is_local(path):  # a look at each of the others may take long
                    with OpenParquet(path) as other:
                        layouts.append(other.layout(self._table, max(0, left)))
                        left -= layouts[-1].num_groups
            except FormatError:
                continue
        knows_all = len(layouts) == len(paths)
        fields["_num_rows"] = sum(layout.num_rows for layout in layouts) if knows_all else UNKNOWN
        fields["_floor_bytes"] = max(layout.floor_bytes for layout in layouts)
        fields["_held_bytes"] = max(layout.held_bytes for layout in layouts)

    def _look_at(self, path: str) -> tuple[TableColumns, Layout]:
        with OpenParquet(path) as first:
            table = TableColumns(first.schema, self.columns, self.fill_null)
            return table, first.layout(table, _MOST_LOOKED_AT)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self._table.spec(self._num_rows if self.on_error == "raise" else UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint:
        one = times(1, sizes.output)
        floor = sizes.at_least_as_seen(None if one is None else 2 * one + self._floor_bytes)
        held = None if one is None or floor is None else max(floor, 2 * one + self._held_bytes)
        what = "open pages of the columns, rows that were decoded, and one on its way"
        if self._floor_bytes < self._held_bytes:
            what += "; or one column after the other, by way of the disk"
        return Footprint(held, what, floor, known_bytes=self._floor_bytes)

    def open(self, context: Context) -> Cursor:
        def open_rows(path: str, position: State) -> _Rows:
            return _Rows(path, self._table, context, position)

        return FilesCursor(context, self._paths, open_rows, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        return f"from_parquet({shown_paths(self._paths)}{columns})"


class _Rows:
    """The rows of one file from a position on.

    A row group has as many elements as the footer gives it rows, damaged or not: so it can be skipped unread, and
    workers who share the rows by number agree on them.
    """

    def __init__(self, path: str, table: TableColumns, context: Context, position: State) -> None:
        self._path = path
        self._table = table
        self._context = context
        group, row = expect_list([0, 0] if position is None else position, 2)
        self._group, self._row = int(group), int(row)
        self._open = OpenParquet(path)
        self._pages = context.share.acquire(0)
        self._decoded_lease = context.share.acquire(0)
        self._luxury: Any = None
        self._fetched: Any = None
        self._batches: RecordBatches | Generator[Any, None, None] | None = None
        self._made = MadeRows(table, context.share)
        self._freed = FreedByArrow(context.share.budget_bytes // _KEPT_PART)
        self._to_drop = self._row  # rows of the group before the position
        self._damage: str | None = None  # why no more rows of the group can be read
        try:
            self._open.check(table)
        except BaseException:
            self.close()
            raise
        self._before = sum(self._open.rows_by_group[: self._group])

    def read(self, n: int, room: Room) -> Block | None:
        while not self._made.num_left:
            if self._group >= len(self._open.rows_by_group):
                return None
            if self._damage is None:
                self._decode()
            if self._damage is not None:
                return self._failed(n, self._damage)
        decoded, start = self._made.reach()
        transit = self._context.transit
        if self._table.is_exact and not decoded.bad:
            stop = min(start + transit.fitting(n), decoded.num_rows)
            block = decoded.block(start, stop, self._context.arena.empty, self._where)
        else:
            block = self._made.block(n, transit, self._where)
            room.add(block.nbytes, block.size)
        self._row += block.size
        self._made.take(block.size)
        return block

    def _where(self, row: int) -> str:
        return f"{self._path}, row {self._before + self._row + self._made.first + row - self._made.row:,}"

    def _failed(self, n: int, damage: str) -> Block:
        """The next rows of a row group that cannot be read: errors, so that every row keeps its place."""
        count = min(n, self._rows_left, _MOST_FAILED)
        texts = [f"{self._path}, row {self._before + self._row + i:,}: {damage}" for i in range(count)]
        self._row += count
        if not self._rows_left:
            self._end_group()
        return Block.of_rows([Failed(FormatError(text)) for text in texts], has_failures=True)

    @property
    def _rows_left(self) -> int:
        """Rows of the group that were not given."""
        return max(0, self._open.rows_by_group[self._group] - self._row)

    def _decode(self) -> None:
        """Decodes some rows of the group, or ends it after the last, or finds that it is damaged."""
        import pyarrow as pa

        if not self._rows_left:
            self._end_group()
            return
        try:
            if self._batches is None:
                self._begin_group()
            assert self._batches is not None
            batch = next(self._batches, None)
            if batch is None:
                self._give_up(f"{self._at}: expected {self._rows_left:,} rows more, as the footer says, got none")
                return
            luxury = 0 if self._luxury is None else self._luxury.nbytes
            self._decoded_lease.settle(max(self._decoded_lease.nbytes, batch.nbytes - luxury), single=True)
        except SpillError:  # nothing is wrong with the file: the row group begins again, at this row
            self._leave_group()
            self._to_drop = self._row
            raise
        except FormatError as error:
            self._give_up(str(error).removeprefix(f"{self._path}, "))
            return
        except (pa.ArrowException, OSError) as error:
            self._give_up(f"{self._at}: expected Parquet data, got: {brief(error)}")
            return
        dropped = min(self._to_drop, batch.num_rows)
        self._to_drop -= dropped
        if dropped < batch.num_rows:
            self._made.begin(batch, dropped, self._decoded_lease.nbytes + luxury - batch.nbytes)

    @property
    def _at(self) -> str:
        return f"row group {self._group}, after row {self._before + self._row:,}"

    def _give_up(self, why: str) -> None:
        self._leave_group()
        self._damage = why

    def _begin_group(self) -> None:
        self._fetch()
        group = self._open.group(self._group, self._table, by_pages=True)
        if group.floor_bytes < group.held_bytes and not self._may_open_all(group):
            self._begin_in_turn(group)
            return
        self._pages.settle(group.pages_bytes)
        rows = self._reserve_rows(group, group.few_rows)
        self._batches = self._read(self._group, self._table.names, rows)

    @property
    def _num_readers(self) -> int:
        """How many there may be at a time on this account."""
        return max(1, self._context.share.num_datasets)

    def _fetch(self) -> None:
        """Makes room for what is fetched of a remote file at a time, if there is any to spare."""
        share = self._context.share
        nbytes = self._open.fetch(self._group, self._table, 0 if share.frugal else share.spare_bytes)
        self._fetched = share.try_acquire(nbytes, ahead=True) if nbytes else None
        if nbytes and self._fetched is None:
            self._open.fetch(self._group, self._table, 0)

    def _reserve_rows(self, group: RowGroup, least: int) -> int:
        """How many rows to decode at a time; room for the least is there, and for more there may be."""
        share = self._context.share
        self._decoded_lease.settle(least * group.row_bytes)
        most = min(_MOST_ROWS, group.num_rows)
        spare_bytes = min(_MOST_BYTES, share.spare_bytes // self._num_readers)
        wanted = 0 if share.frugal else min(most, spare_bytes // group.row_bytes)
        if wanted > least:
            self._luxury = share.try_acquire((wanted - least) * group.row_bytes, ahead=True)
        return least if self._luxury is None else wanted

    def _may_open_all(self, group: RowGroup) -> bool:
        """Whether there is room for the pages of all columns; they are reserved then.

        Of datasets that a function makes, all that are read at a time have one share: there must be as much for each.
        """
        share = self._context.share
        room_bytes = share.floor_bytes + _PART_FOR_PAGES * share.common_bytes
        if share.frugal or group.held_bytes * self._num_readers > room_bytes:
            return False
        try:
            self._pages.settle(group.pages_bytes)
        except OverBudget:
            return False
        return True

    def _begin_in_turn(self, group: RowGroup) -> None:
        self._pages.settle(group.in_turn_bytes - group.rows_in_turn * group.row_bytes)
        number, rows = self._group, self._reserve_rows(group, group.rows_in_turn)
        in_turn = ColumnsInTurn(self._table.names, lambda name: self._read(number, [name], rows), self._context)
        self._batches = in_turn.batches()

    def _read(self, group: int, names: list[str], num_rows: int) -> RecordBatches:
        return self._open.batches(group, names, num_rows, self._freed)

    def _end_group(self) -> None:
        self._leave_group()
        self._before += self._open.rows_by_group[self._group]
        self._group += 1
        self._row = self._to_drop = 0
        self._damage = None

    def _leave_group(self) -> None:
        self._made.leave()
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        self._release()

    def _release(self) -> None:
        if self._fetched is not None:
            self._open.forget()
            self._fetched.release()
            self._fetched = None
        self._pages.release()
        self._decoded_lease.release()
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n and self._group < len(self._open.rows_by_group):
            left = self._rows_left
            if left <= n - skipped:
                self._end_group()
                skipped += left
                continue
            if not self._made.num_left:
                self._to_drop += n - skipped  # nothing is, where the group is damaged
                self._row += n - skipped
                return n
            passed = min(n - skipped, self._made.num_left)
            self._made.take(passed)
            self._row += passed
            skipped += passed
        return skipped

    def position(self) -> State:
        return [self._group, self._row]

    def close(self) -> None:
        self._leave_group()
        self._open.close()
