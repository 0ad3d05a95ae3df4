"""Saved sets: elements in a directory of Arrow files, which appears as a whole or not at all.

::

    <path>/penstock.json                   names the set that is there, its shards and the spec of its elements
    <path>/set-1f0c…/00000000.arrow        one file per shard

A set is written as `set-….part`, under a lock on that directory. At its end all files are brought to disk, the
directory gets its name, and `penstock.json` is replaced: by a rename, so that a reader sees the set before or the set
after. Then the set before is removed, and so is what crashed writers left behind: directories that no `penstock.json`
names and nobody has locked. Other files in the directory are left alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import forked
from ..element import detach, nbytes_of
from ..errors import BadArgument, BadType, FormatError, SpillError
from ..spec import UNSEEN, Spec, merge, spec_leaves, spec_of
from .cache_file import NO_PLACE, sync, sync_directory, told_by_disk
from .compression import compressing, held_to_read
from .ipc import IpcReader, IpcWriter
from .ledger import Share
from .local_names import local_name
from .spec_json import spec_from_json, spec_to_json

__all__ = ["BATCH_BYTES", "SavedSet", "SetWriter", "Shard", "check_path", "is_saved", "shard_of"]

_MANIFEST = "penstock.json"
_SET = re.compile(r"set-[0-9a-f]{16}(\.part)?")
#: Elements wait for others until they make up a batch of so many bytes or rows.
BATCH_BYTES = 128 << 10
_BATCH_ROWS = 256


def check_path(path: Any) -> str:
    """The path of a directory, as text."""
    return os.path.abspath(local_name(path, "path", "a directory"))


def shard_of(number: Any) -> int:
    """What a `shard_func` returned, as the number of a shard."""
    if isinstance(number, np.ndarray) and number.ndim == 0:
        number = number[()]
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise BadType(f"shard_func: expected an integer, got {type(number).__name__} {number!r:.60}")
    return int(number)


class Shard(NamedTuple):
    """One file of a set."""

    path: str
    num_rows: int
    #: The most that reading one batch of it takes.
    read_bytes: int


def _shard(folder: str, about: Any, element_spec: Any) -> Shard:
    stored, raw = (int(nbytes) for nbytes in about["largest_batch"])
    if min(stored, raw) < 0:
        raise ValueError(f"a batch of {min(stored, raw):,} bytes")
    num_leaves = 1 if element_spec is UNSEEN else len(spec_leaves(element_spec))
    return Shard(os.path.join(folder, about["file"]), about["num_rows"], held_to_read(stored, raw, num_leaves))


class SavedSet:
    """A set as it was when this was made; files are opened when they are first read."""

    def __init__(self, path: str) -> None:
        self.path = path
        found = _manifest(path)
        if found is None:
            raise BadArgument(f"path: there is no saved dataset in {path}")
        try:
            folder = os.path.join(path, found["set"])
            element = spec_from_json(found["spec"])
            self.shards = [_shard(folder, shard, element) for shard in found["shards"]]
            self.spec = Spec(element, sum(shard.num_rows for shard in self.shards))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{os.path.join(path, _MANIFEST)}: it does not tell what was saved: {error}") from error
        self._readers: dict[int, IpcReader] = {}
        self._lock = forked.lock()

    def __reduce__(self) -> tuple[type[SavedSet], tuple[str]]:
        return SavedSet, (self.path,)

    def reader(self, number: int) -> IpcReader:
        """Reads a shard."""
        with self._lock:
            reader = self._readers.get(number)
            if reader is None:
                reader = self._readers[number] = self._open(self.shards[number])
            return reader

    def _open(self, shard: Shard) -> IpcReader:
        try:
            reader = IpcReader(shard.path)
        except FileNotFoundError:
            raise FormatError(f"{shard.path} is gone: the dataset was saved anew or removed; load it again") from None
        if reader.num_rows != shard.num_rows:
            raise FormatError(f"{shard.path}: expected {shard.num_rows:,} elements, got {reader.num_rows:,}")
        return reader


def _manifest(path: str) -> Any:
    """What the directory says of itself; None where nothing was saved."""
    file = os.path.join(path, _MANIFEST)
    try:
        with open(file, "rb") as stream:
            found = json.load(stream)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(f"{file}: it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(f"{file}: {error}") from error
    if not isinstance(found, dict) or found.get("version") != 1:
        raise FormatError(f"{file}: expected version 1 of a saved dataset, got {str(found)[:80]}")
    return found


def is_saved(path: str) -> bool:
    """Whether there is a set."""
    return _manifest(path) is not None


class _Waiting:
    """What waits to be written to a shard."""

    __slots__ = ("nbytes", "rows", "writer")

    def __init__(self, writer: IpcWriter) -> None:
        self.writer = writer
        self.rows: list[Any] = []
        self.nbytes = 0


class SetWriter:
    """Writes a new set. Nobody sees it before `finish`; after `abort`, or if the process dies, nobody ever does.

    Args:
        path: The directory, which is made if it is not there.
        share: Where elements that wait to be written count.
        element_spec: What the elements are like; `UNSEEN` to find out while they are written.
        codec: Arrow's codec to compress with; None for none.
        batch_bytes: How many bytes of elements make up a batch, or one element.
    """

    def __init__(
        self, path: str, share: Share, element_spec: Any, codec: str | None = None, batch_bytes: int = BATCH_BYTES
    ) -> None:
        self._path = path
        self._share = share
        self._spec = element_spec
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._is_told = element_spec is not UNSEEN
        self._shards: dict[int, _Waiting] = {}
        self._waiting_bytes = 0
        self._name = f"set-{os.urandom(8).hex()}"
        self._part = os.path.join(path, self._name + ".part")
        with _in_place(path):
            os.makedirs(path, exist_ok=True)
            _remove_leftovers(path)
            os.mkdir(self._part)
            self._locks = [os.open(self._part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        with contextlib.suppress(OSError):  # a file system without locks: then nobody cleans up there either
            fcntl.flock(self._locks[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._open = True

    @classmethod
    def try_begin(
        cls, path: str, share: Share, element_spec: Any, codec: str | None, batch_bytes: int
    ) -> SetWriter | None:
        """A writer that is the only one there; None where somebody else is writing, or has written."""
        with _in_place(path):
            os.makedirs(path, exist_ok=True)
            alone = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            writer = None if is_saved(path) else cls(path, share, element_spec, codec, batch_bytes)
        except BlockingIOError:
            writer = None
        except BaseException:
            os.close(alone)
            raise
        if writer is None:
            os.close(alone)
        else:
            writer._locks.append(alone)
        return writer

    def write(self, row: Any, shard_id: int = 0) -> None:
        """Appends an element to a shard."""
        if not self._is_told:
            found = spec_of(row)
            self._spec = found if self._spec is UNSEEN or self._spec == found else merge(self._spec, found)
        shard = self._shards.get(shard_id)
        if shard is None:
            # Numbers below zero sort last, as unsigned ones do in tf.data.
            path = os.path.join(self._part, f"{shard_id % (1 << 64):08d}.arrow")
            shard = self._shards[shard_id] = _Waiting(self._new_file(path))
        nbytes = nbytes_of(row)
        if shard.nbytes + nbytes > self._batch_bytes:
            self._flush(shard)
        if nbytes >= self._batch_bytes or not self._wait(nbytes):
            self._flush(shard)
            self._put(shard, [row], nbytes)
            return
        shard.rows.append(detach(row))
        shard.nbytes += nbytes
        self._waiting_bytes += nbytes
        if shard.nbytes >= self._batch_bytes or len(shard.rows) == _BATCH_ROWS:
            self._flush(shard)

    def _new_file(self, path: str) -> IpcWriter:
        try:
            with told_by_disk(path):
                return IpcWriter(path, checksums=True, codec=self._codec)
        except SpillError as error:
            if getattr(error.__cause__, "errno", None) not in (errno.EMFILE, errno.ENFILE):
                raise
            raise BadArgument(
                f"shard_func: it named {len(self._shards) + 1:,} files, more than the system lets be open; name fewer"
            ) from error

    def _wait(self, nbytes: int) -> bool:
        """Makes room for an element to wait in: all shards together hold an eighth of the budget at most."""
        if self._waiting_bytes + nbytes > self._share.budget_bytes // 8:
            self._flush(max(self._shards.values(), key=lambda shard: shard.nbytes))
        return self._share.charge_free(nbytes)

    def _flush(self, shard: _Waiting) -> None:
        if shard.rows:
            self._put(shard, shard.rows, shard.nbytes)
            self._share.discharge(shard.nbytes)
            self._waiting_bytes -= shard.nbytes
            shard.rows, shard.nbytes = [], 0

    def _put(self, shard: _Waiting, rows: list[Any], nbytes: int) -> None:
        scratch = contextlib.nullcontext() if self._codec is None else compressing(self._share, nbytes)
        with scratch, told_by_disk(shard.writer.path):
            shard.writer.write(rows)

    def finish(self) -> None:
        """Publishes the set in the place of the one before."""
        shards = []
        for shard in sorted(self._shards.values(), key=lambda shard: shard.writer.path):
            self._flush(shard)
            writer = shard.writer
            with told_by_disk(writer.path):
                writer.close()
                sync(writer.path)
            largest = [writer.largest_stored_bytes, writer.largest_raw_bytes]
            about = {"file": os.path.basename(writer.path), "num_rows": writer.num_rows, "largest_batch": largest}
            shards.append(about)
        final = os.path.join(self._path, self._name)
        with told_by_disk(self._part):
            os.rename(self._part, final)
        self._part = final
        manifest = {"version": 1, "set": self._name, "shards": shards, "spec": spec_to_json(self._spec)}
        new = os.path.join(final, _MANIFEST)
        with told_by_disk(new):
            with open(new, "w") as stream:
                json.dump(manifest, stream, indent=1)
            sync(new)
            sync_directory(new)
            os.rename(new, os.path.join(self._path, _MANIFEST))
            self._close()  # from here on it is the set that is there
            sync_directory(final)
        with contextlib.suppress(OSError):  # the set is there; what is left of others goes another time
            _remove_leftovers(self._path)

    def abort(self) -> None:
        """Removes what was written. After `finish` it does nothing."""
        if self._open:
            for shard in self._shards.values():
                self._share.discharge(shard.nbytes)
                shard.writer.discard()
            shutil.rmtree(self._part, ignore_errors=True)
            self._close()

    def _close(self) -> None:
        self._open = False
        for lock in self._locks:
            os.close(lock)


@contextlib.contextmanager
def _in_place(path: str) -> Iterator[None]:
    """While a directory is made and looked into: a name that cannot be used is told as such."""
    try:
        with told_by_disk(path):
            yield
    except SpillError as error:
        why = error.__cause__
        if isinstance(why, (FileExistsError, NotADirectoryError)):
            raise BadArgument(f"path: expected a directory, and {path} is a file") from None
        if isinstance(why, OSError) and why.errno in NO_PLACE:
            raise BadArgument(f"path: nothing can be saved in {path}: {why.strerror}; name another directory") from None
        raise


def _remove_leftovers(path: str) -> None:
    """Removes sets that are not, or no longer, the one that is there."""
    present = (_manifest(path) or {}).get("set")
    for name in os.listdir(path):
        if _SET.fullmatch(name) and name != present:
            with contextlib.suppress(OSError):
                _remove_if_unlocked(os.path.join(path, name))


def _remove_if_unlocked(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(lock)
