"""enumerate: each element with its index."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..element import LEAF, Failed, Structure
from ..errors import BadArgument, OutOfRange
from ..plan.footprint import ElementSize
from ..plan.op import Context, ElementFunction, Op, argument
from ..plan.traits import Traits
from ..spec import UNSEEN, Spec, TensorSpec

__all__ = ["Enumerate"]

_LARGEST = 2**63 - 1


_TRAITS = Traits(runtime="elementwise", one_to_one=True, keyed=True, passes_columns=True)


@dataclasses.dataclass(frozen=True)
class Enumerate(Op):
    """Pairs of an index, counted from `start`, and the element.

    An element that fails uses up its index.

    Args:
        start: The index of the first element.

    Memory: nothing.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> [(int(i), int(x)) for i, x in ps.Dataset.range(10, 13).enumerate(start=5)]
    [(5, 10), (6, 11), (7, 12)]
    """

    start: int = 0
    by_number: bool = dataclasses.field(default=False, kw_only=True, repr=False)

    internal = ("by_number",)

    def __post_init__(self) -> None:
        start = argument("start", self.start)
        if not -_LARGEST - 1 <= start <= _LARGEST:
            raise BadArgument(f"start: expected a number that int64 holds, got {start}")
        object.__setattr__(self, "start", start)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        return Spec((TensorSpec((), np.int64), spec.element) if spec.seen else UNSEEN, spec.cardinality)

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        return ElementSize((8, *inputs[0].leaves), inputs[0].exact)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def numbered(self) -> Op | None:
        return None if self.by_number else dataclasses.replace(self, by_number=True)

    def element_function(self, context: Context) -> ElementFunction:
        return _Enumerated(context, self.start, self.by_number)


class _Enumerated:
    def __init__(self, context: Context, start: int, by_number: bool) -> None:
        self._context = context
        self._start = start
        self._by_number = by_number
        self._inner = LEAF
        self._pair = _pair_of(LEAF)

    def __call__(self, block: Block, place: int) -> Block:
        numbers = block.positions if self._by_number else None
        last = place + block.size - 1 if numbers is None else int(numbers.max())
        if self._start + last > _LARGEST:
            return self._up_to_largest(block, range(place, place + block.size) if numbers is None else numbers.tolist())
        if numbers is None:
            first = self._start + place
            index = np.arange(first, first + block.size, dtype=np.int64)
        else:
            index = numbers + self._start
        if block.columns is not None:
            if block.structure is not self._inner:
                self._inner, self._pair = block.structure, _pair_of(block.structure)
            return Block.of_columns(self._pair, [index, *block.columns], block.size, block.positions)
        rows: list[Any] = list(zip(index, block.rows(), strict=True))
        if block.has_failures:
            rows = [row if type(row) is Failed else pair for row, pair in zip(block.rows(), rows, strict=True)]
        return Block.of_rows(rows, block.positions, block.has_failures)

    def _up_to_largest(self, block: Block, places: Sequence[int]) -> Block:
        """Elements that int64 has no index for fail: a start next to its end is a mistake."""
        rows: list[Any] = []
        for place, row in zip(places, block.rows(), strict=True):
            index = self._start + place
            if type(row) is Failed:
                rows.append(row)
            elif index <= _LARGEST:
                rows.append((np.int64(index), row))
            else:
                rows.append(Failed(self._context.located(OutOfRange(f"the index {index} does not fit int64"))))
        return Block.of_rows(rows, block.positions)


def _pair_of(inner: Structure) -> Structure:
    return Structure(tuple, (0, 1), (LEAF, inner))
