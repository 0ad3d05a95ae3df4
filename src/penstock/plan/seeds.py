"""Seeds that nobody chose: operators without a seed draw one when they are made, and a saved position carries it."""

from __future__ import annotations

import dataclasses
import hashlib

from ..errors import StateError
from ..order import hash64
from .node import Node
from .op import Op

__all__ = ["agreed", "drawn_seeds", "is_random", "reseeded", "seeded_by"]


# The field of operators that draw a seed when they are made, used where the user gives none.
_DRAWN = "drawn"


def _is_unseeded(op: Op) -> bool:
    return hasattr(op, _DRAWN) and getattr(op, "seed", None) is None


def drawn_seeds(node: Node) -> list[int]:
    """The seeds that were drawn for operators which the user gave none, in the order of the plan."""
    ops = [op for child in node.walk() for op in (*child.op.absorbed, child.op)]
    return [getattr(op, _DRAWN) for op in ops if _is_unseeded(op)]


def is_random(node: Node) -> bool:
    """Whether another epoch may give other elements, or the same in another order."""
    return any(hasattr(op, _DRAWN) for child in node.walk() for op in (*child.op.absorbed, child.op))


def reseeded(node: Node, seeds: list[int]) -> Node:
    """The plan with seeds that were drawn for it before."""
    expected = len(drawn_seeds(node))
    if len(seeds) != expected:
        raise StateError(f"the saved position has {len(seeds)} drawn seeds, and this pipeline needs {expected}")
    left = iter(seeds)

    def seed(node: Node) -> Node:
        return node.with_op(dataclasses.replace(node.op, **{_DRAWN: next(left)})) if _is_unseeded(node.op) else node

    return node.transform(seed)


def seeded_by(node: Node, *key: int) -> Node:
    """A plan that a user's function made, with seeds that follow from a key: made again, it gives the same again."""
    if not node.has_any(_is_unseeded):
        return node
    fresh: dict[int, int] = {}
    return reseeded(node, [fresh.setdefault(seed, hash64(*key, len(fresh))) for seed in drawn_seeds(node)])


def agreed(node: Node) -> Node:
    """A plan that several processes share out, with seeds that are the same in all of them, where nobody chose any.

    They follow from the names of the operators, which all processes have in common; their paths, say, may be others. Or
    each would share out an order of its own, and elements would be in several parts, or in none. Of a seed only those
    count that its operator stands on: two parts of one shuffled dataset (`skip`, `take`) still have one order.
    """
    if not node.has_any(_is_unseeded):
        return node
    fresh: dict[int, int] = {}
    num_alike: dict[str, int] = {}
    for child in node.walk():
        if _is_unseeded(child.op) and getattr(child.op, _DRAWN) not in fresh:
            names = " ".join(below.op.name for below in child.walk())
            key = int.from_bytes(hashlib.blake2b(names.encode(), digest_size=8).digest(), "little")
            number = num_alike[names] = num_alike.get(names, -1) + 1
            fresh[getattr(child.op, _DRAWN)] = hash64(key, number)
    return reseeded(node, [fresh[seed] for seed in drawn_seeds(node)])
