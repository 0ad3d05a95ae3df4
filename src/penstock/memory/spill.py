"""Spill space: one directory on disk for what a run cannot hold in memory.

The directory is made with the first file in it and removed when the run is closed or collected, or else at the very end
of the process, when no thread can read or write it any more (`_End`). A process that is killed removes nothing; so each
directory holds a lock file, locked for as long as its owner lives, and the next run with the same parent, whether it
spills or not, removes those whose lock is free. The lock, not the process id, says whether the owner lives: ids are
used again. What does not carry our name, our lock file and our user's id is never touched, nor are files inside that we
did not name.

What a `cache` keeps on disk outlives the run that wrote it, in spaces of its own (`LastingSpill`). A run's limit is on
all of it together: its own files and those of the caches that it reads.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from weakref import WeakSet

from .. import forked
from ..errors import BadArgument, SpillError
from .ledger import format_bytes

__all__ = ["LastingSpill", "SpillSpace", "default_directory"]

_NAME = re.compile(r"penstock-spill-\d+-\w+")
_FILE = re.compile(r"\d{6,}.*")
_LOCK = "lock"
_MARKER = b"penstock spill directory: removed by the next run if this file is not locked\n"
_IN_MEMORY = ("tmpfs", "ramfs")
_GO_ON = "run.state_dict() is still good: load it into a new run, with Options(spill_dir=...) where nobody interferes"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Runs may be short and many, and the directory for temporary files long: those that do not spill look for what others
# left so rarely that it takes a hundredth of the time at most.
_TIMES_BETWEEN = 100
_MOST_BETWEEN_S = 10.0
_look_again_s: dict[str | None, float] = {}
# Directories that are there: lock and owner by path.
_directories: dict[str, tuple[int, int]] = {}

# One lock for the counts of all spaces: those of a run and of its caches are added up before either may grow.
_COUNTING = forked.reentrant_lock()


class SpillSpace:
    """Files of one run, with a limit on their bytes.

    Args:
        parent_dir: Where to make the directory. None: the system's directory for temporary files.
        limit_bytes: Bytes that all files together may have, with those of caches that the run uses. None: as many as
            the disk has.
        runs: Spaces of the runs that use it, if it outlives a run: the limits are then theirs.
    """

    def __init__(
        self, parent_dir: str | None = None, limit_bytes: int | None = None, runs: WeakSet[SpillSpace] | None = None
    ) -> None:
        if parent_dir is not None:
            _check_directory(parent_dir)
        self._parent = parent_dir
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        #: What the stages of the run may have on disk in all, where that can be told.
        self.expects: Callable[[], int | None] = _nothing_expected
        #: Called whenever something is to be written.
        self.at_write: Callable[[], object] = _nothing_to_do
        self._runs = runs
        self._lasting: WeakSet[LastingSpill] = WeakSet()
        self._directory: str | None = None
        self._num_files = 0
        self._closed = False
        self._owner = os.getpid()
        self._closer: weakref.finalize[[str], SpillSpace] | None = None
        self._lock = threading.RLock()

    def remove_orphans(self) -> None:
        """Removes what processes that died have left beside it, unless it was just looked for."""
        start = time.monotonic()
        if start < _look_again_s.get(self._parent, start):
            return
        with contextlib.suppress(OSError):  # what is wrong with the directory is told to who needs it
            _remove_orphans(self._parent or default_directory())
        now = time.monotonic()
        _look_again_s[self._parent] = now + min(_MOST_BETWEEN_S, _TIMES_BETWEEN * (now - start))

    @property
    def directory(self) -> str:
        """The directory that files lie in; made when it is first asked for."""
        with self._lock:
            if self._closed:
                raise SpillError("the spill directory was removed when the run was closed")
            if self._directory is None:
                parent = self._parent or default_directory()
                try:
                    _remove_orphans(parent)
                    path, lock = _make_directory(parent)
                except OSError as error:
                    raise SpillError(
                        f"cannot make a spill directory in {parent}: {error.strerror}; "
                        "name another one with Options(spill_dir=...)"
                    ) from error
                self._directory = path
                _directories[path] = lock, os.getpid()
                self._closer = weakref.finalize(self, _remove, path)
                self._closer.atexit = False  # `_End` is in time for that
            return self._directory

    @property
    def parent_dir(self) -> str | None:
        """Where the directory is made; None for the system's directory."""
        return self._parent

    @property
    def is_gone(self) -> bool:
        """Whether somebody else has removed the directory."""
        return self._directory is not None and not os.path.isdir(self._directory)

    @property
    def total_bytes(self) -> int:
        """Bytes of its files, and of those that outlive the run and that it uses."""
        with _COUNTING:
            return self.used_bytes + sum(lasting.used_bytes for lasting in self._lasting)

    def use(self, lasting: LastingSpill) -> None:
        """From now on files that outlive the run count on its limit."""
        with _COUNTING:
            self._lasting.add(lasting)
            lasting.runs.add(self)

    def new_path(self, suffix: str = "") -> str:
        """The path of a new file, which is not made yet."""
        with self._lock:
            self._num_files += 1
            return os.path.join(self.directory, f"{self._num_files:06d}{suffix}")

    def reserve(self, nbytes: int) -> None:
        """Counts bytes that are about to be written; `SpillError` where the limit has no room for them."""
        with _COUNTING:
            runs = (self,) if self._runs is None else tuple(self._runs)
            for run in runs:
                if run.limit_bytes is not None and run.total_bytes + nbytes > run.limit_bytes:
                    raise run._limit_reached(nbytes, self.directory)
            self.used_bytes += nbytes
            self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        for run in runs:
            run.at_write()

    def _limit_reached(self, nbytes: int, directory: str) -> SpillError:
        used, limit = self.total_bytes, self.limit_bytes or 0
        caches = used - self.used_bytes
        advised, why = 2 * limit, "twice as much: how much will be needed in all is not known"
        if expected := self.expects():
            # Files stay until the last of what is in them was read, and have heads of their own.
            advised, why = max(advised, expected + expected // 2), "for all that its stages may have there"
        return SpillError(
            f"asked for {format_bytes(nbytes)} more on disk and {format_bytes(used)} of the "
            f"limit of {format_bytes(limit)} are in use in {directory}"
            f"{f' ({format_bytes(caches)} by caches)' if caches else ''}; "
            f"use spill_limit={max(advised, 2 * nbytes):_} or more ({why}), a larger memory budget, or smaller buffers"
        )

    def release(self, nbytes: int) -> None:
        """Takes back what was reserved: the bytes were removed, or never written."""
        with _COUNTING:
            self.used_bytes -= nbytes
            assert self.used_bytes >= 0, "more was released than was reserved"

    def remove(self, path: str, nbytes: int) -> None:
        """Removes a file, and takes its bytes off the count; a forked child leaves its parent's file alone."""
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):  # it is gone, or its directory may not be changed any more
                os.unlink(path)
        self.release(nbytes)

    @contextlib.contextmanager
    def writing(self, nbytes: int) -> Iterator[None]:
        """While bytes are written: what the disk refuses becomes a `SpillError` that says what to do."""
        try:
            yield
        except OSError as error:
            if isinstance(error, SpillError):
                raise
            if self.is_gone:
                raise self._gone() from error
            what = f"write {format_bytes(nbytes)} to {self._directory}: {error.strerror or error}"
            holds = f"this run holds {format_bytes(self.used_bytes)} there"
            if error.errno not in _FULL:
                raise SpillError(f"cannot {what}; {holds}; name another with Options(spill_dir=...)") from error
            disk = os.statvfs(self.directory)
            free = disk.f_bavail * disk.f_frsize
            raise SpillError(
                f"no room to {what}, {format_bytes(free)} are free and {holds}; "
                "name another disk with Options(spill_dir=...), use a larger memory budget, or smaller buffers"
            ) from error

    def unreadable(self, path: str, what: str) -> SpillError:
        """Why a file of it cannot be read: nobody but its run should have touched it."""
        if self.is_gone:
            return self._gone()
        return SpillError(
            f"{path}: {what}; somebody else has changed what this run has on disk, {format_bytes(self.used_bytes)} in "
            f"all; {_GO_ON}"
        )

    def _gone(self) -> SpillError:
        return SpillError(
            f"the spill directory {self._directory} was removed by somebody else, with "
            f"{format_bytes(self.used_bytes)} that this run had there; {_GO_ON}"
        )

    def close(self) -> None:
        """Removes the directory. A second call does nothing."""
        with self._lock:
            self._closed = True
            # What they ask and call knows the run, with all of its data.
            self.expects, self.at_write = _nothing_expected, _nothing_to_do
            if self._closer is not None and self._closer.detach() and self._directory is not None:
                _remove(self._directory)  # at exit the closer itself would do nothing any more
        with _COUNTING:
            for lasting in self._lasting:
                lasting.runs.discard(self)


