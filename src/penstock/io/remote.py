"""Files of other machines: what URIs name, and the file systems of pyarrow that have it.

A URI is a server or bucket, a path, and options of the file system: `s3://bucket/folder/name?region=eu-west-1`. In the
path `%20` is a space, as in any URI; all else stands for itself. Options are what pyarrow takes, and go on with a name
and a `=`: any other `?` is part of the path, or of a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

from ..errors import BadArgument, FileMissing, FormatError, SpillError
from ..memory.arrow_library import load as load_arrow
from ..memory.local_names import URI
from .patterns import as_regex

__all__ = ["WILD", "below", "file_system_of", "is_remote", "readable", "remote_matches", "split_options"]

#: What makes a name a pattern.
WILD = re.compile(r"[*?\[]")

_OPTIONS = re.compile(r"\?[A-Za-z_]+=")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
# What means something in a URI, a pattern, or a name with braces, and what no line should have.
_SPECIAL = re.compile(r"[%?*\[{\x00-\x1f]")

#: File systems by server and options, and the path of the server in them. Making one may take requests.
_FILE_SYSTEMS: dict[tuple[str, str], tuple[Any, str]] = {}


def is_remote(name: str) -> bool:
    """Whether a name is a URI of something that is not of this machine."""
    return URI.match(name) is not None and not name.startswith("file://")


def split_options(name: str) -> tuple[str, str]:
    """A name, and the options that follow it if it is a URI with such: `?region=eu-west-1`."""
    found = _OPTIONS.search(name) if is_remote(name) else None
    return (name, "") if found is None else (name[: found.start()], name[found.start() :])


def below(folder: str, path: str) -> str:
    """The URI of what lies below that of a folder, with the same options."""
    base, options = split_options(folder)
    return f"{base.rstrip('/')}/{_SPECIAL.sub(lambda special: quote(special[0], safe=''), path)}{options}"


def file_system_of(uri: str) -> tuple[Any, str]:
    """The pyarrow file system that a URI names, and the path in it.

    Raises:
        BadArgument: pyarrow has none such.
        OSError: It cannot be reached: who calls this says what for.
    """
    name, options = split_options(uri)
    scheme, _, rest = name.partition("://")
    server, _, path = rest.partition("/")
    key = f"{scheme}://{server}", options
    if key not in _FILE_SYSTEMS:
        _FILE_SYSTEMS[key] = _new_file_system(uri, *key)
    system, root = _FILE_SYSTEMS[key]
    return system, f"{root.rstrip('/')}/{unquote(path)}" if path else root


def _new_file_system(uri: str, server: str, options: str) -> tuple[Any, str]:
    load_arrow("pyarrow.fs", "files of other machines")
    import pyarrow as pa
    from pyarrow import fs

    try:
        # pyarrow knows what of the server is part of paths: a bucket is, a machine or a name and password are not.
        system, root = fs.FileSystem.from_uri(server + options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise BadArgument(f"expected the URI of a file system that pyarrow has, got {uri!r:.80}: {error}") from None
    return system, root


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns what the system says of a file that cannot be read into an error that names it."""
    try:
        yield
    except (FormatError, SpillError):  # these say it already
        raise
    except FileNotFoundError as error:
        raise FileMissing(f"{path}: expected a file, there is none") from error
    except IsADirectoryError as error:
        raise FormatError(f"{path}: expected a file, got a directory") from error
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from error


def remote_matches(pattern: str) -> list[str]:
    """The URIs of the files that match, by listing the folder below which the pattern begins; a name matches itself."""
    name, options = split_options(pattern)
    wild = WILD.search(name)
    if wild is None:
        with readable(pattern):
            system, path = file_system_of(pattern)
            return [pattern] if system.get_file_info(path).is_file else []
    folder, _, tail = name[: wild.start()].rpartition("/")
    if not is_remote(folder):
        raise BadArgument(f"expected a bucket or server in which to look for files, got {pattern!r:.80}")
    tail += name[wild.start() :]
    with readable(pattern):
        system, base = file_system_of(folder + options)
        from pyarrow import fs

        selector = fs.FileSelector(base, recursive="/" in tail, allow_not_found=True)
        found = [info.path for info in system.get_file_info(selector) if info.is_file]
    # A character that is encoded is no part of a pattern.
    tail = _ENCODED.sub(lambda codes: "".join(f"\\{char}" for char in unquote(codes[0])), tail)
    fits = re.compile("/".join(as_regex(part) for part in tail.split("/")), re.DOTALL).fullmatch
    tails = [path[len(base.rstrip("/")) + 1 :] for path in found]
    return sorted(below(folder + options, path) for path in tails if _is_path(path) and fits(path))


def _is_path(path: str) -> bool:
    return all(part not in ("", ".", "..") for part in path.split("/"))
