"""parse_blocks: records are parsed a block at a time, not one by one."""

from __future__ import annotations

from ..plan.node import Node
from .driver import Rewrite

__all__ = ["parse_blocks"]


def parse_blocks(node: Node) -> Rewrite | None:
    """map(parse_single_example) on records → one native call for a block.

    Only on records: other functions of byte strings are not tried to see what they do. What one was seen to do is not
    remembered: it may refer to a spec that is changed before the next run.
    """
    function = node.op.element_callable
    if function is None or len(node.inputs) != 1 or not _gives_records(node.input):
        return None
    from ..io.parse_examples import ParseExamples  # not before it is needed: most programs parse nothing
    from ..io.parse_trial import parsing_of

    parsing = parsing_of(function)
    op = None if parsing is None else ParseExamples.of(parsing, node.op)
    if op is None:
        return None
    reason = (
        f"{node.op.describe()} does nothing but parse Examples: a block is parsed in one call, into the batch's slots, "
        "and what waits before it are records"
    )
    return Rewrite(node.with_op(op), reason)


def _gives_records(node: Node) -> bool:
    """Whether elements are records as they came from their source."""
    while not node.op.gives_records:
        traits = node.op.traits
        if len(node.inputs) != 1 or not (traits.runtime == "order" or traits.passes_columns or traits.run_ahead):
            return False
        node = node.input
    return True
