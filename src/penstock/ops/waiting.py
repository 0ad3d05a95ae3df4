"""Waiting: the elements in a shuffle's buffer, in memory as far as they fit, the others on disk.

Because it is known when each element will be drawn (`draws`), those that wait longest go to disk, and each is written
and read about once:

- When memory is short the elements that are drawn last are written, in the order of their draws, to a new file. Large
  ones are batches of their own and read when they are drawn. Small ones share a batch, which is read as a whole when
  the first of them is due, and the rest of it waits in memory again.
- Elements whose draw is too far ahead to be known are due when the known draws end: they are read then, and written
  again where they belong. So are all when the stream ends, for that changes the order of the last draws, and when the
  whole dataset is shuffled, for then no draw is known before the end.
- A file is removed when all its batches were read.

It works with no memory at all: what can neither stay nor make others go is written as it comes. Only failures and
datasets must stay.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, detach, has_dataset, nbytes_of
from ..errors import OverBudget, PenstockError
from ..memory.allocator import trim_heap
from ..memory.arena import Arena
from ..memory.batches import BatchFile, BatchFiles
from ..memory.ipc import Stored, rows_per_batch
from ..memory.ledger import Share, format_bytes
from ..memory.spill import SpillSpace
from ..memory.transit import Transit
from ..memory.work_lock import WorkLock
from ..spec import UNKNOWN
from .draws import Draws
from .waiting_bytes import ALONE_INDEX_BYTES, FILE_INDEX_BYTES, LEAST_BATCH_BYTES, held_bytes

__all__ = ["Waiting"]

# Large elements are written to files of about this size: a file stays until its last element is drawn, and most of it
# would be of no use by then if there were many.
_FILE_BYTES = 256 << 10
# Drawn at once beyond what there is room to spare for: as many as make a small batch.
_MOST_AT_ONCE = 64
# Batches of small elements are no larger than this.
_BATCH_BYTES = 1 << 20
_MANY = 8192  # of so many what is known only while they are sorted, on no account, weighs something
_AT_A_TIME = 1024
# As many times what waits may be still to come: a buffer may be for a million, and there never be a hundred.
_FEW_MORE = 4


def _bytes_of_failed(rows: Sequence[Any], sizes: Sequence[int]) -> int:
    return sum([size for row, size in zip(rows, sizes, strict=True) if type(row) is Failed])


def _one_by_one(numbers: np.ndarray) -> Iterator[int]:
    """The numbers as Python's own, which take five times as much: few are there at a time."""
    for start in range(0, numbers.size, _AT_A_TIME):
        yield from numbers[start : start + _AT_A_TIME].tolist()


class _Sorted:
    """The batches of a file that hold several elements each, soonest due first; 32 bytes a batch."""

    __slots__ = ("_next", "_table", "file")

    def __init__(self, file: BatchFile, due: list[int], batches: list[Stored]) -> None:
        self.file = file
        self._table = np.array([(when, *stored) for when, stored in zip(due, batches, strict=True)], np.int64)
        self._next = 0

    def __len__(self) -> int:
        return len(self._table) - self._next

    @property
    def due(self) -> int:
        return int(self._table[self._next, 0])

    def pop(self) -> Stored:
        self._next += 1
        return Stored(*self._table[self._next - 1, 1:].tolist())

    def all_due(self, when: int) -> None:
        """Forgets what was known of when they are due."""
        self._table[:, 0] = when


