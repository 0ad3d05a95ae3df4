"""regroup_rows: batches that are taken apart again need not be made."""

from __future__ import annotations

from ..ops.batch import Batch
from ..ops.stacking import leading_dimension
from ..ops.take import Take
from ..plan.node import Node, Origin
from ..spec import INFINITE
from .driver import Rewrite

__all__ = ["regroup_rows"]


def regroup_rows(node: Node) -> Rewrite | None:
    """batch then unbatch → nothing; batch then rebatch(n) → batch(n).

    Only where no element can fail or have another shape: what fails takes the rest of its batch with it.
    """
    regrouping = node.op.regrouping
    if regrouping is None or not node.input.op.most_at_once:
        return None
    batch, elements = node.input, node.input.input
    if elements.op.block_kind() is None:
        return None
    size, drop_remainder = regrouping
    batch_size = leading_dimension(batch.spec.element)
    if batch_size is not None:
        # All batches are full: elements that do not fill one are not there, and sizes that divide it are full as well.
        whole = _without_remainder(elements, batch_size, batch.origin)
        if whole is None:
            return None
        elements = whole
        drop_remainder = drop_remainder or (size > 0 and batch_size % size == 0)
    reason = f"{batch.op.describe()} of elements that are alike and never fail is taken apart again"
    return Rewrite(elements if size == 0 else Node(Batch(size, drop_remainder), (elements,), node.origin), reason)


def _without_remainder(elements: Node, size: int, origin: Origin) -> Node | None:
    """Only the elements that fill batches; None where nobody knows how many these are."""
    num_elements = elements.spec.cardinality
    if num_elements == INFINITE:
        return elements
    if num_elements < 0:
        return None
    remainder = num_elements % size
    return Node(Take(num_elements - remainder), (elements,), origin) if remainder else elements
