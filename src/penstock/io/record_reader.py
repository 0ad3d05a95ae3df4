"""Records of TFRecord files by number: those that are asked for, and those that will be next, in one go.

Who reads in an order knows the numbers that come next. So a *group* of records is read at a time, as many as there is
memory for, into one slot of the arena: neighbours in a file in one read, and from there each to its place, so that
records lie in memory in the order in which they are wanted. Blocks of records refer to that slot.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .._native import check_records
from ..block import Block
from ..element import Failed
from ..errors import FormatError, OverBudget
from ..leaf import leaf_bytes
from ..memory.ledger import Share
from ..order import Index
from ..plan.op import Context
from .record_errors import FRAME_BYTES, HEADER_BYTES, Stop, damaged
from .record_index import FileIndex, RecordIndex
from .record_pieces import OpenFile, open_file
from .record_starts import LEAST_BYTES, SCRATCH_BYTES

__all__ = ["RecordReader"]

_BYTES = np.dtype(np.uint8)
_SMALLEST_GROUP = 4096
_GROUP_BYTES = 4 << 20
# Numbers to look at beyond those that are asked for.
_MOST_AHEAD = 8192
# The part of a slot that is room to read neighbours at once.
_PART_FOR_READING = 16
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


class _Origins:
    """Names records by number: what blocks keep of their reader."""

    def __init__(self, files: list[FileIndex], starts: np.ndarray) -> None:
        self._files = files
        self._starts = starts

    def of(self, numbers: Index) -> Callable[[int], tuple[str, int]]:
        """Names the records at the places of an order; a slice is the order of the files."""
        return self._named if isinstance(numbers, slice) else lambda place: self._named(int(numbers[place]))

    def _named(self, number: int) -> tuple[str, int]:
        file = int(np.searchsorted(self._starts, number, "right")) - 1
        return self._files[file].path, number - int(self._starts[file])


class RecordReader:
    """Reads records by number, from the index of their files. Holds on the stage's account what of it is in memory."""

    def __init__(self, index: RecordIndex, context: Context) -> None:
        self._open: dict[int, OpenFile] = {}  # by the number of the file
        self._files, self._index_room = index.files(context)
        self._starts = np.cumsum([0, *[file.num_elements for file in self._files]])
        self._origins = _Origins(self._files, self._starts)
        self._context = context
        self._transit = context.transit
        self._group: _Group | None = None
        self._group_bytes = 0  # chosen when the first is read
        self._most_ahead = 64  # more as soon as it is known how long records are
        self._lease = context.share.acquire(0)
        self._scratch = np.empty(0, _BYTES)
        if any(not file.starts.held_bytes for file in self._files):
            self._make_scratch(context.share)

    def _make_scratch(self, share: Share) -> None:
        """What an index on disk is read through."""
        size = SCRATCH_BYTES if share.spare_bytes >= SCRATCH_BYTES else LEAST_BYTES
        try:
            self._lease.settle(size)
        except BaseException:
            self._index_room.release()
            raise
        self._scratch = np.empty(size, _BYTES)

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
        block = Block.of_records(group.buffer, offsets, lengths)
        block.origins = self._origins.of(numbers), start
        return block

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
        block = Block.of_rows(rows)
        block.origins = self._origins.of(group.numbers), group.first + first
        return block

    # --- a group ---

    def _read_group(self, numbers: Index, start: int, size: int, most: int) -> _Group:
        room = self._room()
        count = size if room == _SMALLEST_GROUP else min(most - start, max(size, self._most_ahead))
        plan = self._plan(numbers, start, count)
        fitting = max(1, plan.fitting(room - room // _PART_FOR_READING))
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
        for number, parts in plan.parts.items():
            self._fill(group, number, parts, plan.total_bytes)
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
        return _Plan(self._files, self._starts, wanted, self._scratch)

    def _fill(self, group: _Group, number: int, parts: _Parts, used_bytes: int) -> None:
        """Reads the records of one file to their places."""
        path = self._files[number].path
        missing: list[int] | range
        try:
            file = self._opened(number)
            missing, stop = file.read(parts.begins, parts.ends, parts.targets, group.buffer, used_bytes)
        except FormatError as error:
            missing, failure = range(len(parts.places)), error
        else:
            if not missing:
                return
            if stop < 0:
                failure = FormatError(f"{path}: cannot be read: {os.strerror(-stop)}")
            else:
                failure = FormatError(f"{path}: has become shorter since its records were looked up: {stop:,} bytes")
        for i in missing:
            group.failed[int(parts.places[i])] = path, failure

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
            offset = int(self._files[number].starts.spans(np.array([record]), self._scratch)[0][0])
            if why == Stop.DATA_INCOMPLETE or why == Stop.HEADER_INCOMPLETE:
                error = FormatError(
                    f"{path}: has changed since its records were looked up: record {record:,} at byte {offset:,} had "
                    f"{expected:,} bytes and has {got:,}"
                )
            else:
                error = damaged(path, record, offset, why, expected, got)
            group.failed[place] = path, error
            good = good[at + 1 :]

    def _opened(self, number: int) -> OpenFile:
        file = self._open.pop(number, None)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            file = open_file(self._files[number].path)
        self._open[number] = file  # the last is the latest
        return file

    def close(self) -> None:
        """Closes the files and gives the index back to the ledger; a second call does nothing."""
        self._group = None
        while self._open:
            self._open.popitem()[1].close()
        self._lease.release()
        self._index_room.release()

    def __del__(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


def _again(error: FormatError) -> FormatError:
    """A copy: an error is marked where it passes, and what is read again fails again."""
    return type(error)(*error.args)


@dataclasses.dataclass
class _Parts:
    """What to read of one file."""

    begins: np.ndarray
    ends: np.ndarray
    targets: np.ndarray  # where in the buffer each goes
    places: np.ndarray  # the records, by their place in the group


class _Plan:
    """Where in files and buffer some records are."""

    def __init__(self, files: list[FileIndex], starts: np.ndarray, wanted: np.ndarray, scratch: np.ndarray) -> None:
        self._scratch = scratch
        self.parts: dict[int, _Parts] = {}
        self.flawed: list[int] = []
        if len(files) == 1:
            self.file_of = np.zeros(len(wanted), np.int64)
            self.records = wanted
        else:
            self.file_of = np.searchsorted(starts, wanted, "right") - 1
            self.records = wanted - starts[self.file_of]
        self._framed = np.zeros(len(wanted), np.int64)
        for number in [0] if len(files) == 1 else np.unique(self.file_of).tolist():
            self._add(number, files[number], None if len(files) == 1 else np.flatnonzero(self.file_of == number))
        self._ends = np.cumsum(self._framed)
        targets = self._ends - self._framed
        for parts in self.parts.values():
            parts.targets = targets[parts.places]
        self.offsets = targets + HEADER_BYTES
        self.lengths = self._framed - FRAME_BYTES
        self.total_bytes = int(self._ends[-1])

    def _add(self, number: int, file: FileIndex, places: np.ndarray | None) -> None:
        """The records of one file; None for places where it has all of them."""
        if places is None:
            places = np.arange(len(self.records))
        records = self.records[places]
        if file.flaw is not None:
            self.flawed += places[records >= file.num_records].tolist()
            places = places[records < file.num_records]
            records = self.records[places]
            if not places.size:
                return
        begins, ends = file.starts.spans(records, self._scratch)
        self._framed[places] = ends - begins
        self.parts[number] = _Parts(begins, ends, places, places)

    def fitting(self, room: int) -> int:
        """How many of the records, from the first, go into so many bytes."""
        return int(np.searchsorted(self._ends, room, "right"))
