"""Which epoch the workers of a DataLoader are in: processes that come and go, and must agree on it.

A worker that is in another epoch than the others would give elements that they give too, and others would be missing.
A count of its own is not enough: a worker that was ended before it began, because the loop was left, would fall behind.
So all workers of one iteration look up the epoch under what they have in common, the seed that the loader drew for it;
the first to come enters it. What they share is a file without a name, and a lock on it, which work for processes that
were forked and for those that were started anew.
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
import weakref
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any

from ..order import hash64

__all__ = ["LoaderEpochs"]

# As many iterations are remembered: those of loaders that are open at the same time.
_NUM_KEPT = 64
# The next epoch by the workers, and by the process that they are of; how many iterations were entered; and of each the
# key and the epoch.
_RECORD = struct.Struct(f"<3q{2 * _NUM_KEPT}Q")


class LoaderEpochs:
    """The epochs of a feed that a DataLoader's workers read, as they and the process that started them see them.

    Args:
        file: A descriptor of the file; None for a new one.
    """

    def __init__(self, file: int | None = None) -> None:
        self._file = file = _new_file() if file is None else file
        weakref.finalize(self, os.close, file)
        self._heeded = 0
        # In a worker: the iteration that began last, by the loader's seed and by how many it has begun with that.
        self._iteration = (0, 0)

    def begin_iteration(self, loader_seed: int) -> int:
        """Names the iteration that begins in this worker as all workers of the loader name it."""
        seed, number = self._iteration
        self._iteration = loader_seed, number + 1 if seed == loader_seed else 0  # workers may outlive an iteration
        return hash64(*self._iteration) or 1

    def of_workers(self, key: int, next_epoch: int) -> int:
        """The epoch of an iteration of workers.

        Args:
            key: What `begin_iteration` gave.
            next_epoch: The dataset's next one, as far as this process knows.
        """
        with _Locked(self._file) as record:
            by_workers, here, num_entered, *entries = record.values
            keys, epochs = entries[::2], entries[1::2]
            if key in keys:
                return epochs[keys.index(key)]
            epoch = max(next_epoch, by_workers, here)
            place = 2 * (num_entered % _NUM_KEPT)
            entries[place : place + 2] = key, epoch
            record.values = [epoch + 1, here, num_entered + 1, *entries]
            return epoch

    def here(self, next_epoch: int) -> int:
        """The epoch of an iteration in the process that workers are of."""
        with _Locked(self._file) as record:
            by_workers = record.values[0]
            # Those of workers count once: a position that is loaded afterwards may be of an earlier epoch.
            epoch = max(next_epoch, by_workers) if by_workers != self._heeded else next_epoch
            self._heeded = by_workers
            record.values = [by_workers, epoch + 1, *record.values[2:]]
            return epoch

    def __reduce__(self) -> Any:
        # Only a process that is being started is one of the workers.
        return _unpickled, (None if get_spawning_popen() is None else DupFd(self._file),)


def _new_file() -> int:
    """In memory, where the system has such files: a disk may be full, or not be written to."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("penstock")
    else:
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.truncate(file, _RECORD.size)
    return file


def _unpickled(file: Any) -> LoaderEpochs:
    return LoaderEpochs(None if file is None else file.detach())


class _Locked:
    """The record in the file, for one process at a time."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> _Locked:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self.values: list[int] = list(_RECORD.unpack(os.pread(self._file, _RECORD.size, 0)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.pwrite(self._file, _RECORD.pack(*self.values), 0)
        fcntl.lockf(self._file, fcntl.LOCK_UN)
