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
from ..element import Failed, Structure, detach, leaf_bytes, read_only
from ..errors import BadArgument, BadType, OverBudget, SpecMismatch
from ..memory.ledger import Share
from ..plan.op import Context, Footprint, Op
from ..plan.seeds import drawn_seeds
from ..spec import Spec, element_bytes

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
    saw, and the next one goes on from there. What does not fit into the budget is made again each time. An element that
    fails is an error the first time and left out later, as in tf.data. Arrays are given read-only.

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
                f"filename: expected none, got {self.filename!r}: in this version there are only caches in memory, "
                "use cache()"
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
        self.length: int | None = None
        self.num_kept = 0
        self.nbytes = 0
        self._full = False
        self._chunks: list[Block] = []
        self._chunk_bytes: list[int] = []
        self._tail: list[Any] = []
        self._tail_bytes = 0
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

    def passed(self, place: int, number: int, rows: list[Any], share: Share) -> list[Any]:
        """Takes note of what came from the input, keeps what comes next, and gives what to show."""
        shown: list[Any] = []
        fresh: list[tuple[Any, int]] = []
        with self._lock:
            for row in rows:
                if type(row) is not Failed:
                    sealed, nbytes = _sealed(row)
                    if number == self.num_kept + len(fresh):
                        fresh.append((sealed, nbytes + _ROW_BYTES))
                    shown.append(sealed)
                    number += 1
                elif place >= self.reached:
                    self.failures.append(number)
                    shown.append(row)
                place += 1
                self.reached = max(self.reached, place)
            if fresh and not self._full:
                self._keep(fresh, share)
        return shown

    def _keep(self, fresh: list[tuple[Any, int]], share: Share) -> None:
        """Keeps the first of these elements, as many as fit."""
        if not self._try_charge(sum(nbytes for _, nbytes in fresh), share):
            half = len(fresh) // 2
            self._full = not half
            if half:
                self._keep(fresh[:half], share)
            if not self._full:
                self._keep(fresh[half:], share)
            return
        for row, nbytes in fresh:
            self._tail.append(row)
            self._tail_bytes += nbytes
            self.nbytes += nbytes
            self.num_kept += 1
            if len(self._tail) == _CHUNK:
                self._close_chunk()

    def _try_charge(self, nbytes: int, share: Share) -> bool:
        # Who can do without memory leaves a fifth of it to those who cannot.
        after = self.nbytes + nbytes
        return nbytes + after // 4 <= share.free_bytes and self._accounts[id(share)].try_settle(after)

    def _close_chunk(self) -> None:
        chunk, nbytes = Block.of_rows(self._tail, has_failures=False), self._tail_bytes
        stacked = _stacked(chunk) if chunk.nbytes <= _STACKED_BYTES * _CHUNK else None
        if stacked is not None and stacked.nbytes <= nbytes:
            self.nbytes -= nbytes - stacked.nbytes
            chunk, nbytes = stacked, stacked.nbytes
        self._chunks.append(chunk)
        self._chunk_bytes.append(nbytes)
        self._tail, self._tail_bytes = [], 0

    # What is kept outlives a run, but while a run is open it is on its ledger: once for each share, however many
    # cursors read through it.

    def join(self, share: Share) -> None:
        """Begins to count on a share what is kept."""
        with self._lock:
            account = self._accounts.setdefault(id(share), _Account(share))
            account.num_cursors += 1
            self._full = False  # another run may have more room
            self.settle(share)

    def settle(self, share: Share) -> None:
        """Follows what was added or dropped by others; drops the last elements where the share has no room for them."""
        with self._lock:
            account = self._accounts[id(share)]
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
            self.nbytes -= self._tail_bytes
            self._tail, self._tail_bytes = [], 0
        else:
            self._chunks.pop()
            self.nbytes -= self._chunk_bytes.pop()
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
        """Corrects the charge; False where there is no room."""
        if nbytes > self.charged_bytes:
            try:
                self.share.charge(nbytes - self.charged_bytes)
            except OverBudget:
                return False
        elif nbytes < self.charged_bytes:
            self.share.discharge(self.charged_bytes - nbytes)
        self.charged_bytes = nbytes
        return True


