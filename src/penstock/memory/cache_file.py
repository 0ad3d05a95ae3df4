"""The file of a `cache(filename)`: complete under its own name, or not there.

While it is written it is called `<filename>.part`, and `<filename>.lock` is locked: by `flock`, so that the lock ends
with its process however that ends. At its end it is brought to disk, gets its name by a rename, and the lock file goes.
Who finds the lock taken does without the file. Who finds it free finds at most what a crashed process left behind, and
begins again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import BadArgument, BadType, CacheMismatch, FormatError, SpillError
from ..plan.identity import same_operator, what_changed
from .batch_index import BatchIndex
from .ipc import IpcReader, IpcWriter
from .ledger import format_bytes
from .place import Place

__all__ = ["NO_PLACE", "WHAT_TO_DO", "CacheFile", "PassId", "complete_file", "sync", "sync_directory", "told_by_disk"]

_KEY = "penstock.cache"


class PassId:
    """Which pass over which pipeline a file holds: all that decides what is in it.

    Attributes:
        operators: Each operator of the pipeline, as text.
        epoch: The epoch of the pass that was written.
        seeds: Seeds that were drawn for it because nobody chose any.
    """

    __slots__ = ("epoch", "operators", "seeds")

    def __init__(self, operators: Sequence[str], epoch: int, seeds: Sequence[int]) -> None:
        self.operators = list(operators)
        self.epoch = epoch
        self.seeds = list(seeds)

    def to_metadata(self) -> dict[str, str]:
        value = {"version": 1, "operators": self.operators, "epoch": self.epoch, "seeds": self.seeds}
        return {_KEY: json.dumps(value)}

    @classmethod
    def of_file(cls, reader: IpcReader) -> PassId:
        try:
            value = json.loads(reader.metadata[_KEY])
            if value["version"] != 1:
                raise ValueError(f"version {value['version']!r}, and this penstock reads version 1")
            return cls(value["operators"], value["epoch"], value["seeds"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{reader.path}: it is not the file of a cache: {error}; {WHAT_TO_DO}") from error

    def check(self, operators: Sequence[str], path: str) -> None:
        """Refuses a file that another pipeline wrote."""
        was, now = self.operators, list(operators)
        shorter = min(len(was), len(now))
        where = next((i for i in range(shorter) if not same_operator(was[i], now[i])), shorter)
        if where == len(was) == len(now):
            return
        old, new = (texts[where] if where < len(texts) else "not there" for texts in (was, now))
        raise CacheMismatch(
            f"{path} was written by another pipeline: operator {where} {what_changed(old, new)}; {WHAT_TO_DO}"
        )


#: Errors of the system that are due to the name which the user chose.
NO_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
WHAT_TO_DO = "delete the file, or use another name"


def complete_file(path: str, operators: Sequence[str]) -> tuple[BatchIndex, PassId] | None:
    """The file, if there is one and this pipeline wrote it; None if there is none yet."""
    if os.path.isdir(path):
        raise BadArgument(f"filename: expected the name of a file, and {path} is a directory")
    try:
        reader = IpcReader(path, lists_batches=False)
        index = BatchIndex.of_file(reader)
    except FileNotFoundError:
        return None
    except FormatError as error:
        raise FormatError(f"{error}; {WHAT_TO_DO}") from error
    written = PassId.of_file(reader)
    written.check(operators, path)
    return index, written


def _no_place(path: str, error: BaseException | None) -> BadArgument | None:
    """Why no file can be made there, if that is due to its name."""
    if not isinstance(error, OSError) or error.errno not in NO_PLACE:
        return None
    folder, name = os.path.dirname(path) or ".", os.path.basename(path)
    if not os.path.isdir(folder):
        return BadArgument(f"filename: there is no directory {folder} for {name}")
    return BadArgument(
        f"filename: no file can be made in {folder} for {name}: {error.strerror}; name another directory"
    )


class CacheFile:
    """The file while it is written, by this process alone. Dropped before its end it leaves nothing behind."""

    def __init__(self, path: str, lock: int, about: PassId) -> None:
        self._path = path
        #: Whether the disk had no room: no more can be added.
        self.failed = False
        self.part_path = path + ".part"
        self._writer = IpcWriter(self.part_path, metadata=about.to_metadata(), checksums=True, lists_batches=False)
        self._reader = self._writer.reader()
        self.index: BatchIndex | None = BatchIndex(self._reader)
        self._closer = weakref.finalize(self, _discard, self._writer, path + ".lock", lock, os.getpid())

    @classmethod
    def try_begin(cls, path: str, about: PassId) -> CacheFile | None:
        """A new file, or None where somebody else is writing it."""
        try:
            with told_by_disk(path + ".lock"):
                lock = _try_lock(path + ".lock")
        except SpillError as error:
            if (why := _no_place(path, error.__cause__)) is None:
                raise
            raise why from None
        if lock is None:
            return None
        if os.path.exists(path):  # somebody else has completed it in the meantime
            _unlock(path + ".lock", lock)
            return None
        try:
            with told_by_disk(path + ".part"):
                return cls(path, lock, about)
        except OSError:
            _unlock(path + ".lock", lock)
            raise

    def store(self, rows: list[Any]) -> Place | None:
        """Writes elements as one batch; None once it has failed: other runs then do without."""
        if self.failed:
            return None
        try:
            with told_by_disk(self.part_path):
                return Place(self._reader, self._writer.write(rows))
        except BadType as error:
            raise BadType(f"{error}; a file holds elements of one structure and dtype") from None
        except OSError:
            self._fail()
            raise

    def finish(self) -> None:
        """Gives the complete file its name."""
        if self.failed:
            return
        try:
            with told_by_disk(self.part_path):
                self._writer.close()
                sync(self.part_path)
                os.rename(self.part_path, self._path)
                sync_directory(self._path)
        except OSError:
            self._fail()
            raise
        self._closer()

    def _fail(self) -> None:
        """Gives the disk back what is written: nobody will complete it. Who still reads it has it open."""
        self.failed = True
        self._closer()


def _try_lock(path: str) -> int | None:
    """An open and locked file, or None where somebody else has locked it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its owner may have removed it between our two steps: then it is the lock of nothing.
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        except FileNotFoundError:
            pass
        except OSError:  # taken, or a file system without locks: there is no safe way to write there
            os.close(lock)
            return None
        os.close(lock)


def _unlock(path: str, lock: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(lock)


def _discard(writer: IpcWriter, lock_path: str, lock: int, owner: int) -> None:
    """Removes what is not complete (after the rename there is nothing under this name), and ends the lock."""
    if os.getpid() == owner:
        writer.discard()
        _unlock(lock_path, lock)


@contextlib.contextmanager
def told_by_disk(path: str) -> Iterator[None]:
    """While a file is written: what the disk refuses becomes an error that says where, how much, and what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SpillError):
            raise
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            gone = "; somebody else has removed it" if error.errno == errno.ENOENT else ""
            raise SpillError(
                f"cannot write to {path}: {error.strerror or error}{gone}; name a place that can be written to, and "
                "where nobody interferes"
            ) from error
        folder = os.path.dirname(os.path.abspath(path))
        written = os.path.getsize(path) if os.path.exists(path) else 0
        free = shutil.disk_usage(folder).free if os.path.isdir(folder) else 0
        raise SpillError(
            f"no room to write on to {path}: {error.strerror} after {format_bytes(written)}, {format_bytes(free)} are "
            f"free in {folder}; make room there, or name another disk"
        ) from error


def sync(path: str) -> None:
    """Brings a file to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Brings the entry of a file in its directory to disk."""
    sync(os.path.dirname(os.path.abspath(path)))
