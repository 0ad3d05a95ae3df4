"""Numbers as a source: `range`, `counter` and `random`. Nothing is stored: element i is computed from i."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._native import random_numbers
from ..block import Block
from ..cursor import Cursor
from ..element import LEAF
from ..errors import BadArgument, BadType
from ..indexed import IndexCursor
from ..inorder import InOrderCursor
from ..order import Index, RangeOrder, as_array, draw_seed, hash64
from ..plan.op import BlockKind, Context, Op, Reader, argument
from ..plan.traits import SOURCE, Traits
from ..spec import INFINITE, Spec, TensorSpec

__all__ = ["Counter", "Random", "Range"]


_INT64 = np.dtype(np.int64)
_LARGEST = 2**63 - 1
_SCALAR = TensorSpec((), _INT64)


def _int64(name: str, value: Any) -> int:
    number = argument(name, value)
    if not -_LARGEST - 1 <= number <= _LARGEST:
        raise BadArgument(f"{name}: expected a number that int64 holds, got {number}")
    return number


class _Arithmetic:
    """start + step × index."""

    def __init__(self, start: int, step: int, dtype: np.dtype[Any]) -> None:
        self._start, self._step, self._dtype = start, step, dtype

    def read(self, index: Index) -> Block:
        if not self._step:
            values = np.full(len(as_array(index)), self._start, dtype=np.int64)
        elif isinstance(index, slice):
            first = self._start + self._step * index.start
            last = self._start + self._step * index.stop
            if -_LARGEST <= first <= _LARGEST and -_LARGEST <= last <= _LARGEST:
                values = np.arange(first, last, self._step, dtype=np.int64)
            else:  # past the largest number the smallest comes, as in tf.data
                values = as_array(index) * self._step + self._start
        else:
            values = index * self._step + self._start if (self._step, self._start) != (1, 0) else index
        if self._dtype is not _INT64:
            values = values.astype(self._dtype, copy=False)
        return Block(len(values), LEAF, [values], None, False, None)


@dataclasses.dataclass(frozen=True, init=False)
class Range(Op):
    """Numbers from `start` to `stop` (not included) in steps: `range(stop)`, `range(start, stop[, step])`.

    Args:
        *args: As for Python's `range`.
        output_type: The dtype, int64 unless given.

    Memory: nothing.
    State: one integer.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(1, 9, 3)]
    [1, 4, 7]
    """

    start: int
    stop: int
    step: int = 1
    output_type: np.dtype[Any] = _INT64

    def __init__(self, *args: int, output_type: Any = np.int64, name: str | None = None) -> None:
        fields = self.__dict__
        if len(args) == 1 and type(args[0]) is int and args[0] <= _LARGEST and output_type is np.int64:
            # Most, and many in `flat_map`.
            fields["start"], fields["stop"], fields["step"], fields["output_type"] = 0, args[0], 1, _INT64
            return
        if not 1 <= len(args) <= 3:
            raise BadArgument(f"expected 1 to 3 numbers (start, stop, step), got {len(args)}")
        if len(args) == 1:
            start, stop, step = 0, _int64("stop", args[0]), 1
        else:
            start, stop = _int64("start", args[0]), _int64("stop", args[1])
            step = _int64("step", args[2]) if len(args) == 3 else 1
        if step == 0:
            raise BadArgument("step: expected a number other than 0")
        dtype = _INT64 if output_type is np.int64 else np.dtype(getattr(output_type, "as_numpy_dtype", output_type))
        if dtype.kind not in "iuf":
            raise BadType(f"output_type: expected a number type, got {dtype}")
        fields.update(start=start, stop=stop, step=step, output_type=dtype)

    @property
    def num_elements(self) -> int:
        return max(0, -((self.start - self.stop) // self.step))  # `len` holds only what int64 does

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(_SCALAR if self.output_type is _INT64 else TensorSpec((), self.output_type), self.num_elements)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _Arithmetic(self.start, self.step, self.output_type)

    def read_all(self, context: Context) -> Block:
        numbers = np.arange(self.start, self.stop, self.step, dtype=_INT64)
        if self.output_type is not _INT64:
            numbers = numbers.astype(self.output_type)
        return Block(len(numbers), LEAF, [numbers], None, False, None)

    def open(self, context: Context) -> Cursor:
        return InOrderCursor(self.reader(context), self.num_elements)

    def block_kind(self) -> BlockKind | None:
        return "computed"

    def describe(self) -> str:
        parts = [f"{n:_}" for n in (self.start, self.stop, self.step)]
        return f"range({', '.join(parts[1:2] if (self.start, self.step) == (0, 1) else parts)})"


@dataclasses.dataclass(frozen=True)
class Counter(Op):
    """`start`, `start + step`, `start + 2·step`, … without end.

    Past the largest number of its dtype comes the smallest.

    Args:
        start: The first number.
        step: The difference between neighbours.
        dtype: The dtype, int64 unless given.

    Memory: nothing.
    State: one integer.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.counter(10, 5).take(3)]
    [10, 15, 20]
    """

    start: int = 0
    step: int = 1
    dtype: Any = np.int64

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _int64("start", self.start))
        object.__setattr__(self, "step", _int64("step", self.step))
        object.__setattr__(self, "dtype", np.dtype(getattr(self.dtype, "as_numpy_dtype", self.dtype)))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), self.dtype), INFINITE)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _Arithmetic(self.start, self.step, self.dtype)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(math.inf))


@dataclasses.dataclass(frozen=True)
class Random(Op):
    """Random numbers in [0, 2³²) without end.

    Args:
        seed: The same seed gives the same numbers. None: other numbers in each dataset.
        rerandomize_each_iteration: Whether each iteration gives other numbers. False unless asked for, as in tf.data.

    Memory: nothing.
    State: one integer.

    >>> import penstock as ps
    >>> a, b = [list(ps.Dataset.random(seed=4).take(2)) for _ in range(2)]
    >>> a == b
    True
    """

    seed: int | None = None
    rerandomize_each_iteration: bool | None = None
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            object.__setattr__(self, "seed", argument("seed", self.seed))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), np.int64), INFINITE)

    @property
    def traits(self) -> Traits:
        # A number depends on the epoch too, which an order moved below a repeat would hide: read as a stream.
        return Traits(runtime="cursor" if self.rerandomize_each_iteration else "source")

    def reader(self, context: Context) -> Reader:
        seed = self.drawn if self.seed is None else self.seed
        return _Hashed(hash64(seed, context.epoch if self.rerandomize_each_iteration else 0))

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(math.inf))


class _Hashed:
    """A well-mixed function of key and index (the finaliser of splitmix64)."""

    def __init__(self, key: int) -> None:
        self._key = key

    def read(self, index: Index) -> Block:
        places = as_array(index)
        values = places if isinstance(index, slice) else np.empty_like(places)
        random_numbers(self._key, places, values)
        return Block.of_columns(LEAF, [values], len(values))
