"""gather_batches: a batch of a random-access source is one gather, or no copy at all."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["gather_batches"]


def gather_batches(node: Node) -> Rewrite | None:
    """batch on a source → each batch is one block of it, taken whole."""
    if not node.op.traits.collates or len(node.inputs) != 1:
        return None
    kind = node.input.op.block_kind()
    op = None if kind is None else node.op.taking_blocks(kind)
    if op is None:
        return None
    return Rewrite(node.with_op(op), f"{node.input.op.name} makes whole batches at once: {op.remark()}")
