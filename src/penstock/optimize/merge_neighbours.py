"""merge_neighbours: two operators that one can do."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["merge_neighbours"]


def merge_neighbours(node: Node) -> Rewrite | None:
    """take after take, skip after skip, map after map → one."""
    if len(node.inputs) != 1 or len(node.input.inputs) != 1:
        return None
    merged = node.op.merged_with(node.input)
    if merged is None:
        return None
    reason = f"{node.input.op.describe()} and {node.op.describe()} are one {merged.describe()}"
    return Rewrite(node.with_op(merged).on(node.input.input), reason)
