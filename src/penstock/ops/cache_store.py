"""What a `cache` keeps: one pass over its input, for all runs of all datasets made from the call.

In memory and in spill files (`CacheStore`), or in a file of the user's choice (`FileStore`).
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, ClassVar
from weakref import WeakSet, WeakValueDictionary

from ..block import Block
from ..element import Failed
from ..errors import PenstockError
from ..memory.cache_file import CacheFile, PassId, complete_file
from ..memory.kept import KeptElements
from ..memory.ledger import Share
from ..memory.overflow import Overflow
from ..memory.sealing import in_native_order, sealed, sealed_columns
from ..memory.spill import LastingSpill, SpillSpace
from ..plan.identity import identity_of
from ..plan.node import Node
from ..plan.op import Context
from ..plan.seeds import drawn_seeds

__all__ = ["OF_FILE", "CacheStore", "CachedPass", "FileStore"]

#: Stands for the place up to which failures were shown, where that is not known: a file does not tell.
OF_FILE = -1

_FileId = tuple[int, int]


_PASSES: WeakSet[CachedPass] = WeakSet()
_STORES: WeakSet[CacheStore] = WeakSet()


def _leave_all_to_parent() -> None:
    for kept in list(_PASSES):
        kept.leave_to_parent()
    for key, begun in list(FileStore._begun.items()):
        if begun.is_torn:
            del FileStore._begun[key]
    for store in list(_STORES):
        store.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


class CachedPass:
    """One pass over the input, of which the first elements are kept.

    An element has a *number* among those that did not fail, and a *place* among all. `failures` holds for each failure
    how many elements came before it, which is all it takes to go from one to the other. `reached` is the place up to
    which some run has shown failures; those below it are not shown again.
    """

    def __init__(self, epoch: int, seeds: list[int], kept: KeptElements, length: int | None = None) -> None:
        self.epoch = epoch
        self.seeds = seeds
        self.kept = kept
        self.length = length
        #: Whether all of it is kept.
        self.finished = length is not None
        self.reached = 0
        self.failures: list[int] = []
        #: Whether all failures were shown before, by a pass whose file is gone.
        self.hides_failures = False
        #: The file that it is kept in, or will be.
        self.file_id: _FileId | None = None
        #: In a forked child: whether a thread of the parent's was just at work on it. Then it is not to be read.
        self.is_torn = False
        self._lock = threading.Lock()
        _PASSES.add(self)

    def leave_to_parent(self) -> None:
        """In a forked child: nobody releases what threads of the parent's have locked."""
        is_locked = not self._lock.acquire(blocking=False)
        self._lock = threading.Lock()
        self.is_torn = self.kept.leave_to_parent() or is_locked

    def is_same(self, epoch: int, seeds: list[int]) -> bool:
        return (self.epoch, self.seeds) == (epoch, seeds)

    def place_of(self, number: int) -> int:
        """The place of an element; failures just before it that were shown are passed over."""
        return number + bisect_right(self.failures, number)

    def passed_alike(self, place: int, number: int, block: Block) -> Block | None:
        """The same as `passed`, and much quicker, for elements that can be kept in columns; None where they cannot."""
        with self._lock:
            kept = self.kept.append_alike(number, block)
            if kept is not None:
                self.reached = max(self.reached, place + block.size)
                self._finish_if_complete()
            return kept if kept is None or not self.kept.copies else _as_it_came(block)

    def passed(self, place: int, number: int, block: Block) -> list[Any]:
        """Keeps what came from the input and comes next, takes note of failures, and gives what to show."""
        rows, copies = block.rows(), self.kept.copies
        good = sealed_columns(block, copies)
        if good is None:
            rows = [row if type(row) is Failed else in_native_order(row) for row in rows]
            good = [sealed(row, copies) for row in rows if type(row) is not Failed]
        kept = [False] * len(good)
        while True:
            with self._lock:
                done = self.kept.num_kept - number
                if 0 <= done < len(good):
                    ours = self.kept.append(good[done:])
                    kept[done : done + len(ours)] = ours
                    done += len(ours)
                if not 0 <= done < len(good):
                    # What is not kept in memory is shown as it came: who holds it must see that it is nobody else's.
                    # So is what is kept as a copy, which can go to disk then though somebody looks at what came.
                    pairs = zip(good, kept, strict=True)
                    left = (one.element if is_kept and not copies else None for one, is_kept in pairs)
                    return self._shown(place, number, rows, left)
            self.kept.make_room()

    def _shown(self, place: int, number: int, rows: list[Any], kept: Iterator[Any]) -> list[Any]:
        """What to show of elements from the input: those of them that are kept in memory as they are kept there."""
        shown: list[Any] = []
        for row in rows:
            if type(row) is not Failed:
                as_kept = next(kept)
                shown.append(row if as_kept is None else as_kept)
                number += 1
            elif place >= self.reached:
                self.failures.append(number)
                shown += [] if self.hides_failures else [row]
            place += 1
            self.reached = max(self.reached, place)
        self._finish_if_complete()
        return shown

    def ended(self, number: int) -> None:
        """The input has no more elements."""
        with self._lock:
            self.length = number
            self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        # The end may be known long before: a run that was resumed saw it, and keeps nothing of what came before.
        if not self.finished and self.kept.num_kept == self.length:
            self.kept.finish()
            self.finished = True


