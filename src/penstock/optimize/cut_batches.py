"""cut_batches: a batch or window of more elements than there are needs no room for the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..plan.node import Node
from ..plan.op import Op
from .driver import Rewrite

__all__ = ["cut_batches"]


def cut_batches(node: Node) -> Rewrite | None:
    """batch(1000) of 10 elements → batch(11): the one batch is still a last one with fewer."""
    if node.op.cut_to is not None:
        return _cut(node, node.op.cut_to, node.input.spec.cardinality)
    batches = node.op.batches_of
    if batches is None:
        return None
    size, drop_remainder = batches
    count = node.input.spec.cardinality
    if drop_remainder or count < 0 or size <= count + 1:  # -1: no end, -2: unknown
        return None
    arguments: dict[str, Any] = {"batch_size": count + 1}
    cut = dataclasses.replace(node.op, **arguments)
    return Rewrite(node.with_op(cut), f"there are {count:,} elements: no batch needs room for more")


def _cut(node: Node, cut_to: Callable[[int], Op | None], count: int) -> Rewrite | None:
    cut = cut_to(count) if count >= 0 else None
    return None if cut is None else Rewrite(node.with_op(cut), f"there are {count:,} elements: no window needs more")
