"""read_file: the bytes of a file, local or remote."""

from __future__ import annotations

import os
from typing import Any

from ..memory.local_names import local_path
from .remote import file_system_of, is_remote

__all__ = ["read_file"]


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
    return _read_uri(name) if is_remote(name) else _read_local(local_path(name))


def _read_local(name: str) -> bytes:
    # Unbuffered: one allocation of the file's size, one read.
    with open(name, "rb", buffering=0) as file:
        return file.readall()


def _read_uri(uri: str) -> bytes:
    try:
        file_system, path = file_system_of(uri)
        with file_system.open_input_file(path) as file:
            contents: bytes = file.read()
    except (OSError, ValueError) as error:
        raise _named(error, uri) from error
    return contents


def _named(error: OSError | ValueError, uri: str) -> OSError | ValueError:
    """The same error with the URI in it."""
    if isinstance(error, OSError) and error.errno is not None:
        return type(error)(error.errno, os.strerror(error.errno), uri)
    return type(error)(f"{uri}: {error}")
