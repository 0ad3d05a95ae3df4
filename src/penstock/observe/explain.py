"""explain: the plan as written, each rewrite and why, and the plan that runs."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..memory.ledger import format_bytes
from ..optimize import PASSES, Step, optimize
from ..plan.node import Node
from ..plan.op import Footprint
from ..plan.render import render
from ..plan.settle import settled

__all__ = ["Explanation", "explain"]


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a run of a dataset will do. Print it, or take it apart."""

    written: Node
    steps: tuple[Step, ...]
    plan: Node
    budget_bytes: int

    @property
    def stages(self) -> list[tuple[Node, Footprint | None]]:
        """The stages of the plan that runs, sources first, with what each holds."""
        return [(node, node.op.footprint([child.spec for child in node.inputs])) for node in self.plan.walk()]

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "written": render(self.written),
            "rewrites": [{"rule": s.rule, "origin": str(s.before.origin), "reason": s.reason} for s in self.steps],
            "plan": render(self.plan),
            "budget_bytes": self.budget_bytes,
            "stages": [
                {
                    "name": node.op.describe(),
                    "origin": str(node.origin),
                    "held_bytes": 0 if held is None else held.held_bytes,
                    "reason": "" if held is None else held.reason,
                }
                for node, held in self.stages
            ],
        }

    def __str__(self) -> str:
        rewrites = [f"  {s.rule} at {s.before.origin}: {s.reason}" for s in self.steps]
        lines = [
            "As written:",
            _indented(render(self.written, origins=True)),
            "Rewrites:",
            *(rewrites or ["  none"]),
            "As it runs:",
            _indented(render(self.plan)),
            f"Held between its source and you, under a budget of {format_bytes(self.budget_bytes)}:",
        ]
        held = [(node, footprint) for node, footprint in self.stages if footprint is not None]
        for node, footprint in reversed(held):
            size = "not known before it runs" if footprint.held_bytes is None else format_bytes(footprint.held_bytes)
            lines.append(f"  {node.op.name:<24} {size:>24}  {footprint.reason}")
        if not held:
            lines.append("  nothing")
        return "\n".join(lines)

    __repr__ = __str__


def explain(node: Node, budget_bytes: int, rewrite: bool) -> Explanation:
    """Explains a plan without running it."""
    plan, steps = optimize(settled(node), PASSES) if rewrite else (node, [])
    return Explanation(node, tuple(steps), plan, budget_bytes)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
