"""Arrow IPC files as a stream of record batches, which are inflated or fetched as they are read."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import State, expect_list
from ..element import Failed
from ..errors import FormatError
from ..plan.op import Context, Room
from .arrow_arrays import Decoded, TableColumns
from .arrow_schema import check_schema
from .paths import local_path, open_arrow, readable

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
    """The rows of one file whose record batches are inflated as they are read."""

    def __init__(self, path: str, table: TableColumns, context: Context, position: State) -> None:
        self._path = path
        self._table = table
        self._context = context
        self._number, self._row = _pair(position)
        self._lease = context.share.acquire(0)
        self._decoded: Decoded | None = None
        self._largest = 0
        self._source, self._reader = open_ipc(path)
        for name, kind in table.types.items():
            got = self._reader.schema.field(name).type if name in self._reader.schema.names else "none"
            if got != kind:
                self.close()
                raise FormatError(f"{path}: expected column {name} of type {kind}, as in the first file, got {got}")

    def read(self, n: int, room: Room) -> Block | None:
        import pyarrow as pa

        while self._decoded is None:
            if self._number >= self._reader.num_record_batches:
                return None
            try:
                self._lease.settle(self._largest)
                batch = self._reader.get_batch(self._number).select(self._table.names)
                batch.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                where = f"{self._path}, record batch {self._number}"
                self._next()
                failed = Failed(FormatError(f"{where}: expected Arrow data, got: {str(error)[:300]}"))
                return Block.of_rows([failed], has_failures=True)
            decoded = self._table.decode(batch)
            nbytes = 2 * batch.nbytes + 64 * batch.num_rows
            self._lease.settle(nbytes, single=True)
            self._largest = max(self._largest, nbytes)
            if self._row < decoded.num_rows:
                self._decoded = decoded
            else:
                self._next()
        start = self._row
        stop = min(start + n, self._decoded.num_rows)
        while True:
            block = self._decoded.block(start, stop, np.empty, self._where)
            most = self._context.transit.room_bytes
            if stop - start == 1 or block.nbytes <= most:
                break
            stop = start + (stop - start) // 2
        room.add(block.nbytes, block.size)
        self._row = stop
        if stop == self._decoded.num_rows:
            self._next()
        return block

    def _where(self, row: int) -> str:
        return f"{self._path}, record batch {self._number}, row {row:,}"

    def _next(self) -> None:
        self._decoded = None
        self._number += 1
        self._row = 0
        self._lease.release()

    def skip(self, n: int) -> int:
        if self._decoded is None:  # how many rows a batch has shows when it is read
            return 0 if (block := self.read(1, _NoRoom())) is None else block.size
        skipped = min(n, self._decoded.num_rows - self._row)
        self._row += skipped
        if self._row == self._decoded.num_rows:
            self._next()
        return skipped

    def position(self) -> State:
        return [self._number, self._row]

    def close(self) -> None:
        self._decoded = None
        self._lease.release()
        self._reader = None
        self._source.close()


def _pair(position: State) -> tuple[int, int]:
    """The numbers of a batch and of a row in it."""
    number, row = expect_list([0, 0] if position is None else position, 2)
    return int(number), int(row)


class _NoRoom:
    is_of_part = False

    def add(self, nbytes: int, count: int = 1) -> bool:
        return False
