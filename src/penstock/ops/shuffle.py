"""shuffle: elements in random order."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import detach, nbytes_of
from ..errors import BadArgument, OverBudget
from ..memory.ledger import format_bytes
from ..order import PermutationOrder, RangeOrder, WindowOrder, WindowShuffler, draw_seed, hash64
from ..plan.op import Context, Footprint, Op, OrderOf, argument
from ..plan.traits import Traits
from ..spec import INFINITE, UNKNOWN, Spec, element_bytes

__all__ = ["Shuffle"]


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

    Memory: over a source with random access 8 × buffer_size bytes, 0 for the whole; else buffer_size elements.
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
        return Traits(runtime="order", moves_below_map=True, draws_places=True, passes_columns=True)

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

    def footprint(self, inputs: Sequence[Spec]) -> Footprint | None:
        (spec,) = inputs
        count = spec.cardinality if self._whole(spec.cardinality) else self.buffer_size
        each = element_bytes(spec.element)
        held = None if each is None or count is None or count < 0 else each * count
        return Footprint(held, f"{'all' if count is None or count < 0 else f'{count:,}'} elements in the buffer")

    def open(self, context: Context) -> Cursor:
        whole = self._whole(context.node.input.spec.cardinality)
        return _ShuffleCursor(context, None if whole else self.buffer_size, self._key(context.epoch))


class _ShuffleCursor(Cursor):
    """Shuffles a stream: numbers are shuffled as an order would, elements wait under their number.

    To resume, what waits in the buffer must be read again. The cursor remembers positions of its input (anchors) from
    time to time, and drops those older than all that waits: about n·ln n elements are read again, not all.
    """

    def __init__(self, context: Context, buffer_size: int | None, key: int) -> None:
        self._input = context.input()
        self._share = context.share
        self._buffer_size = buffer_size
        self._key = key
        self._waiting: dict[int, tuple[Any, int]] = {}
        self._read = 0
        self._drawn = 0
        self._ended = False
        self._window = None if buffer_size is None else WindowShuffler(buffer_size, key)
        self._permutation: np.ndarray | None = None
        self._anchors: deque[tuple[int, State]] = deque([(0, self._input.state())])

    def pull(self, n: int) -> Block | None:
        numbers = self._draw(n)
        if not numbers.size:
            return None
        rows = []
        for number in numbers.tolist():
            row, nbytes = self._waiting.pop(number)
            self._share.discharge(nbytes)
            rows.append(row)
        return Block.of_rows(rows)

    def _draw(self, n: int) -> np.ndarray:
        if self._window is None:
            while not self._ended:
                self._fill(1024)
            numbers = self._permuted()[self._drawn : self._drawn + n]
        else:
            while wanted := self._window.wanted(n):
                before = self._read
                self._fill(wanted)
                self._window.feed(np.arange(before, self._read, dtype=np.int64))
                if self._ended:
                    self._window.drain()
            numbers = self._window.draw(n)
        self._drawn += numbers.size
        return numbers

    def _permuted(self) -> np.ndarray:
        if self._permutation is None:
            index = PermutationOrder(RangeOrder(self._read), self._key).slice(0, self._read)
            self._permutation = np.empty(0, np.int64) if isinstance(index, slice) else index
        return self._permutation

    def _fill(self, wanted: int) -> None:
        """Brings some of the wanted elements into the buffer."""
        if self._window is not None and self._read - self._anchors[-1][0] >= (self._buffer_size or 1):
            self._drop_anchor()
        block = self._input.pull(min(wanted, 256))
        if block is None:
            self._ended = True
            return
        for row in block.rows():
            self._keep(self._read, row)
            self._read += 1

    def _keep(self, number: int, row: Any) -> None:
        nbytes = nbytes_of(row)
        try:
            self._share.charge(nbytes)
        except OverBudget as error:
            raise self._too_large(error) from None
        self._waiting[number] = (detach(row), nbytes)

    def _too_large(self, error: OverBudget) -> OverBudget:
        """The refusal with what the whole buffer will need, if elements go on as they were."""
        held = self._share.charged_bytes
        each = held // max(1, len(self._waiting))
        if self._buffer_size is None or not held:
            return error
        return OverBudget(
            f"{error}; a buffer of {self._buffer_size:,} elements of {format_bytes(each)} needs about "
            f"{format_bytes(self._buffer_size * each)}"
        )

    def _drop_anchor(self) -> None:
        self._anchors.append((self._read, self._input.state()))
        oldest = min(self._waiting, default=self._read)
        while len(self._anchors) > 1 and self._anchors[1][0] <= oldest:
            self._anchors.popleft()

    def state(self) -> State:
        number, below = self._anchors[0]
        return [self._drawn, self._read, int(self._ended), number, below]

    def restore(self, state: State) -> None:
        drawn, read, ended, anchor, below = expect_list(state, 5)
        self._input.restore(below)
        self._anchors = deque([(anchor, below)])
        self._drawn, self._ended = drawn, bool(ended)
        self._read = read
        wanted = self._replayed()
        place = anchor
        for number in np.sort(wanted).tolist():
            self._input.skip(number - place)
            block = self._input.pull(1)
            assert block is not None, "the input is shorter than it was when the position was saved"
            self._keep(number, block.rows()[0])
            place = number + 1
        self._input.skip(read - place)

    def _replayed(self) -> np.ndarray:
        """The numbers that wait after the draws so far."""
        if self._window is None:
            if not self._ended:
                return np.arange(self._read, dtype=np.int64)
            return self._permuted()[self._drawn :]
        window = self._window
        done = 0
        while done < self._read:
            step = min(65_536, self._read - done)
            window.feed(np.arange(done, done + step, dtype=np.int64))
            done += step
            while window.drawn < self._drawn and window.draw(min(65_536, self._drawn - window.drawn)).size:
                pass
        if self._ended:
            window.drain()
            while window.drawn < self._drawn:
                window.draw(min(65_536, self._drawn - window.drawn))
        return window.held()

    def close(self) -> None:
        for _, nbytes in self._waiting.values():
            self._share.discharge(nbytes)
        self._waiting.clear()
        self._input.close()
