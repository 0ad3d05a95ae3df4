"""Elements in memory as a source: what `window` and `group_by_window` put into the datasets they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor
from ..indexed import IndexCursor
from ..order import Index, RangeOrder
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import UNSEEN, Spec, merge, spec_of

__all__ = ["FromRows"]


@dataclasses.dataclass(frozen=True, eq=False)
class FromRows(Op):
    """Some elements that lie in memory already.

    Memory: nothing beyond the elements.
    State: one integer.
    """

    rows: list[Any]

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        if not self.rows:
            return Spec(UNSEEN, 0)
        first = self.rows[0]
        element = spec_of(first)
        if not _all_alike(first, self.rows):
            for row in self.rows[1:]:
                element = merge(element, spec_of(row))
        return Spec(element, len(self.rows))

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _RowReader(self.rows)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(len(self.rows)))

    def describe(self) -> str:
        return f"rows({len(self.rows)})"


def _all_alike(first: Any, rows: list[Any]) -> bool:
    """Whether all are arrays or scalars of one shape and dtype, as is the rule; seen without making a spec of each."""
    kind = type(first)
    if kind is np.ndarray:
        shape, dtype = first.shape, first.dtype
        return all(type(row) is np.ndarray and row.shape == shape and row.dtype == dtype for row in rows)
    return isinstance(first, np.number) and all(type(row) is kind for row in rows)


class _RowReader:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def read(self, index: Index) -> Block:
        rows = self._rows[index] if isinstance(index, slice) else [self._rows[i] for i in index.tolist()]
        return Block.of_rows(rows, has_failures=False)
