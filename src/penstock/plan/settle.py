"""What order operators mean together; settled before anything runs, with or without the optimizer.

As in tf.data, `take` counts only elements that succeed. A shuffle above it changes the order *before* functions run, so
that indices wait in its buffer and not elements; which of them will succeed cannot be known then. So a `take` that a
shuffle draws from counts places, those that fail included.
"""

from __future__ import annotations

from .node import Node
from .op import Op

__all__ = ["settled"]


def settled(node: Node) -> Node:
    """The plan with every `take` below a shuffle counting places."""
    if not node.has_any(_draws_places):
        return node
    return node.transform(lambda n: n.on(*map(_by_places, n.inputs)) if n.op.traits.draws_places else n)


def _draws_places(op: Op) -> bool:
    return op.traits.draws_places


def _by_places(node: Node) -> Node:
    """The chain below a shuffle, as far down as elements keep their places or change only their order."""
    if len(node.inputs) != 1 or not (node.op.traits.one_to_one or node.op.traits.runtime == "order"):
        return node
    return node.with_op(node.op.by_places()).on(_by_places(node.input))
