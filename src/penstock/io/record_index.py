"""Where the records of TFRecord files begin: 8 bytes a record, found by going from length to length.

An index is made when a run first needs one, and kept by the dataset for its later runs, and beside the file for later
programs if that was asked for; each run holds it on its own ledger, or on disk where it would take more than a small
part of the budget (`record_starts.py`). Before it is used again, size and time of each file
are compared with those it was made of: a file that has changed is gone through anew. Data are not read where records
are long, and their checksums are compared only when they are read.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .._native import scan_records
from ..errors import FormatError
from ..memory.spill import LastingSpill, SpillSpace
from ..plan.op import Context, Progress
from .paths import RandomFile, is_local, open_random, stamp_of
from .record_errors import FRAME_BYTES, Stop, damaged, truncated
from .record_starts import LEAST_BYTES, IndexRoom, Starts, StartsWriter
from .saved_index import read_index, save_index

__all__ = ["FileIndex", "RecordIndex"]

_WINDOW_BYTES = 256 << 10
# To ask for something far away takes as long as to read this much.
_REMOTE_WINDOW_BYTES = 1 << 20
_SMALLEST_WINDOW = 4096
_INT64 = np.dtype(np.int64)
# What an index takes on its way from one place to another: a piece of it, its copy, and what is written next.
_PIECES_BYTES = 3 * LEAST_BYTES


@dataclasses.dataclass(frozen=True)
class FileIndex:
    """The records of one file: record r is from its start to that of the next, frame included.

    Where the file cannot be read to its end, `flaw` says why: it is the last element, in the place where it was met.
    """

    path: str
    stamp: tuple[int, int]
    starts: Starts
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
        """What the index takes, in memory or on disk, as far as it is known."""
        return sum(8 * len(file.starts) for file in list(self._files.values()))

    def files(self, context: Context) -> tuple[list[FileIndex], IndexRoom]:
        """The files as they are now, and the room that their index takes, which the caller releases.

        Those that are new, or have changed, are gone through.

        Under no lock, and nobody waits for another: who goes through a file may wait for memory, which may be in the
        hands of one who also needs the index. Two that begin at the same time both go through what neither knows yet.
        """
        known = {path: self._known(path) for path in self._paths}
        num_bytes = sum(max(0, stamp_of(path)[0]) for path, file in known.items() if file is None)
        progress = context.progress("looking for records", num_bytes) if num_bytes else None
        room = IndexRoom(context.share, lambda: (context.spill, self._counted_in(context)))
        files: dict[str, FileIndex] = {}
        try:
            for path, file in known.items():
                found = _placed(file, context, room) if file else self._found(path, context, room, progress)
                files[path] = self._kept(found)
        except BaseException:
            room.release()
            raise
        finally:
            if progress is not None:
                progress.close()
        if any(8 * len(file.starts) > file.starts.held_bytes for file in files.values()):
            self._counted_in(context)
        return [files[path] for path in self._paths], room

    def _counted_in(self, context: Context) -> SpillSpace:
        """Where files are counted that outlive a run: on the limits of all runs that are open."""
        self._disk.use_in(context.spill)
        return self._disk.space()

    def _known(self, path: str) -> FileIndex | None:
        """What was found in a file, if it is still as it was then."""
        file = self._files.get(path)
        return file if file is not None and file.stamp == stamp_of(path) else None

    def _kept(self, file: FileIndex) -> FileIndex:
        """Keeps what was found in a file, or gives what somebody else found in it meanwhile: one is enough.

        Unless one is in memory and the other is not, as one run has room for it and the other has not.
        """
        other = self._files.get(file.path)
        same_place = other is not None and other.starts.held_bytes == file.starts.held_bytes
        if other is not None and other.stamp == file.stamp and same_place:
            return other
        self._files[file.path] = file
        return file

    def _found(self, path: str, context: Context, room: IndexRoom, progress: Progress | None) -> FileIndex:
        """What is saved beside a file, or a look at all of it tells."""
        stamp = stamp_of(path)
        if not self._is_saved or stamp[1] <= 0:  # without a time nobody could tell that the file has changed
            return _indexed(path, context, room, progress)
        writer = StartsWriter(room)
        lease = context.share.acquire(_PIECES_BYTES)
        try:
            starts = read_index(path, stamp, writer)
        finally:
            lease.release()
        if starts is not None:
            if progress is not None:
                progress.advance(stamp[0])
            return FileIndex(path, stamp, starts, None)
        writer.discard()
        file = _indexed(path, context, room, progress)
        if file.flaw is None:  # what is damaged is looked at again, lest it be repaired
            save_index(path, file.stamp, file.starts.whole())
        return file

    def __getstate__(self) -> tuple[tuple[str, ...], bool]:
        return self._paths, self._is_saved

    def __setstate__(self, state: tuple[tuple[str, ...], bool]) -> None:
        self._paths, self._is_saved = state
        self._files: dict[str, FileIndex] = {}  # another process looks for itself
        self._disk = LastingSpill()


def _placed(file: FileIndex, context: Context, room: IndexRoom) -> FileIndex:
    """The index of a file where this run has room for it: another run may have had more, or less."""
    nbytes = 8 * len(file.starts)
    is_held = file.starts.held_bytes > 0
    if room.hold(nbytes) == is_held:
        return file
    room.give_back(0 if is_held else nbytes)
    lease = context.share.acquire(_PIECES_BYTES)
    try:
        writer = StartsWriter(room)
        for piece in file.starts.pieces():
            writer.add(piece)
        starts = writer.finished()
    finally:
        lease.release()
    return file if (starts.held_bytes > 0) == is_held else dataclasses.replace(file, starts=starts)


def _indexed(path: str, context: Context, room: IndexRoom, progress: Progress | None) -> FileIndex:
    stamp = stamp_of(path)
    walk = _Walk(path, context, room, progress)
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
    return FileIndex(path, stamp, walk.starts.finished(), flaw)


class _Walk:
    """Goes through a file from record to record."""

    def __init__(self, path: str, context: Context, room: IndexRoom, progress: Progress | None) -> None:
        self._path = path
        self._context = context
        self._progress = progress
        self._lease = context.share.acquire(0)
        self._window = bytearray()
        self._most = _WINDOW_BYTES if is_local(path) else _REMOTE_WINDOW_BYTES
        # Of longer records a window holds little more than the length of the next one.
        self._long_bytes = _SMALLEST_WINDOW if is_local(path) else _REMOTE_WINDOW_BYTES
        self.starts = StartsWriter(room)
        self.starts.add(np.zeros(1, _INT64))

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
                self.starts.add(ends)
            before, at = at, at + used
            if why in (Stop.BAD_LENGTH, Stop.BAD_DATA):
                raise damaged(self._path, len(self.starts) - 1, at, why, expected, got)
            if why == Stop.DATA_INCOMPLETE:
                if at + FRAME_BYTES + expected > file.size:
                    raise truncated(self._path, len(self.starts) - 1, at, expected, file.size - at)
                at += FRAME_BYTES + expected  # its length is all that is needed of it
                self.starts.add(np.array([at], _INT64))
                found += 1
            elif why == Stop.HEADER_INCOMPLETE and at + len(window) - used >= file.size:
                raise truncated(self._path, len(self.starts) - 1, at, None, file.size - at)
            if self._progress is not None:
                self._progress.advance(at - before)
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
        """The window, what was found in it, and what is written to disk next."""
        self._lease.settle(3 * window_bytes + LEAST_BYTES)

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
