"""The optimizer: rules that make a plan better and never change what it yields.

`PASSES` is the whole of it: groups of rules in the order in which they run, each group until none of its rules finds
anything more. A rule is a pure function from a node to a better one, or None; the driver checks every rewrite.
"""

from __future__ import annotations

from ..plan.node import Node
from .absorb_order import absorb_order
from .collate_maps import collate_maps
from .cut_batches import cut_batches
from .driver import Rewrite, Rule, Step, optimize
from .drop_noops import drop_noops
from .fill_batches import fill_batches
from .gather_batches import gather_batches
from .merge_neighbours import merge_neighbours
from .parse_blocks import parse_blocks
from .regroup_rows import regroup_rows
from .sink_order import sink_order

__all__ = ["PASSES", "Rewrite", "Rule", "Step", "optimize", "optimized"]

PASSES: tuple[tuple[Rule, ...], ...] = (
    (drop_noops, parse_blocks),
    (merge_neighbours, absorb_order, sink_order, regroup_rows, cut_batches),
    (fill_batches, collate_maps),
    (gather_batches,),
)


def optimized(node: Node) -> Node:
    """The plan that runs for the plan as written."""
    return optimize(node, PASSES)[0]
