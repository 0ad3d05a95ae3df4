"""What Arrow files are written through: a batch at a time, in as few writes as may be, its bytes reserved before."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Protocol

from .checksum import UNKNOWN_CHECKSUM, with_checksum

if TYPE_CHECKING:
    from .spill import SpillSpace

__all__ = ["File", "Sink", "open_new"]

# Parts of a batch that are smaller than this are written together.
_JOINED_BYTES = 4096


class File(Protocol):
    """An unbuffered binary file, as far as a writer needs it."""

    def write(self, data: Any, /) -> int | None: ...

    def close(self) -> None: ...


def open_new(path: str) -> File:
    return open(path, "wb", buffering=0)


class Sink:
    """What pyarrow writes to: collects the parts of a batch and writes them at once, the large ones uncopied."""

    def __init__(self, file: File, space: SpillSpace | None) -> None:
        self._file = file
        self._space = space
        self._parts: list[Any] = []
        self._pending = 0
        self._reserved = 0
        self._owner = os.getpid()
        self.bytes_written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        nbytes = memoryview(data).nbytes
        self._parts.append(data)
        self._pending += nbytes
        return nbytes

    def tell(self) -> int:
        return self.bytes_written + self._pending

    def flush(self) -> None:
        pass

    def fill_in_checksum(self) -> None:
        """Puts the checksum of a batch into its head, where room was left for it."""
        head = next(i for i, part in enumerate(self._parts) if type(part) is bytes and UNKNOWN_CHECKSUM in part)
        self._parts[head] = with_checksum(self._parts[head], self._parts[head + 1 :])

    def put_if_long(self) -> None:
        """Writes what was collected, if it is much by now."""
        if self._pending >= _JOINED_BYTES:
            self.put()

    def put(self) -> None:
        """Writes what was collected."""
        parts, self._parts = self._parts, []
        pending, self._pending = self._pending, 0
        if self._space is None:
            self._put(parts)
            return
        self._space.reserve(pending)
        self._reserved += pending
        with self._space.writing(pending):
            self._put(parts)

    def _put(self, parts: list[Any]) -> None:
        small: list[Any] = []
        for part in parts:
            if memoryview(part).nbytes < _JOINED_BYTES:
                small.append(part)
                continue
            self._write_all(b"".join(small))
            small.clear()
            self._write_all(part)
        self._write_all(b"".join(small))

    def _write_all(self, data: Any) -> None:
        left = memoryview(data).cast("B")
        while left.nbytes:
            written = self._file.write(left) or 0
            self.bytes_written += written
            left = left[written:]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def discard(self, path: str) -> None:
        """Removes the file, complete or not, and gives all that was reserved for it back to the space.

        A forked child leaves its parent's file alone.
        """
        self.close()
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):  # it is gone, or its directory may not be changed any more
                os.unlink(path)
        reserved, self._reserved = self._reserved, 0
        if self._space is not None:
            self._space.release(reserved)
