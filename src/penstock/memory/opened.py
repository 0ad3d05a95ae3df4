"""A file of elements that is open for reading. It is read, never mapped; any thread may read at any time."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

import numpy as np

from ..errors import FormatError, SpillError

if TYPE_CHECKING:
    from .spill import SpillSpace

__all__ = ["OpenedFile"]


class OpenedFile:
    """Reads bytes of a file.

    Args:
        path: The file.
        space: Whose file it is, if it is one that a run has on disk: what is wrong with it is then a `SpillError`.
    """

    def __init__(self, path: str | os.PathLike[str], space: SpillSpace | None = None) -> None:
        self.path = os.fspath(path)
        self._space = space
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if space is None and isinstance(error, FileNotFoundError):
                raise  # who asked for it knows better what that means
            raise self.wrong(f"it cannot be opened: {error.strerror}") from error
        self._closer = weakref.finalize(self, os.close, self._fd)
        self._closer.atexit = False  # the process closes it, and until then somebody may be reading

    def fill(self, buffer: np.ndarray, offset: int) -> None:
        """Reads as many bytes of the file as a buffer holds."""
        left = buffer.data.cast("B")
        while left.nbytes:
            try:
                count = os.preadv(self._fd, [left], offset)
            except OSError as error:
                raise self.wrong(f"it cannot be read at byte {offset:,}: {error.strerror}") from error
            if not count:
                raise self.wrong(f"{left.nbytes:,} bytes are missing at byte {offset:,}, where the file ends")
            left, offset = left[count:], offset + count

    def read_bytes(self, offset: int, nbytes: int) -> bytes:
        """Some bytes of the file."""
        buffer = np.empty(nbytes, np.uint8)
        self.fill(buffer, offset)
        return buffer.tobytes()

    def wrong(self, what: str) -> FormatError | SpillError:
        """What to raise of a file that is not as it should be."""
        return FormatError(f"{self.path}: {what}") if self._space is None else self._space.unreadable(self.path, what)

    def close(self) -> None:
        """Closes the file; elements that were read stay. A second call does nothing."""
        self._closer()
