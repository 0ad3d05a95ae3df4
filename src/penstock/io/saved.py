"""Saved datasets as a source: `load`."""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import Cursor
from ..element import Failed, detach, nbytes_of
from ..errors import FormatError, SpecMismatch
from ..indexed import IndexCursor
from ..memory.compression import codec_of, decompressing
from ..memory.ipc import IpcReader, Stored
from ..memory.saved_set import SavedSet, check_path
from ..order import Index, RangeOrder
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import Spec, describe, merge

__all__ = ["Load"]

_MOST_BATCHES = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Load(Op):
    """The elements of a dataset that was saved.

    They can be read in any order: a `shuffle` on top shuffles indices. Elements of one file come in the order in which
    they were saved; where there are several (`save(shard_func=…)`), one file comes after the other.

    Args:
        path: The directory.
        element_spec: What the elements are like, if more is known than was when they were saved.
        compression: Not needed: files tell.
        shard: One of the files only.

    Memory: 340 bytes for each batch of elements in the files, which have 128 kB or 256 elements (or one, if it is
        larger); and the batches read last, as far as an eighth of the budget holds them. While a compressed batch is
        read, it is there three times: as it lies in the file, as it is unpacked, and as its elements hold it.
    State: one integer.

    >>> import tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ps.Dataset.range(5).save(folder)
    ...     list(ps.Dataset.load(folder).skip(3))
    [np.int64(3), np.int64(4)]
    """

    path: str
    element_spec: Any = None
    compression: str | None = None
    shard: int | None = dataclasses.field(default=None, repr=False)
    saved: SavedSet = dataclasses.field(init=False, repr=False)

    tuning = ("element_spec", "compression")  # files tell both

    def __post_init__(self) -> None:
        codec_of(self.compression)
        object.__setattr__(self, "saved", SavedSet(check_path(self.path)))

    def only(self, shard: int) -> Load:
        """One file of it."""
        one = dataclasses.replace(self, shard=shard)
        object.__setattr__(one, "saved", self.saved)
        return one

    @property
    def _numbers(self) -> range:
        return range(len(self.saved.shards)) if self.shard is None else range(self.shard, self.shard + 1)

    @property
    def _read_bytes(self) -> int:
        """The most that reading one batch takes."""
        return max((self.saved.shards[number].read_bytes for number in self._numbers), default=0)

    @property
    def file_names(self) -> Sequence[str]:
        """Those of the set that was there: `save` gives each a name of its own."""
        return [os.path.relpath(self.saved.shards[number].path, self.saved.path) for number in self._numbers]

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        count = sum(self.saved.shards[number].num_rows for number in self._numbers)
        if self.element_spec is None:
            return self.saved.spec.with_cardinality(count)
        try:
            merge(self.saved.spec.element, self.element_spec)
        except SpecMismatch:
            saved = describe(self.saved.spec.element)
            raise SpecMismatch(f"element_spec: {saved} was saved, got {describe(self.element_spec)}") from None
        return Spec(self.element_spec, count)

    @property
    def traits(self) -> Traits:
        return SOURCE

    @property
    def reading_may_fail(self) -> bool:
        return True

    def reader(self, context: Context) -> Reader:
        return _BatchReader([self.saved.reader(number) for number in self._numbers], self._read_bytes, context)

    def open(self, context: Context) -> Cursor:
        order = RangeOrder(self.spec([]).cardinality)
        return IndexCursor(self.reader(context), order, fitting=context.transit.fitting)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        one = times(1, sizes.output)
        floor = None if one is None else self._read_bytes + one
        return Footprint(floor, "one batch of its files, and one element on its way", floor)

    def describe(self) -> str:
        return f"load({self.path!r:.60}{'' if self.shard is None else f', file {self.shard}'})"


