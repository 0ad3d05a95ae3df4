"""Elements in plain Arrow IPC files: written in batches of rows, read back one batch at a time.

Any program that opens Arrow (or Feather) files can look into them. A file also says, in its schema's metadata, which
structure and dtypes its elements have, so that they come back as they were.

A batch is one run of bytes in the file. `Stored` says where; it is all that is needed to read the batch, in one large
read into one buffer of which the elements are views. Files are never mapped: address space may be limited, and mapped
pages are memory that nobody counts. A file can be read while it is still being written.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import BadArgument, FormatError, PenstockError
from . import arrow_library
from .checksum import CHECKSUM_KEY, UNKNOWN_CHECKSUM, has_right_body, has_right_checksum
from .compression import copies_in, decompressing_bytes, unpacked
from .footer import BLOCK, before_blocks, blocks, buffer_offsets, compressed_buffers, footer_of_none, num_rows
from .layout import Layout
from .leaves import Views
from .opened import OpenedFile
from .sink import File, Sink, open_new
from .walk import Found, Stored, batch_at, batches_in_footer

if TYPE_CHECKING:
    from .spill import SpillSpace

__all__ = ["ALONE_BYTES", "IpcReader", "IpcWriter", "Kind", "Stored", "rows_per_batch"]

_OURS = "penstock"
_MAGIC = b"ARROW1"
_BEGINNING = _MAGIC + b"\0\0"
_END_BYTES = 8  # behind the last batch: that there are no more
#: An array this large is written from where it lies, in a batch of its own; smaller ones are stacked.
ALONE_BYTES = 64 << 10
_STACKED_BYTES = 1 << 20
_STACKED_ROWS = 1024


class Kind(NamedTuple):
    """Which elements a file holds; what files of one kind may share, for it takes a while to work out."""

    layout: Layout | None
    schema: Any
    head_bytes: int  # magic and schema, which are written with the first batch

    @staticmethod
    def of(layout: Layout | None, metadata: Mapping[str, str] = {}, checksums: bool = False) -> Kind:
        arrow_library.load()
        import pyarrow as pa

        ours = {"version": 1, "elements": None if layout is None else layout.to_json()}
        if checksums:
            ours["checksums"] = True
        texts = {**metadata, _OURS: json.dumps(ours)}
        schema = pa.schema([], metadata=texts) if layout is None else layout.schema(texts)
        return Kind(layout, schema, 8 + schema.serialize().size)


def rows_per_batch(element_bytes: int) -> int:
    """How many elements of a size to write at a time: large ones alone, because only then they need not be copied."""
    if element_bytes >= ALONE_BYTES:
        return 1
    return min(_STACKED_ROWS, _STACKED_BYTES // max(1, element_bytes))


class IpcWriter:
    """Writes elements of one structure into a new file.

    Args:
        path: The file, which is made (or emptied) at once.
        open_file: Opens it for writing, without a buffer of its own.
        metadata: Texts to keep with the elements.
        space: Where the file's bytes count; they are reserved before they are written.
        kind: Which elements it holds, where that is known before the first is written.
        checksums: Whether each batch carries one, so that damage is found when it is read: for files that are to last.
        codec: Arrow's codec to compress with, "lz4" or "zstd".
        lists_batches: Whether `batches` names them all, which takes memory for each; else they are found one from the
            other (`IpcReader.batch_at`).

    After an error the file is good for nothing but `discard`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        open_file: Callable[[str], File] | None = None,
        metadata: Mapping[str, str] = {},
        space: SpillSpace | None = None,
        kind: Kind | None = None,
        checksums: bool = False,
        codec: str | None = None,
        lists_batches: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self._checksums = checksums
        self._lists_batches = lists_batches
        self._codec = codec
        #: Of the largest batch, what it has in the file, and what it takes once decompressed.
        self.largest_stored_bytes = self.largest_raw_bytes = 0
        self.batches: list[Stored] = []
        self.num_batches = 0
        self.num_rows = 0
        self.kind = kind
        self._metadata = {key: value for key, value in metadata.items() if key != _OURS}
        with space.writing(0) if space is not None else contextlib.nullcontext():
            self._sink = Sink((open_file or open_new)(self.path), space)
        self._space = space
        self._writer: Any = None

    @property
    def bytes_written(self) -> int:
        return self._sink.bytes_written

    def write(self, rows: Sequence[Any]) -> Stored:
        """Appends elements as one batch. A single one is not copied, several are stacked first."""
        if not rows:
            raise BadArgument("expected at least one element to write, got none")
        if self.kind is None:
            self.kind = Kind.of(Layout.of(rows[0]), self._metadata, self._checksums)
        layout = self.kind.layout
        assert layout is not None
        return self.write_by_leaf(layout.taken_apart(rows, self.path), len(rows))

    def write_by_leaf(self, by_leaf: Sequence[Any], num_rows: int) -> Stored:
        """Appends elements, given as the values of each leaf: a list, or an array of scalars."""
        import pyarrow as pa

        kind = self.kind
        assert kind is not None
        assert kind.layout is not None
        batch = pa.RecordBatch.from_arrays(kind.layout.columns(by_leaf, num_rows), schema=kind.schema)
        if self._writer is None:
            self._start(kind)
        offset = self.bytes_written or kind.head_bytes
        self._writer.write_batch(batch, custom_metadata={CHECKSUM_KEY: UNKNOWN_CHECKSUM} if self._checksums else None)
        if self._checksums:
            self._sink.fill_in_checksum()
        self._sink.put()
        stored = Stored(offset, self.bytes_written - offset, num_rows)
        self.num_batches += 1
        if self._lists_batches:
            self.batches.append(stored)
        self.largest_stored_bytes = max(self.largest_stored_bytes, stored.nbytes)
        if self._codec is not None:
            self.largest_raw_bytes = max(self.largest_raw_bytes, batch.nbytes)
        self.num_rows += num_rows
        return stored

    def _start(self, kind: Kind) -> None:
        import pyarrow as pa

        # None means none, whatever the default may come to be, so that elements can be views. In one thread: what the
        # codec holds for itself is on the ledger once.
        options = pa.ipc.IpcWriteOptions(compression=self._codec, use_threads=self._codec is None)
        new = pa.ipc.new_file
        if not self._lists_batches:  # a file is a stream between a beginning and an end, which names all batches
            self._sink.write(_BEGINNING)
            new = pa.ipc.new_stream
        self._writer = new(pa.PythonFile(self._sink, mode="w"), kind.schema, options=options)

    def reader(self) -> IpcReader:
        """Reads what was written so far, and what will be."""
        return IpcReader(self.path, writer=self, space=self._space)

    def close(self) -> None:
        """Writes the footer: the file is complete. A second call does nothing."""
        if self._sink.closed:
            return
        try:
            kind = self.kind = self.kind or Kind.of(None, self._metadata, self._checksums)
            if self._writer is None:
                self._start(kind)
            self._writer.close()
            self._sink.put()
            if not self._lists_batches:
                self._write_footer(kind)
        finally:
            self._sink.close()

    def _write_footer(self, kind: Kind) -> None:
        """Names all batches, which are looked up in the file for that."""
        reader = self.reader()
        try:
            footer = before_blocks(footer_of_none(kind.schema), self.num_batches)
            nbytes, offset, end = len(footer), kind.head_bytes, self.bytes_written
            self._sink.write(footer)
            for _ in range(self.num_batches):
                found = reader.batch_at(offset, end)
                assert found is not None
                _, head_bytes, body_bytes = found.in_footer
                self._sink.write(BLOCK.pack(offset, head_bytes, 0, body_bytes))
                offset, nbytes = offset + head_bytes + body_bytes, nbytes + BLOCK.size
                self._sink.put_if_long()
            self._sink.write(struct.pack("<i", nbytes) + _MAGIC)
            self._sink.put()
        finally:
            reader.close()

    def discard(self) -> None:
        """Removes the file, complete or not, and gives its bytes back to the space; not in a forked child."""
        self._sink.discard(self.path)


