"""Overflow: chunks of kept elements in spill files."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import Any

from ..errors import BadType
from .batch_index import BatchIndex
from .fixed_rows import FixedRows
from .place import Place
from .spill import SpillSpace
from .spill_format import SpillReader, SpillWriter, new_writer

__all__ = ["Overflow"]


class Overflow:
    """Files of one sequence of elements: a new one where elements are of another kind than those before.

    The files are removed when nobody refers to this any more.

    Args:
        space: Gives the space for files, which is made when the first one is needed; another one once files are to lie
            elsewhere.
    """

    failed = False
    index: BatchIndex | None = None

    def __init__(self, space: Callable[[], SpillSpace]) -> None:
        self._space = space
        self._writer: SpillWriter | None = None
        self._in_space: SpillSpace | None = None
        self._reader: SpillReader | None = None
        self._files: list[SpillWriter] = []
        self._last_rows: FixedRows | None = None
        discarding = weakref.finalize(self, _discard, self._files, os.getpid())
        discarding.atexit = False  # their directory is removed then, when nobody can be reading any more

    def store(self, rows: list[Any]) -> Place | None:
        """Writes elements as one batch; None where no file can hold them together."""
        space = self._space()
        if space is not self._in_space:
            self.finish()
        if self._writer is not None:
            try:
                return self._write(self._writer, rows)
            except BadType:
                self.finish()
        writer = self._writer = new_writer(space)
        self._in_space = space
        self._files.append(writer)
        self._reader = writer.reader()
        try:
            return self._write(writer, rows)
        except BadType:
            self._files.remove(writer)
            self._writer = None
            writer.discard()
            return None

    def _write(self, writer: SpillWriter, rows: list[Any]) -> Place:
        assert self._reader is not None
        try:
            stored = writer.write(rows)
        except OSError:
            self._writer = None  # what is in the file can still be read, but no more can be added
            raise
        self._last_rows = FixedRows.of(self._reader, stored, rows, self._last_rows)
        return Place(self._reader, stored, self._last_rows)

    def finish(self) -> None:
        """Completes the last file, so that other programs can open it; what comes later goes to another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            # Without its end a file is good for us as it is: that is no reason to lose what was read so far.
            with contextlib.suppress(OSError):
                writer.close()


def _discard(files: list[SpillWriter], owner: int) -> None:
    if os.getpid() == owner:  # a forked child has a copy of all this, and must leave it alone
        for writer in files:
            writer.discard()
