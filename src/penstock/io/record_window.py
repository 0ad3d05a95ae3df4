"""The records of one TFRecord file, read from a place on: a window of the file in memory, and what was found in it.

A window is a slot of the arena. Blocks of records refer to it, so a new one is taken for each part of the file, and the
old one comes back when nobody looks at its records any more. What a file says of its own lengths never decides how much
memory is taken: a window grows only when it is full of bytes that came.
"""

from __future__ import annotations

import os
import stat

import numpy as np

from .._native import scan_records
from ..block import Block
from ..cursor import State, expect_list
from ..element import Failed
from ..errors import FormatError, OverBudget
from ..frames import forget_frames
from ..leaf import leaf_bytes
from ..memory.ledger import Share
from ..plan.op import Context, Room
from .file_window import DEFAULT_BYTES, SMALLEST_BYTES, closed_on_error
from .inflate import Stream
from .paths import is_local, local_path, open_stream, readable
from .record_errors import FRAME_BYTES, Stop, damaged, truncated

__all__ = ["StreamedRecords", "Windows"]

_BYTES = np.dtype(np.uint8)
_INT64 = np.dtype(np.int64)
# A window is made larger for who asks for many records at a time, up to here.
_LARGEST_BYTES = 2 << 20
# Of shorter records a window is gone through in several steps.
_EXPECTED_BYTES = 64
_MOST_FOUND = 8192


class Windows:
    """How large the windows of a stage are: of one size as long as it will do, so that they share slots."""

    def __init__(self) -> None:
        self._bytes = 0

    def size(self, likes: int, share: Share) -> int:
        """A size for who would like to have so much."""
        size = _power_of_two(likes)
        if size > self._bytes:
            while size > SMALLEST_BYTES and (share.frugal or share.spare_bytes < 4 * size):
                size //= 4
            self._bytes = max(self._bytes, size, SMALLEST_BYTES)
        return self._bytes

    def shrink(self) -> None:
        """There is no more room for as much: from here on little."""
        self._bytes = SMALLEST_BYTES


def _power_of_two(nbytes: int) -> int:
    return 1 << max(SMALLEST_BYTES - 1, nbytes - 1).bit_length()