class IpcReader(OpenedFile):
    """Reads batches of a file that `IpcWriter` wrote. Any thread may read at any time.

    Args:
        path: A complete file; or, with one of the others, any.
        writer: Who is still writing it.
        kind: Which elements it holds, for who knows where its batches are as well.
        lists_batches: Whether `batches` names them all, which takes memory for each.
        space: Whose file it is, if it is one that a run has on disk: what is wrong with it is then a `SpillError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        writer: IpcWriter | None = None,
        kind: Kind | None = None,
        lists_batches: bool = True,
        space: SpillSpace | None = None,
    ) -> None:
        super().__init__(path, space)
        self._writer = writer
        self._kind = kind
        # Bytes that others may have written are looked at before pyarrow is trusted with them.
        self._is_foreign = writer is None and kind is None
        self._checksums = writer is not None and writer._checksums
        #: Whether a compressed batch was met.
        self.is_compressed = False
        self._batches: list[Stored] = []
        #: The bytes where the first batch begins and where the last one has ended, of who lists none.
        self.batches_start = self.batches_end = 0
        #: What the writer was given to keep.
        self.metadata: dict[str, str] = {} if writer is None else dict(writer._metadata)
        if writer is None and kind is None:
            try:
                self._read_head(lists_batches)
            except BaseException:
                self.close()
                raise

    @property
    def batches(self) -> list[Stored]:
        """All batches, in the order in which they were written."""
        return self._batches if self._writer is None else self._writer.batches

    @property
    def num_rows(self) -> int:
        return sum(stored.num_rows for stored in self.batches)

    @property
    def layout(self) -> Layout | None:
        """How elements lie in the file; None where it holds none."""
        kind = self._kind if self._writer is None else self._writer.kind
        return None if kind is None else kind.layout

    @property
    def makes_copies(self) -> bool:
        """Whether elements are not all views of what was read: strings are made anew."""
        return self.layout is not None and self.layout.makes_copies

    def read(
        self,
        stored: Stored,
        into: Callable[[int], np.ndarray] | None = None,
        writeable: bool = False,
        decompressing: Callable[[int], contextlib.AbstractContextManager[Any]] | None = None,
    ) -> list[Any]:
        """The elements of a batch: views, read-only unless asked for otherwise, of one buffer that it was read into.

        Args:
            stored: Which batch.
            into: Makes the buffer, an array of so many bytes; `np.empty` if not given.
            writeable: For who alone will use the elements.
            decompressing: Entered with the bytes that a compressed batch takes beside all that, before they are there;
                None to refuse such batches. Its elements are in buffers of their own.
        """
        buffer = np.empty(stored.nbytes, np.uint8) if into is None else into(stored.nbytes)
        self.fill(buffer, stored.offset)
        self._check(buffer, stored)
        kind = self._kind if self._writer is None else self._writer.kind
        if kind is None or kind.layout is None:
            raise self.wrong("it holds no elements")
        views, batch_of = _views_of(buffer, writeable), _read_in_place
        scratch: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self._is_foreign and (nbytes := self._decompressing_bytes(buffer, stored)) is not None:
            if decompressing is None:
                raise self.wrong("it is compressed, and files like this one are not")
            self.is_compressed = True
            views, batch_of, scratch = copies_in(into, writeable), unpacked, decompressing(nbytes)
        with scratch:
            return self._rows(buffer, stored, kind, views, batch_of)

    def _rows(
        self, buffer: np.ndarray, stored: Stored, kind: Kind, views: Views, batch_of: Callable[[np.ndarray, Any], Any]
    ) -> list[Any]:
        import pyarrow as pa

        assert kind.layout is not None
        try:
            batch = batch_of(buffer, kind.schema)
            batch.validate(full=True)  # offsets decide which memory is looked at
            if batch.num_rows != stored.num_rows or any(c.null_count for c in batch.columns if c.type != pa.null()):
                raise FormatError(f"expected {stored.num_rows:,} rows without nulls")
            return kind.layout.rows(batch.columns, batch.num_rows, views)
        except (pa.ArrowException, ArithmeticError, EOFError, LookupError, OSError, TypeError, ValueError) as error:
            raise self.wrong(f"the batch at byte {stored.offset:,} is damaged: {error}") from error

    def _decompressing_bytes(self, buffer: np.ndarray, stored: Stored) -> int | None:
        try:
            return decompressing_bytes(buffer)
        except (FormatError, LookupError, TypeError, ValueError, struct.error) as error:
            raise self.wrong(f"the batch at byte {stored.offset:,} is damaged: {error}") from error

    def _check(self, buffer: np.ndarray, stored: Stored) -> None:
        """Compares a batch with the checksum in its head."""
        if not (has_right_checksum if self._checksums else has_right_body)(buffer):
            raise self.wrong(f"the batch at byte {stored.offset:,} is damaged: its bytes do not have its checksum")

    def read_head_of(self, stored: Stored) -> bytes:
        """What comes before the buffers of a batch and says where they lie."""
        length = int(np.frombuffer(self.read_bytes(stored.offset, 8), "<u4")[1])
        return self.read_bytes(stored.offset, 8 + length)

    def value_offsets(self, stored: Stored) -> list[int] | None:
        """At which bytes of the file the values of each leaf begin; None where they do not lie there as in NumPy."""
        buffers = None if self.layout is None else self.layout.value_buffers()
        if buffers is None or compressed_buffers(head := self.read_head_of(stored)) is not None:
            return None
        places = buffer_offsets(head)
        return [stored.offset + len(head) + places[i] for i in buffers]

    def batch_at(self, offset: int, end: int) -> Found | None:
        """The batch that begins at a byte, as its head says; None where there are no more before another byte."""
        kind = self._kind if self._writer is None else self._writer.kind
        try:
            return batch_at(self.read_bytes, offset, end, 0 if kind is None else len(kind.schema))
        except (FormatError, struct.error) as error:
            raise self.wrong(f"it is damaged: of the batch at byte {offset:,}, {error}") from error

    def batches_in_footer(self) -> Iterator[Found]:
        """All batches of a complete file, one by one, each as its head says; damage is found."""
        size, offset = os.fstat(self._fd).st_size, self.batches_start
        try:
            for named in batches_in_footer(self.read_bytes, self.batches_end, size - 10 - self.batches_end):
                found = self.batch_at(offset, self.batches_end)
                if found is None or found.in_footer != named:
                    raise self.wrong(f"it is damaged: at byte {offset:,} is not the batch that its footer names")
                yield found
                offset += found.stored.nbytes
            if self.batch_at(offset, self.batches_end) is not None:
                raise self.wrong(f"it is damaged: its footer does not name the batch at byte {offset:,}")
        except (FormatError, struct.error) as error:
            if isinstance(error, FormatError) and str(error).startswith(self.path):
                raise
            raise self.wrong(f"its footer is damaged: {error}") from error

    def _read_head(self, lists_batches: bool) -> None:
        """Schema and places of batches, from a complete file."""
        arrow_library.load()
        import pyarrow as pa

        try:
            size = os.fstat(self._fd).st_size
            tail = self.read_bytes(max(0, size - 10), min(10, size))
            if self.read_bytes(0, min(6, size)) != _MAGIC or tail[-6:] != _MAGIC:
                raise self.wrong("it is not an Arrow file, or was not written to its end")
            (footer_bytes,) = struct.unpack_from("<i", tail)
            if not 0 < footer_bytes <= size - 18:
                raise self.wrong(f"its footer cannot be {footer_bytes:,} bytes long")
            start = self.batches_end = size - 10 - footer_bytes
            with pa.OSFile(self.path) as file:
                if lists_batches:
                    schema = pa.ipc.open_file(file).schema
                else:  # nothing of the footer, which is as long as there are batches
                    file.seek(len(_BEGINNING))
                    schema = pa.ipc.read_schema(file)
                    self.batches_start = file.tell()
            self._kind = self._read_kind(schema)
            if lists_batches:
                footer = self.read_bytes(start, footer_bytes)
                self._batches = [self._stored(*place, start) for place in blocks(footer)]
                ends = [stored.offset + stored.nbytes for stored in self._batches]
                begins = [stored.offset for stored in self._batches[1:]]
                if ends != [*begins, start - _END_BYTES][: len(ends)]:  # a batch that is named twice, or not at all
                    raise self.wrong("its footer is damaged: it does not name batches one behind the other")
        except FormatError as error:
            raise error if str(error).startswith(self.path) else self.wrong(f"it is damaged: {error}") from error
        except PenstockError:
            raise
        except (
            pa.ArrowException,
            ArithmeticError,
            EOFError,
            LookupError,
            OSError,
            SyntaxError,
            TypeError,
            ValueError,
        ) as error:
            raise self.wrong(f"it is damaged: what it says of its elements cannot be read ({error})") from error
        except (struct.error, RecursionError, MemoryError) as error:
            raise self.wrong(f"its footer is damaged: {error}") from error

    def _read_kind(self, schema: Any) -> Kind:
        texts = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        if _OURS not in texts:
            raise self.wrong("penstock did not write it: its schema does not say which elements it holds")
        ours = json.loads(texts.pop(_OURS))
        if ours["version"] != 1:
            raise self.wrong(f"it has version {ours['version']!r} of the format; this penstock reads version 1")
        self.metadata = texts
        self._checksums = ours.get("checksums", False)
        layout = None if ours["elements"] is None else Layout.from_json(ours["elements"])
        if layout is not None and not layout.schema({}).equals(schema):
            raise self.wrong("its columns are not those of the elements that it says it holds")
        return Kind(layout, schema, 0)

    def _stored(self, offset: int, head_bytes: int, body_bytes: int, end: int) -> Stored:
        nbytes = head_bytes + body_bytes
        if min(offset, head_bytes, body_bytes) < 0 or offset + nbytes > end:
            raise self.wrong(f"its footer names {nbytes:,} bytes at byte {offset:,}, which are not there")
        stored = Stored(offset, nbytes, num_rows(self.read_bytes(offset, head_bytes)))
        if stored.num_rows < 1:
            raise self.wrong(f"its footer names a batch of {stored.num_rows:,} elements at byte {offset:,}")
        return stored


def _read_in_place(batch: np.ndarray, schema: Any) -> Any:
    import pyarrow as pa

    return pa.ipc.read_record_batch(pa.py_buffer(batch), schema)


def _views_of(memory: np.ndarray, writeable: bool) -> Views:
    start = memory.ctypes.data

    def view(buffer: Any, dtype: np.dtype[Any], count: int) -> np.ndarray:
        if not count:
            return np.empty(0, dtype)
        # Of `memory`, not of Arrow's own object: who gave it knows by it whether it is still in use.
        array = np.ndarray((count,), dtype, memory, buffer.address - start)
        array.flags.writeable = writeable
        return array

    return view
