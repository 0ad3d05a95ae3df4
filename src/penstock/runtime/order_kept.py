"""Which stages must keep the order of their elements, whatever they are permitted."""

from __future__ import annotations

from ..plan.node import Node

__all__ = ["nodes_that_keep_order"]


def nodes_that_keep_order(node: Node, keep: bool = False) -> set[int]:
    """The ids of stages below an operator that may read its input again to resume: again must mean in the same order.

    Operators that hand blocks on as they come, or make one element of each block, never do. Those that call in several
    threads do: each piece that was begun is read again from where it began.
    """
    traits = node.op.traits
    passes_on = traits.runtime == "elementwise" and not traits.num_parallel_calls
    passes_on = passes_on or traits.collates or bool(traits.run_ahead)
    passes_on = passes_on or (traits.runtime == "order" and not traits.draws_places)
    found = {id(node)} if keep else set()
    for child in node.inputs:
        found |= nodes_that_keep_order(child, keep or not passes_on)
    return found
