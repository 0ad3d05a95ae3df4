"""Specs of what follows a user's function: found by running it on the first element, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import PenstockError
from ..plan.node import Node, located
from ..spec import Spec, spec_of

__all__ = ["seen_spec"]


def seen_spec(node: Node, first_element: Callable[[Node], Any]) -> Spec:
    """The spec of a node, with users' functions looked at where they stand.

    `first_element(node)` runs the plan up to a node for one element, and raises StopIteration where there is none: then
    the spec stays unseen. What was found is kept on the node, so that a function is called for this only once.
    """
    if node.spec.seen:
        return node.spec
    kept: Spec | None = node.__dict__.get("_seen_spec")
    if kept is not None:
        return kept
    try:
        # Behind a function there is nothing to learn from its inputs, and asking would call functions there too.
        inputs = [child.spec if node.op.spec_is_hidden else seen_spec(child, first_element) for child in node.inputs]
        are_stated = all(child.spec.seen for child in node.inputs)
        spec = node.op.spec(inputs) if are_stated else node.op.spec_of_seen(inputs)
    except PenstockError as error:
        raise located(error, node.op.name, node.origin) from None
    if not spec.seen:
        try:
            spec = Spec(spec_of(first_element(node)), spec.cardinality)
        except StopIteration:
            return spec
    node.__dict__["_seen_spec"] = spec
    return spec
