"""parse_blocks: records are parsed a block at a time, not one by one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..io.parse_examples import ParseExamples
from ..io.parse_trial import Parsing, parsing_of
from ..plan.node import Node
from .driver import Rewrite

__all__ = ["parse_blocks"]

# What functions were seen to do: rules are asked for every run, and a function should not be called each time.
_seen: weakref.WeakKeyDictionary[Any, Parsing | None] = weakref.WeakKeyDictionary()


def parse_blocks(node: Node) -> Rewrite | None:
    """map(parse_single_example) on records → one native call for a block.

    Only on records: other functions of byte strings are not called to see what they do.
    """
    function = node.op.element_callable
    if function is None or len(node.inputs) != 1 or not _gives_records(node.input):
        return None
    parsing = _parsing(function)
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


def _parsing(function: Callable[..., Any]) -> Parsing | None:
    try:
        if function not in _seen:
            _seen[function] = parsing_of(function)
        return _seen[function]
    except TypeError:  # an object that cannot be remembered
        return parsing_of(function)
