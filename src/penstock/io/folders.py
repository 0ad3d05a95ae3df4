"""The files below a folder, of this machine or remote: folder by folder, all of it sorted."""

from __future__ import annotations

import os
from typing import Any

from ..errors import FileMissing, FormatError
from .paths import is_local, local_path, readable
from .remote import file_system_of

__all__ = ["Folder", "folders_below"]

#: The path of a folder below the root ("" for the root itself, then "a", "a/b", …), and the names of its files.
Folder = tuple[str, list[str]]


def folders_below(root: str, follow_links: bool) -> list[Folder]:
    """A folder and all below it, but for those whose names begin with a dot; files with such names are left out too.

    Args:
        root: A path or a URI.
        follow_links: Whether folders further down than right below the root may be links.

    Raises:
        FormatError: One of the folders cannot be read: what is in it is not left out in silence.
    """
    found = _local(local_path(root), follow_links) if is_local(root) else _remote(root)
    return sorted((folder, sorted(names)) for folder, names in found.items())


def _local(root: str, follow_links: bool) -> dict[str, list[str]]:
    if not os.path.exists(root):
        raise FileMissing(f"{root}: expected a folder, there is none")
    if not os.path.isdir(root):
        raise FormatError(f"{root}: expected a folder, got a file")
    found: dict[str, list[str]] = {}
    nowhere: frozenset[str] = frozenset()
    waiting = [("", nowhere)]
    while waiting:
        folder, above = waiting.pop()
        place = os.path.join(root, folder)
        if follow_links:  # a link to a folder above would lead round and round
            real = os.path.realpath(place)
            if real in above:
                continue
            above |= {real}
        names = found.setdefault(folder, [])
        with readable(place), os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if not entry.is_dir():
                    names.append(entry.name)
                elif follow_links or not folder or not entry.is_symlink():
                    waiting.append((os.path.join(folder, entry.name), above))
    return found


def _remote(root: str) -> dict[str, list[str]]:
    with readable(root):
        system, base = file_system_of(root)
        from pyarrow import fs

        base = base.rstrip("/")
        within = f"{base}/".lstrip("/")
        kind: Any = system.get_file_info(base).type
        if kind == fs.FileType.NotFound:
            raise FileMissing(f"{root}: expected a folder, there is none")
        if kind == fs.FileType.File:
            raise FormatError(f"{root}: expected a folder, got a file")
        infos = system.get_file_info(fs.FileSelector(base, recursive=True))
    found: dict[str, list[str]] = {"": []}
    for info in infos:
        path = info.path.lstrip("/").removeprefix(within)
        if any(part.startswith(".") for part in path.split("/")):
            continue
        if info.type == fs.FileType.Directory:
            found.setdefault(path, [])
        else:
            folder, _, name = path.rpartition("/")
            found.setdefault(folder, []).append(name)
    return found
