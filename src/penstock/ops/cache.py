"""cache: elements kept after they were made once."""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import Cursor, State, expect_list
from ..element import Failed, Structure, detach, leaf_bytes, nbytes_of
from ..errors import BadArgument, BadType, OverBudget
from ..memory.ledger import Share
from ..plan.op import Context, Footprint, Op
from ..spec import Spec, element_bytes
from .nested import drawn_seeds

__all__ = ["Cache"]


class CacheStore:
    """What one `cache()` of the user's program keeps, for all runs of all datasets made from it."""

    def __init__(self) -> None:
        self.kept: CachedPass | None = None
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type[CacheStore], tuple[()]]:
        return CacheStore, ()  # what is cached stays in its process

    def begun(self, epoch: int, seeds: list[int]) -> CachedPass:
        """The pass that is kept, or the beginning of one."""
        with self.lock:
            if self.kept is None:
                self.kept = CachedPass(epoch, seeds)
            return self.kept

    def resumed(self, epoch: int, seeds: list[int], reached: int, failures: list[int]) -> CachedPass:
        """The pass that is kept if it is the saved one, else one that begins where the saved one was."""
        with self.lock:
            kept = self.kept
            same = kept is not None and (kept.epoch, kept.seeds) == (epoch, seeds)
            # Failures that were still to come when the position was saved must come again.
            if kept is None or not same or kept.failures != failures[: len(kept.failures)]:
                kept = self.kept = CachedPass(epoch, seeds)
            if reached > kept.reached:
                kept.reached, kept.failures = reached, list(failures)
            return kept


@dataclasses.dataclass(frozen=True)
class Cache(Op):
    """Keeps the elements of the first iteration, and gives them again in later ones without making them.

    All runs of all datasets that come from this call share what is kept. An iteration that stops early keeps what it
    saw, and the next one goes on from there. What does not fit into the budget is not kept, and is made again each time.
    An element that fails is an error the first time and left out later, as in tf.data. Arrays are given read-only.

    Args:
        filename: Must be empty: this version caches in memory only.

    Memory: all elements, as far as four fifths of the free budget hold them.
    State: a few integers, one more for each element that failed, and its input's.

    >>> import penstock as ps
    >>> calls = []
    >>> ds = ps.Dataset.range(3).map(lambda x: calls.append(x) or x * 10).cache()
    >>> [int(x) for x in ds.repeat(2)], len(calls)
    ([0, 10, 20, 0, 10, 20], 3)
    """

    filename: str = ""
    store: CacheStore = dataclasses.field(default_factory=CacheStore, compare=False, repr=False, kw_only=True)
    internal: ClassVar[tuple[str, ...]] = ("store",)

    def __post_init__(self) -> None:
        if not isinstance(self.filename, (str, bytes)):
            raise BadType(f"filename: expected text, got {type(self.filename).__name__} {self.filename!r:.60}")
        if self.filename:
            raise BadArgument(
                f"filename: expected an empty one, got {self.filename!r}: this version caches in memory only; use cache()"
            )

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0]

    def footprint(self, inputs: Sequence[Spec]) -> Footprint | None:
        each, count = element_bytes(inputs[0].element), inputs[0].cardinality
        return Footprint(None if each is None or count < 0 else each * count, "all elements, as far as they fit")

    def open(self, context: Context) -> Cursor:
        return _CacheCursor(context, self.store)


# Elements are kept in chunks; those of small ones are stacked, which takes less space and makes batches cheap.
_CHUNK = 256
_STACKED_BYTES = 1024
# An element's object and its place in a list.
_ROW_BYTES = 64


