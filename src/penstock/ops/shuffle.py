"""shuffle: elements in random order."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..errors import BadArgument, StateError
from ..memory.singly import are_alike
from ..memory.transit import Transit
from ..order import PermutationOrder, WindowOrder, draw_seed, hash64
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, OrderOf, Progress, argument
from ..plan.traits import Traits
from ..spec import INFINITE, UNKNOWN, Spec
from .draws import Draws
from .row_strings import RowStrings
from .waiting import Waiting
from .waiting_bytes import held_bytes, least_memory_needed, memory_needed

__all__ = ["Shuffle"]

# Elements are read in blocks of at most so much: it is a while before the last of them has come into the buffer.
_BLOCK_BYTES = 1 << 20
_BLOCK_ELEMENTS = 256
# Of the budget, what is drawn at once even where nothing is to spare.
_FEW_PART = 512


_TRAITS = Traits(runtime="order", moves_below_map=True, draws_places=True, needs_index=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Shuffle(Op):
    """Shuffles with a buffer of `buffer_size` elements, or the whole dataset.

    As in tf.data an element leaves at most `buffer_size - 1` places early. With no size, or one that holds the whole
    dataset, every order is equally likely. Over a random-access source only indices are shuffled: a window takes 8
    bytes a slot, the whole dataset none.

    Args:
        buffer_size: Elements to draw from. None (or `UNKNOWN`): the whole dataset.
        seed: The same seed gives the same orders. None: other orders in each dataset.
        reshuffle_each_iteration: Whether each iteration has another order. True unless given.

    Memory: over a source with random access 8 × buffer_size bytes, 0 for the whole; else buffer_size elements, of which
    those that outgrow the budget wait on disk.
    State: integers, and a position of its input from which what the buffer holds is read again.

    >>> import penstock as ps
    >>> sorted(int(x) for x in ps.Dataset.range(5).shuffle(3, seed=1))
    [0, 1, 2, 3, 4]
    """

    buffer_size: int | None = None
    seed: int | None = None
    reshuffle_each_iteration: bool | None = None
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.buffer_size is not None:
            size = argument("buffer_size", self.buffer_size)
            if size < 1 and size != UNKNOWN:
                raise BadArgument(f"buffer_size: expected at least 1, or None for the whole dataset, got {size}")
            object.__setattr__(self, "buffer_size", None if size == UNKNOWN else size)
        if self.seed is not None:
            object.__setattr__(self, "seed", argument("seed", self.seed))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if self.buffer_size is None and spec.cardinality == INFINITE:
            raise BadArgument("cannot shuffle an infinite dataset as a whole; give a buffer_size")
        return spec

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def is_noop(self, spec: Spec) -> bool:
        return self.buffer_size == 1 or 0 <= spec.cardinality <= 1

    def needs_random_access(self, spec: Spec) -> bool:
        """Whether, as an order, it must reach any place of the order below at any time."""
        return self._whole(spec.cardinality)

    def _whole(self, cardinality: int) -> bool:
        return self.buffer_size is None or 0 <= cardinality <= self.buffer_size

    def _key(self, epoch: int) -> int:
        seed = self.drawn if self.seed is None else self.seed
        return hash64(seed, 0 if self.reshuffle_each_iteration is False else epoch)

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        if self._whole(length):
            return lambda epoch: PermutationOrder(inner(epoch), self._key(epoch))
        assert self.buffer_size is not None
        size = self.buffer_size
        return lambda epoch: WindowOrder(inner(epoch), size, self._key(epoch))

    def footprint(self, sizes: Sizes) -> Footprint | None:
        count = sizes.count if self._whole(sizes.count) else self.buffer_size
        size = count if self.buffer_size is None else self.buffer_size
        seen_bytes = sizes.held_bytes
        held = None if count is None or count < 0 else memory_needed(count, sizes.input, sizes.specs[0], seen_bytes)
        text = "all" if count is None or count < 0 else f"{count:,}"
        floor = None
        if sizes.input is not None:
            # No more wait than there are, and in a sample all that wait did so in memory.
            count = max(0, count or 0) if sizes.count < 0 else min(count or 0, sizes.count)
            least = least_memory_needed(count, size or 0, sizes.input, sizes.specs[0], seen_bytes)
            floor = sizes.beside_what_stays(least)
        return Footprint(held, f"{text} elements in the buffer, the rest on disk", floor, spills=True)

    def open(self, context: Context) -> Cursor:
        whole = self._whole(context.node.input.spec.cardinality)
        return _ShuffleCursor(context, None if whole else self.buffer_size, self._key(context.epoch))


class _ShuffleCursor(Cursor):
    """Shuffles a stream: numbers are drawn as in an order (`Draws`), elements wait under their number (`Waiting`).

    To resume, what waits in the buffer must be read again. The cursor remembers positions of its input (anchors) from
    time to time, and drops those older than all that waits: about n·ln n elements are read again, not all.
    """

    def __init__(self, context: Context, buffer_size: int | None, key: int) -> None:
        self._input = context.input()
        self._buffer_size = buffer_size
        share, free_bytes = context.share, context.share.free_bytes
        # The pool of runs may be made smaller meanwhile.
        self._draws = Draws(buffer_size, key, lambda: max(64, min(free_bytes, share.budget_bytes) // 128))
        most = context.node.input.spec.cardinality if buffer_size is None else buffer_size
        self._waiting = Waiting(share, context.spill, context.arena, self._draws, most)
        self._transit = Transit(context.share, None)
        self._filling: Progress | None = context.progress("filling the buffer", most)
        self._read = 0
        self._had_failures = False
        self._failed_bytes = 0  # of the largest error so far
        self._has_begun = False
        self._strings: RowStrings | None = None  # where rows are held as such
        self._block_bytes = max(1, min(_BLOCK_BYTES, context.share.budget_bytes // 16))
        self._few_bytes = 0 if context.share.frugal else context.share.budget_bytes // _FEW_PART
        self._each = self._block_bytes
        self._anchors: deque[tuple[int, State]] = deque([(0, self._input.state())])

    def pull(self, n: int) -> Block | None:
        least = self._transit.begin(n)
        n = self._num_at_once(n, 1 if self._had_failures else least)
        while wanted := self._draws.wanted(n, self._read):
            self._fill(wanted)
            if self._had_failures and self._buffer_size is not None:
                n = self._num_at_once(n, 1)
        if self._filling is not None:
            self._filling.close()
            self._filling = None
        self._transit.expect(self._each)  # the first may come from disk, on no account but its slot's
        return self._drawn(n, max(least, self._num_few(n)))

    def _num_at_once(self, n: int, least: int) -> int:
        """How many of n to draw, before which as many are read: for each that is drawn an error may come instead."""
        return max(least, min(n, max(self._num_few(n), self._waiting.num_at_once(self._each))))

    def _num_few(self, n: int) -> int:
        """How many small ones come together, whatever there is to spare: one by one they would cost more."""
        return min(n, self._few_bytes // self._each)

    def _drawn(self, n: int, least: int) -> Block | None:
        rows = self._waiting.draw(n, least, self._transit)
        if not rows:
            return None
        if self._strings is not None:
            return self._strings.read(rows)
        return Block.of_rows(rows, None, None if self._had_failures else False)

    def _fill(self, wanted: int) -> None:
        """Brings some of the wanted elements into the buffer."""
        if self._buffer_size is not None and self._read - self._anchors[-1][0] >= self._buffer_size:
            self._drop_anchor()
        block = self._input.pull(self._at_a_time(wanted))
        if block is None:
            self._waiting.end(self._read)
        else:
            self._keep(block)

    def _at_a_time(self, wanted: int) -> int:
        """How many elements to pull: what a block holds beyond what the buffer took so far counts twice."""
        return max(1, min(wanted, _BLOCK_ELEMENTS, self._block_bytes // self._each))

    def _keep(self, block: Block) -> None:
        if not self._has_begun:
            self._has_begun, self._strings = True, _strings_for(block)
        if self._strings is None:
            self._keep_rows(block, block.rows())
        else:
            for start in range(0, block.size, self._strings.num_at_once):
                part = block[start : start + self._strings.num_at_once]
                self._keep_rows(part, self._strings.written(part))

    def _keep_rows(self, block: Block, rows: list[Any]) -> None:
        # Numbers and texts come by the million.
        if are_alike(block):
            sizes = [held_bytes(rows[0])] * block.size
        elif {bytes}.issuperset(map(type, rows)):
            around = held_bytes(b"")
            sizes = [around + len(row) for row in rows]
        else:
            sizes = list(map(held_bytes, rows))
        self._waiting.keep(self._read, rows, sizes, block.has_failures)
        if self._filling is not None:
            self._filling.advance(block.size)
        if block.has_failures:
            self._had_failures, self._failed_bytes = True, max(self._failed_bytes, *sizes)
        self._read += block.size
        # An error may come for each that is drawn, and cannot go to disk.
        self._each = max(1, sizes[-1], self._failed_bytes)

    def _drop_anchor(self) -> None:
        self._anchors.append((self._read, self._input.state()))
        oldest = self._waiting.oldest(self._read)
        while len(self._anchors) > 1 and self._anchors[1][0] <= oldest:
            self._anchors.popleft()

    def state(self) -> State:
        number, below = self._anchors[0]
        return [self._draws.drawn, self._read, int(self._draws.length is not None), number, below]

    def restore(self, state: State) -> None:
        drawn, read, ended, anchor, below = expect_list(state, 5)
        if not 0 <= drawn <= read:
            raise StateError(f"the saved position is damaged: {drawn} elements drawn of {read}")
        self._input.restore(below)
        self._anchors = deque([(anchor, below)])
        if ended:
            self._draws.end(read)
        self._draws.move_to(drawn)
        waiting = self._draws.waiting(read)
        self._read = anchor
        if waiting.size:
            # Those that follow each other are read together.
            (last,) = np.nonzero(np.diff(waiting) != 1)
            firsts, lasts = waiting[np.append(0, last + 1)], waiting[np.append(last, waiting.size - 1)]
            for start, stop in zip(firsts, lasts + 1, strict=True):
                self._read_again(int(start), int(stop))
        self._input.skip(read - self._read)
        self._read = read

    def _read_again(self, start: int, stop: int) -> None:
        self._input.skip(start - self._read)
        self._read = start
        while self._read < stop:
            block = self._input.pull(self._at_a_time(stop - self._read))
            if block is None:
                raise StateError(f"the input ends at element {self._read}, and had {stop} when the position was saved")
            self._keep(block)
            del block  # or it would still be held while the next one is made

    def close(self) -> None:
        self._waiting.close()
        self._transit.close()
        if self._filling is not None:
            self._filling.close()
        self._input.close()


def _strings_for(block: Block) -> RowStrings | None:
    """How rows like these are held as strings, if that takes less: windows on the user's arrays take nearly nothing."""
    strings = RowStrings.of(block)
    if strings is None:
        return None
    first = block[:1]
    return strings if held_bytes(strings.written(first)[0]) < held_bytes(first.rows()[0]) else None
