"""Streams of bytes, and those that are inflated as they are read."""

from __future__ import annotations

import zlib
from typing import Protocol

from ..errors import FormatError

__all__ = ["FAR_BYTES", "InflatedStream", "Stream", "inflating_bytes"]

_INPUT_BYTES = _OUTPUT_BYTES = 1 << 14
#: What is read at a time of a compressed file that is far away, where each read is a request.
FAR_BYTES = 1 << 18
# What zlib holds for itself: its window of 32 kB and some tables.
_STATE_BYTES = 44_000


class Stream(Protocol):
    """Bytes that are read from the first to the last."""

    #: What it holds for itself.
    held_bytes: int
    #: What to read at a time where nothing else was asked for; None for what is usual.
    likes_bytes: int | None

    def readinto(self, buffer: memoryview) -> int:
        """Fills some of a buffer; returns how much, 0 at the end."""

    def close(self) -> None: ...


def inflating_bytes(is_far: bool) -> int:
    """What it takes to inflate a file, which may be far away."""
    return (FAR_BYTES if is_far else _INPUT_BYTES) + _INPUT_BYTES + _OUTPUT_BYTES + _STATE_BYTES


class InflatedStream:
    """A stream of GZIP or ZLIB data as what was compressed.

    Never more is inflated than there is room for, so a small file that holds a large one takes no memory. A file that
    ends in the middle, or is damaged, is an error after the bytes before that place.
    """

    likes_bytes: int | None = None

    def __init__(self, path: str, stream: Stream, compression: str, is_far: bool = False) -> None:
        self.held_bytes = inflating_bytes(is_far)
        self._path = path
        self._stream = stream
        self._compression = compression
        self._wbits = 31 if compression == "GZIP" else 15
        self._inflate = zlib.decompressobj(self._wbits)
        self._input = memoryview(bytearray(FAR_BYTES if is_far else _INPUT_BYTES))
        self._read = self._used = 0  # bytes of it
        self._waiting = b""
        self._offset = 0
        self._started = False

    def readinto(self, buffer: memoryview) -> int:
        while True:
            if not self._waiting:
                if self._used == self._read:
                    self._read, self._used = self._stream.readinto(self._input), 0
                    if not self._read:
                        return self._end(buffer)
                self._waiting = bytes(self._input[self._used : min(self._read, self._used + _INPUT_BYTES)])
                self._used += len(self._waiting)
                self._offset += len(self._waiting)
            if self._inflate.eof:  # a file may hold several members; zeros may follow the last
                self._waiting = self._waiting.lstrip(b"\0")
                if not self._waiting:
                    continue
                self._inflate, self._started = zlib.decompressobj(self._wbits), False
            self._started = True
            try:
                data = self._inflate.decompress(self._waiting, min(len(buffer), _OUTPUT_BYTES))
            except zlib.error as error:
                at = self._offset - len(self._waiting)
                raise FormatError(
                    f"{self._path}: expected {self._compression} data after byte {at:,}, got something else: {error}"
                ) from None
            self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _end(self, buffer: memoryview) -> int:
        """What zlib has taken in and not given yet, if anything."""
        if not self._started or self._inflate.eof:
            return 0
        data = self._inflate.decompress(b"", min(len(buffer), _OUTPUT_BYTES))
        if not data:
            ends = f"the file ends at byte {self._offset:,}"
            raise FormatError(f"{self._path}: expected more {self._compression} data, {ends}")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
