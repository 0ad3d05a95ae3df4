"""Arrow tables and IPC files as a source.

What lies in memory, or in a file that can be mapped, is read at any place and without a copy: a `shuffle` on top
shuffles indices. Files whose buffers are compressed, and remote ones, are a stream of record batches.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import forked
from ..cursor import Cursor, State
from ..errors import BadArgument, BadType, FormatError
from ..indexed import IndexCursor
from ..memory.arrow_library import load as load_arrow
from ..order import RangeOrder
from ..plan.footprint import Footprint, Sizes, one_element, times
from ..plan.op import BlockKind, Context, Op, Reader
from ..plan.traits import CURSOR, SOURCE, Traits
from ..spec import UNKNOWN, Spec
from .arrow_arrays import TableColumns
from .arrow_batches import StreamedBatches, open_ipc
from .arrow_dictionaries import has_dictionary
from .arrow_offsets import with_inner_offsets
from .arrow_pieces import Piece, PiecesReader, RowsInOrder
from .arrow_sizes import BatchSizes, buffers_of
from .columns import ColumnReader
from .mapped_files import MappedFile, WatchedReader
from .paths import expand_paths, is_local, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error, first_look

__all__ = ["FromArrow"]

# So many record batches are looked at before a run to tell what it needs; others of the same writer are like them.
_MOST_LOOKED_AT = 32
# By so many of its rows a table is known from another.
_ROWS_TO_KNOW_BY = 32


@dataclasses.dataclass(frozen=True, eq=False)
class FromArrow(StreamsFiles, Op):
    """The rows of an Arrow table, or of Arrow IPC files, as dicts of columns.

    Numbers keep their types; strings and binary are `bytes`; a fixed-size list is an array of one more dimension, a
    list an array of its own length, a struct a dict. Lists of one length in a list are an array of more dimensions; a
    table with such is read as a stream. A row with a null where none can be, or with lists of unequal lengths in one,
    is an error in its place.

    Args:
        table_or_path: A `pyarrow` table, record batch, or anything that gives one (a Polars frame, say); or a path, a
            pattern, a URI, or a list of them, of files in Arrow's IPC format (Feather). Files of this machine that are
            not compressed are mapped into memory, and read at any place: do not cut them short before you have
            dropped the batches that are views of them.
        columns: The columns to read. None: all.
        fill_null: A value in the place of nulls, in the columns that can hold it, or a dict of values by column.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: nothing where rows are views of one piece of Arrow's memory; else the rows asked for, and of a compressed
        file one record batch, as it lies in the file and as it is unpacked, and all dictionaries of the file.
    State: one integer; of a compressed file the numbers of the record batch and of the row in it.

    >>> import pyarrow as pa, penstock as ps
    >>> table = pa.table({"x": [1, 2, 3], "name": ["a", "b", "c"]})
    >>> list(ps.Dataset.from_arrow(table).skip(1))
    [{'x': np.int64(2), 'name': b'b'}, {'x': np.int64(3), 'name': b'c'}]
    """

    table_or_path: Any
    columns: Sequence[str] | None = None
    fill_null: Any = None
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    made_by: str = dataclasses.field(default="from_arrow", kw_only=True, repr=False)
    #: Whether all lists of a table are looked at first: unequal ones can be `Ragged` then, lists of structs be read.
    looks_into_lists: bool = dataclasses.field(default=False, kw_only=True, repr=False)
    #: Makes it again in another process; None: from its arguments.
    remake: functools.partial[Op] | None = dataclasses.field(default=None, kw_only=True, repr=False)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _table: TableColumns = dataclasses.field(init=False, repr=False)
    _pieces: tuple[Piece, ...] | None = dataclasses.field(init=False, repr=False)
    _files: tuple[MappedFile, ...] = dataclasses.field(init=False, repr=False)
    _refuses_some: bool = dataclasses.field(init=False, repr=False)
    _plain: tuple[list[np.ndarray], ...] | None = dataclasses.field(init=False, repr=False)
    _num_rows: int = dataclasses.field(init=False, repr=False)
    _batch_bytes: int = dataclasses.field(init=False, repr=False)

    internal = ("made_by", "looks_into_lists", "remake")

    @property
    def name(self) -> str:
        return self.made_by

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        load_arrow("pyarrow", "Arrow tables and files")
        fields = self.__dict__
        is_path = isinstance(self.table_or_path, (str, bytes, os.PathLike, list, tuple, np.ndarray))
        fields["_paths"] = tuple(expand_paths(self.table_or_path, "table_or_path")) if is_path else ()
        if is_path:
            schema, batches = _look_at_files(self._paths)
        else:
            table = _as_table(self.table_or_path)
            schema = table.schema
            batches = [Piece(None, 0, with_inner_offsets(batch)) for batch in table.to_batches()]
        whole = [piece.batch for piece in batches or ()] if self.looks_into_lists else None
        fields["_table"] = TableColumns(schema, self.columns, self.fill_null, whole)
        fields["_pieces"] = None if batches is None else tuple(batches)
        fields["_batch_bytes"] = _largest_batch(self._paths, self._table) if batches is None else 0
        files = {id(piece.file): piece.file for piece in batches or () if piece.file is not None}
        fields["_files"] = tuple(files.values())
        fields["_num_rows"] = UNKNOWN if batches is None else sum(piece.batch.num_rows for piece in batches)
        nulls = [leaf for piece in batches or () for leaf in self._table.with_nulls(piece.batch)]
        may_be_uneven = any(leaf.may_be_uneven for leaf in self._table.leaves)
        fields["_refuses_some"] = may_be_uneven or any(leaf.fill is None for leaf in nulls)
        fields["_plain"] = None if batches is None or nulls else self._views(batches)

    def __reduce__(self) -> tuple[Any, ...]:
        # Files are mapped there, too, and not copied.
        if self.remake is not None:
            return self.remake, ()
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        return functools.partial(FromArrow, **given), ()

    def _views(self, pieces: list[Piece]) -> tuple[list[np.ndarray], ...] | None:
        """The arrays of each leaf, one for each batch, where all are plain numbers in Arrow's memory."""
        table = self._table
        if not all(leaf.is_view for leaf in table.leaves):
            return None
        if not pieces:
            return tuple([np.empty((0, *leaf.sizes), leaf.dtype)] for leaf in table.leaves)
        decoded = [table.decode(piece.batch).columns for piece in pieces]
        return tuple([columns[i] for columns in decoded] for i in range(len(table.leaves)))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        may_lack_some = self.on_error == "skip" and (self._refuses_some or self._files)
        return self._table.spec(UNKNOWN if may_lack_some else self._num_rows)

    @property
    def _is_in_order(self) -> bool:
        """Whether rows that are left out would be told from others only as they are read: `take` counts the others."""
        return self._refuses_some or (self.on_error == "skip" and bool(self._files))

    @property
    def traits(self) -> Traits:
        return CURSOR if self._pieces is None or self._is_in_order else SOURCE

    def file_shard(self, num_shards: int, index: int) -> Op | None:
        return None if self._pieces is not None else super().file_shard(num_shards, index)

    @property
    def num_elements(self) -> int:
        return self._num_rows

    @property
    def rows_to_know_by(self) -> list[np.ndarray]:
        """Rows of a table of plain numbers, the same ones however it is cut into record batches."""
        if self._plain is None or self._paths or not self._num_rows:
            return []
        starts = np.cumsum([0, *map(len, self._plain[0])])
        rows = np.unique(np.linspace(0, self._num_rows - 1, _ROWS_TO_KNOW_BY).astype(np.int64))
        pieces = np.searchsorted(starts, rows, side="right") - 1
        places = list(zip(pieces, rows - starts[pieces], strict=True))
        return [np.asarray(arrays[piece][row]) for arrays in self._plain for piece, row in places]

    @property
    def reading_may_fail(self) -> bool:
        return self._plain is None or bool(self._files)

    @property
    def gives_views(self) -> bool:
        return self._plain is not None and len(self._plain[0]) == 1

    def block_kind(self) -> BlockKind | None:
        return "view" if self.gives_views else None

    def footprint(self, sizes: Sizes) -> Footprint | None:
        if self._pieces is not None:
            return None if self.gives_views else one_element(sizes.output, "row")
        one = times(1, sizes.output, slots=True)
        if self._batch_bytes:
            # What is larger than other rows takes twice its size while it is made, beside what is on its way.
            num_held = 2 if self._table.is_exact else 4
            floor = None if one is None else self._batch_bytes + num_held * one
        else:
            floor = sizes.at_least_as_seen(None if one is None else 2 * one)
            floor = floor if sizes.held_bytes else None
        has_dictionaries = any(map(has_dictionary, self._table.types.values()))
        what = f"one record batch{', all dictionaries' if has_dictionaries else ''}, and one row on its way"
        return Footprint(floor, what, floor, known_bytes=self._batch_bytes)

    def reader(self, context: Context) -> Reader:
        return self._reader(context, context.count_failed)

    def _reader(self, context: Context, count_failed: Callable[[str, int], None] | None) -> Reader:
        reader: Reader
        if self._plain is not None and self.gives_views:
            reader = ColumnReader(self._table.structure, [arrays[0] for arrays in self._plain], context.arena)
        else:
            assert self._pieces is not None
            reader = PiecesReader(self._table, self._pieces, self._plain, context, count_failed)
        return WatchedReader(reader, self._files, context, count_failed) if self._files else reader

    def open(self, context: Context) -> Cursor:
        if self._pieces is not None and not self._is_in_order:
            fitting = None if self.gives_views else context.transit.fitting
            return IndexCursor(self.reader(context), RangeOrder(self._num_rows), fitting=fitting)
        if self._pieces is not None:
            # Of a path that is given twice the rows are the same.
            rows = {file.path: (file.first_row, file.end_row) for file in self._files} or {"table": (0, self._num_rows)}

            def open_table(path: str, position: State) -> RowsInOrder:
                first, end = rows.get(path, (0, 0))  # nothing of a file without rows
                return RowsInOrder(self._reader(context, None), context, first if position is None else position, end)

            return FilesCursor(context, self._paths or ["table"], open_table, self.on_error)

        def open_batches(path: str, position: State) -> StreamedBatches:
            return StreamedBatches(path, self._table, context, position)

        return FilesCursor(context, self._paths, open_batches, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        if self._paths:
            return f"{self.name}({shown_paths(self._paths)}{columns})"
        return f"{self.name}({self._num_rows:,} rows of {', '.join(self._table.names):.60})"


def _as_table(given: Any) -> Any:
    import pyarrow as pa

    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return pa.table(given)
    kind = type(given).__name__
    raise BadType(f"table_or_path: expected an Arrow table, a record batch or a path, got {kind} {given!r:.60}")


def _look_at_files(paths: tuple[str, ...]) -> tuple[Any, list[Piece] | None]:
    """The schema of the file that says what rows are, and all record batches if they are there at once, mapped."""
    if not paths:
        raise BadArgument("table_or_path: expected one file or more, got none: there are no columns without a file")
    _, schema = first_look(paths, _schema_of)
    with _LOOKING:
        return schema, _mapped_files(paths, schema, _own_pool())


def _largest_batch(paths: tuple[str, ...], table: TableColumns) -> int:
    """What it takes to read one record batch after the other, judged by some; 0 where only a run can tell."""
    largest, left = 0, _MOST_LOOKED_AT
    for path in paths:
        if left <= 0 or not is_local(path):
            break
        try:
            source, reader = open_ipc(path)
            with source:
                sizes = BatchSizes(source, buffers_of(reader.schema, table.names))
                largest = max(largest, sizes.largest(table, left))
                left -= sizes.num_batches
        except (FormatError, OSError):
            continue  # the error comes in its place
    return largest


def _schema_of(path: str) -> Any:
    source, reader = open_ipc(path)
    with source:
        return reader.schema


# Who looks at files is alone with the pool: what it gives is theirs.
_LOOKING = forked.lock()


@functools.cache
def _own_pool() -> Any:
    """A pool of our own: what others take from Arrow at the same time says nothing about our files.

    It lives as long as the process: memory that is given back to a pool which is gone ends the process.
    """
    import pyarrow as pa

    return pa.proxy_memory_pool(pa.default_memory_pool())


def _mapped_files(paths: tuple[str, ...], schema: Any, pool: Any) -> list[Piece] | None:
    import pyarrow as pa

    pieces: list[Piece] = []
    num_rows = 0
    for path in paths:
        if not is_local(path):
            return None
        try:
            file = MappedFile(path, num_rows)
            source, reader = open_ipc(path, mapped=True, pool=pool)
            if not reader.schema.equals(schema):
                return None
            sizes = BatchSizes(source, None)
            if sizes.dictionaries().is_packed:
                return None
            for number in range(reader.num_record_batches):
                if sizes.of(number).is_packed:
                    return None
                before = pool.bytes_allocated()
                batch = reader.get_batch(number)
                batch.validate()
                if pool.bytes_allocated() > before:  # something had to be inflated
                    return None
                if batch.num_rows:  # an empty one would be a piece more to put together
                    pieces.append(Piece(file, num_rows - file.first_row, batch))
                num_rows += batch.num_rows
            file.end_row = num_rows
        except (FormatError, pa.ArrowException, OSError):
            return None  # the error comes in its place
    return pieces
