"""The driver: runs each group of rules until none finds anything more, and checks every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..plan.node import Node
from ..plan.verify import check_rewrite

__all__ = ["Rewrite", "Rule", "Step", "optimize"]

_ALWAYS_FINE = 100


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
    if not _is_improvable(node, passes):
        return node, steps
    written = node
    for rules in passes:
        node = node.transform(_Fixpoint(rules, steps, written))
    return node, steps


def _is_improvable(node: Node, passes: Sequence[Sequence[Rule]]) -> bool:
    """Whether any rule finds anything in the plan as written; if none does, no pass will change it.

    Asked first because it is quick: most of the datasets that users' functions make have nothing to improve.
    """
    if not node.inputs:
        return False  # a source: nothing to rewrite
    for rules in passes:
        for rule in rules:
            if rule(node) is not None:
                return True
    return any(_is_improvable(child, passes) for child in node.inputs)


def _are_too_many(num_steps: int, written: Node) -> bool:
    """Each operator may move past each other one, and be merged; more than that is a rule that undoes another."""
    if num_steps <= _ALWAYS_FINE:
        return False
    num_nodes = sum(1 for _ in written.walk())
    return num_steps > _ALWAYS_FINE + 4 * num_nodes * num_nodes


class _Fixpoint:
    """Rewrites a node, whose inputs are done, until no rule of a group finds anything more."""

    def __init__(self, rules: Sequence[Rule], steps: list[Step], written: Node) -> None:
        self._rules = rules
        self._steps = steps
        self._written = written

    def __call__(self, node: Node) -> Node:
        if not node.inputs:
            return node
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
                if _are_too_many(len(self._steps), self._written):
                    raise AssertionError(f"rule {rule.__name__} does not end:\n{node!r}\n{found.node!r}")
                return found.node
        return None
