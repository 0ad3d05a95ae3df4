"""Files that are mapped into memory, and whether they are still what they were.

Who touches a page of a map behind the end of its file ends the process. Since somebody may cut a file short while it
is read, it is looked at before each read, at the price of one `stat`: what is left is the moment between the two, and
views of a map that were handed out before. A file that was replaced by another of its name lives on in its map.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed
from ..errors import FormatError
from ..order import Index
from ..plan.op import Context, Reader
from .paths import local_path

__all__ = ["MappedFile", "WatchedReader"]


class MappedFile:
    """One file as it was when it was mapped.

    Args:
        path: The file.
        first_row: The place of its first row among those of all files.
    """

    def __init__(self, path: str, first_row: int) -> None:
        self.path = path
        self.first_row = first_row
        self.end_row = first_row
        self._local = local_path(path)
        found = os.stat(self._local)
        self._identity = found.st_dev, found.st_ino
        self._size = found.st_size
        self.changed_ns = found.st_mtime_ns

    def check(self) -> None:
        """Looks at the file again.

        Raises:
            FormatError: It is shorter than its map.
        """
        try:
            found = os.stat(self._local)
        except OSError:
            return
        if (found.st_dev, found.st_ino) != self._identity:
            return
        if found.st_size < self._size:
            raise FormatError(
                f"{self.path}: expected {self._size:,} bytes, as when it was opened, got {found.st_size:,}: "
                "it was cut short while it was read"
            )
        self.changed_ns = found.st_mtime_ns


class WatchedReader:
    """Reads rows of mapped files; those of a file that was cut short are errors in their place.

    Args:
        reader: What reads the rows.
        files: The files, in the order of their rows.
        context: The stage's.
        count_failed: Told the file and how many of its rows could not be read.
    """

    def __init__(
        self,
        reader: Reader,
        files: Sequence[MappedFile],
        context: Context,
        count_failed: Callable[[str, int], None] | None,
    ) -> None:
        self._reader = reader
        self._files = files
        self._starts = np.array([file.first_row for file in files])
        self._context = context
        self._count_failed = count_failed
        if hasattr(reader, "gather"):
            self.gather = self._gathered

    def read(self, index: Index) -> Block:
        return self._reader.read(index) if self._are_whole(index) else self._singly(index)

    def _gathered(self, index: np.ndarray, start: int, size: int) -> Block:
        part = index[start : start + size]
        reader: Any = self._reader
        return reader.gather(index, start, size) if self._are_whole(part) else self._singly(part)

    def _are_whole(self, index: Index) -> bool:
        try:
            for number in self._numbers(index):
                self._files[number].check()
        except FormatError:
            return False
        return True

    def _numbers(self, index: Index) -> Sequence[int]:
        """The files that rows lie in."""
        if len(self._files) == 1:
            return (0,)
        if isinstance(index, slice):
            first, last = np.searchsorted(self._starts, (index.start, index.stop - 1), "right") - 1
            return range(int(first), int(last) + 1)
        numbers: list[int] = np.unique(np.searchsorted(self._starts, index, "right") - 1).tolist()
        return numbers

    def _singly(self, index: Index) -> Block:
        rows: list[Any] = []
        for place in range(index.start, index.stop) if isinstance(index, slice) else index.tolist():
            (number,) = self._numbers(np.array([place]))
            file = self._files[number]
            try:
                file.check()
            except FormatError as error:
                if self._count_failed is not None:
                    self._count_failed(file.path, 1)
                rows.append(Failed(self._context.located(error)))
            else:
                rows += self._reader.read(slice(place, place + 1)).rows()
        return Block.of_rows(rows)
