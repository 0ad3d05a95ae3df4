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
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import BadArgument, BadType, FormatError, PenstockError
from .compression import copies_in, decompressing_bytes
from .footer import blocks, num_rows
from .layout import Layout
from .leaves import Views

if TYPE_CHECKING:
    from .spill import SpillSpace

__all__ = ["ALONE_BYTES", "IpcReader", "IpcWriter", "Kind", "Stored", "rows_per_batch"]

_OURS = "penstock"
_MAGIC = b"ARROW1"
#: An array this large is written from where it lies, in a batch of its own; smaller ones are stacked.
ALONE_BYTES = 64 << 10
_STACKED_BYTES = 1 << 20
_STACKED_ROWS = 1024
# Parts of a batch that are smaller than this are written together.
_JOINED_BYTES = 4096
# The checksum of a batch's body, in the metadata of its head.
_CHECKSUM = "penstock.crc32"
_CHECKSUM_TEXT = b"crc32:%08x"
_UNKNOWN = b"crc32:????????"


class Stored(NamedTuple):
    """Where a batch lies in its file."""

    offset: int
    nbytes: int
    num_rows: int


class Kind(NamedTuple):
    """Which elements a file holds; what files of one kind may share, for it takes a while to work out."""

    layout: Layout | None
    schema: Any
    head_bytes: int  # magic and schema, which are written with the first batch

    @staticmethod
    def of(layout: Layout | None, metadata: Mapping[str, str] = {}) -> Kind:
        import pyarrow as pa

        ours = json.dumps({"version": 1, "elements": None if layout is None else layout.to_json()})
        texts = {**metadata, _OURS: ours}
        schema = pa.schema([], metadata=texts) if layout is None else layout.schema(texts)
        return Kind(layout, schema, 8 + schema.serialize().size)


def rows_per_batch(element_bytes: int) -> int:
    """How many elements of a size to write at a time: large ones alone, because only then they need not be copied."""
    if element_bytes >= ALONE_BYTES:
        return 1
    return min(_STACKED_ROWS, _STACKED_BYTES // max(1, element_bytes))


class File(Protocol):
    """An unbuffered binary file, as far as a writer needs it."""

    def write(self, data: Any, /) -> int | None: ...

    def close(self) -> None: ...


def _open_new(path: str) -> File:
    return open(path, "wb", buffering=0)


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
    ) -> None:
        self.path = os.fspath(path)
        self._checksums = checksums
        self._codec = codec
        #: Of the largest batch, what it has in the file, and what it takes once decompressed.
        self.largest_stored_bytes = self.largest_raw_bytes = 0
        self.batches: list[Stored] = []
        self.num_rows = 0
        self.kind = kind
        self._metadata = {key: value for key, value in metadata.items() if key != _OURS}
        with space.disk_full(0) if space is not None else contextlib.nullcontext():
            self._sink = _Sink((open_file or _open_new)(self.path), space)
        self._writer: Any = None

    @property
    def bytes_written(self) -> int:
        return self._sink.bytes_written

    def can_hold(self, row: Any) -> bool:
        """Whether the element has the structure and the dtypes of those before; shapes may differ."""
        if self.kind is not None:
            return self.kind.layout is not None and self.kind.layout.leaves_of(row) is not None
        try:
            return Layout.of(row) is not None
        except BadType:
            return False

    def write(self, rows: Sequence[Any]) -> Stored:
        """Appends elements as one batch. A single one is not copied, several are stacked first."""
        if not rows:
            raise BadArgument("expected at least one element to write, got none")
        if self.kind is None:
            self.kind = Kind.of(Layout.of(rows[0]), self._metadata)
        layout = self.kind.layout
        assert layout is not None
        taken_apart = []
        for row in rows:
            if (leaves := layout.leaves_of(row)) is None:
                expected, got = (json.dumps(layout.to_json()) for layout in (layout, Layout.of(row)))
                raise BadType(f"expected an element like those before in {self.path}, {expected}, got {got}")
            taken_apart.append(leaves)
        return self.write_leaves(taken_apart)

    def write_leaves(self, leaves_by_row: Sequence[list[Any]]) -> Stored:
        """Appends elements that the layout has taken apart."""
        return self.write_by_leaf([list(values) for values in zip(*leaves_by_row, strict=True)], len(leaves_by_row))

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
        self._writer.write_batch(batch, custom_metadata={_CHECKSUM: _UNKNOWN} if self._checksums else None)
        if self._checksums:
            self._sink.fill_in_checksum()
        self._sink.put()
        stored = Stored(offset, self.bytes_written - offset, num_rows)
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
        self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), kind.schema, options=options)

    def reader(self) -> IpcReader:
        """Reads what was written so far, and what will be."""
        return IpcReader(self.path, writer=self)

    def close(self) -> None:
        """Writes the footer: the file is complete. A second call does nothing."""
        if self._sink.closed:
            return
        try:
            if self._writer is None:
                self._start(self.kind or Kind.of(None, self._metadata))
            self._writer.close()
            self._sink.put()
        finally:
            self._sink.close()

    def discard(self) -> None:
        """Removes the file, complete or not, and gives its bytes back to the space."""
        self._sink.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        self._sink.give_back()


