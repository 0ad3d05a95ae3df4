"""ignore_errors: leaves out the elements that failed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from ..block import Block
from ..element import Failed
from ..errors import RunError
from ..plan.op import Context, ElementFunction, Op
from ..plan.traits import Traits
from ..spec import UNKNOWN, Spec

__all__ = ["IgnoreErrors"]

_log = logging.getLogger("penstock")


# An endless dataset of which every element fails would otherwise be dropped for ever.
_MOST_IN_A_ROW = 1_000_000


_TRAITS = Traits(runtime="elementwise", passes_columns=True)


@dataclasses.dataclass(frozen=True)
class IgnoreErrors(Op):
    """Drops the elements whose making raised, and goes on with the next.

    Args:
        log_warning: Whether each of them is logged, as a warning of the logger `penstock`, with the operator and line
            that it failed in.

    Memory: nothing.
    State: its input's.

    >>> import penstock as ps
    >>> [float(x) for x in ps.Dataset.range(3).map(lambda x: 1 // int(x)).ignore_errors()]
    [1.0, 0.0]
    """

    log_warning: bool = False

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0].with_cardinality(UNKNOWN)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def element_function(self, context: Context) -> ElementFunction:
        return _Drop(context, self.log_warning)


class _Drop:
    def __init__(self, context: Context, log_warning: bool) -> None:
        self._context = context
        self._log_warning = log_warning
        self._failed_in_a_row = 0

    def __call__(self, block: Block, place: int) -> Block:
        if not block.has_failures:
            self._failed_in_a_row = 0
            if block.columns is not None:
                return Block.of_columns(block.structure, block.columns, block.size)
            return Block.of_rows(block.rows(), has_failures=False)
        rows = block.rows()
        if self._log_warning:
            for i, row in enumerate(rows):
                if type(row) is Failed:
                    self._warn(row.error, place + i)
        kept = [row for row in rows if type(row) is not Failed]
        self._failed_in_a_row = 0 if kept else self._failed_in_a_row + len(rows)
        if self._failed_in_a_row > _MOST_IN_A_ROW:
            raise self._context.located(
                RunError(f"{self._failed_in_a_row:,} elements in a row failed, the last with {rows[-1].error!r:.200}")
            )
        return Block.of_rows(kept, has_failures=False)

    def _warn(self, error: BaseException, place: int) -> None:
        node, where = self._context.node, " ".join(getattr(error, "__notes__", ()))
        _log.warning("%s at %s: dropped element %d: %r %s", node.op.name, node.origin, place, error, where)
