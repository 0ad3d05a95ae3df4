"""Arrow IPC files as a stream of record batches, which are inflated or fetched as they are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import State, expect_list
from ..element import Failed
from ..errors import FormatError
from ..plan.op import Context, Room
from .arrow_arrays import TableColumns
from .arrow_dictionaries import dictionary_bytes, has_dictionary, looked_up_bytes
from .arrow_schema import check_schema
from .arrow_sizes import BatchSize, BatchSizes, buffers_of, bytes_made_of, few_rows, stored_sizes
from .made_rows import MOST_ROWS, MadeRows
from .paths import is_local, local_path, open_arrow, readable

__all__ = ["StreamedBatches", "open_ipc"]


def open_ipc(path: str, mapped: bool = False, pool: Any = None) -> tuple[Any, Any]:
    """An IPC file, and its reader, which takes memory from `pool`; from Arrow's own if there is none."""
    import pyarrow as pa

    with readable(path):
        if mapped and not os.path.getsize(local_path(path)):
            raise FormatError(f"{path}: expected an Arrow IPC file, got an empty one")
        source = pa.memory_map(local_path(path)) if mapped else open_arrow(path)
    try:
        reader = pa.ipc.open_file(source, memory_pool=pool)
        check_schema(reader.schema, path)
        return source, reader
    except FormatError:
        source.close()
        raise
    except (pa.ArrowException, OSError) as error:
        size = source.size()
        source.close()
        raise FormatError(
            f"{path}: expected an Arrow IPC file, got {size:,} bytes of something else: {error}"
        ) from None