def _nothing_expected() -> int | None:
    return None


def _nothing_to_do() -> None:
    pass


class LastingSpill:
    """Files that outlive a run: what a `cache` keeps on disk. They count on the limit of every open run that uses them.

    Each directory that a run names has a space of its own, so that a run goes on elsewhere when one disk is full.
    """

    def __init__(self) -> None:
        self.runs: WeakSet[SpillSpace] = WeakSet()
        self._spaces: dict[str | None, SpillSpace] = {}
        # By somebody else: what is in files that are open can still be read.
        self._removed: list[SpillSpace] = []
        self._parent: str | None = None

    @property
    def used_bytes(self) -> int:
        return sum(space.used_bytes for space in (*self._spaces.values(), *self._removed))

    def use_in(self, run: SpillSpace) -> None:
        """A run reads these files, and may write some: where it says."""
        self._parent = run.parent_dir
        run.use(self)

    def space(self) -> SpillSpace:
        """Where to write now."""
        with _COUNTING:
            space = self._spaces.get(self._parent)
            if space is not None and space.is_gone:
                self._removed.append(space)
                space = None
            if space is None:
                space = self._spaces[self._parent] = SpillSpace(self._parent, runs=self.runs)
            return space


def default_directory() -> str:
    """The directory for temporary files, but not one that lies in memory, if that can be helped."""
    import tempfile  # here, because `import penstock` should not pay for it

    usual = tempfile.gettempdir()
    other = "/var/tmp"
    if _lies_in_memory(usual) and os.path.isdir(other) and os.access(other, os.W_OK | os.X_OK):
        return usual if _lies_in_memory(other) else other
    return usual