class CacheStore:
    """What one `cache()` of the user's program keeps, for all runs of all datasets made from it.

    What has no room in memory goes to spill files of the store's own, which are removed with it.
    """

    def __init__(self) -> None:
        self.kept: CachedPass | None = None
        self.lock = threading.RLock()
        self._overflow = LastingSpill()
        _STORES.add(self)

    def leave_to_parent(self) -> None:
        """In a forked child: what can be read as it is stays, for those who only read."""
        self.lock = threading.RLock()
        if self.kept is not None and self.kept.is_torn:
            self.kept = None

    def __reduce__(self) -> tuple[type[CacheStore], tuple[Any, ...]]:
        return CacheStore, ()  # what is cached stays in its process

    def use_in(self, spill: SpillSpace) -> None:
        """A run reads what is kept: what of it lies on disk counts on the run's limit."""
        self._overflow.use_in(spill)

    def ready(self) -> CachedPass | None:
        """The pass that is kept, if there is one."""
        return self.kept

    def count_on(self, share: Share) -> None:
        """Has a run count what is in memory, whether it reads it or not."""
        with self.lock:
            if self.kept is not None:
                self.kept.kept.join(share)

    def left_to(self, keeper: Share) -> int:
        """What the keeper of a pool has of it, between runs."""
        with self.lock:
            return 0 if self.kept is None else self.kept.kept.left_to(keeper)

    def looked_up(self) -> CachedPass | None:
        """The same, for who does not want to begin one."""
        with self.lock:
            return self.ready()

    def to_read_bytes(self) -> int | None:
        """What reading a batch from the file takes at most, as far as can be told."""
        try:
            kept = self.looked_up()
        except PenstockError:  # who reads will hear of it
            return None
        return None if kept is None else kept.kept.to_read_bytes

    def begun(self, context: Context) -> CachedPass:
        """The pass that is kept, or the beginning of one."""
        with self.lock:
            return self.ready() or self._new(context, context.epoch)

    def resumed(self, context: Context, epoch: int, reached: int, failures: list[int]) -> CachedPass:
        """The pass that is kept if it is the saved one, else one that begins where the saved one was."""
        with self.lock:
            kept = self.ready()
            # Failures that were still to come when the position was saved must come again.
            same = kept is not None and kept.is_same(epoch, drawn_seeds(context.node.input))
            if kept is None or not same or kept.failures != failures[: len(kept.failures)]:
                kept = self._new(context, epoch)
            if reached > kept.reached and kept.reached != OF_FILE:
                kept.reached, kept.failures = reached, list(failures)
            return kept

    def forget(self, lost: CachedPass) -> None:
        """Somebody else has changed what a pass has on disk: runs to come make its elements again."""
        with self.lock:
            if self.kept is lost:
                self.kept = None

    def _new(self, context: Context, epoch: int) -> CachedPass:
        kept = KeptElements(Overflow(self._overflow.space), copies=_is_to_copy(context))
        self.kept = CachedPass(epoch, drawn_seeds(context.node.input), kept)
        return self.kept


class FileStore(CacheStore):
    """The same for `cache(filename)`: what is kept is the file, for all processes.

    Args:
        path: The file.
        written: What is cached, as the user wrote it: the file is good for this pipeline only.
    """

    # What this process is writing: a dataset that is made anew goes on with it.
    _begun: ClassVar[WeakValueDictionary[tuple[str, ...], CachedPass]] = WeakValueDictionary()

    def __init__(self, path: str, written: Node) -> None:
        super().__init__()
        self._path = path
        self._written = written
        self._operators: tuple[str, ...] | None = None

    def __reduce__(self) -> tuple[type[CacheStore], tuple[Any, ...]]:
        return FileStore, (self._path, self._written)

    def _identity(self) -> tuple[str, ...]:
        if self._operators is None:
            self._operators = tuple(identity_of(self._written))
        return self._operators

    def ready(self) -> CachedPass | None:
        there = _file_id(self._path)
        if there is None:
            begun = self.kept or self._begun.get((self._path, *self._identity()))
            # Complete: then somebody has deleted the file, and does not want it any more.
            self.kept = None if begun is None or begun.finished or begun.kept.failed else begun
        elif self.kept is None or self.kept.file_id != there:
            self.kept = self._of_file()
        return self.kept

    def _of_file(self) -> CachedPass | None:
        found = complete_file(self._path, self._identity())
        if found is None:
            return None
        index, about = found
        complete = CachedPass(about.epoch, about.seeds, KeptElements(None, index=index), index.num_rows)
        complete.file_id = _file_id(self._path)
        complete.reached = OF_FILE
        return complete

    def _new(self, context: Context, epoch: int) -> CachedPass:
        seeds = drawn_seeds(context.node.input)
        file = CacheFile.try_begin(self._path, PassId(self._identity(), epoch, seeds))
        made = CachedPass(epoch, seeds, KeptElements(file, in_memory=False, copies=_is_to_copy(context)))
        if file is not None:  # else somebody else is writing it, and this pass goes by without
            made.file_id = _file_id(file.part_path)
            self.kept = self._begun[self._path, *self._identity()] = made
        return made


def _as_it_came(block: Block) -> Block:
    """A block of which copies are kept, with the order of bytes that these have."""
    if block.columns is not None and all(column.dtype.isnative for column in block.columns):
        return block
    return Block.of_rows(list(map(in_native_order, block.rows())), has_failures=False)


def _is_to_copy(context: Context) -> bool:
    """Whether elements may be what a cache below keeps, too, or are those of a dataset that a function made.

    Of two caches neither would see that only the other one has what it would put on disk; and when the run is over
    nobody would count that. Of a dataset that ends before its elements do, these are copied if they are the cache's.
    """
    return context.share.num_datasets > 0 or any(node.op.kept is not None for node in context.node.input.walk())


def _file_id(path: str) -> _FileId | None:
    """What stays the same when a file is renamed, and is another for another file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:  # who tries to make one will hear of what else there may be
        return None
    return found.st_dev, found.st_ino
