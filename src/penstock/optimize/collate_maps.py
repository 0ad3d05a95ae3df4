"""collate_maps: what a function returns goes straight to its place in the batch."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["collate_maps"]


def collate_maps(node: Node) -> Rewrite | None:
    """batch(map(f)) → f writes each result into the batch's slot, and no list of results is kept."""
    if not node.op.traits.collates:
        return None
    return _collating(node)


def _collating(node: Node) -> Rewrite | None:
    """Rewrites the nearest producer below, through operators that hand elements on as they are."""
    if len(node.inputs) != 1:
        return None
    below = node.input
    op = below.op.collating()
    if op is not None:
        what, where = f"result of {below.op.describe()}", "written into the batch's slot"
        if below.op.traits.num_parallel_calls:  # a call makes a piece of the batch
            what, where = f"small {what}", "stacked"
        return Rewrite(node.on(below.with_op(op)), f"each {what} is {where} as it is made")
    if not below.op.traits.passes_columns:
        return None
    found = _collating(below)
    return None if found is None else Rewrite(node.on(found.node), found.reason)
