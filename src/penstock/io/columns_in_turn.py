"""Columns that are decoded one after the other, and put together by way of the disk.

To give rows, all columns of a table must be open at a time, each with its pages and its dictionary: 3 MB for a column,
as writers make them, and 60 MB for twenty. One after the other they take as much as the largest of them. What was
decoded of each waits in a file, in pieces of as many rows; a piece of every column makes some rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any

from ..errors import SpillError
from ..memory.sink import Sink, open_new
from ..memory.spill import SpillSpace
from ..plan.op import Context
from .parquet_pool import RecordBatches

__all__ = ["ColumnsInTurn"]


class ColumnsInTurn:
    """Record batches of all columns.

    Args:
        names: The columns.
        read: Decodes one column, as record batches of as many rows as those of every other.
        context: The stage's: where the file is made, and who is told of its bytes.
    """

    def __init__(self, names: Sequence[str], read: Callable[[str], RecordBatches], context: Context) -> None:
        self._names = names
        self._read = read
        self._context = context

    def batches(self) -> Generator[Any, None, None]:
        """Batches with a piece of every column; an error of Arrow's after the last rows of which all could be read.

        Who wants a few rows should not wait for all: the first are made without the file, and decoded once more for it.
        """
        first = [self._first_of(name) for name in self._names]
        if None in first:
            return
        yield _joined(first)
        del first
        pieces = _Pieces(self._context.spill)
        try:
            yield from self._others(pieces)
        finally:
            pieces.remove()

    def _first_of(self, name: str) -> Any:
        batches = self._read(name)
        try:
            return next(batches, None)
        finally:
            batches.close()

    def _others(self, pieces: _Pieces) -> Generator[Any, None, None]:
        import pyarrow as pa

        places: list[array[int]] = []
        error: Exception | None = None
        most: int | None = None
        for name in self._names:
            begins = array("q", [pieces.size])
            batches = self._read(name)
            try:
                for batch in islice(batches, 1, None if most is None else most + 1):
                    begins.append(pieces.append(batch))
            except SpillError:
                raise
            except (pa.ArrowException, OSError) as damage:
                error = damage
            finally:
                batches.close()
            places.append(begins)
            most = len(begins) - 1
            self._context.share.spilled_bytes += pieces.size - begins[0]
        for i in range(most or 0):
            yield _joined([pieces.read(begins[i], begins[i + 1]) for begins in places])
        if error is not None:
            raise error


def _joined(parts: Sequence[Any]) -> Any:
    """Record batches with different columns of the same rows as one."""
    import pyarrow as pa

    arrays = [array for part in parts for array in part.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field for part in parts for field in part.schema]))


class _Pieces:
    """A file of record batches, each a stream of its own: they have different schemas."""

    def __init__(self, space: SpillSpace) -> None:
        self._space = space
        self._path = space.new_path(".columns")
        with space.writing(0):
            self._sink = Sink(open_new(self._path), space)
        self._file: Any = None

    @property
    def size(self) -> int:
        return self._sink.bytes_written

    def append(self, batch: Any) -> int:
        """Writes a batch; returns where it ends."""
        import pyarrow as pa

        with pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), batch.schema) as writer:
            writer.write_batch(batch)
        self._sink.put()
        return self._sink.bytes_written

    def read(self, start: int, stop: int) -> Any:
        """The batch between two places; its arrays are views of what was read."""
        import pyarrow as pa

        try:
            if self._file is None:
                self._sink.close()
                self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115  closed with the pieces
            self._file.seek(start)
            data = self._file.read(stop - start)
            if len(data) < stop - start:
                raise self._space.unreadable(self._path, f"{stop - start - len(data):,} bytes are missing at its end")
            return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
        except SpillError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise self._space.unreadable(self._path, f"it cannot be read at byte {start:,}: {error}") from error

    def remove(self) -> None:
        if self._file is not None:
            self._file.close()
        self._sink.discard(self._path)
