"""Where the records of TFRecord files begin: 8 bytes a record, found by going from length to length.

An index is made when a run first needs one, and kept by the dataset for its later runs, and beside the file for later
programs if that was asked for; each run holds it on its own ledger. Before it is used again, size and time of each file
are compared with those it was made of: a file that has changed is gone through anew. Data are not read where records
are long, and their checksums are compared only when they are read.
"""

from __future__ import annotations

import array
import dataclasses

import numpy as np

from .._native import scan_records
from ..errors import FormatError
from ..plan.op import Context, Progress
from .paths import RandomFile, is_local, open_random, stamp_of
from .record_errors import FRAME_BYTES, Stop, damaged, truncated
from .saved_index import read_index, save_index

__all__ = ["FileIndex", "RecordIndex"]

_WINDOW_BYTES = 256 << 10
# To ask for something far away takes as long as to read this much.
_REMOTE_WINDOW_BYTES = 1 << 20
_SMALLEST_WINDOW = 4096
_INT64 = np.dtype(np.int64)
# What an `array` that grows has in reserve.
_GROWTH = 9 / 8


@dataclasses.dataclass(frozen=True)
class FileIndex:
    """The records of one file: record r is `starts[r]` to `starts[r + 1]`, frame included.

    Where the file cannot be read to its end, `flaw` says why: it is the last element, in the place where it was met.
    """

    path: str
    stamp: tuple[int, int]
    starts: np.ndarray
    flaw: tuple[type[FormatError], str] | None

    @property
    def num_records(self) -> int:
        return len(self.starts) - 1

    @property
    def num_elements(self) -> int:
        return self.num_records + (self.flaw is not None)

    def error(self) -> FormatError:
        """The flaw as an error, a new one each time: errors are marked where they pass."""
        assert self.flaw is not None
        kind, text = self.flaw
        return kind(text)


class RecordIndex:
    """The index of some files, shared by all runs of a dataset."""

    def __init__(self, paths: tuple[str, ...], is_saved: bool = False) -> None:
        self.__setstate__((paths, is_saved))

    @property
    def num_elements(self) -> int | None:
        """How many elements there are, as far as is known without looking at the files; None before a first run."""
        files = dict(self._files)
        if not all(path in files for path in self._paths):
            return None
        return sum(files[path].num_elements for path in self._paths)

    @property
    def nbytes(self) -> int:
        return sum(file.starts.nbytes for file in list(self._files.values()))

    def files(self, context: Context) -> list[FileIndex]:
        """The files as they are now; those that are new, or have changed, are gone through.

        Under no lock, and nobody waits for another: who goes through a file may wait for memory, which may be in the
        hands of one who also needs the index. Two that begin at the same time both go through what neither knows yet.
        """
        stale = [path for path in self._paths if self._known(path) is None]
        if not stale:
            return [self._files[path] for path in self._paths]
        progress = context.progress("looking for records", sum(max(0, stamp_of(path)[0]) for path in stale))
        lease = context.share.acquire(0)  # of what was found before; the reader takes all of it
        files: dict[str, FileIndex] = {}
        try:
            for path in self._paths:
                if path not in files:
                    lease.settle(sum(file.starts.nbytes for file in files.values()))
                    files[path] = self._known(path) or self._kept(self._found(path, context, progress))
        finally:
            lease.release()
            progress.close()
        return [files[path] for path in self._paths]

    def _known(self, path: str) -> FileIndex | None:
        """What was found in a file, if it is still as it was then."""
        file = self._files.get(path)
        return file if file is not None and file.stamp == stamp_of(path) else None

    def _kept(self, file: FileIndex) -> FileIndex:
        """Keeps what was found in a file, or gives what somebody else found in it meanwhile: one is enough."""
        other = self._files.get(file.path)
        if other is not None and other.stamp == file.stamp:
            return other
        self._files[file.path] = file
        return file

    def _found(self, path: str, context: Context, progress: Progress) -> FileIndex:
        """What is saved beside a file, or a look at all of it tells."""
        stamp = stamp_of(path)
        if not self._is_saved or stamp[1] <= 0:  # without a time nobody could tell that the file has changed
            return _indexed(path, context, progress)
        lease = context.share.acquire(0)
        try:
            starts = read_index(path, stamp, lease)
        finally:
            lease.release()
        if starts is not None:
            progress.advance(stamp[0])
            return FileIndex(path, stamp, starts, None)
        file = _indexed(path, context, progress)
        if file.flaw is None:  # what is damaged is looked at again, lest it be repaired
            save_index(path, file.stamp, file.starts)
        return file

    def __getstate__(self) -> tuple[tuple[str, ...], bool]:
        return self._paths, self._is_saved

    def __setstate__(self, state: tuple[tuple[str, ...], bool]) -> None:
        self._paths, self._is_saved = state
        self._files: dict[str, FileIndex] = {}  # another process looks for itself


