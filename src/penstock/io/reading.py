"""Files read one after the other, each by what its format says: FilesCursor; and a part of them: FileShard.

What a format brings is an `OpenFile`: it gives the next elements of one file, knows its position there, and can be
opened again at a position. All the rest is here: one file after the other, missing and damaged ones as errors in their
place after which the next file follows, what was skipped, by file, and how several workers share the files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, FormatError
from ..plan.footprint import ElementSize, Footprint, Sizes
from ..plan.op import Context, Op, Room
from ..plan.traits import Traits
from ..spec import UNKNOWN, Spec
from .file_shares import FilePart, PartOfFile, share_of
from .paths import readable

__all__ = ["FileShard", "FilesCursor", "OpenFile", "StreamsFiles", "check_on_error", "first_look"]


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


def first_look(paths: Sequence[str], look: Callable[[str], Any]) -> tuple[str, Any]:
    """The file that says what the elements are, and what a look at it found.

    It is the first that can be read: those before it are errors in their place, which the user may have left out. Where
    none can be read, the error of the first is raised.
    """
    first_error: FormatError | None = None
    for path in paths:
        try:
            with readable(path):
                return path, look(path)
        except FormatError as error:
            first_error = first_error or error
    assert first_error is not None
    try:
        raise first_error
    finally:
        del first_error  # its traceback has this frame


class StreamsFiles:
    """What sources have in common that read files through a `FilesCursor`: workers can share the files."""

    _paths: tuple[str, ...]

    @property
    def file_names(self) -> Sequence[str]:
        """All files, of which a plan shows the first."""
        return self._paths

    def file_shard(self, num_shards: int, index: int) -> Op | None:
        """This source, reading one of several equal parts of its files; None if it is read at any place anyhow."""
        source: Any = self
        if source.traits.runtime == "source":
            return None
        return FileShard(source, num_shards, index, tuple(share_of(self._paths, num_shards, index)))

    def as_stream(self) -> Any:
        """This source, read from the first element to the last even if it could be read at any place."""
        return self


@dataclasses.dataclass(frozen=True, eq=False)
class FileShard(Op):
    """A source of files that reads a part of them. `shard(by="file")` makes it; users do not write it.

    Args:
        source: The source.
        num_shards: How many parts there are.
        index: Which of them this is.
        parts: The files.

    Memory: its source's.
    State: its source's; of a file that is shared, the number of the element too.
    """

    source: Op
    num_shards: int
    index: int
    parts: tuple[FilePart, ...]

    internal = ("parts",)

    @property
    def file_names(self) -> Sequence[str]:
        names: Sequence[str] = getattr(self.source, "file_names", ())
        return names

    @property
    def name(self) -> str:
        return self.source.name

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self.source.spec(inputs).with_cardinality(UNKNOWN)

    @property
    def traits(self) -> Traits:
        return self.source.traits

    @property
    def gives_records(self) -> bool:
        return self.source.gives_records

    @property
    def reading_may_fail(self) -> bool:
        return self.source.reading_may_fail

    @property
    def element_size(self) -> ElementSize | None:
        return self.source.element_size

    def footprint(self, sizes: Sizes) -> Footprint | None:
        return self.source.footprint(sizes)

    def open(self, context: Context) -> Cursor:
        cursor = self.source.open(context)
        assert isinstance(cursor, FilesCursor)
        return cursor.only(self.parts)

    def remark(self) -> str:
        shared = sum(part.owners is not None for part in self.parts)
        return f"{len(self.parts):,} files{f', {shared:,} of them shared' if shared else ''}"

    def describe(self) -> str:
        return f"{self.source.describe()}.shard({self.num_shards}, {self.index}, by='file')"


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
        self._parts: Sequence[FilePart] = [FilePart(path) for path in paths]
        self._open_file = open_file
        self._skips = on_error == "skip"
        self._transit = context.transit
        self._number = 0
        self._position: State = None  # in a file that is to be opened
        self._file: OpenFile | None = None
        self._failed_in = ""

    def only(self, parts: Sequence[FilePart]) -> FilesCursor:
        """This cursor, reading only these parts of its files."""
        self._parts = parts
        return self

    def _opened(self) -> OpenFile:
        part = self._parts[self._number]
        if part.owners is None:
            return self._open_file(part.path, self._position)
        position, number = (None, 0) if self._position is None else expect_list(self._position, 2)
        return PartOfFile(self._open_file(part.path, position), part, number)

    def pull(self, n: int) -> Block | None:
        n = self._transit.begin(n)
        while self._number < len(self._parts):
            block = self._read(n)
            if block is not None and block.has_failures:
                block = self._counted(block)
            if block is not None and block.size:
                return block
        return None

    def _read(self, n: int) -> Block | None:
        """Some elements of the present file; None if that has ended, and the next one is the present one."""
        path = self._parts[self._number].path
        try:
            with readable(path):
                if self._file is None:
                    self._file = self._opened()
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
        while skipped < n and self._number < len(self._parts):
            path = self._parts[self._number].path
            try:
                with readable(path):
                    if self._file is None:
                        self._file = self._opened()
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
        """[number of the file among those it reads, position in it]."""
        return [self._number, self._position if self._file is None else self._file.position()]

    def restore(self, state: State) -> None:
        self._number, self._position = expect_list(state, 2)

    def close(self) -> None:
        if self._file is not None:
            self._position = self._file.position()
            self._file.close()
            self._file = None
