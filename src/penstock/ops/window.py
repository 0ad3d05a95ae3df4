"""window: consecutive elements as small datasets."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import Cursor, State, expect_list
from ..element import Failed, Structure
from ..errors import PlanError
from ..leaf import is_dataset
from ..memory.singly import objects_bytes
from ..plan.footprint import ElementSize, Footprint, Sizes, held_singly, several
from ..plan.op import Context, Op, argument
from ..spec import DatasetSpec, Spec, element_bytes, map_specs, spec_leaves
from .overlap import Overlap
from .stacking import unlike
from .tape import Tape

__all__ = ["Window"]

# Windows are given out in blocks only while what is in them stays below this.
_MOST_BYTES = 1 << 20
# … and below such a part of the budget: what reads them holds all of them until it has read the last.
_PART = 64


@dataclasses.dataclass(frozen=True)
class Window(Op):
    """Groups elements into windows, each a dataset of `size` consecutive elements.

    An element with several components becomes several datasets in the same structure, one for each component. A failed
    element fails every window that it belongs to; one that no window takes up passes unnoticed.

    Args:
        size: Elements per window.
        shift: Elements from the beginning of one window to that of the next. None: `size`, so that windows neither
            overlap nor leave elements out.
        stride: Elements from one element of a window to the next.
        drop_remainder: Whether windows at the end that have fewer than `size` elements are left out.

    Memory: ((size - 1) × stride / gcd(shift, stride) + 1) × the bytes of an element, and of the
        objects around it (about 240) where elements come one by one. What windows of a window have in common counts
        once.
    State: three integers, and a position of its input from which what the window holds is read again.

    >>> import penstock as ps
    >>> [[int(x) for x in window] for window in ps.Dataset.range(5).window(3, shift=2)]
    [[0, 1, 2], [2, 3, 4], [4]]
    """

    size: int
    shift: int | None = None
    stride: int = 1
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        size = argument("size", self.size, at_least=1)
        shift = size if self.shift is None else argument("shift", self.shift, at_least=1)
        for name, value in (("size", size), ("shift", shift), ("stride", argument("stride", self.stride, at_least=1))):
            object.__setattr__(self, name, value)

    @property
    def _every(self) -> int:
        """Only every so-manieth element of the input is in any window."""
        assert self.shift is not None
        return math.gcd(self.shift, self.stride)

    @property
    def _num_held(self) -> int:
        """Elements that are held at a time."""
        return (self.size - 1) * (self.stride // self._every) + 1

    def _takes_slices(self, is_stacked: bool) -> bool:
        """Whether windows are slices of blocks, of an input that gives its elements stacked or not."""
        assert self.shift is not None
        return is_stacked and self._every == 1 and self.shift <= self._num_held

    def cut_to(self, num_elements: int) -> Op | None:
        assert self.shift is not None
        # One more than there are: then the first window is as short as it was, and there is no second one.
        size, shift, stride = (min(n, num_elements + 1) for n in (self.size, self.shift, self.stride))
        cut = dataclasses.replace(self, size=size, shift=shift, stride=stride)
        return None if cut == self else cut

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        element = map_specs(DatasetSpec, spec.element)
        return Spec(element, self._cardinality(spec.cardinality))

    def _cardinality(self, num_elements: int) -> int:
        assert self.shift is not None
        if num_elements < 0:
            return num_elements
        if not self.drop_remainder:
            return -(-num_elements // self.shift)
        reach = (self.size - 1) * self.stride + 1
        return (num_elements - reach) // self.shift + 1 if num_elements >= reach else 0

    def footprint(self, sizes: Sizes) -> Footprint | None:
        own = sizes.input and dataclasses.replace(sizes.input, is_view=False)
        if self._takes_slices(sizes.is_stacked):  # windows are copies
            count = self._num_held + self.size
            held = several(count, own)
        else:
            count = self._num_held
            held = held_singly(count, own)
        held = sizes.at_least_as_sampled(held)
        return Footprint(held, f"{count:,} elements in the window", held)

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        return inputs[0].gathered(self.size)

    def open(self, context: Context) -> Cursor:
        assert self.shift is not None
        every = self._every
        if self._takes_slices(context.node.input.op.block_kind() is not None):
            return _SliceCursor(context, self._num_held, self.shift, self.stride, self.drop_remainder)
        return _WindowCursor(
            context, self._num_held, every, self.shift // every, self.stride // every, self.drop_remainder
        )


class _WindowCursor(Cursor):
    """Keeps every `every`th element in a buffer of `span`; `shift` and `stride` count elements in the buffer.

    The buffer begins where the next window does, at input element `_start`.
    """

    def __init__(self, context: Context, span: int, every: int, shift: int, stride: int, drop_remainder: bool) -> None:
        self._context = context
        self._overlap = Overlap()
        self._tape = Tape(context.input(), context.share, self._overlap)
        self._span = span
        self._every = every
        self._shift = shift
        self._stride = stride
        self._drop_remainder = drop_remainder
        self._buffer: deque[tuple[Any, int]] = deque()
        # Bytes of elements that are in no window to come, but in one that was given and may still be read.
        self._given_bytes = 0
        self._failed: Failed | None = None  # the first in the window, where it is in no other one
        self._start = 0
        self._ended = False

    def pull(self, n: int) -> Block | None:
        windows: list[Any] = []
        nbytes = 0
        self._release_given()
        share = self._context.share
        room = min(_MOST_BYTES, share.budget_bytes // _PART, share.spare_bytes)
        while len(windows) < n and nbytes <= room and self._fill(n - len(windows)):
            nbytes += self._window_bytes()
            if windows and nbytes > room:
                break  # it stays in the buffer, and is the next one's first
            windows.append(self._window([row for row, _ in islice(self._buffer, 0, None, self._stride)]))
            self._move_on()
        return Block.of_rows(windows) if windows else None

    def _window_bytes(self) -> int:
        """What a window's elements take, about, on whoever's account."""
        return max(self._tape.charged_bytes, len(self._buffer) * self._tape.each_bytes)

    def _release_given(self) -> None:
        self._tape.release(self._given_bytes)
        self._given_bytes = 0

    def _fill(self, num_windows: int) -> bool:
        """Reads what the next window lacks; whether there is a window."""
        while not self._ended and len(self._buffer) < self._span:
            if self._tape.anchor_due(len(self._buffer)):
                self._tape.drop_anchor(range(self._start, self._start + len(self._buffer) * self._every, self._every))
            held = None
            if self._tape.skip_to(self._start + len(self._buffer) * self._every):
                held = self._tape.next(self._demand(num_windows))
            if held is None:
                self._ended = True
            else:
                self._hold(*held)
        return len(self._buffer) >= (self._span if self._drop_remainder else 1)

    def _hold(self, row: Any, nbytes: int) -> None:
        """Keeps an element; of errors only those that a window will fail with, the first of its own."""
        if type(row) is Failed:
            if self._shift >= self._span and self._stride == 1:
                row = self._failed = self._failed or row
            else:
                nbytes = objects_bytes(row)
                self._tape.charge(nbytes)
        self._buffer.append((row, nbytes))

    def _demand(self, num_windows: int) -> int:
        if self._every > 1:
            return 1
        missing = self._span - len(self._buffer)
        return missing if self._shift > self._span else missing + (num_windows - 1) * self._shift

    def _window(self, rows: list[Any]) -> Any:
        if Failed in map(type, rows):
            return next(row for row in rows if type(row) is Failed)
        try:
            structure = Structure.of(rows[0])
            if structure.is_leaf:
                return self._context.dataset_of(rows)
            by_leaf = zip(*[structure.flatten(row) for row in rows], strict=True)
            return structure.unflatten([self._context.dataset_of(list(leaves)) for leaves in by_leaf])
        except PlanError:
            return Failed(self._context.located(unlike(rows)))

    def _move_on(self) -> None:
        for _ in range(min(self._shift, len(self._buffer))):
            row, nbytes = self._buffer.popleft()
            self._given_bytes += nbytes + self._overlap.left(row) if is_dataset(row) else nbytes
        self._start += self._shift * self._every
        self._failed = None

    def skip(self, n: int) -> int:
        for skipped in range(n):
            self._release_given()
            if not self._fill(n - skipped):
                return skipped
            self._move_on()
        return n

    def state(self) -> State:
        oldest = self._start if self._buffer else None
        return [self._start, len(self._buffer), int(self._ended), self._tape.state(oldest)]

    def restore(self, state: State) -> None:
        self._start, count, ended, below = expect_list(state, 4)
        self._ended = bool(ended)
        self._tape.restore(below)
        for i in range(count):
            self._hold(*self._tape.read_again(self._start + i * self._every))

    def close(self) -> None:
        self._buffer.clear()
        self._tape.close()


class _SliceCursor(Cursor):
    """Windows over a source that gives its elements stacked, none of which fails: each is a copy of a slice.

    A copy, because who keeps one window must not keep a whole block by it. The elements held begin where the next
    window does, at input element `_start`; `_anchors` are positions of the input from which they can be read again,
    each with the number of the element that comes there.
    """

    def __init__(self, context: Context, span: int, shift: int, stride: int, drop_remainder: bool) -> None:
        self._context = context
        self._input = context.input()
        self._span = span
        self._shift = shift
        self._stride = stride
        self._fewest = span if drop_remainder else 1
        self._element_bytes = element_bytes(context.node.input.spec.element) or _MOST_BYTES
        self._lease = context.share.acquire(0)
        self._given_bytes = 0  # of windows that were given and may still be read
        self._block: Block | None = None
        self._is_own = False  # the block: not one that the input made
        self._offset = 0
        self._start = 0
        self._number = 0  # of the element that the input gives next
        self._ended = False
        self._anchors: deque[tuple[int, State]] = deque()
        self._specs = [Spec(leaf) for leaf in spec_leaves(context.node.input.spec.element)]
        self._specs_by_count: dict[int, list[Spec]] = {}

    def pull(self, n: int) -> Block | None:
        windows: list[Any] = []
        self._given_bytes = 0
        self._settle()
        each = max(1, self._element_bytes * self._span)
        most = max(1, min(n, min(_MOST_BYTES, self._context.share.spare_bytes) // (2 * each)))
        window_bytes = 0
        while len(windows) < most:
            count = self._span if self._held() >= self._span else self._fill(most - len(windows))
            if count < self._fewest:
                break
            if not windows:  # reserved for all at once: an entry for each would take as long as making it
                window_bytes = -(-self._span // self._stride) * self._element_bytes
                self._given_bytes = most * window_bytes
                self._settle()
            windows.append(self._window(self._offset, self._offset + count))
            self._move_on()
        self._given_bytes = len(windows) * window_bytes
        self._settle()
        return Block.of_rows(windows, has_failures=False) if windows else None

    def _held(self) -> int:
        return 0 if self._block is None else self._block.size - self._offset

    def _fill(self, num_windows: int) -> int:
        """Reads what the next window lacks; how many elements it has."""
        held = self._held()
        while held < self._span and not self._ended:
            demand = self._span - held + (num_windows - 1) * self._shift
            self._anchors.append((self._number, self._input.state()))
            self._leave_block()
            new = self._input.pull(max(1, min(demand, _MOST_BYTES // max(1, self._element_bytes))))
            if new is None:
                self._anchors.pop()
                self._ended = True
            else:
                self._append(new)
                del new  # or it would be in use while the next is made
                held = self._held()
        return min(held, self._span)

    def _leave_block(self) -> None:
        """Copies what is left of a block: the input may have room for no other one as long as this is in use."""
        if self._block is not None and not self._is_own:
            self._block = self._block[self._offset :].copied() if self._held() else None
            self._offset = 0

    def _append(self, new: Block) -> None:
        self._number += new.size
        self._element_bytes = -(-new.nbytes // new.size)
        rest = None if self._block is None else self._block[self._offset :]
        self._is_own = rest is not None and rest.size > 0
        joined = concat_blocks([rest, new], np.empty) if rest is not None and rest.size else new
        assert joined is not None, "a source gives all elements in one shape"
        self._block, self._offset = joined, 0
        self._settle()

    def _settle(self) -> None:
        held = 0 if self._block is None else max(self._held(), min(self._span, self._block.size))
        self._lease.settle(held * self._element_bytes + self._given_bytes)

    def _window(self, start: int, stop: int) -> Any:
        assert self._block is not None
        assert self._block.columns is not None
        columns = self._block.columns
        if len(columns) == 1:
            stack = columns[0][start : stop : self._stride].copy()
            window = self._context.dataset_of_stack(stack, self._specs_of(len(stack))[0])
            return window if self._block.structure.is_leaf else self._block.structure.unflatten([window])
        stacks = [column[start : stop : self._stride].copy() for column in columns]
        specs = self._specs_of(len(stacks[0]))
        windows = [self._context.dataset_of_stack(stack, spec) for stack, spec in zip(stacks, specs, strict=True)]
        return self._block.structure.unflatten(windows)

    def _specs_of(self, count: int) -> list[Spec]:
        """What is known of a window of so many elements: nearly all have as many."""
        specs = self._specs_by_count.get(count)
        if specs is None:
            specs = self._specs_by_count[count] = [spec.with_cardinality(count) for spec in self._specs]
        return specs

    def _move_on(self) -> None:
        self._start += self._shift
        self._offset += min(self._shift, self._held())
        while len(self._anchors) > 1 and self._anchors[1][0] <= self._start:
            self._anchors.popleft()

    def skip(self, n: int) -> int:
        for skipped in range(n):
            if self._fill(n - skipped) < self._fewest:
                return skipped
            self._move_on()
        return n

    def state(self) -> State:
        number, below = self._anchors[0] if self._held() else (self._number, self._input.state())
        return [self._start, number, below]

    def restore(self, state: State) -> None:
        self._start, self._number, below = expect_list(state, 3)
        self._input.restore(below)
        self._number += self._input.skip(self._start - self._number)

    def close(self) -> None:
        self._block = None
        self._lease.release()
        self._input.close()
