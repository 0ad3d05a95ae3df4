"""Arrow tables in memory, or in files that are mapped: rows by number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import State
from ..element import Failed
from ..errors import FormatError, PenstockError
from ..memory.to_arrow import numbers
from ..order import Index
from ..plan.op import Context, Reader, Room
from .arrow_arrays import TableColumns
from .mapped_files import MappedFile

__all__ = ["Piece", "PiecesReader", "RowsInOrder"]


@dataclasses.dataclass(frozen=True)
class Piece:
    """A record batch in memory, or in a file that is mapped."""

    file: MappedFile | None
    first_row: int
    batch: Any

    @property
    def path(self) -> str:
        return "" if self.file is None else self.file.path


class RowsInOrder:
    """Rows of pieces from one to the last before an end."""

    def __init__(self, reader: Reader, context: Context, row: int, end_row: int) -> None:
        self._reader = reader
        self._end_row = end_row
        self._transit = context.transit
        self._row = row

    def read(self, n: int, room: Room) -> Block | None:
        start = self._row
        self._row = min(self._end_row, start + self._transit.fitting(n))
        return self._reader.read(slice(start, self._row)) if start < self._row else None

    def skip(self, n: int) -> int:
        skipped = min(n, self._end_row - self._row)
        self._row += skipped
        return skipped

    def position(self) -> State:
        return self._row

    def close(self) -> None:
        pass


class PiecesReader:
    """Reads rows of record batches by number."""

    def __init__(
        self,
        table: TableColumns,
        pieces: tuple[Piece, ...],
        plain: tuple[list[np.ndarray], ...] | None,
        context: Context,
        count_failed: Callable[[str, int], None] | None,
    ) -> None:
        self._table = table
        self._pieces = pieces
        self._plain = plain
        self._context = context
        self._transit = context.transit
        self._count_failed = count_failed
        self._sound: dict[int, tuple[int, bool]] = {}  # whether a batch is, and when its file had changed last
        sizes = [piece.batch.num_rows for piece in pieces]
        self._starts = np.cumsum([0, *sizes])
        if plain is None:
            held = sum(piece.batch.select(table.names).nbytes for piece in pieces)
            self._transit.expect(2 * held // max(1, sum(sizes)) + 64)

    def read(self, index: Index) -> Block:
        if self._plain is not None:
            return self._read_plain(self._plain, index)
        size = index.stop - index.start if isinstance(index, slice) else index.size
        self._transit.begin(size)
        if isinstance(index, slice):
            blocks = [self._decoded(number, slice(a, b)) for number, a, b in self._parts(index.start, index.stop)]
            block = _joined(blocks)
        else:
            block = self._scattered(index)
        self._transit.add(block.nbytes, block.size)
        return block

    def _parts(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(number of the batch, first row in it, end) of rows that lie side by side."""
        parts = []
        while start < stop:
            number = int(np.searchsorted(self._starts, start, "right")) - 1
            first, end = int(self._starts[number]), int(self._starts[number + 1])
            parts.append((number, start - first, min(stop, end) - first))
            start = min(stop, end)
        return parts

    def _read_plain(self, plain: tuple[list[np.ndarray], ...], index: Index) -> Block:
        structure = self._table.structure
        if isinstance(index, slice):
            parts = self._parts(index.start, index.stop)
            if len(parts) == 1:
                ((number, a, b),) = parts
                views = [arrays[number][a:b] for arrays in plain]
                return Block.of_columns(structure, views, b - a)
            places = [(number, slice(a, b)) for number, a, b in parts]
            size = index.stop - index.start
            targets: list[Any] = []
            at = 0
            for _, a, b in parts:
                targets.append(slice(at, at + b - a))
                at += b - a
        else:
            size = index.size
            pieces = np.searchsorted(self._starts, index, "right") - 1
            present = np.unique(pieces).tolist()
            targets = [np.flatnonzero(pieces == number) for number in present]
            places = [(n, index[t] - int(self._starts[n])) for n, t in zip(present, targets, strict=True)]
        columns: list[np.ndarray] = []
        for arrays in plain:
            out = self._context.arena.empty((size, *arrays[0].shape[1:]), arrays[0].dtype)
            for (number, rows), target in zip(places, targets, strict=True):
                out[target] = arrays[number][rows]
            columns.append(out)
        return Block.of_columns(structure, columns, size)

    def _scattered(self, index: np.ndarray) -> Block:
        pieces = np.searchsorted(self._starts, index, "right") - 1
        rows: list[Any] = [None] * index.size
        for number in np.unique(pieces).tolist():
            places = np.flatnonzero(pieces == number)
            block = self._decoded(number, numbers(index[places] - self._starts[number]))
            for place, row in zip(places.tolist(), block.rows(), strict=True):
                rows[place] = row
        block = Block.of_rows(rows)
        return block if block.has_failures else concat_blocks([block], np.empty) or block

    def _decoded(self, number: int, rows: Any) -> Block:
        """Some rows of a batch: a slice of it, or those at some places."""

        batch = self._pieces[number].batch.select(self._table.names)
        places = None if isinstance(rows, slice) else rows.to_pylist()
        if not self._is_sound(number):
            asked = range(rows.start, rows.stop) if places is None else places
            return _as_rows([self._unsound(number, batch.slice(row, 1), row) for row in asked])
        first = 0 if places is not None else rows.start
        batch = batch.slice(first, rows.stop - first) if places is None else _taken(batch, rows)
        row_of = (lambda row: first + row) if places is None else places.__getitem__
        return self._block(number, batch, row_of, is_taken=places is not None)

    def _block(self, number: int, batch: Any, row_of: Callable[[int], int], is_taken: bool) -> Block:
        decoded = self._table.decode(batch)

        def where(row: int) -> str:
            return self._where(number, row_of(row))

        # What was taken lies in memory that its rows would keep; a slice in that of the table.
        block = decoded.block(0, batch.num_rows, np.empty, where) if is_taken else decoded.views(where)
        for row in block.rows() if block.has_failures else ():
            if type(row) is Failed and isinstance(row.error, PenstockError):
                self._located(row.error)
        return block

    def _is_sound(self, number: int) -> bool:
        """Whether a batch is what it says: in a file it may be anything, and is looked at when it is first read.

        So it is after the file was written to: what lies in it now was never looked at.
        """
        import pyarrow as pa

        piece = self._pieces[number]
        if piece.file is None:
            return True
        known = self._sound.get(number)
        if known is None or known[0] != piece.file.changed_ns:
            changed_ns, is_sound = piece.file.changed_ns, True
            try:
                piece.batch.select(self._table.names).validate(full=True)
            except (pa.ArrowException, OSError):
                is_sound = False
            known = self._sound[number] = changed_ns, is_sound
        return known[1]

    def _unsound(self, number: int, batch: Any, row: int) -> Block:
        """One row of a batch that is damaged somewhere."""
        import pyarrow as pa

        try:
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            if self._count_failed is not None:
                self._count_failed(self._pieces[number].path, 1)
            text = f"{self._where(number, row)}: expected Arrow data, got: {str(error)[:300]}"
            return Block.of_rows([Failed(self._located(FormatError(text)))], has_failures=True)
        return self._block(number, batch, lambda i: row, is_taken=False)

    def _where(self, number: int, row: int) -> str:
        piece = self._pieces[number]
        if piece.path:
            return f"{piece.path}, row {piece.first_row + row:,}"
        return f"row {int(self._starts[number]) + row:,}"

    def _located(self, error: PenstockError) -> PenstockError:
        return self._context.located(error)


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    if any(block.has_failures for block in blocks):
        return _as_rows(blocks)
    return concat_blocks(blocks, np.empty) or _as_rows(blocks)


def _taken(batch: Any, rows: Any) -> Any:
    """Copies of some rows, which are dropped when elements were made of them.

    In malloc's memory: Arrow's own allocator would keep many times what it was asked for.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.take(batch, rows, memory_pool=pa.system_memory_pool())


def _as_rows(blocks: list[Block]) -> Block:
    return Block.of_rows([row for block in blocks for row in block.rows()])
