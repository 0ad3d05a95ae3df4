"""The index of a TFRecord file, saved beside it, so that later programs need not look for its records again.

`.NAME.penstock-index` lies in the folder of the file NAME: 48 bytes (a mark, size and time of the file that it is of,
how many records there are, a checksum of what follows), then where records begin, 8 bytes each, little endian. It is
written under another name and moved, so that there is a whole one or none. One that does not fit its file, or is
damaged, is as good as none; nothing in it is believed that could make a reader reach beyond the file.

The name begins with a dot so that patterns such as `train-*` do not find it.
"""

from __future__ import annotations

import logging
import os
import struct
from typing import Any

import numpy as np

from .._native import crc32c
from ..errors import FormatError
from .paths import INDEX_ENDING, is_local, local_path, open_random
from .record_errors import FRAME_BYTES
from .record_starts import LEAST_BYTES, Starts, StartsWriter
from .remote import file_system_of, split_options

__all__ = ["index_path", "read_index", "save_index"]

_log = logging.getLogger("penstock")

_MARK = b"PENSTOCK-RECORDS"
_HEADER = struct.Struct("<16sqqqQ")
_STARTS = np.dtype("<i8")
_PIECE = LEAST_BYTES // 8


def index_path(path: str) -> str:
    """Where the index of a file is saved."""
    whole, options = split_options(path)
    folder, slash, name = whole.rpartition("/")
    return f"{folder}{slash}.{name}{INDEX_ENDING}{options}"


def read_index(path: str, stamp: tuple[int, int], writer: StartsWriter) -> Starts | None:
    """Where records begin, as it was saved for a file of this size and time; None if it was not.

    Args:
        path: The file.
        stamp: Its size and time.
        writer: Takes what is read, a few kilobytes at a time.
    """
    try:
        file = open_random(index_path(path))
    except FormatError:
        return None
    try:
        header = file.read_at(0, _HEADER.size)
        if len(header) != _HEADER.size:
            return None
        mark, size, time, num_records, checksum = _HEADER.unpack(header)
        nbytes = 8 * (num_records + 1)
        if mark != _MARK or (size, time) != stamp or num_records < 0 or file.size != _HEADER.size + nbytes:
            return None
        for at in range(0, nbytes, LEAST_BYTES):
            piece = file.read_at(_HEADER.size + at, min(LEAST_BYTES, nbytes - at))
            if len(piece) != min(LEAST_BYTES, nbytes - at):
                return None
            writer.add(np.frombuffer(piece, _STARTS).astype(np.int64, copy=False))
        starts = writer.finished()
        return starts if _fits(starts.whole(), size, checksum) else None
    except FormatError:
        return None
    finally:
        file.close()


def _fits(starts: np.ndarray, size: int, checksum: int) -> bool:
    """Whether these can be the records of a file of this size."""
    if crc32c(starts) != checksum or starts[0] != 0 or starts[-1] != size:
        return False
    pieces = range(0, len(starts) - 1, _PIECE)
    return all((np.diff(starts[at : at + _PIECE + 1]) >= FRAME_BYTES).all() for at in pieces)


def save_index(path: str, stamp: tuple[int, int], starts: np.ndarray) -> None:
    """Saves an index; where that cannot be, says so and goes on: the index is in memory all the same."""
    stored = starts.astype(_STARTS, copy=False)
    header = _HEADER.pack(_MARK, *stamp, len(starts) - 1, crc32c(stored))
    try:
        if is_local(path):
            _save_local(local_path(index_path(path)), header, stored)
        else:
            _save_remote(index_path(path), header, stored)
    except (OSError, ValueError, NotImplementedError) as error:  # the last two are a remote file system's
        _log.warning("%s: its index cannot be saved: %s", path, getattr(error, "strerror", None) or error)


def _temporary(path: str) -> str:
    """A name of one's own: programs on several machines may save the same index at a time."""
    return f"{path}.{os.urandom(6).hex()}.part"


def _save_local(path: str, header: bytes, starts: np.ndarray) -> None:
    temporary = _temporary(path)
    try:
        with open(temporary, "wb", buffering=0) as file:
            for part in (memoryview(header), starts.data.cast("B")):
                while part:
                    part = part[file.write(part) :]
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _save_remote(uri: str, header: bytes, starts: np.ndarray) -> None:
    system, path = file_system_of(uri)
    temporary = _temporary(path)
    stream: Any
    with system.open_output_stream(temporary) as stream:
        stream.write(header)
        stream.write(starts)
    system.move(temporary, path)