class StreamedBatches:
    """The rows of one file whose record batches are unpacked as they are read, some rows of one at a time."""

    def __init__(self, path: str, table: TableColumns, context: Context, position: State) -> None:
        self._path = path
        self._table = table
        self._context = context
        self._number, self._row = _pair(position)
        share = context.share
        # Kept from batch to batch: what would be free between two of them would be used for more rows on their way.
        self._lease = share.acquire(0)
        self._made = MadeRows(table, share)
        self._dictionaries = share.acquire(0)  # the reader holds them as long as it is open
        self._looks_up = any(map(has_dictionary, table.types.values()))
        self._knows_dictionaries = False
        self._luxury: Any = None
        self._unsound: Any = None  # a batch with damage in some of its rows
        self._start = 0  # of the rows that are being made, in their batch
        self._source, reader = open_ipc(path)
        for name, kind in table.types.items():
            got = reader.schema.field(name).type if name in reader.schema.names else "none"
            if got != kind:
                self.close()
                raise FormatError(f"{path}: expected column {name} of type {kind}, as in the first file, got {got}")
        self._reader = _only(table.names, reader.schema, self._source, is_local(path))
        self._num_batches = self._reader.num_record_batches
        # Of a file that is far away each look would be a request: its footer must do, which says it of all columns.
        self._sizes = BatchSizes(self._source, buffers_of(reader.schema, table.names)) if is_local(path) else None
        takes_all = len(table.names) == len(reader.schema.names)
        self._stored = _stored(self._source) if self._sizes is None and takes_all else []

    def read(self, n: int, room: Room) -> Block | None:
        while not self._made.num_left:
            if self._unsound is not None:
                failed = self._reach_sound(n)
                if failed is not None:
                    self._pass(1)
                    return Block.of_rows([Failed(failed)], has_failures=True)
                continue
            if self._number >= self._num_batches:
                return None
            failed = self._load()
            if failed is not None:
                self._next()
                return Block.of_rows([Failed(failed)], has_failures=True)
            if self._unsound is None and not self._made.num_left:
                self._next()
        block = self._made.block(n, self._context.transit, self._where)
        room.add(block.nbytes, block.size)
        self._pass(block.size)
        return block

    def _where(self, row: int) -> str:
        return f"{self._path}, record batch {self._number}, row {self._start + self._made.first + row:,}"

    def _load(self) -> FormatError | None:
        """Reads the next batch, for which there is room before it is read; what is wrong with it instead."""
        import pyarrow as pa

        try:
            size = None if self._sizes is None else self._sizes.of(self._number)
            if size is not None:
                self._reserve(size)
                self._reserve_dictionaries()
            elif self._number < len(self._stored):
                # No more than the file has, whatever its footer says.
                stored = min(self._stored[self._number], self._source.size())
                self._lease.settle(max(self._lease.nbytes, stored))
            batch = self._reader.get_batch(self._number).select(self._table.names)
            batch.validate()
        except (FormatError, pa.ArrowException, OSError) as error:
            where = f"{self._path}, record batch {self._number}"
            return FormatError(f"{where}: expected Arrow data, got: {str(error)[:300]}")
        try:
            batch.validate(full=True)
        except (pa.ArrowException, OSError):
            return self._begin_unsound(batch)
        self._keep_dictionaries(batch)
        nbytes = self._bytes_of(batch)
        if size is None:
            size = BatchSize(batch.num_rows, nbytes, nbytes, is_packed=False)
            self._reserve(size)
        self._start = 0
        self._begin(batch, self._row, size.row_bytes(self._table), nbytes)
        return None

    def _begin_unsound(self, batch: Any) -> FormatError | None:
        """Keeps a batch of which some rows can be read; what is wrong with it where none can be looked at alone."""
        if self._looks_up:  # what a dictionary has cannot be told from what a row has
            return self._damage(batch, f"record batch {self._number}")
        nbytes = batch.get_total_buffer_size()
        if self._sizes is None:
            self._reserve(BatchSize(batch.num_rows, nbytes, nbytes, is_packed=False))
        if self._row < batch.num_rows:
            self._unsound = batch
        return None

    def _damage(self, rows: Any, where: str) -> FormatError | None:
        """What is wrong with some rows."""
        import pyarrow as pa

        try:
            rows.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            return FormatError(f"{self._path}, {where}: expected Arrow data, got: {str(error)[:300]}")
        return None

    def _reach_sound(self, n: int) -> FormatError | None:
        """Goes on with the next rows of a damaged batch that are sound, n at most; what is wrong if the next is not."""
        batch, stop = self._unsound, self._row
        while stop < min(batch.num_rows, self._row + min(n, MOST_ROWS)):
            damage = self._damage(batch.slice(stop, 1), f"record batch {self._number}, row {stop:,}")
            if damage is not None:
                if stop == self._row:
                    return damage
                break
            stop += 1
        rows = batch.slice(self._row, stop - self._row)
        self._start, nbytes = self._row, self._bytes_of(rows)
        self._begin(rows, 0, -(-nbytes // rows.num_rows), nbytes)
        return None

    def _reserve(self, size: BatchSize) -> None:
        self._lease.settle(max(self._lease.nbytes, size.least_bytes(self._table)))

    def _reserve_dictionaries(self) -> None:
        """Makes room for all dictionaries of the file, which are unpacked with the first batch that is read."""
        if self._sizes is not None and not self._knows_dictionaries:
            self._dictionaries.settle(self._sizes.dictionaries().reading_bytes)

    def _keep_dictionaries(self, batch: Any) -> None:
        if not self._knows_dictionaries:
            held = dictionary_bytes(batch) if self._sizes is None else self._sizes.dictionaries().held_bytes
            self._dictionaries.settle(held)
            self._knows_dictionaries = True

    def _bytes_of(self, rows: Any) -> int:
        nbytes: int = looked_up_bytes(rows) if self._looks_up else rows.nbytes
        return nbytes

    def _begin(self, batch: Any, row: int, row_bytes: int, nbytes: int) -> None:
        """Finds how many rows to make at a time; room for a few is there, and for more there may be.

        Args:
            batch: The rows.
            row: The first that is wanted.
            row_bytes: What was reserved for each of the few.
            nbytes: What all rows take, with what dictionaries have for them.
        """
        share, num_rows = self._context.share, batch.num_rows
        at_once = few_rows(row_bytes) if row_bytes else num_rows
        reserved = at_once * row_bytes
        each = -(-bytes_made_of(self._table, batch, nbytes) // max(1, num_rows))
        wanted = 0 if share.frugal or not each else min(MOST_ROWS, num_rows, share.spare_bytes // each)
        if wanted > at_once:
            self._luxury = share.try_acquire(max(0, wanted * each - reserved), ahead=True)
        if self._luxury is not None:
            at_once, reserved = wanted, max(wanted * each, reserved)
        self._made.begin(batch, row, reserved, at_once, self._bytes_of)

    def _pass(self, n: int) -> None:
        """Counts some rows as given."""
        self._row += n
        if self._unsound is None:
            if not self._made.take(n):
                self._next()
            return
        if self._made.num_left and not self._made.take(n):
            self._leave()
        if self._row >= self._unsound.num_rows:
            self._next()

    def _next(self) -> None:
        self._leave()
        self._unsound = None
        self._number += 1
        self._row = 0

    def _leave(self) -> None:
        self._made.leave()
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None

    def skip(self, n: int) -> int:
        if not self._made.num_left:  # how many rows a batch has shows when it is read
            return 0 if (block := self.read(1, _NoRoom())) is None else block.size
        skipped = min(n, self._made.num_left)
        self._pass(skipped)
        return skipped

    def position(self) -> State:
        return [self._number, self._row]

    def close(self) -> None:
        self._leave()
        self._unsound = None
        self._lease.release()
        self._reader = None
        self._dictionaries.release()
        self._source.close()


def _only(names: Sequence[str], schema: Any, source: Any, looks_cost_little: bool) -> Any:
    """A reader of some columns; in one thread, since each would have a codec at work."""
    import pyarrow as pa

    fields: list[int] | None = [i for i, name in enumerate(schema.names) if name in names]
    if not looks_cost_little and len(fields or ()) == len(schema.names):
        fields = None  # then a record batch is one request, else its head is one, and each compressed column
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields))


def _stored(source: Any) -> list[int]:
    """What record batches take in a remote file, as far as it says."""
    try:
        return stored_sizes(source)
    except FormatError:  # pyarrow reads it differently, and will say what is wrong
        return []


def _pair(position: State) -> tuple[int, int]:
    """The numbers of a batch and of a row in it."""
    number, row = expect_list([0, 0] if position is None else position, 2)
    return int(number), int(row)


class _NoRoom:
    is_of_part = takes_all = False

    def add(self, nbytes: int, count: int = 1) -> bool:
        return False
