"""TFRecord files as a source: what `ps.TFRecordDataset` is made of.

In their own order files are streamed, a window at a time. Where something reaches for records far apart (`shuffle`,
`shard`), files that are not compressed are gone through once for an index, and order is arithmetic on numbers from then
on.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from ..cursor import Cursor, State
from ..errors import BadArgument
from ..leaf import string
from ..memory.ledger import format_bytes
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, Reader, argument
from ..plan.traits import CURSOR, Traits
from ..spec import Spec, TensorSpec
from .file_window import of_stream
from .paths import check_compression, compressed_bytes, expand_paths, is_local, likes_bytes, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error
from .record_index import RecordIndex
from .record_reader import RecordReader
from .record_window import StreamedRecords, Windows

__all__ = ["TFRecords"]

# Not the constant of sources that know how many elements they have.
_INDEXED = Traits(runtime="source")


@dataclasses.dataclass(frozen=True, eq=False)
class TFRecords(StreamsFiles, Op):
    """The records of TFRecord files, as byte strings.

    Args:
        filenames: A path, a pattern, a URI, or a list of them.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        index: Where it is kept: "memory", "saved" beside each file too, or None: in memory, and none of remote files.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file. Then there is no index.

    Memory: the buffer, which grows for a longer record, and the records asked for; under `shuffle` and `shard` an index
        of 8 bytes a record, on disk where it would take more than a small part of the budget.
    State: the number of the file, an offset in it (after decompression), and the number of the record; with an index,
        one integer.
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size", "index")

    filenames: Any
    compression_type: str | None = None
    buffer_size: int | None = None
    index: str | None = dataclasses.field(default=None, kw_only=True)
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _index: RecordIndex | None = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        compression = check_compression("compression_type", self.compression_type)
        object.__setattr__(self, "compression_type", compression)
        if self.buffer_size is not None:
            object.__setattr__(self, "buffer_size", argument("buffer_size", self.buffer_size, at_least=0))
        paths = tuple(expand_paths(self.filenames))
        object.__setattr__(self, "_paths", paths)
        if self.index not in (None, "memory", "saved"):
            raise BadArgument(f"index: expected None, 'memory' or 'saved', got {self.index!r}")
        # Which records are left out shows when they are read: by number they could not be told from others.
        can_have_index = compression is None and self.on_error == "raise"
        has_index = can_have_index and (self.index is not None or all(map(is_local, paths)))
        object.__setattr__(self, "_index", RecordIndex(paths, self.index == "saved") if has_index else None)

    @property
    def name(self) -> str:
        return "TFRecordDataset"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), string))

    @property
    def traits(self) -> Traits:
        return CURSOR if self._index is None else _INDEXED

    @property
    def indexes_first(self) -> bool:
        return self._index is not None

    @property
    def found_elements(self) -> int | None:
        return None if self._index is None else self._index.num_elements

    @property
    def gives_records(self) -> bool:
        return True

    @property
    def reading_may_fail(self) -> bool:
        return True

    def as_stream(self) -> TFRecords:
        stream = copy.copy(self)
        stream.__dict__["_index"] = None
        return stream

    def footprint(self, sizes: Sizes) -> Footprint:
        held = compressed_bytes(self._paths) if self.compression_type else 0
        index = 0 if self._index is None else self._index.nbytes
        part = of_stream(sizes, likes_bytes(self.buffer_size, self._paths, bool(held)), held)
        if not index:
            return part
        likes = None if part.held_bytes is None else part.held_bytes + index
        reason = f"{part.reason}, and an index of {format_bytes(index)}, on disk where memory is short"
        return dataclasses.replace(part, held_bytes=likes, reason=reason)

    def reader(self, context: Context) -> Reader:
        assert self._index is not None
        return RecordReader(self._index, context)

    def open(self, context: Context) -> Cursor:
        windows = Windows()

        def open_records(path: str, position: State) -> StreamedRecords:
            return StreamedRecords(path, context, self.compression_type, self.buffer_size, position, windows)

        return FilesCursor(context, self._paths, open_records, self.on_error)

    def describe(self) -> str:
        compression = "" if self.compression_type is None else f", {self.compression_type}"
        return f"TFRecordDataset({shown_paths(self._paths)}{compression})"
