"""sink_order: change the order before the data exist.

`map(load).shuffle(1000)` holds 1,000 loaded elements; `shuffle(1000).map(load)` shuffles what they are loaded from, and
gives the same elements in the same order, because the function looks at one element only.
"""

from __future__ import annotations

from ..ops.read import Read
from ..plan.node import Node
from .driver import Rewrite

__all__ = ["sink_order"]


def sink_order(node: Node) -> Rewrite | None:
    """An order operator above a one-to-one operator → below it."""
    if node.op.traits.runtime != "order" or len(node.inputs) != 1:
        return None
    below = node.input
    traits = below.op.traits
    if not traits.one_to_one or len(below.inputs) != 1 or not node.op.moves_below(below.op):
        return None
    moved = node.op.moved_below(below.op)
    # A take that counts successes further down may be joined only by one that hears of the same failures, and by
    # nothing that depends on where it ends.
    apart = node.op.traits.by_place or (moved.counts_successes and not traits.tells_failures)
    if apart and _counts_successes(below.input):
        return None
    if moved.counts_successes:
        below = below.with_op(below.op.telling_failures())
    if traits.pure:
        sunk = node.with_op(moved).on(below.input)
        reason = f"{below.op.describe()} looks at one element at a time: {node.op.name} moves below it, to smaller data"
        return Rewrite(below.on(sunk), reason)
    return _sink_below_keyed(node, below) if traits.keyed else None


def _sink_below_keyed(node: Node, below: Node) -> Rewrite | None:
    """Below an operator that knows each element by its place: possible if places are numbered further down."""
    numbered = below.op.numbered()
    if numbered is None:  # numbered already: what lies between may be rearranged freely
        source: Node | None = below.input
    else:
        source = _numbered(below.input)
    if source is None or not _takes_order(source, node):
        return None
    sunk = node.with_op(node.op.moved_below(below.op)).on(source)
    reason = (
        f"elements carry their number from the source, so {below.op.name} gives each the same after "
        f"{node.op.name} as before it"
    )
    return Rewrite((below if numbered is None else below.with_op(numbered)).on(sunk), reason)


def _takes_order(source: Node, order: Node) -> bool:
    """Whether an order operator will reach the source: numbers are lost in whatever holds elements on the way."""
    while source.inputs:
        source = source.input
    return not order.op.needs_random_access(order.input.spec) or Read.of(source.op).is_random_access


def _counts_successes(node: Node) -> bool:
    """Whether a take that counts what succeeds above it stands here, or below operators that keep places."""
    if node.op.counts_successes:
        return True
    return len(node.inputs) == 1 and node.op.traits.one_to_one and _counts_successes(node.input)


def _numbered(node: Node) -> Node | None:
    """The plan with its elements numbered at the source; None where that cannot be."""
    if node.op.traits.runtime == "source":
        read = Read.of(node.op)
        return node.with_op(read.numbered()) if read.numbered_at is None and read.is_random_access else None
    if len(node.inputs) == 1 and node.op.traits.one_to_one and node.op.traits.pure:
        below = _numbered(node.input)
        return None if below is None else node.on(below)
    return None
