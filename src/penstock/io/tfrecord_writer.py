"""TFRecord files, written as a whole or not at all.

A writer fills a temporary file beside the one asked for and gives it its name when it is closed. A crash, or an
exception inside `with`, leaves whatever was under that name before.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
import zlib
from types import TracebackType
from typing import Any, BinaryIO

from .._native import RecordBuffer, frame_record
from ..errors import BadArgument, BadType
from .new_file import NewFile
from .paths import path_given

__all__ = ["COMPRESSING_BYTES", "TFRecordOptions", "TFRecordWriter", "compression_of"]

#: What a writer holds that compresses: zlib's window, its tables, and what was compressed last.
COMPRESSING_BYTES = 280_000

_FRAME_BYTES = 16
_BUFFER_BYTES = 256 * 1024
_WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
#: The buffer of a new writer, and of a closed one: no record fits, and the way for those makes one, or finds it closed.
_NO_ROOM = RecordBuffer(bytearray())


def compression_of(name: str, given: Any) -> str | None:
    """`None`, "GZIP" or "ZLIB"; tf.data's empty string is None."""
    if given in (None, ""):
        return None
    if given not in _WINDOW_BITS:
        raise BadArgument(f'{name}: expected None, "GZIP" or "ZLIB", got {given!r}')
    return str(given)


@dataclasses.dataclass(frozen=True)
class TFRecordOptions:
    """How a TFRecord file is compressed.

    Args:
        compression_type: None, "GZIP" or "ZLIB".
        compression_level: 0 (none) to 9 (smallest); zlib's own choice if not given.

    >>> TFRecordOptions("GZIP", compression_level=1)
    TFRecordOptions(compression_type='GZIP', compression_level=1)
    """

    compression_type: str | None = None
    compression_level: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "compression_type", compression_of("compression_type", self.compression_type))
        level = self.compression_level
        if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not -1 <= level <= 9):
            raise BadArgument(f"compression_level: expected 0 to 9, or -1 for zlib's own choice, got {level!r}")


def _options_of(given: Any) -> TFRecordOptions:
    """Our options, those of TensorFlow's class of the same name, or of a compression alone."""
    if isinstance(given, TFRecordOptions):
        return given
    if type(given).__name__ == "TFRecordOptions":
        return TFRecordOptions(given.compression_type, given.compression_level)
    return TFRecordOptions(compression_of("options", given))


class TFRecordWriter:
    """Writes a TFRecord file.

    The file appears under its name when the writer is closed, as a whole; a file that was there before is replaced.
    Where the name is a link, the file that it leads to is.

    Args:
        path: Name of the file, or a URI (`s3://`, `gs://`, `file://`, …).
        options: A `TFRecordOptions`, also TensorFlow's, or its `compression_type` alone.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TFRecordWriter(pathlib.Path(folder, "data.tfrecord")) as writer:
    ...         writer.write(b"one record")
    ...     pathlib.Path(folder, "data.tfrecord").stat().st_size
    26
    """

    def __init__(self, path: str | bytes | os.PathLike[Any], options: TFRecordOptions | str | None = None) -> None:
        self._file: BinaryIO | None = None  # first: __del__ runs even if what follows fails
        self._path = path_given(path, "path")
        options = _options_of(options)
        self._new = NewFile(self._path)
        self._compress: Any = None
        if options.compression_type is not None:
            level = -1 if options.compression_level is None else options.compression_level
            self._compress = zlib.compressobj(level, wbits=_WINDOW_BITS[options.compression_type])
        self._buffer = bytearray()  # made with the first record: blocks that are framed already do without
        self._framed = _NO_ROOM
        self._file = self._new.open()

    def write(self, record: bytes) -> None:
        """Adds a record."""
        if not self._framed.add(record):
            self._write_other(record)

    def _write_other(self, record: Any) -> None:
        """The same for a record that is not plainly `bytes`, or not in the buffer's room, or too late."""
        if type(record) is not bytes:
            if not isinstance(record, bytes | bytearray | memoryview):
                raise BadType(f"record: expected bytes, got {type(record).__name__}")
            record = bytes(record)
        self._open()
        self._empty_buffer()
        if not self._buffer:
            self._buffer = bytearray(_BUFFER_BYTES)
            self._framed = RecordBuffer(self._buffer)
        if not self._framed.add(record):
            framed = bytearray(len(record) + _FRAME_BYTES)
            frame_record(record, framed, 0)
            self._put(framed)

    def write_framed(self, records: bytes | bytearray | memoryview) -> None:
        """Adds records that have their frames already, as `encode_examples(…, framed=True)` makes them."""
        self._open()
        self._empty_buffer()
        self._put(records)

    def flush(self) -> None:
        """Hands what was written so far to the system. It has no name yet: see `close`."""
        self._open()
        self._empty_buffer()
        if self._compress is not None:
            self._write(self._compress.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> None:
        """Ends the file and gives it its name. Further calls do nothing."""
        if self._file is None:
            return
        try:
            self._empty_buffer()
            if self._compress is not None:
                self._write(self._compress.flush())
            self._end(self._open())
            self._new.publish()
        except BaseException:
            self.discard()
            raise
        self._file = None
        self._framed = _NO_ROOM

    def discard(self) -> None:
        """Ends without a file. What was under the name before stays."""
        if self._file is None:
            return
        file, self._file = self._file, None
        self._framed = _NO_ROOM
        try:
            self._end(file)
        finally:
            self._new.discard()

    def _end(self, file: BinaryIO) -> None:
        with self._new.writing():
            file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if self._file is not None:
            warnings.warn(f"{self._path} was not written: its writer was never closed", ResourceWarning, 2, self)
            self.discard()

    def __repr__(self) -> str:
        return f"TFRecordWriter({self._path!r}{'' if self._file is not None else ', closed'})"

    def _open(self) -> BinaryIO:
        if self._file is None:
            raise BadArgument(f"{self._path}: its writer is closed")
        return self._file

    def _empty_buffer(self) -> None:
        filled = self._framed.take()
        if filled:
            with memoryview(self._buffer) as whole:
                self._put(whole[:filled])

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        self._write(data if self._compress is None else self._compress.compress(data))

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        file = self._open()
        try:
            with memoryview(data) as left:
                done = 0
                while done < left.nbytes:
                    done += file.write(left[done:])
        except OSError as error:
            self.discard()
            raise self._new.refused(error) from error
