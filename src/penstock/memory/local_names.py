"""Names of what lies on this machine, as a path or a `file://` URI."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import BadArgument, BadType

__all__ = ["URI", "local_name", "local_path"]

#: How a name begins that is a URI.
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_path(path: str) -> str:
    """A path of this machine, which may be written as a URI."""
    return unquote(urlsplit(path).path) if path.startswith("file://") else path


def local_name(given: Any, argument: str, what: str) -> str:
    """The path that a user gave for something which can only lie on this machine: it is locked, and renamed.

    Args:
        given: A path, or a `file://` URI.
        argument: How the argument is called.
        what: What the path is one of: "a directory".
    """
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise BadType(f"{argument}: expected the path of {what}, got {type(given).__name__} {given!r:.60}")
    name = os.fsdecode(given)
    path = local_path(name)
    if URI.match(path) or (path != name and not path):
        raise BadArgument(
            f"{argument}: expected the path of {what} on this machine, or a file:// URI, got {name!r:.80}; write to a "
            "local disk and copy it, or use to_tfrecord or to_parquet, which write to other file systems"
        )
    return path
