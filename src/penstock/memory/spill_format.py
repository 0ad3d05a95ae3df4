"""In which format a run's own files are written: Arrow's, or ours where pyarrow is not loaded and has no room.

Under a limit on the addresses of a process, loading pyarrow may take what elements need, or fail. Files that are to
last, or that others may read, are Arrow's in any case.
"""

from __future__ import annotations

from . import arrow_library
from .ipc import IpcReader, IpcWriter, Kind
from .layout import Layout
from .plain_file import PlainKind, PlainReader, PlainWriter
from .spill import SpillSpace

__all__ = ["SpillKind", "SpillReader", "SpillWriter", "kind_of", "new_writer", "reader_of"]

SpillKind = Kind | PlainKind
SpillWriter = IpcWriter | PlainWriter
SpillReader = IpcReader | PlainReader


def kind_of(layout: Layout) -> SpillKind:
    """The kind of files for elements of a layout, which says in which format they are."""
    return Kind.of(layout) if arrow_library.has_room() else PlainKind(layout)


def new_writer(space: SpillSpace, kind: SpillKind | None = None) -> SpillWriter:
    """Writes a new file in a space: of a kind, or of that of its first element."""
    if isinstance(kind, PlainKind) or (kind is None and not arrow_library.has_room()):
        return PlainWriter(space.new_path(".plain"), space, kind)
    return IpcWriter(space.new_path(".arrow"), space=space, kind=kind)


def reader_of(path: str, kind: SpillKind, space: SpillSpace) -> SpillReader:
    """Reads a file of a kind."""
    if isinstance(kind, PlainKind):
        return PlainReader(path, space, kind)
    return IpcReader(path, kind=kind, space=space)