class _Sink:
    """What pyarrow writes to: collects the parts of a batch and writes them at once, the large ones uncopied."""

    def __init__(self, file: File, space: SpillSpace | None) -> None:
        self._file = file
        self._space = space
        self._parts: list[Any] = []
        self._pending = 0
        self._reserved = 0
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
        """Puts the checksum of a batch's body into its head, where room was left for it."""
        head = next(i for i, part in enumerate(self._parts) if type(part) is bytes and _UNKNOWN in part)
        checksum = 0
        for part in self._parts[head + 1 :]:
            checksum = zlib.crc32(part, checksum)
        self._parts[head] = self._parts[head].replace(_UNKNOWN, _CHECKSUM_TEXT % checksum)

    def put(self) -> None:
        """Writes what was collected."""
        parts, self._parts = self._parts, []
        pending, self._pending = self._pending, 0
        if self._space is None:
            self._put(parts)
            return
        self._space.reserve(pending)
        self._reserved += pending
        with self._space.disk_full(pending):
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

    def give_back(self) -> None:
        reserved, self._reserved = self._reserved, 0
        if self._space is not None:
            self._space.release(reserved)


class IpcReader:
    """Reads batches of a file that `IpcWriter` wrote. Any thread may read at any time.

    Args:
        path: A complete file; or, with one of the others, any.
        writer: Who is still writing it.
        kind: Which elements it holds, for who knows where its batches are as well.
    """

    def __init__(self, path: str | os.PathLike[str], writer: IpcWriter | None = None, kind: Kind | None = None) -> None:
        self.path = os.fspath(path)
        self._writer = writer
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._closer = weakref.finalize(self, os.close, self._fd)
        self._kind = kind
        # Bytes that others may have written are looked at before pyarrow is trusted with them.
        self._is_foreign = writer is None and kind is None
        #: Whether a compressed batch was met.
        self.is_compressed = False
        self._batches: list[Stored] = []
        #: What the writer was given to keep.
        self.metadata: dict[str, str] = {} if writer is None else dict(writer._metadata)
        if writer is None and kind is None:
            try:
                self._read_head()
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
            raise self._wrong("it holds no elements")
        views = _views_of(buffer, writeable)
        scratch: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self._is_foreign and (nbytes := self._decompressing_bytes(buffer, stored)) is not None:
            if decompressing is None:
                raise self._wrong("it is compressed, and files like this one are not")
            self.is_compressed = True
            views, scratch = copies_in(into, writeable), decompressing(nbytes)
        with scratch:
            return self._rows(buffer, stored, kind, views)

    def _rows(self, buffer: np.ndarray, stored: Stored, kind: Kind, views: Views) -> list[Any]:
        import pyarrow as pa

        assert kind.layout is not None
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(buffer), kind.schema)
            batch.validate(full=True)  # offsets decide which memory is looked at
            if batch.num_rows != stored.num_rows or any(c.null_count for c in batch.columns if c.type != pa.null()):
                raise FormatError(f"expected {stored.num_rows:,} rows without nulls")
            return kind.layout.rows(batch.columns, batch.num_rows, views)
        except (pa.ArrowException, ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            raise self._wrong(f"the batch at byte {stored.offset:,} is damaged: {error}") from error

    def _decompressing_bytes(self, buffer: np.ndarray, stored: Stored) -> int | None:
        try:
            return decompressing_bytes(buffer)
        except (FormatError, LookupError, TypeError, ValueError, struct.error) as error:
            raise self._wrong(f"the batch at byte {stored.offset:,} is damaged: {error}") from error

    def _check(self, buffer: np.ndarray, stored: Stored) -> None:
        """Compares the body of a batch with the checksum in its head, if it has one."""
        if stored.nbytes < 8:
            return
        head_bytes = 8 + int(buffer[4:8].view("<u4")[0])
        head = buffer[:head_bytes].tobytes()
        found = head.find(_CHECKSUM_TEXT[:6])
        if found < 0:
            return
        text = head[found : found + len(_UNKNOWN)]
        if text != _CHECKSUM_TEXT % zlib.crc32(buffer.data[head_bytes:]):
            raise self._wrong(f"the batch at byte {stored.offset:,} is damaged: its bytes do not have its checksum")

    def fill(self, buffer: np.ndarray, offset: int) -> None:
        """Reads as many bytes of the file as a buffer holds."""
        left = buffer.data.cast("B")
        while left.nbytes:
            count = os.preadv(self._fd, [left], offset)
            if not count:
                raise self._wrong(f"{left.nbytes:,} bytes are missing at byte {offset:,}, where the file ends")
            left, offset = left[count:], offset + count

    def _read_bytes(self, offset: int, nbytes: int) -> bytes:
        buffer = np.empty(nbytes, np.uint8)
        self.fill(buffer, offset)
        return buffer.tobytes()

    def read_head_of(self, stored: Stored) -> bytes:
        """What comes before the buffers of a batch and says where they lie."""
        length = int(np.frombuffer(self._read_bytes(stored.offset, 8), "<u4")[1])
        return self._read_bytes(stored.offset, 8 + length)

    def _read_head(self) -> None:
        """Schema and places of batches, from a complete file."""
        import pyarrow as pa

        try:
            size = os.fstat(self._fd).st_size
            tail = self._read_bytes(max(0, size - 10), min(10, size))
            if self._read_bytes(0, min(6, size)) != _MAGIC or tail[-6:] != _MAGIC:
                raise self._wrong("it is not an Arrow file, or was not written to its end")
            (footer_bytes,) = struct.unpack_from("<i", tail)
            if not 0 < footer_bytes <= size - 18:
                raise self._wrong(f"its footer cannot be {footer_bytes:,} bytes long")
            start = size - 10 - footer_bytes
            footer = self._read_bytes(start, footer_bytes)
            with pa.OSFile(self.path) as file:
                schema = pa.ipc.open_file(file).schema
            self._kind = self._read_kind(schema)
            self._batches = [self._stored(*place, start) for place in blocks(footer)]
        except PenstockError:
            raise
        except (pa.ArrowException, ArithmeticError, LookupError, OSError, SyntaxError, TypeError, ValueError) as error:
            raise self._wrong(str(error)) from error
        except (struct.error, RecursionError, MemoryError) as error:
            raise self._wrong(f"its footer is damaged: {error}") from error

    def _read_kind(self, schema: Any) -> Kind:
        texts = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        if _OURS not in texts:
            raise self._wrong("penstock did not write it: its schema does not say which elements it holds")
        ours = json.loads(texts.pop(_OURS))
        if ours["version"] != 1:
            raise self._wrong(f"it has version {ours['version']!r} of the format; this penstock reads version 1")
        self.metadata = texts
        layout = None if ours["elements"] is None else Layout.from_json(ours["elements"])
        if layout is not None and not layout.schema({}).equals(schema):
            raise self._wrong("its columns are not those of the elements that it says it holds")
        return Kind(layout, schema, 0)

    def _stored(self, offset: int, head_bytes: int, body_bytes: int, end: int) -> Stored:
        nbytes = head_bytes + body_bytes
        if min(offset, head_bytes, body_bytes) < 0 or offset + nbytes > end:
            raise self._wrong(f"its footer names {nbytes:,} bytes at byte {offset:,}, which are not there")
        return Stored(offset, nbytes, num_rows(self._read_bytes(offset, head_bytes)))

    def _wrong(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: {what}")

    def close(self) -> None:
        """Closes the file; elements that were read stay. A second call does nothing."""
        self._closer()


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
