"""cache: elements kept after they were made once."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed, detach, nbytes_of
from ..errors import FormatError, OverBudget, PenstockError, SpillError
from ..leaf import string
from ..memory.arena import slot_bytes
from ..memory.batch_index import BATCH_INDEX_BYTES
from ..memory.cache_file import WHAT_TO_DO
from ..memory.fixed_rows import FixedRows, RowKind
from ..memory.local_names import local_name
from ..memory.place import BATCH_HEAD_BYTES, Place, Stretch, index_bytes
from ..plan.footprint import Footprint, Sizes, several, times
from ..plan.op import Context, Op, Progress
from ..plan.traits import Traits
from ..spec import UNSEEN, Spec, TensorSpec, spec_leaves
from .cache_store import OF_FILE, CachedPass, CacheStore, FileStore

__all__ = ["Cache"]

# Fewer bytes are not worth a read of their own where the rest of a batch will be wanted too.
_WORTH_READING_BYTES = 64 << 10
# Several elements that a run put on disk together have a 16th of its budget and a head: never an eighth.
_MOST_READ_AT_ONCE = 8
# Batches of a file are not made smaller than this for want of memory.
_LEAST_BATCH_BYTES = 8 << 10
_TRAITS = Traits(keeps=True)


@dataclasses.dataclass(frozen=True)
class Cache(Op):
    """Keeps the elements of the first iteration, and gives them again in later ones without making them.

    All runs of all datasets that come from this call share what is kept. An iteration that stops early keeps what it
    saw, and the next one goes on from there. What has no room in memory goes to disk, to files that are removed with
    the dataset or with the process, however that ends. An element that fails is an error the first time and left out
    later, as in tf.data. Arrays that are kept in memory are given read-only.

    Args:
        filename: Where to keep the elements for later programs: one Arrow file of exactly this name, written as
            `<filename>.part` and renamed when the first iteration that reaches the end has done so. It is good for the
            pipeline that wrote it; another one raises `CacheMismatch`. While another process writes it, this one makes
            its elements itself. Empty: the elements are kept for this process only.

    Memory: all elements, as far as three quarters of the free budget hold them, and less when other stages are short;
        with a `filename` two batches of the file, of 64 kB or one element each, and 4 kB to find batches.
    State: a few integers, one more for each element that failed, and its input's.

    >>> import penstock as ps
    >>> calls = []
    >>> ds = ps.Dataset.range(3).map(lambda x: calls.append(x) or x * 10).cache()
    >>> [int(x) for x in ds.repeat(2)], len(calls)
    ([0, 10, 20, 0, 10, 20], 3)
    """

    filename: str | bytes | os.PathLike[str] = ""
    store: CacheStore = dataclasses.field(default_factory=CacheStore, compare=False, repr=False, kw_only=True)
    internal: ClassVar[tuple[str, ...]] = ("store",)
    gives_copies = True
    tuning: ClassVar[tuple[str, ...]] = ("filename",)  # a position does not depend on where elements are kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "filename", local_name(self.filename, "filename", "a file"))

    @classmethod
    def of(cls, self: Any, filename: str | bytes | os.PathLike[str] = "") -> tuple[Cache, list[Any]]:
        """The operator as it goes on a dataset."""
        cache = cls(filename)
        if cache.filename:
            store = FileStore(os.path.abspath(os.fsdecode(cache.filename)), self.node)
            cache = dataclasses.replace(cache, store=store)
        return cache, [self]

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0]

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def footprint(self, sizes: Sizes) -> Footprint | None:
        came = sizes.input or sizes.output  # nothing comes in where all is kept from before
        size = None if came is None else came.as_copy()
        every, floor = several(sizes.count, size), times(1, size)
        if self.filename:
            # A batch that is read, and an element that is given from it.
            to_read = self.store.to_read_bytes()
            if floor is not None:
                most = max(floor, _LEAST_BATCH_BYTES) + BATCH_HEAD_BYTES
                to_write = slot_bytes(most) + (0 if _are_views(sizes.specs[0]) else most)
                floor += max(to_write, to_read or 0) + BATCH_INDEX_BYTES
            if to_read is not None:  # who knows the file alone takes an element to be as large as a batch
                floor = max(floor or 0, 2 * to_read + BATCH_INDEX_BYTES)
            return Footprint(
                floor, "elements on their way to the file, or from it", floor, known_bytes=BATCH_INDEX_BYTES
            )
        if floor is not None:
            # One that is read, beside the last one of the round before, at which the caller may still look; what comes
            # in is its maker's until it is written. Several that lie on disk together are as much as a sixteenth of
            # the budget.
            floor += floor + index_bytes(sizes.count, every, floor)
            floor += floor // 15
        return Footprint(every, "all elements, the rest on disk", floor, spills=True)

    @property
    def kept(self) -> CacheStore:  # type: ignore[override]  # none for most operators
        return self.store

    def open(self, context: Context) -> Cursor:
        return _CacheCursor(context, self.store)


def _are_views(spec: Any) -> bool:
    """Whether such elements, read from a file, are views of what was read: strings are made anew."""
    return spec is not UNSEEN and all(isinstance(x, TensorSpec) and x.dtype != string for x in spec_leaves(spec))


def _largest_in(block: Block) -> int:
    """Bytes of the largest element."""
    if block.columns is not None and all(column.dtype.kind != "O" for column in block.columns):
        return block.nbytes // block.size  # they are alike
    return max(map(nbytes_of, block.rows()))


class _CacheCursor(Cursor):
    """Gives what is kept; beyond that reads its input, which it opens and moves on only when it must."""

    def __init__(self, context: Context, store: CacheStore) -> None:
        self._context = context
        self._store = store
        self._pass: CachedPass | None = None
        self._number = 0
        self._place = 0
        self._input: Cursor | None = None
        self._input_place = 0
        self._input_saved: State = None
        self._largest_bytes = 0
        # A batch that was read from disk and is not all given; and what of it lies in no slot.
        self._batch: tuple[Place, list[Any]] | None = None
        self._batch_bytes = 0
        self._lease = context.share.acquire(0)
        self._index_lease = context.share.acquire(0)
        self._filling: Progress | None = None
        store.use_in(context.spill)

    def _begin(self, begun: CachedPass) -> CachedPass:
        self._index_lease.settle(begun.kept.index_bytes)
        begun.kept.join(self._context.share)
        for node in self._context.node.input.walk():  # where all is kept here, nobody reads the caches below
            if node.op.kept is not None:
                node.op.kept.count_on(self._context.share)
        self._pass = begun
        return begun

    def pull(self, n: int) -> Block | None:
        current = self._pass or self._begin(self._store.begun(self._context))
        if self._context.share.frugal:
            n = 1  # as `_passed` does
        try:
            found = current.kept.find(self._number, n)
            block = self._read_with_room(current, found, n) if isinstance(found, Stretch) else found
        except SpillError:
            self._store.forget(current)
            raise
        if block is not None:
            self._number += block.size
            self._place = current.place_of(self._number)
            if self._context.share.frugal and current.length is None:
                self._moved_input(current)  # a run may go on beyond what is kept: a sample sees what is below at work
            return block
        while self._number != current.length:
            block = self._input_here(current).pull(self._demand(current, n))
            if block is None:
                current.ended(self._number)
                self._close_filling()
                self._foresee_reading(current)
            elif (shown := self._passed(current, block)).size:
                return shown
        return None

    def _foresee_reading(self, current: CachedPass) -> None:
        """A sample of datasets that a function makes has written the files that a run will read, which may take more.

        Of such datasets nothing is known but what they held.
        """
        share, to_read = self._context.share, current.kept.to_read_bytes
        if share.frugal and share.num_datasets and current.kept.is_in_file and to_read is not None:
            self._lease.settle(2 * to_read + BATCH_INDEX_BYTES)
            self._lease.settle(0)

    def _demand(self, current: CachedPass, n: int) -> int:
        """How many to make at a time: keeping them may take a copy of each."""
        each = max(1, self._largest_bytes)
        return max(1, min(n, self._context.share.budget_bytes // 16 // each, current.kept.num_together(each)))

    def _read_with_room(self, current: CachedPass, found: Stretch, n: int) -> Block | None:
        while True:
            try:
                return self._read(found, n)
            except OverBudget:  # the index of what is on disk has come to fill what an element needs
                if current.kept.shorten_index():
                    continue
                if found.place.stored.num_rows > 1 and not current.kept.is_in_file:
                    return None  # put there when its pool had more to spare; these are made again
                raise

    def _read(self, found: Stretch, n: int) -> Block | None:
        """Elements from disk, of a batch that stays in memory until all of it was given."""
        place, offset = found
        is_read = self._batch is not None and self._batch[0] == place
        if not is_read and place.rows is not None:
            block = self._read_rows(place.rows, found, n)
            if block is not None:
                return block
        assert self._pass is not None
        # Those of a file are never made again; in a spill file they may have been put by a run with a larger budget.
        is_large = place.stored.nbytes > self._context.share.budget_bytes // _MOST_READ_AT_ONCE
        can_be_made = is_large and place.stored.num_rows > 1 and not self._pass.kept.is_in_file
        if not is_read and can_be_made and not self._has_room(place.stored.nbytes):
            return None
        if not is_read:
            self._forget_batch()
            if place.reader.makes_copies and self._pass.kept.is_in_file:
                self._lease.settle(place.stored.nbytes)
            try:
                rows = place.reader.read(place.stored, self._buffer, writeable=True)
            except FormatError as error:
                if not self._pass.kept.is_in_file:
                    raise
                raise FormatError(f"{error}; {WHAT_TO_DO}") from error
            except OverBudget:
                if can_be_made:
                    return None  # what was let go is set aside for others; these are made again
                raise
            self._batch = place, rows
            self._batch_bytes = self._context.arena.unaccounted_bytes(Block.of_rows(rows, has_failures=False))
            self._lease.settle(self._batch_bytes)
        assert self._batch is not None
        rows = self._batch[1]
        given = rows[offset : offset + n]
        if len(rows) > 1 and not self._is_free(2 * (self._pass.kept.to_read_bytes or 0)):
            # Who holds a view of a batch keeps all of it, and there is no room for another one and an element of that.
            given = given[:1]
            self._lease.settle(self._batch_bytes)  # the one before is its taker's by now
            self._lease.settle(self._batch_bytes + nbytes_of(given[0]))
            given = [detach(given[0])]
        if offset + len(given) >= len(rows):
            self._batch = None
        return Block.of_rows(given, has_failures=False)

    def _read_rows(self, rows: FixedRows, found: Stretch, n: int) -> Block | None:
        """Elements from disk, also of several batches, as one block: where it is as large as a batch, it is one.

        None where it is better to read a batch as a whole.
        """
        assert self._pass is not None
        kind = rows.kind
        place, offset = found
        n = self._num_fitting(kind, n)
        is_little = n * kind.row_bytes < _WORTH_READING_BYTES and n < place.stored.num_rows - offset
        if is_little and self._has_room(place.stored.nbytes):
            return None
        self._forget_batch()
        try:
            columns = kind.empty(n, self._context.arena.empty)
        except OverBudget:  # somebody was quicker; for one there always is room
            n = 1
            columns = kind.empty(n, self._context.arena.empty)
        count = 0
        while True:
            size = min(n - count, place.stored.num_rows - offset)
            rows.read(place.reader, offset, size, columns, count)
            count += size
            more = self._pass.kept.find(self._number + count, n - count) if count < n else None
            if not isinstance(more, Stretch) or more.place.rows is None or more.place.rows.kind != kind:
                return kind.block(columns, count)
            place, offset = more
            rows = more.place.rows

    def _num_fitting(self, kind: RowKind, n: int) -> int:
        """How many of n rows to read at a time, one at least."""
        share = self._context.share
        while n > 1:
            nbytes = sum(slot_bytes(n * dtype.itemsize * math.prod(shape)) for dtype, shape in kind.leaves)
            if nbytes <= share.budget_bytes // 8 and self._is_free(nbytes):
                return n
            n //= 2
        return n

    def _has_room(self, nbytes: int) -> bool:
        self._forget_batch()
        share = self._context.share
        return nbytes <= share.budget_bytes // 2 and not share.is_sparing and self._is_free(slot_bytes(nbytes))

    def _is_free(self, nbytes: int) -> bool:
        """Whether a slot can be had without anybody's giving up what is of use."""
        share, slots = self._context.share, self._context.arena.slots
        return share.has_room(nbytes) or share.has_room(nbytes - slots.unused_for(share))

    def _buffer(self, nbytes: int) -> np.ndarray:
        return self._context.arena.empty((nbytes,), np.dtype(np.uint8))

    def _forget_batch(self) -> None:
        self._batch = None
        self._lease.settle(0)

    def _passed(self, current: CachedPass, block: Block) -> Block:
        """Has elements of the input kept, and gives what is to be shown of them."""
        self._largest_bytes = max(self._largest_bytes, _largest_in(block))
        # A sample is to find out what others hold of elements that come one by one, as they do from disk.
        is_sample = self._context.share.frugal
        shown = None if is_sample else current.passed_alike(self._place, self._number, block)
        if shown is None:
            shown = Block.of_rows(current.passed(self._place, self._number, block))
        if self._filling is None:
            self._filling = self._context.progress("keeping elements", self._context.node.spec.cardinality)
        self._filling.advance(block.size)
        failed = sum(type(row) is Failed for row in block.rows()) if block.has_failures else 0
        self._number += block.size - failed
        self._place += block.size
        self._input_place = self._place
        return shown

    def _close_filling(self) -> None:
        if self._filling is not None:
            self._filling.close()

    def _input_here(self, current: CachedPass) -> Cursor:
        """The input, at the place where this cursor is."""
        self._forget_batch()
        return self._moved_input(current)

    def _moved_input(self, current: CachedPass) -> Cursor:
        if self._input is None:
            self._input = self._context.input(epoch=current.epoch)
            if self._input_saved is not None:
                self._input.restore(self._input_saved)
        if self._input_place < self._place:
            self._input_place += self._input.skip(self._place - self._input_place)
        return self._input

    def skip(self, n: int) -> int:
        current = self._pass or self._begin(self._store.begun(self._context))
        ready = max(0, min(n, current.kept.num_kept - self._number))
        if ready:
            self._number += ready
            self._place = current.place_of(self._number)
        return ready + (super().skip(n - ready) if ready < n else 0)

    def state(self) -> State:
        try:
            current = self._pass or self._store.looked_up()
        except PenstockError:  # a file that is no good: who pulls will hear of it
            current = None
        if current is None:  # nothing is kept yet: the beginning of a pass that has still to begin
            return [self._context.epoch, 0, [], 0, 0, 0, None]
        below = self._input_saved if self._input is None else self._input.state()
        here = [self._number, self._place, self._input_place, below]
        return [current.epoch, current.reached, list(current.failures), *here]

    def restore(self, state: State) -> None:
        epoch, reached, failures, number, place, input_place, below = expect_list(state, 7)
        current = self._begin(self._store.resumed(self._context, epoch, reached, failures))
        if reached == OF_FILE and current.length is None:  # the file is gone, and with it what had failed
            current.hides_failures = True
            while self._number < number and self.pull(number - self._number) is not None:
                pass
            return
        self._number, self._place, self._input_place, self._input_saved = number, place, input_place, below

    def close(self) -> None:
        self._forget_batch()
        self._close_filling()
        self._pass = None
        self._index_lease.settle(0)
        if self._input is not None:
            self._input.close()
            self._input = None
