"""Whether all processes that share a dataset get equally many elements, as `distribute` promises.

What comes from `distribute` is equally much for all of them. Operators further on keep that if how many elements they
give follows from how many they take: then their specs say so. It does not for a `filter`, and one process would wait
for others that have nothing left. So such a plan is refused before it runs, unless it goes on without end, or the user
says how many there are (`assert_cardinality`).

How many rows batches have follows from how many elements there are, too; so `unbatch` and `rebatch` are good behind a
batch. A function in between is taken to return as many rows as it was given.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..errors import PenstockError, PlanError
from ..spec import INFINITE, UNKNOWN, UNSEEN, Spec, TensorSpec, spec_leaves
from .node import Node, located
from .op import Op

__all__ = ["check_equal_parts", "unequal_parts"]

# How many an operator is asked for: stands for any number that is the same for all.
_SOME = 1 << 20


class _Found(NamedTuple):
    """What is known of a node's elements: `number` is `UNKNOWN` where it may be another for other processes."""

    number: int
    #: How many batches each element is made of, one in the other, all of them of as many rows for everybody.
    depth: int = 0
    #: The operator that divides; None where nothing is divided.
    divider: Node | None = None
    #: The operator that makes the numbers unequal.
    culprit: Node | None = None


def check_equal_parts(node: Node) -> None:
    """Raises PlanError where processes would get unequally many elements of a dataset that promises equally many."""
    if not node.has_any(_gives_equal_parts):
        return
    found = _look_at(node)
    if found.culprit is None or found.divider is None:
        return
    name, divided = found.culprit.op.name, f"{found.divider.op.name} at {found.divider.origin}"
    error = PlanError(
        f"how many elements it gives depends on what is in them, and so would differ between the processes that "
        f"{divided} gives equal parts: one would wait for another without end. Put {name} before "
        f"{found.divider.op.name}; or repeat() behind it, where training goes by steps; or, where no process waits for "
        f"another, have {found.divider.op.name}(…, remainder='keep') give everybody what there is"
    )
    raise located(error, name, found.culprit.origin)


def unequal_parts(node: Node) -> tuple[int, int] | None:
    """How many elements the first and the last process get of a settled plan, where that differs.

    Where equally many batches are promised all the same, these are not all of one size, unless smaller ones are left
    out.
    """
    for divider in node.walk():
        if divider.op.part is None or (divider.op.traits.equal_parts and node.has_any(_leaves_out_a_smaller_one)):
            continue
        num_parts, _ = divider.op.part
        # Who gives a part has its number in `index`.
        parts = [dataclasses.replace(divider.op, index=i) for i in (0, num_parts - 1)]  # type: ignore[call-arg]
        first, last = (part.spec([divider.input.spec]).cardinality for part in parts)
        if first != last:
            return first, last
    return None


def _leaves_out_a_smaller_one(op: Op) -> bool:
    return op.batches_of is not None and op.batches_of[1]


def _gives_equal_parts(op: Op) -> bool:
    return op.traits.equal_parts


def _look_at(node: Node) -> _Found:
    below = [_look_at(child) for child in node.inputs]
    divided = next((found for found in below if found.divider is not None), None)
    divider = node if node.op.traits.equal_parts and divided is None else divided.divider if divided else None
    if divider is None:
        return _Found(_SOME if node.spec.cardinality == UNKNOWN else node.spec.cardinality)
    numbers = [found.number for found in below]
    depth = max(0, min(found.depth for found in below if divided is None or found.divider is not None) + _step(node))
    number = _number(node, numbers)
    if number == UNKNOWN:
        culprit = next((found.culprit for found in below if found.culprit is not None), None)
        if culprit is None and node.op.traits.takes_rows and (below[0].depth or _has_fixed_rows(node.input.spec)):
            return _Found(_SOME, depth, divider)
        if culprit is None and INFINITE in numbers and not node.op.traits.ends_by_value:
            return _Found(INFINITE, depth, divider)
        return _Found(UNKNOWN, 0, divider, culprit or node)
    return _Found(number, depth, divider)


def _number(node: Node, numbers: list[int]) -> int:
    """How many elements an operator says it gives for so many."""
    specs = [child.spec.with_cardinality(number) for child, number in zip(node.inputs, numbers, strict=True)]
    try:
        return node.op.spec(specs).cardinality
    except PenstockError as error:
        raise located(error, node.op.name, node.origin) from None


def _step(node: Node) -> int:
    """How many batches deeper the elements are than those that go in."""
    if node.op.batches_of is not None:
        return 1
    return -1 if node.op.traits.takes_rows and node.op.regrouping == (0, False) else 0


def _has_fixed_rows(spec: Spec) -> bool:
    if spec.element is UNSEEN:
        return False
    shapes = [leaf.shape for leaf in spec_leaves(spec.element) if isinstance(leaf, TensorSpec)]
    return any(shape and shape[0] is not None for shape in shapes)
