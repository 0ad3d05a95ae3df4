"""Writing: all elements of a dataset into TFRecord files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from .._native import frame_records
from ..block import Block
from ..element import Failed
from ..errors import BadArgument, BadType
from ..frames import taken
from ..io.example_encoder import encode_example, encode_examples
from ..io.new_file import REMOTE_BYTES
from ..io.paths import is_local, path_given
from ..io.record_errors import FRAME_BYTES
from ..io.remote import split_options
from ..io.tfrecord_writer import COMPRESSING_BYTES, TFRecordOptions, TFRecordWriter
from ..ops.calling import call, check_callable
from ..plan.node import caller_origin
from ..plan.op import argument, show
from ..spec import INFINITE, Spec
from .progress import ProgressBar
from .run import Run

__all__ = ["to_tfrecord"]

# Elements that are encoded in one call, if there is room for them.
_AT_A_TIME = 1024
_MOST_BYTES = 4 << 20


def to_tfrecord(
    run: Run,
    spec: Spec,
    path: Any,
    num_shards: int = 1,
    compression_type: str | None = None,
    encode: Callable[..., Any] | None = None,
) -> list[str]:
    """Writes all elements to TFRecord files, and returns their paths.

    A file gets its name when all elements were written: an error, or a crash, leaves what was there before. A progress
    bar shows on a terminal.

    Args:
        path: The file, or its URI (`s3://`, `gs://`, `file://`, …); with several shards, files `path-00000-of-00004`
            and so on.
        num_shards: How many files the elements are dealt out to, in turn.
        compression_type: "GZIP", "ZLIB", or None. Each file that is compressed takes 0.3 MB of the budget meanwhile.
        encode: Makes a record, or a dict of features, of an element. None: elements that are dicts become Examples, and
            `bytes` are written as they are.

    >>> import tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = ps.Dataset.range(5).to_tfrecord(folder + "/n", 2, encode=lambda n: {"n": n})
    ...     [sum(1 for _ in ps.TFRecordDataset(file)) for file in files]
    [3, 2]
    """
    name = path_given(path, "path")
    num_shards = argument("num_shards", num_shards, at_least=1)
    options = TFRecordOptions(compression_type)
    if encode is not None:
        check_callable("encode", encode)
    if spec.cardinality == INFINITE:
        raise BadArgument("cannot write an infinite dataset; use take(n) for a part of it")
    whole, options_of_uri = split_options(name)
    endings = [""] if num_shards == 1 else [f"-{i:05}-of-{num_shards:05}" for i in range(num_shards)]
    paths = [f"{whole}{ending}{options_of_uri}" for ending in endings]
    total = None if spec.cardinality < 0 else spec.cardinality
    progress = ProgressBar("to_tfrecord: writing", total, run.shows_progress)
    sink = _Sink(run, [], encode)
    compressing = 0 if options.compression_type is None else COMPRESSING_BYTES
    sink.reserve(num_shards * (compressing + (0 if is_local(name) else REMOTE_BYTES)))
    with ExitStack() as stack:
        stack.callback(progress.close)
        stack.callback(sink.close)
        for file in paths:
            sink.writers.append(TFRecordWriter(file, options))
            stack.callback(sink.writers[-1].discard)  # does nothing to one that was closed
        while (block := run.pull(_AT_A_TIME)) is not None:
            sink.write(block)
            progress.advance(block.size)
        for writer in sink.writers:
            writer.close()
    return paths


class _Sink:
    """Encodes blocks and deals their records out to files in turn."""

    def __init__(self, run: Run, writers: list[TFRecordWriter], encode: Callable[..., Any] | None) -> None:
        self.writers = writers
        self._encode = encode
        self._origin = caller_origin()
        self._share = run.ledger.share("to_tfrecord")
        self._lease = self._share.acquire(0)
        self._in_streams = self._share.acquire(0)
        self._place = 0

    def reserve(self, nbytes: int) -> None:
        """Sets aside what the streams to the files hold."""
        self._in_streams.settle(nbytes, single=True)

    def write(self, block: Block) -> None:
        """Writes a block, a few MB at a time: views of arrays may be of any size."""
        room = min(_MOST_BYTES, self._share.spare_bytes // 4)
        each = max(1, block.nbytes // block.size)
        step = max(len(self.writers), room // each)
        for start in range(0, block.size, step):
            self._write(block if step >= block.size else block[start : start + step])

    def _write(self, block: Block) -> None:
        num = len(self.writers)
        for shard, writer in enumerate(self.writers):
            first = (shard - self._place) % num
            if first < block.size:
                self._write_some(writer, block, slice(first, None, num))
        self._place += block.size
        self._lease.settle(0)

    def _write_some(self, writer: TFRecordWriter, block: Block, part: slice) -> None:
        """The elements of a block that go to one file, framed."""
        if block.columns is not None and block.structure.kind is dict and block.structure.is_flat and not self._encode:
            self._lease.settle(3 * block.nbytes + _AT_A_TIME * FRAME_BYTES)
            columns = dict(zip(block.structure.keys, [column[part] for column in block.columns], strict=True))
            writer.write_framed(encode_examples(columns, framed=True)[0])
            return
        rows = block.rows()
        records = [self._record(rows[i], self._place + i) for i in range(*part.indices(len(rows)))]
        size = sum(map(len, records)) + len(records) * FRAME_BYTES
        self._lease.settle(2 * size)
        framed = bytearray(size)
        frame_records(records, framed, 0)
        writer.write_framed(framed)

    def _record(self, element: Any, place: int) -> bytes:
        if type(element) is Failed:
            raise taken(element)
        if self._encode is not None:
            try:
                element = call(self._encode, element)
            except Exception as error:
                error.add_note(f"in to_tfrecord(encode={show(self._encode)}) at {self._origin}, element {place}")
                raise
        if isinstance(element, bytes):
            return element
        if isinstance(element, dict):
            return encode_example(element)
        what = "encode: expected bytes or a dict back" if self._encode else "expected elements that are dicts or bytes"
        advice = "" if self._encode else "; give encode= a function that makes them of yours"
        raise BadType(f"{what}, got {type(element).__name__} for element {place}{advice}")

    def close(self) -> None:
        self._in_streams.release()
        self._lease.release()
