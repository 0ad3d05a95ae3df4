"""Lines of text files as a source: what `ps.TextLineDataset` is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from ..block import Block
from ..cursor import Cursor, State
from ..errors import FormatError
from ..leaf import leaf_bytes, string
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, Room, argument
from ..spec import Spec, TensorSpec
from .file_window import FileWindow, closed_on_error, of_stream
from .paths import check_compression, compressed_bytes, expand_paths, likes_bytes, open_stream, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error

__all__ = ["TextLines"]

# What a line is expected to have until the first ones were seen.
_LINE_BYTES = 80


@dataclasses.dataclass(frozen=True, eq=False)
class TextLines(StreamsFiles, Op):
    r"""The lines of text files, as byte strings without their ends.

    A line ends with LF or CR LF; the last one of a file may do without. One file comes after the other. A missing file,
    or compressed data that are damaged, is an error in its place, and the next file follows.

    Args:
        filenames: A path, a pattern, a URI, or a list of them.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer line, and the lines asked for.
    State: the number of the file and an offset in it; of a compressed one, which is read again up to there, the number
        of lines.
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    filenames: Any
    compression_type: str | None = None
    buffer_size: int | None = None
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        compression = check_compression("compression_type", self.compression_type)
        object.__setattr__(self, "compression_type", compression)
        if self.buffer_size is not None:
            object.__setattr__(self, "buffer_size", argument("buffer_size", self.buffer_size, at_least=0))
        object.__setattr__(self, "_paths", tuple(expand_paths(self.filenames)))

    @property
    def name(self) -> str:
        return "TextLineDataset"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), string))

    def footprint(self, sizes: Sizes) -> Footprint:
        inflating = compressed_bytes(self._paths) if self.compression_type else 0
        return of_stream(sizes, likes_bytes(self.buffer_size, self._paths, bool(inflating)), inflating)

    def open(self, context: Context) -> Cursor:
        def open_lines(path: str, position: State) -> _Lines:
            return _Lines(path, context, self.compression_type, self.buffer_size, position or 0)

        return FilesCursor(context, self._paths, open_lines, self.on_error)

    def describe(self) -> str:
        compression = "" if self.compression_type is None else f", {self.compression_type}"
        return f"TextLineDataset({shown_paths(self._paths)}{compression})"


def _fitting(lines: list[bytes], room: Room) -> tuple[list[bytes], int]:
    """The lines that there is room for, and how many bytes they have with their ends."""
    for i, line in enumerate(lines, 1):
        if not room.add(leaf_bytes(line)):
            del lines[i:]
    return lines, sum(map(len, lines)) + len(lines)


class _Lines:
    """The lines of one file from a position on: an offset, or a number of lines where it is compressed."""

    def __init__(
        self, path: str, context: Context, compression: str | None, buffer_size: int | None, position: int
    ) -> None:
        offset = 0 if compression else position
        self._window = FileWindow(open_stream(path, compression, offset), context.share, buffer_size, offset)
        self._context = context
        self._by_number = compression is not None
        self._number = 0
        self._each_bytes = _LINE_BYTES
        if self._by_number:
            with closed_on_error(self):
                self.skip(position)

    def read(self, n: int, room: Room) -> Block | None:
        window = self._window
        if not self._reach_line():
            return None
        # About as many bytes as n lines have, cut behind the last line end.
        start = window.start
        cut = window.data.rfind(b"\n", start, min(window.stop, start + n * self._each_bytes))
        if cut < 0:
            cut = window.data.find(b"\n", start, window.stop)
        if cut < 0:
            cut = window.stop
        with memoryview(window.data) as view:
            text = bytes(view[start:cut])
        rows = text.split(b"\n", n)
        if len(rows) > n:  # the last is the rest
            del rows[n:]
        taken = sum(map(len, rows)) + len(rows)
        nbytes = taken + len(rows) * leaf_bytes(b"")
        if nbytes <= self._context.transit.room_bytes:
            room.add(nbytes, len(rows))
        else:
            rows, taken = _fitting(rows, room)
        if b"\r" in text:
            last = len(rows) - (start + taken > window.stop)  # the last one may have no end
            rows[:last] = [line.removesuffix(b"\r") for line in rows[:last]]
        window.drop(min(taken, len(window)))
        self._number += len(rows)
        self._each_bytes = max(16, -(-taken * 9 // (8 * len(rows))))
        return Block.of_rows(rows, has_failures=False)

    def _reach_line(self) -> bool:
        """Reads on until a whole line is there; False at the end of the file."""
        window, looked = self._window, 0
        while window.data.find(b"\n", window.start + looked, window.stop) < 0:
            looked = len(window)
            if not window.more():
                return looked > 0
        return True

    def skip(self, n: int) -> int:
        window, skipped = self._window, 0
        try:
            while skipped < n and self._reach_line():
                end = window.data.find(b"\n", window.start, window.stop)
                window.drop((window.stop if end < 0 else end + 1) - window.start)
                skipped += 1
        except FormatError:
            if not skipped:
                raise
        self._number += skipped
        return skipped

    def position(self) -> State:
        return self._number if self._by_number else self._window.offset

    def close(self) -> None:
        self._window.close()
