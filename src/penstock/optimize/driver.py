"""The driver: runs each group of rules until none finds anything more, and checks every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..plan.node import Node
from ..plan.verify import check_rewrite

__all__ = ["Rewrite", "Rule", "Step", "optimize"]


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """A better node, and why it gives the same elements."""

    node: Node
    reason: str


#: A pure function from a node to a better one, or None.
Rule = Callable[[Node], Rewrite | None]


@dataclasses.dataclass(frozen=True)
class Step:
    """One rewrite that was made."""

    rule: str
    before: Node
    after: Node
    reason: str


def optimize(node: Node, passes: Sequence[Sequence[Rule]]) -> tuple[Node, list[Step]]:
    """The plan after all passes, and the steps that led to it."""
    steps: list[Step] = []
    if not node.inputs:
        return node, steps  # a source alone: nothing to rewrite
    num_nodes = sum(1 for _ in node.walk())
    # Each operator may move past each other one, and be merged; more than that is a rule that undoes another.
    most_steps = 100 + 4 * num_nodes * num_nodes
    for rules in passes:
        node = node.transform(_Fixpoint(rules, steps, most_steps))
    return node, steps


class _Fixpoint:
    """Rewrites a node, whose inputs are done, until no rule of a group finds anything more."""

    def __init__(self, rules: Sequence[Rule], steps: list[Step], most_steps: int) -> None:
        self._rules = rules
        self._steps = steps
        self._most_steps = most_steps

    def __call__(self, node: Node) -> Node:
        while (better := self._step(node)) is not None:
            # A rewrite may have made new inputs; they must be done before this node is looked at again.
            node = better.on(*(child.transform(self) for child in better.inputs))
        return node

    def _step(self, node: Node) -> Node | None:
        for rule in self._rules:
            found = rule(node)
            if found is not None:
                check_rewrite(rule.__name__, node, found.node)
                self._steps.append(Step(rule.__name__, node, found.node, found.reason))
                if len(self._steps) > self._most_steps:
                    raise AssertionError(f"rule {rule.__name__} does not end:\n{node!r}\n{found.node!r}")
                return found.node
        return None
