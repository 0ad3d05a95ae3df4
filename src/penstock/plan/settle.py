"""What order operators mean together; settled before anything runs, with or without the optimizer.

As in tf.data, `take` counts only elements that succeed. A shuffle above it changes the order *before* functions run, so
that indices wait in its buffer and not elements; which of them will succeed cannot be known then. So a `take` that a
shuffle draws from counts places, those that fail included.

What processes share out should give each of them equally many batches; so whoever divides is told of the batches that
are made of its elements. Where batches are taken apart again, their last ones must have as many rows too: then it
gives everybody equally many elements.

A node may be read in several places of a plan, as by `zip((d, d))`. Each place runs by itself and holds elements of its
own. So each has a node of its own, and with it a share of the budget that the others cannot take.
"""

from __future__ import annotations

from .node import Node
from .op import Op

__all__ = ["keeps_number", "settled"]


def settled(node: Node) -> Node:
    """The plan with every `take` below a shuffle counting places, every divider knowing of batches above it, and a node
    for each place.
    """
    if node.has_any(_draws_places):
        node = node.transform(lambda n: n.on(*map(_by_places, n.inputs)) if n.op.traits.draws_places else n)
    if node.has_any(_gives_equal_parts):
        node = node.transform(_with_batches_told)
    return _each_in_one_place(node, set())


def _each_in_one_place(node: Node, met: set[int]) -> Node:
    inputs = tuple([_each_in_one_place(child, met) for child in node.inputs])
    is_as_it_was = id(node) not in met and all(a is b for a, b in zip(inputs, node.inputs, strict=True))
    met.add(id(node))
    return node if is_as_it_was else node.on(*inputs)


def _draws_places(op: Op) -> bool:
    return op.traits.draws_places


def _by_places(node: Node) -> Node:
    """The chain below a shuffle, as far down as elements keep their places or change only their order."""
    if len(node.inputs) != 1 or not (node.op.traits.one_to_one or node.op.traits.runtime == "order"):
        return node
    return node.with_op(node.op.by_places()).on(_by_places(node.input))


def _gives_equal_parts(op: Op) -> bool:
    return op.traits.equal_parts


def _with_batches_told(node: Node) -> Node:
    if node.op.traits.takes_rows:
        return node.transform(lambda n: n.with_op(n.op.in_batches_of(1, False)) if n.op.traits.equal_parts else n)
    batches = node.op.batches_of
    return node if batches is None else node.on(_in_batches(node.input, *batches))


def _in_batches(node: Node, size: int, drop_remainder: bool) -> Node:
    """The chain below a batch, as far down as there are as many elements."""
    traits = node.op.traits
    if traits.equal_parts:
        return node.with_op(node.op.in_batches_of(size, drop_remainder))
    if not keeps_number(node):
        return node
    return node.on(_in_batches(node.input, size, drop_remainder))


def keeps_number(node: Node) -> bool:
    """Whether as many elements come out as go in."""
    traits = node.op.traits
    return len(node.inputs) == 1 and (traits.one_to_one or traits.run_ahead != 0 or traits.draws_places)