class CachedPass:
    """One pass over the input, of which the first elements are kept.

    An element has a *number* among those that did not fail, and a *place* among all. `failures` holds for each failure
    how many elements came before it, which is all it takes to go from one to the other. `reached` is the place up to
    which some run has shown failures; those below it are not shown again.
    """

    def __init__(self, epoch: int, seeds: list[int]) -> None:
        self.epoch = epoch
        self.seeds = seeds
        self.reached = 0
        self.failures: list[int] = []
        self.num_kept = 0
        self.nbytes = 0
        self.length: int | None = None
        self._full = False
        self._chunks: list[Block] = []
        self._sizes: list[int] = []
        self._tail: list[Any] = []
        self._accounts: dict[int, _Account] = {}
        self._lock = threading.RLock()

    def place_of(self, number: int) -> int:
        """The place of an element; failures just before it that were shown are passed over."""
        return number + bisect_right(self.failures, number)

    def read(self, number: int, n: int) -> Block | None:
        """Up to n kept elements from this one on, or None if it is not kept."""
        with self._lock:
            chunk, offset = divmod(number, _CHUNK)
            if chunk < len(self._chunks):
                return self._chunks[chunk][offset : offset + n]
            rows = self._tail[offset : offset + n] if chunk == len(self._chunks) else []
            return Block.of_rows(rows, has_failures=False) if rows else None

    def passed(self, place: int, number: int, row: Any, share: Share) -> Any:
        """Notes what came from the input: an element, kept if it is the next, or a failure. Gives what to show."""
        with self._lock:
            first = place >= self.reached
            self.reached = max(self.reached, place + 1)
            if type(row) is Failed:
                if first:
                    self.failures.append(number)
                return row if first else None
            row = _sealed(row)
            if number == self.num_kept and not self._full:
                self._keep(row, share)
            return row

    def _keep(self, row: Any, share: Share) -> None:
        nbytes = _held_bytes(row) + _ROW_BYTES
        # A fifth of what is free stays free: who cannot do without memory must not lose it to who can.
        room = share.try_acquire(nbytes + (self.nbytes + nbytes) // 4)
        if room is None:
            self._full = True
            return
        room.settle(nbytes)
        self._accounts[id(share)].charged_bytes += nbytes
        self._tail.append(row)
        self.nbytes += nbytes
        self.num_kept += 1
        if len(self._tail) == _CHUNK:
            self._close_chunk()

    def _close_chunk(self) -> None:
        tail, self._tail = self._tail, []
        chunk = Block.of_rows(tail, has_failures=False)
        before = sum(map(_held_bytes, tail)) + _ROW_BYTES * _CHUNK
        after = before
        if sum(map(nbytes_of, tail)) <= _STACKED_BYTES * _CHUNK:
            stacked = _stacked(chunk)
            if stacked is not None and stacked.nbytes <= before:
                chunk, after = stacked, stacked.nbytes
        self._chunks.append(chunk)
        self._sizes.append(after)
        self.nbytes += after - before

    # What is kept outlives a run, but while a run is open it is on its ledger: once for each share, however many
    # cursors read through it.

    def join(self, share: Share) -> None:
        """Puts what is kept on a share; drops the last elements where that has no room for them."""
        with self._lock:
            account = self._accounts.setdefault(id(share), _Account(share))
            account.num_cursors += 1
            while not account.try_settle(self.nbytes):
                self._drop_last()

    def settle(self, share: Share) -> None:
        """Follows what other runs have added or dropped."""
        with self._lock:
            account = self._accounts[id(share)]
            if account.charged_bytes != self.nbytes:
                while not account.try_settle(self.nbytes):
                    self._drop_last()

    def leave(self, share: Share) -> None:
        with self._lock:
            account = self._accounts[id(share)]
            account.num_cursors -= 1
            if not account.num_cursors:
                account.try_settle(0)
                del self._accounts[id(share)]

    def _drop_last(self) -> None:
        if self._tail:
            self.nbytes -= sum(map(_held_bytes, self._tail)) + _ROW_BYTES * len(self._tail)
            self._tail = []
        else:
            self._chunks.pop()
            self.nbytes -= self._sizes.pop()
        self.num_kept = len(self._chunks) * _CHUNK
        self._full = True


class _Account:
    """What is kept, as one share sees it."""

    __slots__ = ("charged_bytes", "num_cursors", "share")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.num_cursors = 0
        self.charged_bytes = 0

    def try_settle(self, nbytes: int) -> bool:
        try:
            if nbytes > self.charged_bytes:
                self.share.charge(nbytes - self.charged_bytes)
            else:
                self.share.discharge(self.charged_bytes - nbytes)
        except OverBudget:
            return False
        self.charged_bytes = nbytes
        return True


class _CacheCursor(Cursor):
    """Gives what is kept; beyond that reads its input, which it opens and moves there only when it must."""

    def __init__(self, context: Context, store: CacheStore) -> None:
        self._context = context
        self._store = store
        self._seeds = drawn_seeds(context.node.input)
        self._pass: CachedPass | None = None
        self._number = 0
        self._place = 0
        self._input: Cursor | None = None
        self._input_place = 0
        self._saved: tuple[int, State] | None = None

    def _begin(self, kept: CachedPass) -> CachedPass:
        self._pass = kept
        kept.join(self._context.share)
        return kept

    def pull(self, n: int) -> Block | None:
        kept = self._pass or self._begin(self._store.begun(self._context.epoch, self._seeds))
        kept.settle(self._context.share)
        block = kept.read(self._number, n)
        if block is not None:
            self._number += block.size
            self._place = kept.place_of(self._number)
            return block
        rows: list[Any] = []
        while not rows:
            if self._number == kept.length:
                return None
            self._place = max(self._place, kept.place_of(self._number)) if self._input is None else self._place
            block = self._input_at(kept, self._place).pull(n)
            if block is None:
                kept.length = self._number
                return None
            rows = self._passed(kept, block)
        return Block.of_rows(rows)

    def _passed(self, kept: CachedPass, block: Block) -> list[Any]:
        rows: list[Any] = []
        for row in block.rows():
            shown = kept.passed(self._place, self._number, row, self._context.share)
            self._place += 1
            self._number += int(type(row) is not Failed)
            if shown is not None:
                rows.append(shown)
        self._input_place = self._place
        return rows

    def _input_at(self, kept: CachedPass, place: int) -> Cursor:
        if self._input is None:
            self._input = self._context.input(epoch=kept.epoch)
            if self._saved is not None and self._saved[0] <= place:
                self._input_place, below = self._saved
                self._input.restore(below)
        if self._input_place < place:
            self._input_place += self._input.skip(place - self._input_place)
        return self._input
