"""snapshot: elements saved by the first iteration, for later ones and later programs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadType, StateError
from ..memory.compression import codec_of, compressing_bytes, held_to_read
from ..memory.ledger import Share
from ..memory.place import BATCH_HEAD_BYTES
from ..memory.saved_set import BATCH_BYTES, SavedSet, SetWriter, check_path, is_saved, shard_of
from ..memory.sealing import in_native_order
from ..plan.footprint import Footprint, Sizes, times
from ..plan.identity import identity_of
from ..plan.node import Node
from ..plan.op import Context, Op
from ..spec import Spec
from .calling import call

__all__ = ["Snapshot"]


# Batches are not made smaller than this for want of memory.
_LEAST_BATCH_BYTES = 8 << 10


class _Written:
    """What is saved, as the user wrote it. Looked at once: functions may keep things as they run."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __reduce__(self) -> tuple[type[_Written], tuple[Node]]:
        return _Written, (self._node,)

    @functools.cached_property
    def name(self) -> str:
        """That of the directory."""
        return hashlib.blake2b("\n".join(identity_of(self._node)).encode(), digest_size=8).hexdigest()


@dataclasses.dataclass(frozen=True)
class Snapshot(Op):
    """Saves the elements of the first iteration that reaches the end, and reads them in later ones.

    Each pipeline has a directory of its own in `path`, named after a hash of its operators and their functions: a
    changed pipeline writes another one. An iteration that stops early saves nothing. While another one is writing, in
    this process or elsewhere, elements pass by as they are. An element that fails is an error as it is saved, and left
    out later. The files are those of `save`.

    Args:
        path: The directory for snapshots.
        compression: "GZIP" for small files (zstd), "SNAPPY" for files that are quick to read (lz4), None or "AUTO" for
            files whose elements need not be unpacked at all.
        reader_func: Gets a dataset of datasets, one for each file, and returns a dataset of elements. None: one file
            after the other.
        shard_func: Gets an element and returns the number of its file. None: one file.

    Memory: while it saves, elements that wait to be written, an eighth of the budget at most, and what is being
        compressed. Later what `load` holds.
    State: its input's, or that of the dataset that is read.

    >>> import tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calls = []
    ...     ds = ps.Dataset.range(3).map(lambda x: calls.append(x) or x * 10).snapshot(folder)
    ...     [int(x) for x in ds.repeat(2)], len(calls)
    ([0, 10, 20, 0, 10, 20], 3)
    """

    path: str | bytes | os.PathLike[str]
    compression: str | None = "AUTO"
    reader_func: Callable[..., Any] | None = None
    shard_func: Callable[..., Any] | None = None
    written: _Written | None = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)
    internal: ClassVar[tuple[str, ...]] = ("written",)
    gives_copies = True
    tuning: ClassVar[tuple[str, ...]] = ("path", "compression")

    def __post_init__(self) -> None:
        check_path(self.path)
        codec_of(self.compression)
        for name in ("reader_func", "shard_func"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise BadType(f"{name}: expected a function, got {type(function).__name__} {function!r:.60}")

    @classmethod
    def of(
        cls,
        self: Any,
        path: str | bytes | os.PathLike[str],
        compression: str | None = "AUTO",
        reader_func: Callable[..., Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
    ) -> tuple[Snapshot, list[Any]]:
        """The operator as it goes on a dataset."""
        return cls(path, compression, reader_func, shard_func, written=_Written(self.node)), [self]

    def directory(self) -> str:
        """Where the snapshot of this pipeline lies."""
        assert self.written is not None
        return os.path.join(check_path(self.path), self.written.name)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0]

    def footprint(self, sizes: Sizes) -> Footprint | None:
        if is_saved(self.directory()):  # then its input never runs, and nobody may know what it gives
            batch = max((shard.read_bytes for shard in SavedSet(self.directory()).shards), default=0)
            floor = batch + (times(2, sizes.output) or 0)
            return Footprint(floor, "one batch of the files, and elements on their way from them", floor)
        size = None if sizes.input is None else sizes.input.as_copy()
        saving, one = times(2, size), times(1, size)
        if saving is None or one is None or size is None:
            return Footprint(None, "elements on their way to the files", None)
        # The next iteration reads what this one writes: batches as large as `_batch_bytes` says, or an element.
        codec = codec_of(self.compression)
        batch = max(one, _LEAST_BATCH_BYTES if codec is None else BATCH_BYTES)
        batch += BATCH_HEAD_BYTES + (0 if codec is None else batch // 64)
        reading = held_to_read(batch, 0 if codec is None else batch, len(size.leaves))
        if codec is not None:
            saving += compressing_bytes(saving + BATCH_BYTES)
        saving = max(saving, 2 * one + reading)
        return Footprint(saving, "elements on their way to the files", saving)

    def open(self, context: Context) -> Cursor:
        return _SnapshotCursor(context, self)


def _batch_bytes(share: Share, codec: str | None) -> int:
    """How large a batch may be that a run like this one can be sure to read: its floor has room for a few elements."""
    own_bytes = share.floor_bytes // share.num_cursors
    return BATCH_BYTES if codec is not None else min(BATCH_BYTES, own_bytes // 4 + share.common_bytes // 32)


class _SnapshotCursor(Cursor):
    """Reads the snapshot if there is one as it is opened; else its input, and saves what passes if nobody else does."""

    def __init__(self, context: Context, op: Snapshot) -> None:
        self._context = context
        self._op = op
        self._directory = op.directory()
        self._writer: SetWriter | None = None
        self._place = 0
        self._begin(is_saved(self._directory))

    def _begin(self, reads: bool) -> None:
        self._reads = reads
        self._may_write = not reads
        if reads:
            self._source = self._context.open_dataset(self._context.load(self._directory, self._op.reader_func))
        else:
            self._source = self._context.input()

    def pull(self, n: int) -> Block | None:
        if self._may_write:
            self._may_write = False
            share, codec = self._context.share, codec_of(self._op.compression)
            self._writer = SetWriter.try_begin(
                self._directory, share, self._context.node.spec.element, codec, _batch_bytes(share, codec)
            )
        block = self._source.pull(n)
        writer = self._writer
        if block is None:
            if writer is not None:
                writer.finish()
                self._writer = None
            return None
        place, self._place = self._place, self._place + block.size
        if self._reads:
            return block
        before = block.rows()
        rows = [self._passed(writer, row, place + i) for i, row in enumerate(before)]
        return block if all(new is old for new, old in zip(rows, before, strict=True)) else Block.of_rows(rows)

    def _passed(self, writer: SetWriter | None, row: Any, place: int) -> Any:
        """The element as files give it back, saved; or the failure of the function that names its file."""
        if type(row) is Failed:
            return row
        row = in_native_order(row)
        if writer is None:
            return row
        shard = 0
        if self._op.shard_func is not None:
            try:
                shard = shard_of(call(self._op.shard_func, row))
            except Exception as error:
                return Failed(self._context.noted(error, place))
        writer.write(row, shard)
        return row

    def skip(self, n: int) -> int:
        if self._writer is None and not self._may_write:
            skipped = self._source.skip(n)
            self._place += skipped
            return skipped
        return super().skip(n)  # what is skipped is saved all the same

    def state(self) -> State:
        return [int(self._reads), self._place, self._source.state()]

    def restore(self, state: State) -> None:
        reads, self._place, below = expect_list(state, 3)
        if bool(reads) != self._reads:
            if reads:
                raise StateError(f"the saved position is in a snapshot that is gone: {self._directory}")
            self._source.close()
            self._begin(reads=False)
        self._source.restore(below)
        # A snapshot is written from the beginning or not at all.
        self._may_write = self._may_write and not self._place

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abort()
            self._writer = None
        self._source.close()
        self._context.close_accounts()