class StreamedRecords:
    """The records of a file from a position on; what `FilesCursor` opens.

    Args:
        path: The file.
        context: The stage's.
        compression: "GZIP", "ZLIB" or None.
        wanted_bytes: The size of the window where the budget has room for it.
        position: Where to begin: [offset, after decompression; number of the record there]. None: the first.
        windows: What files that are read one after the other have in common.
    """

    def __init__(
        self,
        path: str,
        context: Context,
        compression: str | None,
        wanted_bytes: int | None,
        position: State,
        windows: Windows | None = None,
    ) -> None:
        offset, number = (0, 0) if position is None else expect_list(position, 2)
        self._number: int = number
        self._path = path
        self._name = lambda number: (path, number)  # what blocks keep, which must not keep the window
        self._context = context
        self._windows = Windows() if windows is None else windows
        #: The size of the file, where that says how far it goes.
        self._size: int | None = None
        if compression is None and is_local(path):
            with readable(path):
                found = os.stat(local_path(path))
                self._size = found.st_size if stat.S_ISREG(found.st_mode) else None
        self._stream: Stream = open_stream(path, compression, 0 if compression else offset)
        self._wanted = max(SMALLEST_BYTES, wanted_bytes or self._stream.likes_bytes or DEFAULT_BYTES)
        with closed_on_error(self._stream):
            self._lease = context.share.acquire(self._stream.held_bytes)
        self._data: np.ndarray = np.empty(0, _BYTES)
        self._start = self._stop = 0  # what is there and not taken yet
        self._offset = 0 if compression else offset  # of `_data[_start]` in the file
        self._ended = False
        self._broken: FormatError | None = None  # why it ended, if not at the end of the file
        self._each = 0.0  # bytes of a record, as seen
        self._forget_found()
        if compression and offset:
            with closed_on_error(self):
                self._pass_over(offset)

    def _forget_found(self) -> None:
        self._offsets = self._lengths = np.empty(0, _INT64)
        self._taken = self._num_found = 0
        self._why = Stop.END  # nothing more was found behind those, why
        self._expected = self._got = 0

    # --- what FilesCursor asks ---

    def read(self, n: int, room: Room) -> Block | None:
        while not self._reach(n):
            if self._why == Stop.BAD_DATA:
                return self._bad_one(room)
            if not self._goes_on():
                return None
        first, last = self._taken, min(self._num_found, self._taken + n)
        each = leaf_bytes(b"")
        nbytes = int(self._lengths[first:last].sum()) + (last - first) * each
        room.add(nbytes, last - first)  # as if they were cut out, which their consumer may do
        block = Block.of_records(self._data, self._offsets[first:last], self._lengths[first:last])
        block.origins = self._name, self._number
        self._take(last)
        return block

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n:
            if not self._reach(1):
                if self._why == Stop.BAD_DATA:
                    self._pass_bad_one()
                    skipped += 1
                    continue
                try:
                    if self._why == Stop.DATA_INCOMPLETE and self._jump():
                        skipped += 1
                        continue
                    if not self._goes_on():
                        break
                except FormatError:
                    if not skipped:
                        raise
                    break
                continue
            count = min(n - skipped, self._num_found - self._taken)
            self._take(self._taken + count)
            skipped += count
        return skipped

    def position(self) -> State:
        return [self._offset, self._number]

    def close(self) -> None:
        self._stream.close()
        self._lease.release()
        self._data = np.empty(0, _BYTES)
        self._start = self._stop = 0
        self._ended = True
        self._forget_found()

    # --- finding records ---

    def _reach(self, n: int) -> bool:
        """Finds up to n records; False where the next thing is none."""
        while self._num_found - self._taken < n:
            if self._taken == self._num_found and self._why == Stop.END and self._start < self._stop:
                self._scan()
                continue
            is_short = self._why in (Stop.END, Stop.HEADER_INCOMPLETE, Stop.DATA_INCOMPLETE)
            if self._ended or not is_short or not self._has_room_for_more():
                break
            self._more(n)
            self._scan()
        return self._taken < self._num_found

    def _has_room_for_more(self) -> bool:
        """Whether to read on before what was found is taken."""
        return self._taken == self._num_found or 2 * (self._stop - self._start) <= len(self._data)

    def _scan(self) -> None:
        most = max(64, min(_MOST_FOUND, len(self._data) // _EXPECTED_BYTES))
        make = self._context.arena.empty
        try:
            self._offsets, self._lengths = make((most,), _INT64), make((most,), _INT64)
        except OverBudget:
            self._offsets, self._lengths = np.empty(64, _INT64), np.empty(64, _INT64)
        found = scan_records(self._data[: self._stop], self._start, True, True, self._offsets, self._lengths)
        self._num_found, at, self._why, self._expected, self._got = found
        self._taken = 0
        if self._num_found:
            self._each = (at - self._start) / self._num_found

    def _take(self, last: int) -> None:
        end = int(self._offsets[last - 1] + self._lengths[last - 1]) + 4
        self._number += last - self._taken
        self._taken = last
        self._move_to(end)

    def _move_to(self, place: int) -> None:
        self._offset += place - self._start
        self._start = place

    def _bad_one(self, room: Room) -> Block:
        error = damaged(self._path, self._number, self._offset, self._why, self._expected, self._got)
        self._pass_bad_one()
        room.add(1)
        return Block.of_rows([Failed(error)], None, True)

    def _pass_bad_one(self) -> None:
        """Goes on behind a record whose data is not what it was: its length is."""
        length = int.from_bytes(self._data[self._start : self._start + 8].tobytes(), "little")
        self._move_to(self._start + length + FRAME_BYTES)
        self._number += 1
        self._forget_found()

    def _goes_on(self) -> bool:
        """Reads on to a record that is not whole yet; False at the end of the file.

        Raises:
            FormatError: There is nothing more to be read.
        """
        if self._why == Stop.BAD_LENGTH:
            raise damaged(self._path, self._number, self._offset, self._why, self._expected, self._got)
        left = self._stop - self._start
        ends = self._offset + FRAME_BYTES + self._expected
        if self._why == Stop.DATA_INCOMPLETE and self._size is not None and ends > self._size:
            raise self._truncated(self._size - self._offset)
        if not self._ended:
            self._more(1)
            self._why = Stop.END
            return True
        if self._broken is not None:
            raise self._broken
        if left:
            raise self._truncated(left)
        return False

    def _truncated(self, left: int) -> FormatError:
        length = self._expected if self._why == Stop.DATA_INCOMPLETE else None
        return truncated(self._path, self._number, self._offset, length, left)

    # --- bytes ---

    def _more(self, n: int) -> None:
        """A new window with what is left of the present one, and what follows in the file."""
        left = self._stop - self._start
        size = self._window_bytes(n, left)
        try:
            data = self._context.arena.empty((size,), _BYTES)
        except OverBudget:  # others need what was there for larger ones
            least = self._least_bytes(left)
            if size == least:
                raise
            self._windows.shrink()
            size = least
            data = self._context.arena.empty((size,), _BYTES)
        data[:left] = self._data[self._start : self._stop]
        self._data, self._start, self._stop = data, 0, left
        self._forget_found()
        with data.data as view:
            while self._stop < size:
                try:
                    count = self._stream.readinto(view[self._stop :])
                except FormatError as error:  # in its place: behind the records that came before
                    forget_frames(error)  # the window among them, which may be gone by then
                    self._broken, count = error.with_traceback(None), 0
                if not count:
                    self._ended = True
                    break
                self._stop += count

    def _window_bytes(self, n: int, left: int) -> int:
        """How large the next window is: it must hold what is left, and something more."""
        likes = max(self._wanted, min(int(2 * n * self._each), _LARGEST_BYTES))
        if self._size is not None:
            likes = min(likes, left + self._size - self._offset + 1)
        return max(self._windows.size(likes, self._context.share), self._least_bytes(left))

    def _least_bytes(self, left: int) -> int:
        """What the next window must have to go on: all of a long record, if the file has it; else twice what came."""
        if self._why == Stop.DATA_INCOMPLETE and self._size is not None:
            needed = FRAME_BYTES + self._expected
            if self._offset + needed <= self._size:
                return max(SMALLEST_BYTES, needed)
        return _power_of_two(2 * left)

    def _pass_over(self, nbytes: int) -> None:
        """Inflates what lies before a position."""
        while self._offset < nbytes:
            if self._start == self._stop:
                if self._ended:
                    raise self._broken or truncated(self._path, self._number, self._offset, None, 0)
                self._more(1)
            self._move_to(self._start + min(self._stop - self._start, nbytes - self._offset))

    def _jump(self) -> bool:
        """Passes over a long record without reading it, where the file allows."""
        end = self._offset + FRAME_BYTES + self._expected
        if self._size is None or end > self._size:
            return False
        self._stream.close()
        self._stream = open_stream(self._path, None, end)
        self._offset, self._start, self._stop, self._ended = end, 0, 0, False
        self._number += 1
        self._forget_found()
        return True
