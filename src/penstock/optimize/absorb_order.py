"""absorb_order: a random-access source is read in any order for nothing."""

from __future__ import annotations

from ..ops.read import Read
from ..plan.node import Node
from .driver import Rewrite

__all__ = ["absorb_order"]


def absorb_order(node: Node) -> Rewrite | None:
    """An order operator on a random-access source → the source, read in that order."""
    if node.op.traits.runtime != "order" or node.input.op.traits.runtime != "source":
        return None
    source = Read.of(node.input.op)
    if node.op.traits.by_place and source.counts_successes:
        return None
    if node.op.needs_random_access(node.input.spec) and not source.is_random_access:
        return None
    reason = f"{source.source.name} has random access: {node.op.describe()} is arithmetic on indices"
    return Rewrite(Node(source.with_order(node.op), (), node.origin), reason)