class Waiting:
    """Elements by number, given back in the order of the draws."""

    def __init__(self, share: Share, spill: SpillSpace, arena: Arena, draws: Draws, most: int = UNKNOWN) -> None:
        self._share = share
        self._most = most  # elements that wait at a time, where that is known
        self._arena = arena
        self._draws = draws
        self._files = BatchFiles(spill)
        self._in_memory: dict[int, tuple[Any, int]] = {}
        self._stuck: set[int] = set()  # in memory, and must stay there
        self._alone: dict[int, tuple[BatchFile, Stored, int]] = {}
        self._sorted: list[tuple[int, int, _Sorted]] = []  # a heap: due, something to tell equals apart, batches
        self._num_written = 0
        self._num_batches = 0
        self._bytes = 0
        self._failed_bytes = 0  # of these, what is errors
        self._has_datasets = False  # that must stay
        self._index_bytes = 0  # of what is known of files and draws
        self._foreseen_bytes = 0  # of these, where nothing went to disk, and is to be counted all the same
        self._lock = WorkLock()
        self._unregister = share.on_shortage(self._let_go)
        share.remark = self._remark

    def keep(self, first: int, rows: Sequence[Any], sizes: Sequence[int], has_failures: bool = False) -> None:
        """Takes elements, numbered from `first` on, and how many bytes each holds."""
        with self._lock:
            if has_failures:
                self._failed_bytes += _bytes_of_failed(rows, sizes)
                self._share.staying_bytes = max(self._share.staying_bytes, self._failed_bytes)
            if self._try_charge(sum(sizes)):
                kept = zip(map(detach, rows), sizes, strict=True)
                self._in_memory.update(zip(range(first, first + len(rows)), kept, strict=True))
                if self._share.is_sparing:
                    self._foresee_index()
                return
            for number, (row, nbytes) in enumerate(zip(rows, sizes, strict=True), first):
                self._keep_one(number, row, nbytes)

    def num_at_once(self, each_bytes: int) -> int:
        """How many elements of a size may be drawn at once, before which as many are read: none has to go to disk."""
        if self._files or self._share.frugal or self._share.under_pressure:
            return 0
        room = min(self._share.free_bytes - self._left_to_others(), self._most_bytes() - self._bytes)
        return min(_MOST_AT_ONCE, max(0, room) // each_bytes)

    def draw(self, n: int, from_disk: int, transit: Transit) -> list[Any]:
        """The next n elements, or all that are left, which are on the account of what is on its way from now on.

        Where some lie on disk no more than `from_disk`: there must be room for them.
        """
        with self._lock:
            numbers = self._draws.next(min(n, from_disk) if self._files else n).tolist()
            if not numbers:
                return []
            if not self._files:
                return self._from_memory(numbers, transit)
            rows: list[Any] = []
            # Large ones from disk come alone: room for another may be taken by a thread meanwhile.
            while len(rows) < len(numbers) and not (rows and numbers[len(rows)] in self._alone):
                while self._sorted and self._sorted[0][0] <= self._draws.drawn:
                    self._load(heapq.heappop(self._sorted)[2])
                rows += self._drawn(numbers[len(rows) :], transit)
            return rows

    def _drawn(self, numbers: list[int], transit: Transit) -> list[Any]:
        """Some of these elements, from the first on: one from disk, or as many as are in memory."""
        if (place := self._alone.pop(numbers[0], None)) is not None:
            return [self._from_disk(*place, transit)]
        # As many as are drawn before a batch is due.
        count = min(len(numbers), self._sorted[0][0] - self._draws.drawn) if self._sorted else len(numbers)
        if self._alone:
            count = next((i for i, number in enumerate(numbers[:count]) if number in self._alone), count)
        return self._from_memory(numbers[:count], transit)

    def _from_memory(self, numbers: list[int], transit: Transit) -> list[Any]:
        rows, sizes = zip(*map(self._in_memory.pop, numbers), strict=True)
        nbytes = sum(sizes)
        self._bytes -= nbytes
        if self._failed_bytes:
            self._failed_bytes -= _bytes_of_failed(rows, sizes)
        if self._stuck:
            self._stuck.difference_update(numbers)
        self._draws.drop(len(numbers))
        transit.adopt(nbytes, len(rows))  # no byte is free in between that another thread could take
        return list(rows)

    def _from_disk(self, file: BatchFile, stored: Stored, held_bytes: int, transit: Transit) -> Any:
        # Many short strings take several times as much as they do on disk.
        needed_bytes = stored.nbytes + (held_bytes if file.makes_copies else stored.nbytes // 8)
        # More than once where it holds more than its floor: what is freed there another thread may take.
        while needed_bytes > self._share.free_bytes and self._spill(needed_bytes):
            pass
        try:
            buffer = self._arena.empty((stored.nbytes,), np.dtype(np.uint8))
        except OverBudget:  # as good as any other element on its way, for which the floor has room without the rest
            self._spill(self._bytes)
            buffer = np.empty(stored.nbytes, np.uint8)
        _, (row,) = self._files.read(file, stored, lambda _: buffer)
        if file.makes_copies:  # whoever held the element would hold its strings twice
            row = detach(row)
        self._settle_index()
        self._draws.drop(1)
        transit.add(self._arena.unaccounted_bytes(Block.of_rows([row], has_failures=False)))
        return row

    def end(self, length: int) -> None:
        """Says how many elements there are, which changes when those that wait will be drawn."""
        with self._lock:
            self._draws.end(length)
            for _, _, batches in self._sorted:
                batches.all_due(self._draws.drawn)
            # All are due alike, so it is a heap as it is.
            self._sorted = [(self._draws.drawn, i, batches) for _, i, batches in self._sorted]

    def oldest(self, num_read: int) -> int:
        """The smallest number that was not drawn."""
        with self._lock:
            return self._draws.oldest(num_read)

    def close(self) -> None:
        """Lets everything go, in memory and on disk."""
        self._unregister()
        self._share.remark = lambda: ""
        with self._lock:
            self._files.close()
            self._alone.clear()
            self._sorted.clear()
            self._in_memory.clear()
            self._discharge(self._bytes)
            self._share.discharge(self._index_bytes + self._foreseen_bytes)
            self._index_bytes = self._foreseen_bytes = 0

    # Memory.

    def _remark(self) -> str:
        if self._has_datasets:
            return "its elements have datasets in them, which cannot go to disk"
        return f"{format_bytes(self._failed_bytes)} are errors, which cannot go to disk" if self._failed_bytes else ""

    def _try_charge(self, nbytes: int) -> bool:
        # Of next to nothing less would be gained than what must be known of it on disk takes.
        is_little = not self._files and self._bytes + nbytes <= self._most_to_know_bytes()
        if self._bytes + self._index_bytes + nbytes > self._most_bytes() and not is_little:
            return False
        charged = self._share.charge_free(nbytes, self._left_to_others())
        # Once there are files there always is a way out: others are asked to let go only before.
        if not charged and not self._files:
            charged = self._share.try_charge(nbytes)
        if not charged and not self._files:
            self._arena.slots.release_unused()  # a new slot costs less than a file
            charged = self._share.charge_free(nbytes, self._share.budget_bytes // 10)
        if not charged and is_little:
            charged = self._share.charge_if_room(nbytes)
        self._bytes += nbytes if charged else 0
        return charged

    def _most_bytes(self) -> int:
        """A quarter is for others, but for what is nobody else's; who is short gets what is lacking."""
        budget = self._share.budget_bytes
        return budget // 2 if self._share.under_pressure else max(budget // 4 * 3, self._share.floor_bytes)

    def _left_to_others(self) -> int:
        """What is left free for a batch, where its size is known. It uses slots that are there before it asks."""
        slots = self._arena.slots
        most = self._share.budget_bytes // 10
        return max(0, min(most, slots.largest_bytes or most) - slots.unused_bytes)

    def _discharge(self, nbytes: int) -> None:
        self._share.discharge(nbytes)
        self._bytes -= nbytes

    def _keep_one(self, number: int, row: Any, nbytes: int) -> None:
        if not self._make_room(nbytes):
            # Reserved before it is there: nothing is freed that could take up what must be known of it.
            reserved = self._share.acquire(FILE_INDEX_BYTES + ALONE_INDEX_BYTES + self._draws_bytes())
            try:
                is_written = not self._write(np.array([number]), np.zeros(1, int), [(row, nbytes)], batch_bytes=0)
            finally:
                reserved.release()
            if is_written:
                self._settle_index()
                return
            self._foresee_datasets(row, nbytes)
            self._share.charge(nbytes, single=True)  # it must stay, so this must do
            self._bytes += nbytes
            self._stuck.add(number)
        self._in_memory[number] = (detach(row), nbytes)

    def _foresee_datasets(self, row: Any, nbytes: int) -> None:
        """Where one element is a dataset all are, and none can go: the budget to name has room for as many as wait."""
        if has_dataset(row):
            self._has_datasets = True
            staying_bytes = nbytes * min(self._most, _FEW_MORE * len(self._in_memory))
            self._share.staying_bytes = max(self._share.staying_bytes, staying_bytes)

    def _make_room(self, nbytes: int) -> bool:
        """Charges bytes; others go to disk for it."""
        while not self._try_charge(nbytes):
            if not self._spill(nbytes):
                return False
        return True

    def _let_go(self) -> bool:
        """Somebody is short of memory: writes as much of what is held as is lacking. Whether it is at work instead."""
        if not self._lock.try_acquire():
            return self._lock.is_anothers
        try:
            lacking = min(self._share.lacking_bytes, self._bytes)
            if lacking and self._share.would_help and self._bytes > self._most_to_know_bytes():
                self._spill(lacking)
        except (PenstockError, OSError):
            pass  # nothing was lost; who asked is told that there is no room
        finally:
            self._lock.release()
        return False

    def _settle_index(self, freed_bytes: int = 0) -> None:
        """Puts what is known of files and draws on the account.

        It takes the place of what was freed: given back first, that could be somebody else's by then. That is nearly
        always enough, for an element takes more memory than what must be known of it on disk. But with the first draws
        comes what is known of all of them: where there is no room for that, more elements go to disk.
        """
        nbytes = len(self._files) * FILE_INDEX_BYTES + len(self._alone) * ALONE_INDEX_BYTES + self._num_batches * 32
        nbytes += self._draws.held_bytes if self._files else 0
        more = nbytes - self._index_bytes - freed_bytes
        if more > 0:
            try:
                self._share.charge(more)
            except OverBudget:
                self._index_bytes += freed_bytes
                if not self._spill(more):
                    raise
                return  # settled with what that has freed
        else:
            self._share.discharge(-more)
        self._index_bytes = nbytes

    def _foresee_index(self) -> None:
        """Counts what must be known of elements on disk, in a sample that has them in memory.

        What a dataset of a function's held there is all that is known of its needs; in as much room, no more, a run may
        have to put on disk what it finds no room for.
        """
        num_held = len(self._in_memory)
        draws = min(self._draws_bytes(), 24 * num_held + self._bytes // 7)
        more = 2 * FILE_INDEX_BYTES + ALONE_INDEX_BYTES + draws - self._foreseen_bytes
        if more > 0 and self._share.charge_free(more):
            self._foreseen_bytes += more

    def _draws_bytes(self) -> int:
        """What looking at the draws ahead takes, if nothing was written yet."""
        return 0 if self._files else self._draws.held_bytes

    def _most_to_know_bytes(self) -> int:
        """What must be known of all that is in memory once it is on disk."""
        is_large = rows_per_batch(self._bytes // max(1, len(self._in_memory))) == 1
        alone = len(self._in_memory) * ALONE_INDEX_BYTES if is_large else 0
        return FILE_INDEX_BYTES + alone + self._draws_bytes()

    # To disk, and back.

    def _spill(self, needed_bytes: int) -> bool:
        """Writes the elements that are drawn last, and at least so many bytes of them; whether there were any."""
        held = self._in_memory
        numbers = np.fromiter(held, np.int64, len(held))
        if self._stuck:
            numbers = np.setdiff1d(numbers, np.fromiter(self._stuck, np.int64), assume_unique=True)
        if not numbers.size:
            return False
        are_small = rows_per_batch(self._bytes // len(held)) > 1
        if numbers.size >= _MANY:
            trim_heap()  # the gaps that a growing dict has left are as large as what this takes, and do not fit it
        numbers.sort()
        due = self._draws.due(numbers)
        soonest = np.argsort(due)
        numbers = numbers[soonest]
        due = due[soonest]
        del soonest
        # Of small elements many, so that those in a batch are drawn near each other.
        enough = self._bytes // 2 if are_small else min(self._bytes // 2, _FILE_BYTES)
        sums = itertools.accumulate(held[number][1] for number in _one_by_one(numbers[::-1]))
        count = next((i for i, nbytes in enumerate(sums, 1) if nbytes >= max(enough, needed_bytes)), numbers.size)
        numbers, due = numbers[-count:].copy(), due[-count:].copy()
        # Of each file a batch may lie in memory, and together they should not fill it.
        batch_bytes = max(LEAST_BATCH_BYTES, min(_BATCH_BYTES, self._bytes // (4 * len(self._files) + 4)))
        left_out = self._write(numbers, due, map(held.__getitem__, _one_by_one(numbers)), batch_bytes)
        self._stuck.update(left_out)
        freed = sum(held.pop(number)[1] for number in _one_by_one(numbers) if number not in left_out)
        # A dict does not shrink, and one that is full of gaps doubles as if it were full of elements.
        held = self._in_memory = held.copy()
        self._bytes -= freed
        self._settle_index(freed)
        return True

    def _write(
        self, numbers: np.ndarray, due: np.ndarray, held: Iterable[tuple[Any, int]], batch_bytes: int
    ) -> Collection[int]:
        """Writes elements, soonest due first, all or none; returns the numbers of those that cannot be written at all.

        `held` are the elements and what each holds in memory; they are looked at one by one.
        """
        # What costs nothing to hold, as it is somebody else's, will take memory of its own when it is read back.
        rows = ((n, row, max(size, nbytes_of(row))) for n, (row, size) in zip(_one_by_one(numbers), held, strict=True))
        written = self._files.write(rows, batch_bytes)
        for file, batches in written.files:
            alone = [batch for batch in batches if batch.stored.num_rows == 1]
            self._alone.update((batch.first, (file, batch.stored, batch.nbytes)) for batch in alone)
            stacked = [batch for batch in batches if batch.stored.num_rows > 1]
            if stacked:
                ascending = np.argsort(numbers)
                places = np.searchsorted(numbers, [batch.first for batch in stacked], sorter=ascending)
                firsts = due[ascending[places]].tolist()
                self._push(_Sorted(file, firsts, [batch.stored for batch in stacked]))
                self._num_batches += len(stacked)
            self._share.spilled_bytes += sum(batch.stored.nbytes for batch in batches)
        return set(written.left_out)

    def _push(self, batches: _Sorted) -> None:
        self._num_written += 1
        heapq.heappush(self._sorted, (batches.due, self._num_written, batches))

    def _load(self, batches: _Sorted) -> None:
        """Brings a batch back, of which an element is due."""
        numbers, rows = self._files.read(batches.file, batches.pop())
        self._num_batches -= 1
        if len(batches):
            self._push(batches)
        rows = list(map(detach, rows))
        held = list(zip(rows, map(held_bytes, rows), strict=True))
        if self._make_room(sum(nbytes for _, nbytes in held)):
            self._in_memory.update(zip(numbers, held, strict=True))
        else:
            self._write_back(np.array(numbers), held)
        self._settle_index()

    def _write_back(self, numbers: np.ndarray, held: list[tuple[Any, int]]) -> None:
        """Writes a batch again, less what is due now: there is less memory than when it was written first."""
        ascending = np.argsort(numbers)
        due = np.empty_like(numbers)
        due[ascending] = self._draws.due(numbers[ascending])
        soonest = np.argsort(due, kind="stable")
        now = 1 if due[soonest[0]] <= self._draws.drawn else 0
        for part in (soonest[:now], soonest[now:]):
            if part.size:
                self._write(numbers[part], due[part], [held[i] for i in part], _BATCH_BYTES)
