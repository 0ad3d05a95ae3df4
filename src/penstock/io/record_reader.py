"""Records of TFRecord files by number: those that are asked for, and those that will be next, in one go.

Who reads in an order knows the numbers that come next. So a *group* of records is read at a time, as many as there is
memory for: those of each file sorted by place, neighbours together, into one slot of the arena. Blocks of records refer
to that slot.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from .._native import check_records, read_pieces
from ..block import Block
from ..element import Failed, leaf_bytes
from ..errors import FormatError, OverBudget
from ..order import Index
from ..plan.op import Context
from .paths import is_local, local_path, open_random, readable
from .record_errors import FRAME_BYTES, HEADER_BYTES, Stop, damaged
from .record_index import FileIndex, RecordIndex

__all__ = ["RecordReader"]

_BYTES = np.dtype(np.uint8)
_SMALLEST_GROUP = 4096
_GROUP_BYTES = 4 << 20
# Numbers to look at beyond those that are asked for.
_MOST_AHEAD = 8192
# What lies between two records is read with them where that takes no longer than a second read.
_GAP_BYTES = 4096
_REMOTE_GAP_BYTES = 256 << 10
# A file stays open; beyond so many, the one used longest ago is closed.
_MOST_OPEN = 64


@dataclasses.dataclass
class _Group:
    """Records `first` to `last` of the numbers given, as they lie in a buffer."""

    numbers: Index
    first: int
    last: int
    buffer: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray
    #: Those that could not be read, by their place in the group.
    failed: dict[int, tuple[str, FormatError]]


class RecordReader:
    """Reads records by number, from the index of their files. Holds the index on the stage's account."""

    def __init__(self, index: RecordIndex, context: Context) -> None:
        self._open: dict[int, _LocalPieces | _RemotePieces] = {}  # by the number of the file
        self._files = index.files(context)
        self._starts = np.cumsum([0, *[file.num_elements for file in self._files]])
        self._context = context
        self._transit = context.transit
        self._group: _Group | None = None
        self._group_bytes = 0  # chosen when the first is read
        self._most_ahead = 64  # more as soon as it is known how long records are
        self._lease = context.share.acquire(sum(file.starts.nbytes for file in self._files))

    @property
    def num_elements(self) -> int:
        return int(self._starts[-1])

    def read(self, index: Index) -> Block:
        if isinstance(index, slice):
            return self._read(index, index.start, index.stop - index.start, self.num_elements)
        return self.gather(index, 0, index.size)

    def gather(self, index: np.ndarray, start: int, size: int) -> Block:
        """The elements `index[start : start + size]`, or the first of them."""
        return self._read(index, start, size, index.size)

    def _read(self, numbers: Index, start: int, size: int, most: int) -> Block:
        size = max(1, min(size, self._transit.begin(size)))
        group = self._group
        if group is None or not self._has(group, numbers, start, size):
            self._group = group = None  # its slot may be used for the next
            group = self._read_group(numbers, start, size, most)
            if not self._context.share.frugal:
                self._group = group
        first, last = start - group.first, min(start + size, group.last) - group.first
        if group.failed:
            return self._with_failures(group, first, last)
        offsets, lengths = group.offsets[first:last], group.lengths[first:last]
        self._transit.add(int(lengths.sum()) + (last - first) * leaf_bytes(b""), last - first)
        return Block.of_records(group.buffer, offsets, lengths)

    def _has(self, group: _Group, numbers: Index, start: int, size: int) -> bool:
        same = group.numbers is numbers or (isinstance(numbers, slice) and isinstance(group.numbers, slice))
        # A block that lacks a little is better read anew, as a whole.
        return same and group.first <= start and start + size <= group.last

    def _with_failures(self, group: _Group, first: int, last: int) -> Block:
        rows: list[Any] = []
        for i in range(first, last):
            if i in group.failed:
                path, error = group.failed[i]
                self._context.count_failed(path, 1)
                rows.append(Failed(self._context.located(_again(error))))
            else:
                offset, length = int(group.offsets[i]), int(group.lengths[i])
                rows.append(group.buffer[offset : offset + length].tobytes())
                self._transit.add(leaf_bytes(rows[-1]))
        return Block.of_rows(rows)

    # --- a group ---

    def _read_group(self, numbers: Index, start: int, size: int, most: int) -> _Group:
        room = self._room()
        count = size if room == _SMALLEST_GROUP else min(most - start, max(size, self._most_ahead))
        plan = self._plan(numbers, start, count)
        fitting = max(1, plan.fitting(room))
        if fitting < count:
            count = fitting
            plan = self._plan(numbers, start, count)
            self._most_ahead = max(1, count)  # most likely the next ones are as long
        else:
            self._most_ahead = min(2 * self._most_ahead, _MOST_AHEAD)
        while True:
            try:
                buffer = self._context.arena.empty((max(room, plan.total_bytes),), _BYTES)
                break
            except OverBudget:
                if count == 1 and room == _SMALLEST_GROUP:
                    raise
                room = self._group_bytes = _SMALLEST_GROUP
                count = max(1, count // 4)
                plan = self._plan(numbers, start, count)
        group = _Group(numbers, start, start + count, buffer, plan.offsets, plan.lengths, {})
        for number, pieces in plan.pieces.items():
            self._fill(group, number, pieces)
        self._check(group, plan)
        return group

    def _room(self) -> int:
        """Bytes of a group: always the same, so that all groups share slots."""
        share = self._context.share
        if not self._group_bytes:
            self._group_bytes = max(_SMALLEST_GROUP, 0 if share.frugal else min(_GROUP_BYTES, share.spare_bytes // 3))
        return self._group_bytes

    def _plan(self, numbers: Index, start: int, count: int) -> _Plan:
        if isinstance(numbers, slice):
            wanted = np.arange(start, start + count, dtype=np.int64)
        else:
            wanted = numbers[start : start + count]
        return _Plan(self._files, self._starts, wanted)

    def _fill(self, group: _Group, number: int, pieces: _Pieces) -> None:
        """Reads the pieces of one file into their places."""
        path = self._files[number].path
        stop = pieces.at + int(pieces.lengths.sum())
        try:
            done, got = self._opened(number).read(pieces, group.buffer[pieces.at : stop])
        except FormatError as error:
            done, got, failure = 0, 0, error
        else:
            if done == len(pieces.offsets):
                return
            if got < 0:
                failure = FormatError(f"{path}: cannot be read: {os.strerror(-got)}")
            else:
                at = int(pieces.offsets[done]) + got
                failure = FormatError(f"{path}: has become shorter since its records were looked up: {at:,} bytes")
        for i in np.flatnonzero(pieces.piece_of >= done):
            group.failed[int(pieces.places[i])] = path, failure

    def _check(self, group: _Group, plan: _Plan) -> None:
        """Notes the records of a group whose checksums do not fit, and those that are the flaw of their file."""
        for place in plan.flawed:
            file = self._files[int(plan.file_of[place])]
            group.failed[place] = file.path, file.error()
        good = np.arange(len(group.offsets))
        if group.failed:
            good = np.array([i for i in good.tolist() if i not in group.failed], dtype=np.int64)
        while good.size:
            offsets, lengths = group.offsets[good], group.lengths[good]
            at, why, expected, got = check_records(group.buffer, offsets, lengths)
            if why == Stop.END:
                return
            place = int(good[at])
            number = int(plan.file_of[place])
            path, record = self._files[number].path, int(plan.records[place])
            offset = int(self._files[number].starts[record])
            if why == Stop.DATA_INCOMPLETE or why == Stop.HEADER_INCOMPLETE:
                error = FormatError(
                    f"{path}: has changed since its records were looked up: record {record:,} at byte {offset:,} had "
                    f"{expected:,} bytes and has {got:,}"
                )
            else:
                error = damaged(path, record, offset, why, expected, got)
            group.failed[place] = path, error
            good = good[at + 1 :]

    def _opened(self, number: int) -> _LocalPieces | _RemotePieces:
        file = self._open.pop(number, None)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            path = self._files[number].path
            file = _LocalPieces(path) if is_local(path) else _RemotePieces(path)
        self._open[number] = file  # the last is the latest
        return file

    def close(self) -> None:
        """Closes the files and gives the index back to the ledger; a second call does nothing."""
        self._group = None
        while self._open:
            self._open.popitem()[1].close()
        self._lease.release()

    def __del__(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class _LocalPieces:
    """A file of this machine that pieces are read of."""

    def __init__(self, path: str) -> None:
        with readable(path):
            self._descriptor = os.open(local_path(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(self, pieces: _Pieces, buffer: np.ndarray) -> tuple[int, int]:
        """Reads pieces one behind the other: how many are whole, and what the next has, or minus its error."""
        return read_pieces(self._descriptor, pieces.offsets, pieces.lengths, buffer)

    def close(self) -> None:
        os.close(self._descriptor)


class _RemotePieces:
    """Likewise a file elsewhere; errors are raised."""

    def __init__(self, path: str) -> None:
        self._file = open_random(path)

    def read(self, pieces: _Pieces, buffer: np.ndarray) -> tuple[int, int]:
        at = 0
        with buffer.data as view:
            for number, (offset, length) in enumerate(
                zip(pieces.offsets.tolist(), pieces.lengths.tolist(), strict=True)
            ):
                done = 0
                while done < length:
                    count = self._file.read_into(offset + done, view[at + done : at + length])
                    if not count:
                        return number, done
                    done += count
                at += length
        return len(pieces.offsets), 0

    def close(self) -> None:
        self._file.close()


def _again(error: FormatError) -> FormatError:
    """A copy: an error is marked where it passes, and what is read again fails again."""
    return type(error)(*error.args)


@dataclasses.dataclass
class _Pieces:
    """What to read of one file: pieces that hold records."""

    at: int  # where in the buffer they go, one behind the other
    offsets: np.ndarray
    lengths: np.ndarray
    places: np.ndarray  # the records, by their place in the group
    piece_of: np.ndarray  # and the piece that each is in


class _Plan:
    """Where in files and buffer some records are."""

    def __init__(self, files: list[FileIndex], starts: np.ndarray, wanted: np.ndarray) -> None:
        self.pieces: dict[int, _Pieces] = {}
        self.offsets = np.zeros(len(wanted), np.int64)
        self.lengths = np.zeros(len(wanted), np.int64)
        self.flawed: list[int] = []
        self.total_bytes = 0
        if len(files) == 1:
            self.file_of = np.zeros(len(wanted), np.int64)
            self.records = wanted
        else:
            self.file_of = np.searchsorted(starts, wanted, "right") - 1
            self.records = wanted - starts[self.file_of]
        self._framed = np.zeros(len(wanted), np.int64)
        for number in [0] if len(files) == 1 else np.unique(self.file_of).tolist():
            self._add(number, files[number])

    def _add(self, number: int, file: FileIndex) -> None:
        places = np.flatnonzero(self.file_of == number)
        records = self.records[places]
        if file.flaw is not None:
            self.flawed += places[records >= file.num_records].tolist()
            places = places[records < file.num_records]
            records = self.records[places]
            if not places.size:
                return
        begins, ends = file.starts[records], file.starts[records + 1]
        self._framed[places] = ends - begins
        by_place = np.argsort(begins)
        begins, ends, places = begins[by_place], ends[by_place], places[by_place]
        # A piece ends where the gap to the next record is wide; one that comes twice is read once.
        furthest = np.maximum.accumulate(ends)
        is_first = np.ones(len(begins), bool)
        is_first[1:] = begins[1:] > furthest[:-1] + (_GAP_BYTES if is_local(file.path) else _REMOTE_GAP_BYTES)
        firsts = np.flatnonzero(is_first)
        piece_begins = begins[firsts]
        piece_ends = furthest[np.append(firsts[1:], len(begins)) - 1]
        piece_lengths = piece_ends - piece_begins
        piece_of = np.cumsum(is_first) - 1
        buffer_starts = self.total_bytes + np.cumsum(piece_lengths) - piece_lengths
        self.offsets[places] = buffer_starts[piece_of] + (begins - piece_begins[piece_of]) + HEADER_BYTES
        self.lengths[places] = ends - begins - FRAME_BYTES
        self.pieces[number] = _Pieces(self.total_bytes, piece_begins, piece_lengths, places, piece_of)
        self.total_bytes += int(piece_lengths.sum())

    def fitting(self, room: int) -> int:
        """How many of the records, from the first, go into so many bytes, what lies between them included."""
        if self.total_bytes <= room:
            return int(self._framed.size)
        # What lies between records is as much for a part of them as for all, on the average.
        gaps = max(1.0, self.total_bytes / max(1, int(self._framed.sum())))
        return int(np.searchsorted(np.cumsum(self._framed) * gaps, room, "right"))