class _BatchReader:
    """Reads elements by number. Batches that were read last are kept for a while: neighbours are often asked for next.

    They lie in slots of the arena, which are on the ledger, and go when a stage is short of memory. `read_bytes` is
    the most that reading one of them takes.
    """

    def __init__(self, readers: list[IpcReader], read_bytes: int, context: Context) -> None:
        self._batches: list[tuple[IpcReader, Stored]] = [(r, stored) for r in readers for stored in r.batches]
        self._starts = np.cumsum([0, *[stored.num_rows for _, stored in self._batches]])
        self._read_bytes = read_bytes
        self._context = context
        self._recent: dict[int, tuple[list[Any], int]] = {}
        self._recent_bytes = 0
        # By a weak reference: readers are many where a dataset is opened again and again.
        forget = weakref.WeakMethod(self._forget)
        weakref.finalize(self, context.share.on_shortage(lambda: (forget() or _nothing)()))

    def _forget(self) -> None:
        self._recent = {}
        self._recent_bytes = 0

    def read(self, index: Index) -> Block:
        if isinstance(index, slice):
            return Block.of_rows(self._consecutive(index.start, index.stop))
        numbers = np.searchsorted(self._starts, index, "right") - 1
        rows: list[Any] = [None] * len(index)
        # Batch by batch, and what is taken from a batch of many is copied: it must not keep the whole of it.
        for i in np.argsort(numbers, kind="stable").tolist():
            number = int(numbers[i])
            rows[i] = self._one(number, int(index[i] - self._starts[number]))
        return self._joined(rows)

    def _one(self, number: int, offset: int) -> Any:
        """An element of a batch, and nothing of the others."""
        batch = self._batch(number)
        return batch[0] if len(batch) == 1 else detach(batch[offset])

    def _consecutive(self, start: int, stop: int) -> list[Any]:
        rows: list[Any] = []
        # Of another batch no more is known than that it is no larger than the largest: the rest comes another time.
        while start < stop and (not rows or self._context.share.has_room(self._read_bytes)):
            number = int(np.searchsorted(self._starts, start, "right")) - 1
            first = int(self._starts[number])
            part = self._batch(number)[start - first : stop - first]
            if self._batches[number][1].num_rows > 1 and not self._context.share.has_room(self._read_bytes):
                # Who holds a view of a batch keeps all of it, and there is no room for another one.
                part = [detach(row) for row in part]
            rows += part
            start += len(part)
        return rows

    def _joined(self, rows: list[Any]) -> Block:
        """Elements as one block in slots, where they are alike and small."""
        block = Block.of_rows(rows)
        if block.has_failures or block.size == 1 or block.nbytes > block.size * 4096:
            return block
        try:
            return concat_blocks([block], self._context.arena.empty) or block
        except SpecMismatch:
            return block

    def _batch(self, number: int) -> list[Any]:
        recent = self._recent
        known = recent.pop(number, None)
        if known is None:
            reader, stored = self._batches[number]
            most = self._context.share.budget_bytes // 8
            while recent and (self._recent_bytes + stored.nbytes > most or len(recent) >= _MOST_BATCHES):
                self._recent_bytes -= recent.pop(next(iter(recent)))[1]
            del recent  # where room has to be made, what was read last goes only if nobody refers to it
            try:
                rows = reader.read(stored, self._buffer, writeable=True, decompressing=self._decompressing)
            except FormatError as error:
                return [Failed(error)] * stored.num_rows
            if stored.num_rows == 1:
                return rows
            known = rows, sum(map(nbytes_of, rows)) if reader.is_compressed else stored.nbytes
            self._recent_bytes += known[1]
        self._recent[number] = known  # the last is the latest
        return known[0]

    def _decompressing(self, nbytes: int) -> AbstractContextManager[None]:
        return decompressing(self._context.share, nbytes)

    def _buffer(self, nbytes: int) -> np.ndarray:
        return self._context.arena.empty((nbytes,), np.dtype(np.uint8))


def _nothing() -> None:
    pass
