"""Files by name, wherever they are: what every format asks for paths, and how it opens them.

A name is a path of this machine or a URI (`s3://`, `gs://`, `file://`, …), for which pyarrow has the file systems. A
name with `*`, `?` or `[` is a pattern, unless a file of just that name is there; its files come sorted. Whether a file
is there shows when it is opened, as in tf.data.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import BadArgument, BadType
from ..memory.local_names import local_path
from .braces import expand_braces
from .inflate import InflatedStream, Stream, inflating_bytes
from .patterns import matches
from .remote import WILD, file_system_of, is_remote, readable, remote_matches, split_options

__all__ = [
    "INDEX_ENDING",
    "REMOTE_BYTES",
    "RandomFile",
    "check_compression",
    "compressed_bytes",
    "expand_paths",
    "file_system_of",
    "found_compression",
    "is_local",
    "likes_bytes",
    "local_path",
    "open_arrow",
    "open_random",
    "open_stream",
    "path_given",
    "readable",
    "shown_paths",
    "stamp_of",
    "stored_compression",
]

#: How the names of indices end that are saved beside files; no pattern means them.
INDEX_ENDING = ".penstock-index"

#: What is read at a time of a file that is far away: to ask for something takes as long as to read this much.
REMOTE_BYTES = 1 << 20

_COMPRESSIONS = (None, "", "GZIP", "ZLIB")


# --- names ------------------------------------------------------------------------------------------------------


def expand_paths(spec: Any, argument: str = "filenames", *, braces: bool = False) -> list[str]:
    """The names of files that a user means: one name or many, `pathlib` paths, patterns, URIs.

    The order is the user's; the files of a pattern come sorted in its place. With `braces`, `{0..9}` and `{a,b}` in a
    name mean many, unless a file of just that name is there.
    """
    names: list[str] = []
    for given in _names(spec, argument):
        has_braces = braces and "{" in given and (is_remote(given) or not os.path.exists(local_path(given)))
        for name in expand_braces(given) if has_braces else [given]:
            names += _matches(name, argument) if WILD.search(split_options(name)[0]) else [name]
    return names


def path_given(spec: Any, argument: str) -> str:
    """One path or URI, as text."""
    if not isinstance(spec, (str, bytes, os.PathLike)):
        raise BadType(f"{argument}: expected a path, got {type(spec).__name__} {spec!r:.60}")
    return _text(spec, argument)


def _names(spec: Any, argument: str) -> list[str]:
    if isinstance(spec, (str, bytes, os.PathLike)):
        return [_text(spec, argument)]
    if isinstance(spec, np.ndarray) and spec.ndim <= 1:
        spec = spec.reshape(-1).tolist()
    if not isinstance(spec, (list, tuple)) or not all(isinstance(name, (str, bytes, os.PathLike)) for name in spec):
        raise BadType(f"{argument}: expected a path or a list of paths, got {type(spec).__name__} {spec!r:.60}")
    return [_text(name, argument) for name in spec]


def _text(given: Any, argument: str) -> str:
    name = os.fsdecode(given)
    if "\0" in name:  # what opens files raises a bare ValueError, which no `ignore_errors` counts by file
        raise BadArgument(f"{argument}: expected the name of a file, got {name!r:.80}: no name has a NUL in it")
    return name


def _matches(pattern: str, argument: str) -> list[str]:
    if not is_remote(pattern):
        local = local_path(pattern)
        found = [local] if os.path.exists(local) else sorted(matches(local))
    else:
        found = remote_matches(pattern)
    found = [name for name in found if not split_options(name)[0].endswith(INDEX_ENDING)]
    if not found:
        raise BadArgument(f"{argument}: no file matches {pattern!r}")
    return found


def shown_paths(paths: list[str] | tuple[str, ...]) -> str:
    """Some paths in few characters, for a line of a plan."""
    if not paths:
        return "no files"
    others = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return f"{paths[0]!r:.60}{others}"


# --- opening ----------------------------------------------------------------------------------------------------


def check_compression(name: str, value: Any) -> str | None:
    """A `compression_type` of tf.data's, or a refusal: an unknown one must not be read as none."""
    if value not in _COMPRESSIONS:
        raise BadArgument(f"{name}: expected None, '', 'GZIP' or 'ZLIB', got {value!r}")
    return value or None


def stored_compression(path: str) -> str | None:
    """The compression that a file's name tells."""
    return "GZIP" if split_options(path)[0].endswith((".gz", ".tgz")) else None


_GZIP_MAGIC = b"\x1f\x8b"


