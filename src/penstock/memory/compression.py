"""Compression: Arrow's own, buffer by buffer, with lz4 or zstd; and what it takes to undo it, before it is undone.

Each buffer of a compressed batch begins with the length that it will have. pyarrow makes a buffer of that length,
whatever it is; so all lengths are read here first. Bytes may be damaged: a length that no codec could come to is
refused, and any other is reserved before the buffer is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadArgument, FormatError
from .arena import slot_bytes
from .footer import compressed_buffers
from .leaves import Views
from .ledger import Share

__all__ = [
    "codec_of",
    "compressing",
    "compressing_bytes",
    "copies_in",
    "decompressing",
    "decompressing_bytes",
    "held_to_read",
    "unpacked",
    "unpacking",
]

#: tf.data's names. GZIP is asked for where files should be small, SNAPPY where they should be quick to read.
_CODECS = {None: None, "": None, "NONE": None, "AUTO": None, "GZIP": "zstd", "SNAPPY": "lz4"}
# What a codec holds for itself while it works on one buffer: measured below 200 kB, with blocks of 64 kB.
_CONTEXT_BYTES = 256 << 10
# An array has masks, offsets and values of its own and of its shape.
_MOST_BUFFERS = 7
# Buffers that do not become smaller grow by their frames: a few bytes for each block.
_FRAMES = 1 / 64
_LZ4_FRAME, _ZSTD = 0, 1
# How many times as long a buffer can become: lz4 adds 255 for each byte, zstd makes 128 kB of 4 bytes.
_MOST_TIMES = {_LZ4_FRAME: 255, _ZSTD: 1 << 15}
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
# A batch that is smaller in its file is unpacked sooner than threads for it have begun.
_WORTH_THREADS = 1 << 20
# Arrow's allocator keeps what is freed for a while; below this it is not worth asking.
_WORTH_RETURNING = 1 << 20


def codec_of(compression: Any) -> str | None:
    """Arrow's codec for one of tf.data's names; None for none."""
    if isinstance(compression, (str, type(None))) and compression in _CODECS:
        return _CODECS[compression]
    names = ", ".join(repr(name) for name in _CODECS)
    raise BadArgument(f"compression: expected one of {names}, got {compression!r}")


class Unpacking(NamedTuple):
    """What buffers of a batch take as they are stored and as they are unpacked, and a codec at work on one of them."""

    stored_bytes: int
    raw_bytes: int
    context_bytes: int
    num_buffers: int
    #: Whether some buffer did not become smaller, and is there as it was.
    keeps_stored: bool


def unpacking(
    head: bytes, read: Callable[[int, int], bytes], body_bytes: int, chosen: Sequence[int] | None = None
) -> Unpacking | None:
    """What the buffers of a batch become, as they themselves say; None if they are not compressed.

    Args:
        head: The batch up to its body.
        read: Reads so many bytes of the body, from one on.
        body_bytes: How long that is.
        chosen: The numbers of the buffers that are wanted; None for all.
    """
    found = compressed_buffers(head)
    if found is None:
        return None
    codec, places = found
    stored, total, context, keeps_stored = 0, 0, _CONTEXT_BYTES, False
    for offset, nbytes in places if chosen is None else [places[i] for i in chosen if i < len(places)]:
        if not nbytes:
            continue
        if offset < 0 or nbytes < 8 or offset + nbytes > body_bytes:
            raise FormatError(f"a buffer of {nbytes:,} bytes at byte {offset:,} of {body_bytes:,}")
        stored += nbytes
        begin = read(offset, min(nbytes, 15))
        length = int.from_bytes(begin[:8], "little", signed=True)
        if length < -1:
            raise FormatError(f"a buffer of {length:,} bytes")
        if length < 0:
            keeps_stored = True
            continue
        if length > (nbytes - 8) * _MOST_TIMES.get(codec, 0):
            raise FormatError(f"{nbytes - 8:,} bytes cannot become {length:,}")
        total += length
        if codec == _LZ4_FRAME:
            context = max(context, _lz4_bytes(begin[8:]))
    return Unpacking(stored, total, context, len(places), keeps_stored)


def decompressing_bytes(batch: np.ndarray) -> int | None:
    """What pyarrow will hold beside a batch while it reads it, as the batch says; None if it is not compressed."""
    head_bytes = 8 + int(batch[4:8].view("<u4")[0])
    body = batch[head_bytes:]
    found = unpacking(
        batch[:head_bytes].tobytes(), lambda start, count: body[start : start + count].tobytes(), body.nbytes
    )
    return None if found is None else found.raw_bytes + found.context_bytes * min(found.num_buffers, _num_threads())


def unpacked(batch: np.ndarray, schema: Any) -> Any:
    """A compressed batch as pyarrow's, whose buffers are malloc's.

    Arrow's own allocator keeps what is freed for each thread that unpacks, and gives back only what the caller's has.
    """
    import pyarrow as pa

    # What reads a batch alone takes no pool; what reads a stream does, which begins with a schema.
    stream = pa.PythonFile(_Parts([schema.serialize(), batch]), mode="r")
    options = pa.ipc.IpcReadOptions(use_threads=batch.nbytes >= _WORTH_THREADS)
    return pa.ipc.open_stream(stream, options=options, memory_pool=pa.system_memory_pool()).read_next_batch()


class _Parts:
    """A file of pieces of memory, one after the other, which pyarrow reads without a copy."""

    closed = False

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = [memoryview(part).cast("B") for part in parts]

    def read(self, nbytes: int) -> memoryview:
        """The next bytes, of one piece only: messages are in one each."""
        if not self._parts:
            return memoryview(b"")
        part = self._parts[0]
        self._parts[0] = part[nbytes:]
        if nbytes >= part.nbytes:
            del self._parts[0]
        return part[:nbytes]


def _lz4_bytes(frame: bytes) -> int:
    """What the blocks of an lz4 frame take: a frame says how large they may be."""
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC or (block := _LZ4_BLOCK_BYTES.get(frame[5] >> 4 & 7)) is None:
        raise FormatError("a buffer that is not an lz4 frame")
    return 2 * block + (128 << 10)


def copies_in(into: Callable[[int], np.ndarray] | None, writeable: bool) -> Views:
    """Makes arrays of Arrow's buffers in memory that `into` gives: Arrow's own is on the ledger for a read only."""

    def copy(buffer: Any, dtype: np.dtype[Any], count: int) -> np.ndarray:
        if not count:
            return np.empty(0, dtype)
        nbytes = count * dtype.itemsize
        memory = np.empty(nbytes, np.uint8) if into is None else into(nbytes)
        memory[:] = np.frombuffer(buffer, np.uint8, nbytes)
        array = memory.view(dtype)
        array.flags.writeable = writeable
        return array

    return copy


def held_to_read(stored_bytes: int, raw_bytes: int, num_leaves: int) -> int:
    """The most that reading a batch takes: as it lies in its file, as pyarrow unpacks it, and as its elements hold it.

    Args:
        stored_bytes: What it has in the file.
        raw_bytes: What it has once it is decompressed; 0 if it is not compressed.
        num_leaves: Of how many leaves its elements are made.
    """
    if not raw_bytes:
        return slot_bytes(stored_bytes) or stored_bytes
    # Each leaf lies in a slot of its own, which may be an eighth larger than what is in it.
    slots = (stored_bytes + raw_bytes) * 9 // 8
    return slots + raw_bytes + _CONTEXT_BYTES * min(num_leaves * _MOST_BUFFERS, _num_threads())


@contextlib.contextmanager
def decompressing(share: Share, nbytes: int) -> Iterator[None]:
    """While pyarrow holds so many bytes of its own beside what it reads."""
    share.charge(nbytes, single=True)
    try:
        yield
    finally:
        share.discharge(nbytes)


def compressing_bytes(nbytes: int) -> int:
    """What it takes to compress so many bytes: room for what they become, and for the codec."""
    return int(nbytes * (1 + _FRAMES)) + _CONTEXT_BYTES


@contextlib.contextmanager
def compressing(share: Share, nbytes: int) -> Iterator[None]:
    """While elements of so many bytes are compressed, in this thread."""
    import pyarrow as pa

    lease = share.acquire(compressing_bytes(nbytes))
    try:
        yield
    finally:
        if nbytes >= _WORTH_RETURNING:  # it leaves the process too, not only the ledger
            pa.default_memory_pool().release_unused()
        lease.release()


def _num_threads() -> int:
    """In how many threads pyarrow unpacks the buffers of a batch."""
    import pyarrow as pa

    return int(pa.cpu_count())