def _lies_in_memory(path: str, mounts: str = "/proc/self/mounts") -> bool:
    path = os.path.realpath(path)
    found, kind = "", ""
    try:
        with open(mounts) as file:
            for line in file:
                _, mount, fs_type, *_ = line.split(" ")
                mount = mount.encode().decode("unicode_escape")  # blanks are written \040
                inside = path == mount or path.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(found):  # the last one covers those before
                    found, kind = mount, fs_type
    except OSError:
        return False
    return kind in _IN_MEMORY


def _check_directory(path: str) -> None:
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise BadArgument(f"spill_dir: {path} {what}; name one that can be written to")
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadArgument(f"spill_dir: {path} cannot be written to; name one that can")


def _make_directory(parent: str) -> tuple[str, int]:
    """A new directory and its open lock file."""
    path = os.path.join(parent, f"penstock-spill-{os.getpid()}-{os.urandom(8).hex()}")
    os.mkdir(path, 0o700)
    # Locked before it has its name: nobody ever sees a lock file of a living owner that is free.
    unnamed = os.path.join(path, _LOCK + ".new")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass  # a file system without locks: nobody can take it either, so nobody will clean up after us
        os.write(lock, _MARKER)
        os.rename(unnamed, os.path.join(path, _LOCK))
    except BaseException:
        os.close(lock)
        os.unlink(unnamed)
        os.rmdir(path)
        raise
    return path, lock


def _remove(path: str) -> None:
    """Removes a directory of ours; a forked child has a copy of all this, and must leave it alone."""
    lock, owner = _directories.pop(path)
    if os.getpid() == owner:
        _remove_directory(path)
        os.close(lock)


class _End:
    """Removes what is left at the end of the process: is made at exit as garbage, and found by its last collection.

    At exit itself would be too early: threads go on meanwhile, write files into a directory that is being removed, and
    miss those that were. When the interpreter collects for the last time they have ended, or stand still.
    """

    def __init__(self) -> None:
        self._itself = self

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _End()  # another collection was earlier
            return
        for path in list(_directories):
            _remove(path)


atexit.register(_End)


def _remove_directory(path: str) -> None:
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in os.listdir(directory):
            if _FILE.fullmatch(name):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=directory)
        if os.listdir(directory) == [_LOCK]:  # else something is not ours: it stays, and says whose it was
            os.unlink(_LOCK, dir_fd=directory)
            os.rmdir(path)
    except OSError:
        pass  # somebody else was faster, or the disk is gone
    finally:
        os.close(directory)


def _remove_orphans(parent: str) -> None:
    """Removes directories whose owners died."""
    for name in os.listdir(parent):
        if _NAME.fullmatch(name):
            with contextlib.suppress(OSError):
                _remove_if_orphan(os.path.join(parent, name))


def _remove_if_orphan(path: str) -> None:
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    lock_path = os.path.join(path, _LOCK)
    lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.read(lock, len(_MARKER) + 1) != _MARKER:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Two cleaners may have opened it: the slower one then holds the lock of a file that is gone.
        if os.path.samestat(os.fstat(lock), os.lstat(lock_path)):
            _remove_directory(path)
    finally:
        os.close(lock)
