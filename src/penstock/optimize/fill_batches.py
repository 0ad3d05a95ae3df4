"""fill_batches: threads that decode images share the batch's slot."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["fill_batches"]


def fill_batches(node: Node) -> Rewrite | None:
    """batch(map(decode, num_parallel_calls=n)) → n threads make one batch at a time, each image in its place."""
    size = node.op.most_at_once
    return _filling(node, size) if size and node.op.traits.collates else None


def _filling(node: Node, size: int) -> Rewrite | None:
    """Rewrites the nearest producer below, through operators that hand elements on as they are, in the same blocks."""
    if len(node.inputs) != 1:
        return None
    below = node.input
    op = below.op.filling(size)
    if op is not None:
        reason = f"{below.op.describe()} decodes images: its threads share a batch, each result is made in its place"
        return Rewrite(node.on(below.with_op(op)), reason)
    if not below.op.traits.passes_columns or below.op.traits.run_ahead:
        return None
    found = _filling(below, size)
    return None if found is None else Rewrite(node.on(found.node), found.reason)