def found_compression(path: str) -> str | None:
    """The compression that a file's name tells, or else its first bytes."""
    stored = stored_compression(path)
    if stored is not None or (is_local(path) and not os.path.isfile(local_path(path))):  # a pipe is read only once
        return stored
    stream = open_stream(path)
    try:
        first = bytearray(len(_GZIP_MAGIC))
        return "GZIP" if stream.readinto(memoryview(first)) and first == _GZIP_MAGIC else None
    finally:
        stream.close()


class RandomFile(Protocol):
    """A file that is read at any offset, by any thread."""

    size: int

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """The bytes there; fewer at the end of the file."""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fills a buffer with the bytes there; returns how many there were."""

    def close(self) -> None: ...


def open_stream(path: str, compression: str | None = None, offset: int = 0) -> Stream:
    """A file to be read from a byte on; `compression` is "GZIP", "ZLIB" or None, and then the offset is 0."""
    with readable(path):
        if is_remote(path):
            system, name = file_system_of(path)
            stream: Any = system.open_input_file(name) if offset else system.open_input_stream(name, compression=None)
        else:
            stream = open(local_path(path), "rb", buffering=0)  # noqa: SIM115  the cursor closes it
        if offset:
            stream.seek(offset)
    named = _NamedStream(path, stream)
    return named if compression is None else InflatedStream(path, named, compression, is_remote(path))


def likes_bytes(buffer_size: int | None, paths: Sequence[str], compressed: bool = False) -> int | None:
    """How much to read at a time: what the user asked for, or else more than is usual where files are far away."""
    return REMOTE_BYTES if not buffer_size and not compressed and any(map(is_remote, paths)) else buffer_size


def compressed_bytes(paths: Sequence[str]) -> int:
    """What it takes to inflate one of some files."""
    return inflating_bytes(any(map(is_remote, paths)))


class _NamedStream:
    """A stream whose errors name its file."""

    held_bytes = 0

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream
        self.likes_bytes: int | None = REMOTE_BYTES if is_remote(path) else None

    def readinto(self, buffer: memoryview) -> int:
        with readable(self._path):
            return int(self._stream.readinto(buffer))

    def close(self) -> None:
        self._stream.close()


def open_random(path: str) -> RandomFile:
    """A file that is read at any offset."""
    with readable(path):
        if not is_remote(path):
            return _LocalFile(path)
        system, name = file_system_of(path)
        return _RemoteFile(path, system.open_input_file(name))


def open_arrow(path: str) -> Any:
    """A file as pyarrow reads it, at any offset."""
    import pyarrow as pa

    with readable(path):
        if is_remote(path):
            system, name = file_system_of(path)
            return system.open_input_file(name)
        local = local_path(path)
        if os.path.isdir(local):
            raise IsADirectoryError(local)
        return pa.OSFile(local, "r")


def stamp_of(path: str) -> tuple[int, int]:
    """Size of a file, and when it was changed last, in ns; (-1, -1) where there is none."""
    if is_local(path):
        try:
            found = os.stat(local_path(path))
        except OSError:
            return -1, -1
        return found.st_size, found.st_mtime_ns
    try:
        system, name = file_system_of(path)
        info = system.get_file_info(name)
    except OSError:
        return -1, -1
    return (-1, -1) if info.size is None else (int(info.size), int(info.mtime_ns or 0))


def is_local(path: str) -> bool:
    """Whether a look at a file costs little."""
    return not is_remote(path)


class _LocalFile:
    _descriptor = -1

    def __init__(self, path: str) -> None:
        self._path = path
        local = local_path(path)
        self._descriptor = os.open(local, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self._descriptor).st_size
        if os.path.isdir(local):
            self.close()
            raise IsADirectoryError(local)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        with readable(self._path):
            return os.pread(self._descriptor, nbytes, offset)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        with readable(self._path):
            return os.preadv(self._descriptor, [buffer], offset)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class _RemoteFile:
    def __init__(self, path: str, file: Any) -> None:
        self._path = path
        self._file = file
        self._lock = threading.Lock()
        self.size = int(file.size())

    def read_at(self, offset: int, nbytes: int) -> bytes:
        with readable(self._path):
            return bytes(self._file.read_at(nbytes, offset))

    def read_into(self, offset: int, buffer: memoryview) -> int:
        with self._lock, readable(self._path):  # into its place, without a copy on the way
            self._file.seek(offset)
            return int(self._file.readinto(buffer))

    def close(self) -> None:
        self._file.close()
