"""A saved position for another number of processes.

Every process has its part of one sequence, and all are equally far in theirs. So what all of them together have had is
the beginning of the sequence, and another number of processes can divide the rest among them.
"""

from __future__ import annotations

from ..errors import StateError
from .node import Node
from .settle import keeps_number

__all__ = ["divided_as", "parts_of"]


def parts_of(node: Node) -> list[list[int]]:
    """For each operator that divides, into how many parts and from which place on."""
    return [list(n.op.part) for n in node.walk() if n.op.part is not None]


def divided_as(node: Node, parts: list[list[int]], delivered: int | None) -> tuple[Node, bool]:
    """The plan that goes on where those stopped who divided into these parts, and whether their position is its own.

    It is not where the number of processes has changed: then the plan begins behind what all had. `delivered` is how
    many elements each of them had; None if some failed, so that nobody can tell.
    """
    if parts == parts_of(node):
        return node, True
    num_parts = [number for number, _ in parts_of(node)]
    if num_parts == [number for number, _ in parts]:
        return _from_place(node, parts[0][1]), True
    was, now = ([number for number, _ in parts] or [1])[0], (num_parts or [1])[0]
    refused = f"the saved position is of {was} processes, and this is one of {now}"
    if len(num_parts) != 1 or len(parts) != 1:
        raise StateError(f"{refused}: to go on with another number takes one distribute in the pipeline")
    if delivered is None:
        raise StateError(f"{refused}: elements have failed, so that nobody can tell how many each has had")
    return _from_place(node, parts[0][1] + was * delivered * _elements_each(node, refused)), False


def _elements_each(node: Node, refused: str) -> int:
    """How many elements of the divided sequence go into each of the plan's."""
    each = 1
    while node.op.part is None:
        batches = node.op.batches_of
        if batches is not None:
            each *= batches[0]
        elif why := _why_not_counted(node):
            raise StateError(
                f"{refused}: {node.op.describe()} at {node.origin} {why}; put it below distribute, or go on with as "
                "many processes as before"
            )
        node = node.input
    return each


def _why_not_counted(node: Node) -> str:
    """What keeps others from going on behind an operator; nothing where elements can just be counted."""
    traits = node.op.traits
    if not keeps_number(node) or traits.draws_places:
        return "does not say how many elements went into those that it gave"
    if traits.runtime == "cursor" and not traits.pure:
        return "gives what follows from all that its own process had before"
    return ""


def _from_place(node: Node, start: int) -> Node:
    return node.transform(lambda n: n if n.op.part is None else n.with_op(n.op.from_place(start)))
