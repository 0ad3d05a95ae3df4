"""drop_noops: an operator that gives its input as it is need not be there."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["drop_noops"]


def drop_noops(node: Node) -> Rewrite | None:
    """take(-1), skip(0), repeat(1), shard(1, 0), shuffle(1) → nothing."""
    if len(node.inputs) == 1 and node.op.is_noop(node.input.spec):
        return Rewrite(node.input, f"{node.op.describe()} gives every element as it comes")
    return None