def _indexed(path: str, context: Context, progress: Progress) -> FileIndex:
    stamp = stamp_of(path)
    walk = _Walk(path, context, progress)
    try:
        file = open_random(path)
        try:
            walk.through(file)
        finally:
            file.close()
        flaw = None
    except FormatError as error:
        flaw = type(error), str(error)
    finally:
        walk.close()
    return FileIndex(path, stamp, np.frombuffer(walk.starts, _INT64), flaw)


class _Walk:
    """Goes through a file from record to record."""

    def __init__(self, path: str, context: Context, progress: Progress) -> None:
        self._path = path
        self._context = context
        self._progress = progress
        self._lease = context.share.acquire(0)
        self._window = bytearray()
        self._most = _WINDOW_BYTES if is_local(path) else _REMOTE_WINDOW_BYTES
        # Of longer records a window holds little more than the length of the next one.
        self._long_bytes = _SMALLEST_WINDOW if is_local(path) else _REMOTE_WINDOW_BYTES
        self.starts = array.array("q", [0])

    def through(self, file: RandomFile) -> None:
        """Finds all records.

        Raises:
            FormatError: The file goes on with something else; `starts` has what came before.
        """
        at, size = 0, self._least()
        offsets, lengths = np.empty(size // FRAME_BYTES, _INT64), np.empty(size // FRAME_BYTES, _INT64)
        while at < file.size:
            window = self._read(file, at, size)
            found, used, why, expected, got = scan_records(window, 0, True, False, offsets, lengths)
            if found:
                ends = offsets[:found] + lengths[:found] + (at + 4)
                self.starts.frombytes(ends.tobytes())
            before, at = at, at + used
            if why in (Stop.BAD_LENGTH, Stop.BAD_DATA):
                raise damaged(self._path, len(self.starts) - 1, at, why, expected, got)
            if why == Stop.DATA_INCOMPLETE:
                if at + FRAME_BYTES + expected > file.size:
                    raise truncated(self._path, len(self.starts) - 1, at, expected, file.size - at)
                at += FRAME_BYTES + expected  # its length is all that is needed of it
                self.starts.append(at)
                found += 1
            elif why == Stop.HEADER_INCOMPLETE and at + len(window) - used >= file.size:
                raise truncated(self._path, len(self.starts) - 1, at, None, file.size - at)
            self._progress.advance(at - before)
            self._charge(size)
            better = self._better_size((at - before) // max(1, found))
            if better != size:
                size = better
                offsets, lengths = np.empty(size // FRAME_BYTES, _INT64), np.empty(size // FRAME_BYTES, _INT64)

    def _read(self, file: RandomFile, at: int, size: int) -> memoryview:
        if len(self._window) != size:
            self._charge(size)
            self._window = bytearray(size)
        with memoryview(self._window) as view:
            count = file.read_into(at, view)
        if not count:
            raise truncated(self._path, len(self.starts) - 1, at, None, 0)
        return memoryview(self._window)[:count]

    def _charge(self, window_bytes: int) -> None:
        """What is known of the file so far, the window, and what was found in it."""
        self._lease.settle(int(8 * len(self.starts) * _GROWTH) + 3 * window_bytes)

    def _least(self) -> int:
        return _SMALLEST_WINDOW if self._context.share.frugal else self._better_size(0)

    def _better_size(self, record_bytes: int) -> int:
        share = self._context.share
        if record_bytes > self._long_bytes or share.frugal or share.spare_bytes < 4 * self._most:
            return _SMALLEST_WINDOW
        return self._most

    def close(self) -> None:
        self._window = bytearray()
        self._lease.release()