class _CacheCursor(Cursor):
    """Gives what is kept; beyond that reads its input, which it opens and moves on only when it must."""

    def __init__(self, context: Context, store: CacheStore) -> None:
        self._context = context
        self._store = store
        self._seeds = drawn_seeds(context.node.input)
        self._pass: CachedPass | None = None
        self._number = 0
        self._place = 0
        self._input: Cursor | None = None
        self._input_place = 0
        self._input_saved: State = None

    def _begin(self, begun: CachedPass) -> CachedPass:
        begun.join(self._context.share)
        self._pass = begun
        return begun

    def pull(self, n: int) -> Block | None:
        kept = self._pass or self._begin(self._store.begun(self._context.epoch, self._seeds))
        kept.settle(self._context.share)
        block = kept.read(self._number, n)
        if block is not None:
            self._number += block.size
            self._place = kept.place_of(self._number)
            return block
        rows: list[Any] = []
        while not rows and self._number != kept.length:
            block = self._input_here(kept).pull(n)
            if block is None:
                kept.length = self._number
            else:
                rows = self._passed(kept, block)
        return Block.of_rows(rows) if rows else None

    def _passed(self, kept: CachedPass, block: Block) -> list[Any]:
        rows = kept.passed(self._place, self._number, block.rows(), self._context.share)
        failed = sum(type(row) is Failed for row in block.rows()) if block.has_failures else 0
        self._number += block.size - failed
        self._place += block.size
        self._input_place = self._place
        return rows

    def _input_here(self, kept: CachedPass) -> Cursor:
        """The input, at the place where this cursor is."""
        if self._input is None:
            self._input = self._context.input(epoch=kept.epoch)
            if self._input_saved is not None:
                self._input.restore(self._input_saved)
        if self._input_place < self._place:
            self._input_place += self._input.skip(self._place - self._input_place)
        return self._input

    def skip(self, n: int) -> int:
        kept = self._pass or self._begin(self._store.begun(self._context.epoch, self._seeds))
        ready = max(0, min(n, kept.num_kept - self._number))
        if ready:
            self._number += ready
            self._place = kept.place_of(self._number)
        return ready + (super().skip(n - ready) if ready < n else 0)

    def state(self) -> State:
        kept = self._pass or self._store.kept
        if kept is None:
            return None
        below = self._input_saved if self._input is None else self._input.state()
        here = [self._number, self._place, self._input_place, below]
        return [kept.epoch, kept.reached, list(kept.failures), *here]

    def restore(self, state: State) -> None:
        epoch, reached, failures = self._context.epoch, 0, []
        if state is not None:  # else nothing was kept yet
            epoch, reached, failures, number, place, input_place, below = expect_list(state, 7)
            self._number, self._place, self._input_place, self._input_saved = number, place, input_place, below
        self._begin(self._store.resumed(epoch, self._seeds, reached, failures))

    def close(self) -> None:
        if self._pass is not None:
            self._pass.leave(self._context.share)
            self._pass = None
        if self._input is not None:
            self._input.close()
            self._input = None


def _sealed(element: Any) -> tuple[Any, int]:
    """The element with arrays that nobody can change, as they will be given again; and the bytes it keeps alive."""
    if type(element) is bytes or isinstance(element, np.generic):
        return element, leaf_bytes(element)
    structure = Structure.of(element)
    leaves = structure.flatten(detach(element))
    # What is a read-only view even now is a window on an array that lives anyway.
    nbytes = sum(leaf_bytes(leaf) for leaf in leaves if not (isinstance(leaf, np.ndarray) and leaf.base is not None))
    return structure.unflatten([read_only(leaf) for leaf in leaves]), nbytes


def _stacked(chunk: Block) -> Block | None:
    """The elements as columns of their own, or None if they are not alike."""
    try:
        stacked = concat_blocks([chunk], np.empty)
    except SpecMismatch:
        return None
    for column in stacked.columns or () if stacked is not None else ():
        column.flags.writeable = False
    return stacked
