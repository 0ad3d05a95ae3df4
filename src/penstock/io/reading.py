"""FilesCursor: files read one after the other, each by what its format says.

What a format brings is an `OpenFile`: it gives the next elements of one file, knows its position there, and can be
opened again at a position. All the rest is here: one file after the other, missing and damaged ones as errors in their
place after which the next file follows, and what was skipped, by file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, FormatError
from ..plan.op import Context, Room
from .paths import readable

__all__ = ["FilesCursor", "OpenFile", "check_on_error"]


class OpenFile(Protocol):
    """One file, open at a position."""

    def read(self, n: int, room: Room) -> Block | None:
        """The next 1 to n elements, or None at the end; it stops early when there is no more room.

        What can be read past is a `Failed` in its place. A `FormatError` says that nothing more can be read.
        """

    def skip(self, n: int) -> int:
        """Moves on by n elements; returns how many there were. Those that cannot be read count."""

    def position(self) -> State:
        """Where it is, after the last element given."""

    def close(self) -> None: ...


def check_on_error(value: Any) -> None:
    """Refuses what says neither to stop at errors nor to skip them."""
    if value not in ("raise", "skip"):
        raise BadArgument(f"on_error: expected 'raise' or 'skip', got {value!r}")


class FilesCursor(Cursor):
    """The elements of some files, in order.

    Args:
        context: The stage's.
        paths: The files.
        open_file: Opens a file at a position, or at its beginning (None).
        on_error: "skip" leaves out what cannot be read.
    """

    def __init__(
        self,
        context: Context,
        paths: Sequence[str],
        open_file: Callable[[str, State], OpenFile],
        on_error: str = "raise",
    ) -> None:
        self._context = context
        self._paths = paths
        self._open_file = open_file
        self._skips = on_error == "skip"
        self._transit = context.transit
        self._number = 0
        self._position: State = None  # in a file that is to be opened
        self._file: OpenFile | None = None
        self._failed_in = ""

    def pull(self, n: int) -> Block | None:
        n = self._transit.begin(n)
        while self._number < len(self._paths):
            block = self._read(n)
            if block is not None and block.has_failures:
                block = self._counted(block)
            if block is not None and block.size:
                return block
        return None

    def _read(self, n: int) -> Block | None:
        """Some elements of the present file; None if that has ended, and the next one is the present one."""
        path = self._paths[self._number]
        try:
            with readable(path):
                if self._file is None:
                    self._file = self._open_file(path, self._position)
                block = self._file.read(n, self._transit)
        except FormatError as error:
            self._leave()
            self._failed_in = path
            return Block.of_rows([Failed(self._context.located(error))], has_failures=True)
        if block is None:
            self._leave()
        self._failed_in = path
        return block

    def _counted(self, block: Block) -> Block:
        """A block with failures, which are noted by file and left out if that was asked for."""
        rows = block.rows()
        num_failed = sum(type(row) is Failed for row in rows)
        self._context.count_failed(self._failed_in, num_failed)
        for row in rows:
            if type(row) is Failed and isinstance(row.error, FormatError):
                self._context.located(row.error)
        if not self._skips:
            return block
        return Block.of_rows([row for row in rows if type(row) is not Failed], has_failures=False)

    def _leave(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._position = None
        self._number += 1

    def skip(self, n: int) -> int:
        if self._skips:
            return super().skip(n)  # which elements count shows only when they are read
        skipped = 0
        while skipped < n and self._number < len(self._paths):
            path = self._paths[self._number]
            try:
                with readable(path):
                    if self._file is None:
                        self._file = self._open_file(path, self._position)
                    passed = self._file.skip(n - skipped)
            except FormatError:
                self._leave()
                passed = 1
            else:
                if not passed:
                    self._leave()
            skipped += passed
        return skipped

    def state(self) -> State:
        """[number of the file, position in it]."""
        return [self._number, self._position if self._file is None else self._file.position()]

    def restore(self, state: State) -> None:
        self._number, self._position = expect_list(state, 2)

    def close(self) -> None:
        if self._file is not None:
            self._position = self._file.position()
            self._file.close()
            self._file = None
