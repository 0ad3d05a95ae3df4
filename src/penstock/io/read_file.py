"""read_file: the bytes of a file, local or remote."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

__all__ = ["read_file"]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def read_file(path: Any) -> bytes:
    """The whole contents of a file.

    Args:
        path: A local path (str, bytes as `list_files` gives them, or pathlib), or a URI that pyarrow's file systems
            know: `s3://bucket/key`, `gs://bucket/key`, `hdfs://…`, `file:///…`.

    Errors are Python's own (`FileNotFoundError`, `PermissionError`, …) and name the file.

    Memory: the file. The GIL is released while it is read.

    >>> import pathlib, tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder, "a.bin")
    ...     _ = place.write_bytes(b"abc")
    ...     ps.io.read_file(place), ps.io.read_file(place.as_uri())
    (b'abc', b'abc')
    """
    name = os.fsdecode(path)
    if _URI.match(name) is None:
        return _read_local(name)
    return _read_uri(name)


def _read_local(name: str) -> bytes:
    # Unbuffered: one allocation of the file's size, one read.
    with open(name, "rb", buffering=0) as file:
        return file.readall()


def _read_uri(uri: str) -> bytes:
    from urllib.parse import unquote  # not loaded with the package

    scheme, _, rest = uri.partition("://")
    place, _, query = rest.partition("?")
    host, _, key = place.partition("/")
    if scheme.lower() == "file":
        return _read_local("/" + unquote(key))
    try:
        file_system, root = _file_system(f"{scheme}://{host}{'?' + query if query else ''}")
        with file_system.open_input_file(f"{root.rstrip('/')}/{unquote(key)}") as file:
            contents: bytes = file.read()
    except (OSError, ValueError) as error:
        raise _named(error, uri) from error
    return contents


@functools.lru_cache(maxsize=64)
def _file_system(server: str) -> tuple[Any, str]:
    """The file system behind a URI's server or bucket: to find it may take requests over the network."""
    from pyarrow.fs import FileSystem

    file_system, root = FileSystem.from_uri(server)
    return file_system, root


def _named(error: OSError | ValueError, uri: str) -> OSError | ValueError:
    """The same error with the URI in it."""
    if isinstance(error, OSError) and error.errno is not None:
        return type(error)(error.errno, os.strerror(error.errno), uri)
    return type(error)(f"{uri}: {error}")
