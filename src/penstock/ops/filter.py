"""filter: the elements that a predicate wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed
from ..plan.op import Context, ElementFunction, Op
from ..plan.traits import Traits
from ..spec import UNKNOWN, Spec
from .calling import check_callable
from .predicate import Predicate

__all__ = ["Filter"]

# Small rows are gathered into new columns. Large ones stay views: who stacks them copies them anyway. Of a column each.
_GATHERED_BYTES = 256


_TRAITS = Traits(runtime="elementwise")


@dataclasses.dataclass(frozen=True)
class Filter(Op):
    """Keeps the elements for which `predicate` is true.

    Args:
        predicate: A function of an element that returns one boolean. A tuple element is unpacked into arguments.

    Memory: nothing.
    State: its input's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(6).filter(lambda x: x % 2 == 0)]
    [0, 2, 4]
    """

    predicate: Callable[..., Any]

    def __post_init__(self) -> None:
        check_callable("predicate", self.predicate)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0].with_cardinality(UNKNOWN)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def element_function(self, context: Context) -> ElementFunction:
        return _Keep(Predicate(self.predicate, context))


class _Keep:
    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate

    def __call__(self, block: Block, place: int) -> Block:
        answers = self._predicate.answers(block, place)
        # No positions: what comes after a filter counts its own elements.
        small = block.columns is not None and _row_bytes(block.columns) <= _GATHERED_BYTES * len(block.columns)
        if small and Failed not in map(type, answers):
            return _gathered(block, np.array(answers, dtype=np.bool_))
        rows = zip(block.rows(), answers, strict=True)
        kept = [row if answer is True else answer for row, answer in rows if answer]
        return Block.of_rows(kept)


def _row_bytes(columns: list[np.ndarray]) -> int:
    return sum(column.nbytes // max(1, len(column)) for column in columns)


def _gathered(block: Block, mask: np.ndarray) -> Block:
    assert block.columns is not None
    count = int(np.count_nonzero(mask))
    columns = block.columns if count == block.size else [column[mask] for column in block.columns]
    return Block.of_columns(block.structure, columns, count)
