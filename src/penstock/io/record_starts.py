"""Where records begin, 8 bytes each: in memory where they take a small part of it, else in a file of the spill space.

The file has no name: it is gone as soon as nobody reads it, and outlives the directory of the run that has made it.
From there the places of some records are read when these are wanted, through a few kilobytes, so that files of any
number of records can be read in any order in any budget.
"""

from __future__ import annotations

import array
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from .._native import read_records
from ..errors import SpillError
from ..memory.ledger import Lease, Share
from ..memory.spill import SpillSpace

__all__ = ["LEAST_BYTES", "SCRATCH_BYTES", "IndexRoom", "Starts", "StartsInMemory", "StartsWriter"]

_INT64 = np.dtype(np.int64)
_BYTES = np.dtype(np.uint8)
#: What is in memory in any case: all places if they are few, else those that are written next.
LEAST_BYTES = 4096
#: What places on disk are read through, if there is room for so much; else `LEAST_BYTES`.
SCRATCH_BYTES = 32 << 10
_PIECE = LEAST_BYTES // 8
# What an `array` that grows has in reserve.
_GROWTH = 9 / 8


class Starts(Protocol):
    """Where the records of one file begin, and where the last one ends."""

    @property
    def held_bytes(self) -> int:
        """What of it lies in memory."""

    def __len__(self) -> int: ...

    def spans(self, records: np.ndarray, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where some records begin and end; `scratch` is some memory to read them through."""

    def pieces(self) -> Iterator[np.ndarray]:
        """All of it, a part at a time."""

    def whole(self) -> np.ndarray:
        """All of it: for a moment, as what lies on disk is mapped."""


class StartsInMemory:
    """An array of places."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.held_bytes = values.nbytes

    def __len__(self) -> int:
        return len(self._values)

    def spans(self, records: np.ndarray, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._values[records], self._values[records + 1]

    def pieces(self) -> Iterator[np.ndarray]:
        for at in range(0, len(self._values), _PIECE):
            yield self._values[at : at + _PIECE]

    def whole(self) -> np.ndarray:
        return self._values


class StartsOnDisk:
    """Places `first` to `first + count` of a file."""

    held_bytes = 0

    def __init__(self, file: _StartsFile, first: int, count: int) -> None:
        self._file = file
        self._first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    def spans(self, records: np.ndarray, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        begins, ends = np.empty(len(records), _INT64), np.empty(len(records), _INT64)
        # Half of the scratch is for what lies between those that are wanted.
        most = scratch.nbytes // 32
        for at in range(0, len(records), most):
            wanted = (records[at : at + most] + self._first) * 8
            pairs = self._file.pairs(wanted, scratch)
            begins[at : at + most], ends[at : at + most] = pairs[:, 0], pairs[:, 1]
        return begins, ends

    def pieces(self) -> Iterator[np.ndarray]:
        for at in range(0, self._count, _PIECE):
            yield self._file.read(self._first + at, min(_PIECE, self._count - at))

    def whole(self) -> np.ndarray:
        return self._file.mapped()[self._first : self._first + self._count]


class _StartsFile:
    """A file without a name, with the places of records in it.

    Args:
        home: The space of the run that writes it.
        space: Counts its bytes, for as long as there are any.
    """

    def __init__(self, home: SpillSpace, space: SpillSpace) -> None:
        self._home = home
        self._space = space
        self._nbytes = 0
        self._descriptor = -1
        path = home.new_path(".index")
        with home.writing(0):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.unlink(path)

    def __len__(self) -> int:
        return self._nbytes // 8

    def append(self, values: memoryview) -> None:
        """Writes places behind the others, all or none of them."""
        left = values.cast("B")
        nbytes, at = left.nbytes, self._nbytes
        self._space.reserve(nbytes)
        try:
            with self._home.writing(nbytes):
                while left.nbytes:
                    written = os.pwrite(self._descriptor, left, at)
                    left, at = left[written:], at + written
        except BaseException:
            self._space.release(nbytes)
            raise
        self._nbytes = at

    def pairs(self, offsets: np.ndarray, scratch: np.ndarray) -> np.ndarray:
        """Two neighbours each, from these offsets on."""
        used = 16 * len(offsets)
        targets = np.arange(0, used, 16, dtype=_INT64)
        missing, stop = read_records(self._descriptor, offsets, offsets + 16, targets, scratch, used)
        if missing:
            raise self._unreadable(stop)
        return scratch[:used].view(_INT64).reshape(-1, 2)

    def read(self, first: int, count: int) -> np.ndarray:
        data = os.pread(self._descriptor, 8 * count, 8 * first)
        if len(data) != 8 * count:
            raise self._unreadable(8 * first + len(data))
        return np.frombuffer(data, _INT64)

    def mapped(self) -> np.ndarray:
        return np.frombuffer(mmap.mmap(self._descriptor, self._nbytes, access=mmap.ACCESS_READ), _INT64)

    def _unreadable(self, stop: int) -> SpillError:
        why = os.strerror(-stop) if stop < 0 else f"ends at byte {stop:,}"
        return self._space.unreadable("an index of records", why)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._space.release(self._nbytes)


class IndexRoom:
    """Where a run has the indices of its files: how much of them in memory, and the file for the others.

    Those in memory are on the slack alone: what is set aside for the stage is for its elements.

    Args:
        share: The account of the stage.
        spaces: Gives those that a file is made in, and counted in, when one is first needed.
    """

    def __init__(self, share: Share, spaces: Callable[[], tuple[SpillSpace, SpillSpace]]) -> None:
        self._share = share
        self._spaces = spaces
        self._most = share.spare_bytes
        self._few = share.acquire(0)
        self._many = Lease(share, 0, ahead=True)
        self._file: _StartsFile | None = None

    @property
    def held_bytes(self) -> int:
        return self._few.nbytes + self._many.nbytes

    def hold(self, nbytes: int) -> bool:
        """Puts more of an index in memory on the ledger, if it is for memory at all."""
        total = self.held_bytes + nbytes
        if total <= LEAST_BYTES:
            self._few.settle(self._few.nbytes + nbytes)
            return True
        return total <= self._most and self._share.try_charge(nbytes, self._many)

    def must_hold(self, nbytes: int) -> None:
        """The same for one that cannot be on disk."""
        self._few.settle(self._few.nbytes + nbytes)

    def give_back(self, nbytes: int) -> None:
        many = min(nbytes, self._many.nbytes)
        self._many.settle(self._many.nbytes - many)
        self._few.settle(self._few.nbytes - (nbytes - many))

    def spilled(self, nbytes: int) -> None:
        """So many bytes of an index went to disk."""
        self._share.spilled_bytes += nbytes

    def file(self) -> _StartsFile:
        """The file for those that are not in memory."""
        if self._file is None:
            self._file = _StartsFile(*self._spaces())
        return self._file

    def release(self) -> None:
        """The run has no index any more; a second call does nothing."""
        self._few.release()
        self._many.release()
        self._file = None


class StartsWriter:
    """Takes the places of one file's records as they are found.

    Where the disk refuses them they are in memory after all, if that has room.
    """

    def __init__(self, room: IndexRoom) -> None:
        self._room = room
        self._values = array.array("q")
        self._charged = 0
        self._file: _StartsFile | None = None
        self._first = 0  # in that file
        self._has_disk = True

    def __len__(self) -> int:
        return len(self._values) + (0 if self._file is None else len(self._file) - self._first)

    def add(self, values: np.ndarray) -> None:
        """The places that come next, at most as many as half a window."""
        if self._file is None:
            self._grow(8 * (len(self._values) + len(values)))
        self._values.frombytes(values.tobytes())
        if self._file is not None and 8 * len(self._values) >= LEAST_BYTES:
            self._put(self._file)

    def _grow(self, nbytes: int) -> None:
        more = int(nbytes * _GROWTH) - self._charged
        if more <= 0:
            return
        if not self._has_disk:
            self._room.must_hold(more)
        elif not self._room.hold(more):
            self._go_to_disk(more)
            return
        self._charged += more

    def _go_to_disk(self, more: int) -> None:
        try:
            file = self._room.file()
        except SpillError:
            self._stay(more)
            return
        self._file, self._first = file, len(file)
        self._put(file)

    def _put(self, file: _StartsFile) -> None:
        try:
            file.append(memoryview(self._values))
        except SpillError:
            on_disk = len(file) - self._first
            self._stay(int(8 * (on_disk + len(self._values)) * _GROWTH) + LEAST_BYTES - self._charged)
            self._file = None
            before = array.array("q")
            for piece in StartsOnDisk(file, self._first, on_disk).pieces():
                before.frombytes(piece.tobytes())
            self._values = before + self._values
            return
        self._room.spilled(8 * len(self._values))
        self._room.give_back(self._charged)
        self._charged = 0
        self._values = array.array("q")

    def _stay(self, more: int) -> None:
        self._has_disk = False
        self._room.must_hold(max(0, more))
        self._charged += max(0, more)

    def finished(self) -> Starts:
        """All of them."""
        if self._file is not None:
            self._put(self._file)
        if self._file is not None:
            return StartsOnDisk(self._file, self._first, len(self._file) - self._first)
        self._room.give_back(self._charged - 8 * len(self._values))
        self._charged = 8 * len(self._values)
        return StartsInMemory(np.frombuffer(self._values, _INT64))

    def discard(self) -> None:
        """Nobody needs them: they turned out wrong."""
        self._room.give_back(self._charged)
        self._charged = 0
