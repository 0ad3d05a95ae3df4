"""absorb_order: a random-access source is read in any order for nothing."""

from __future__ import annotations

from ..ops.read import Read
from ..plan.node import Node
from ..plan.op import Op
from .driver import Rewrite

__all__ = ["absorb_order"]


def absorb_order(node: Node) -> Rewrite | None:
    """Order operators on a random-access source → the source, read in that order.

    A source that must look for its elements first is read in its own order by those that can do with that (`take`,
    `skip`, `repeat`); they come along when one is absorbed that cannot (`shuffle`, `shard`).
    """
    if node.op.traits.runtime != "order":
        return None
    below, orders = node.input, [node.op]
    while below.op.traits.runtime == "order":
        orders.append(below.op)
        below = below.input
    if below.op.traits.runtime != "source":
        return None
    source: Read | None = Read.of(below.op)
    if below.op.indexes_first and not node.op.traits.needs_index:
        return None
    name = Read.of(below.op).source.name
    for op in reversed(orders):
        source = None if source is None else _with_order(source, op)
    if source is None:
        return None
    described = "".join(f".{op.describe()}" for op in reversed(orders)).removeprefix(".")
    reason = f"{name} has random access: {described} is arithmetic on indices"
    return Rewrite(Node(source, (), node.origin), reason)


def _with_order(source: Read, op: Op) -> Read | None:
    if op.traits.by_place and source.counts_successes:
        return None
    if op.needs_random_access(source.spec([])) and not source.is_random_access:
        return None
    return source.with_order(op)
