"""Verification: a rewritten plan must promise what the plan before it promised."""

from __future__ import annotations

from ..spec import UNKNOWN, UNSEEN
from .node import Node

__all__ = ["check_rewrite"]


def check_rewrite(rule: str, before: Node, after: Node) -> None:
    """Raises AssertionError, naming the rule, where a rewrite changed what is known of the elements.

    A rule may come to know less of the elements (a fused function is unseen), or more of their number (batches that are
    not made need not be counted), but never something else.
    """
    was, now = before.spec, after.spec
    same_elements = now.element == was.element or UNSEEN in (now.element, was.element)
    same_number = now.cardinality == was.cardinality or was.cardinality == UNKNOWN
    if not (same_elements and same_number):
        raise AssertionError(f"rule {rule} changed the spec from {was} to {now}:\n{before!r}\n{after!r}")
