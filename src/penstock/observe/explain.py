"""explain: the plan as written, each rewrite and why, the plan that runs, and where every byte will go."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from ..memory.divide import Division, Need, divide
from ..memory.ledger import format_bytes
from ..optimize import PASSES, Step, optimize
from ..plan.node import Node
from ..plan.render import render
from ..plan.settle import settled
from ..runtime.settings import Settings

__all__ = ["Explanation", "explain"]

_T = TypeVar("_T")
_Side = Literal["left", "right"]
# Heading and side of each column; that of temporaries is there only where a sample has measured them.
_COLUMNS: tuple[tuple[str, _Side], ...] = (
    ("stage", "left"),
    ("holds", "right"),
    ("at least", "right"),
    ("temporary", "right"),
    ("because", "left"),
)
_TEMPORARY = 3


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a run of a dataset will do. Print it, show it in a notebook, or take it apart with `to_dict()`."""

    written: Node
    steps: tuple[Step, ...]
    plan: Node
    division: Division
    budget_bytes: int
    #: How many elements came out of a sample that was run for it.
    num_sampled: int = 0
    #: How many failed in it, and were passed over.
    num_failed: int = 0
    #: Whether sizes were measured, in this sample or one before.
    is_sampled: bool = False

    @property
    def minimum_bytes(self) -> int:
        """The smallest budget that works. Where sizes are not known (`fits` is None), what is known to be needed."""
        return self.division.minimum_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the budget is large enough; None where sizes are not known and what is known does fit."""
        if self.minimum_bytes > self.budget_bytes:
            return False
        return True if self.division.complete else None

    @property
    def slack_bytes(self) -> int:
        """What the budget has beyond the floors."""
        return max(0, self.budget_bytes - self.minimum_bytes)

    def spilled_bytes(self, need: Need) -> int | None:
        """What of a stage's elements would go to disk at most; None where that is not known."""
        held = need.footprint.held_bytes
        if not need.footprint.spills:
            return 0
        return None if held is None else max(0, held - need.floor_bytes - self.slack_bytes)

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "written": render(self.written),
            "rewrites": [{"rule": s.rule, "origin": str(s.before.origin), "reason": s.reason} for s in self.steps],
            "plan": render(self.plan),
            "budget_bytes": self.budget_bytes,
            "minimum_bytes": self.minimum_bytes,
            "slack_bytes": self.slack_bytes,
            "fits": self.fits,
            "estimated": self.division.estimated,
            "complete": self.division.complete,
            "sampled": self.num_sampled,
            "failed": self.num_failed,
            "stages": [
                {
                    "label": label,
                    "name": need.node.op.describe(),
                    "origin": str(need.node.origin),
                    "held_bytes": need.footprint.held_bytes,
                    "floor_bytes": need.footprint.floor_bytes,
                    "known_bytes": need.floor_bytes,
                    "estimated": need.estimated,
                    "spills": need.footprint.spills,
                    "spilled_bytes": self.spilled_bytes(need),
                    "temporary_bytes": need.temporary_bytes,
                    "reason": need.footprint.reason,
                }
                for label, need in self._stages
            ],
        }

    # The parts that all ways of showing it have in common.

    @property
    def _stages(self) -> list[tuple[str, Need]]:
        """All stages with what to call them, in the order in which the plan is drawn."""
        return list(zip(self.division.labels, self.division.as_drawn, strict=True))

    @property
    def _has_temporaries(self) -> bool:
        return any(need.temporary_bytes is not None for need in self.division.needs)

    def _shown(self, cells: Sequence[_T]) -> list[_T]:
        """What of a row, a column each, is shown."""
        return [cell for i, cell in enumerate(cells) if i != _TEMPORARY or self._has_temporaries]

    def _rows(self) -> list[list[str]]:
        """The table: stages that hold anything, or whose functions do for a moment, as they are drawn."""
        return [
            self._shown(
                [
                    label,
                    _size(need, need.footprint.held_bytes),
                    _least(need),
                    "" if need.temporary_bytes is None else format_bytes(need.temporary_bytes),
                    self._why(need),
                ]
            )
            for label, need in self._stages
            if need.footprint.reason or need.temporary_bytes is not None
        ]

    def _why(self, need: Need) -> str:
        spilled = self.spilled_bytes(need)
        return need.footprint.reason + (f"; up to {format_bytes(spilled)} of them on disk" if spilled else "")

    def _summary(self) -> list[str]:
        known = format_bytes(self.minimum_bytes)
        lines = ["It does not fit."] if self.fits is False else []
        if self.fits:
            lines.append(f"Slack beyond what each stage needs at least: {format_bytes(self.slack_bytes)}.")
        if self.division.complete:
            about = "about " if self.division.estimated else ""
            lines.append(f"Smallest budget that works: {about}{known} (memory={self.minimum_bytes:_}).")
        else:
            has_known = any(need.floor_bytes for need in self.division.needs)
            at_least = f": at least {known} as far as sizes are known" if has_known else ""
            lines.append(f"What it needs is not known before elements are seen{at_least}.")
            if self.is_sampled:
                lines.append("? was not seen in the sample.")
            else:
                lines.append("explain(sample=8) runs it until 8 elements come out, and measures what is ? here.")
        is_about = any("≈" in cell for row in self._rows() for cell in row)
        if is_about and self.is_sampled:
            count = f"{self.num_sampled} element{'s' if self.num_sampled > 1 else ''}"
            on = f"on {count} that came out" if self.num_sampled else "before"
            lines.append(f"≈ was measured {on}, with a quarter added.")
        elif is_about:
            lines.append("≈ is for the largest elements that are known of.")
        if self.num_failed:
            lines.append(f"Passed over in the sample, as they failed: {self.num_failed}.")
        if self._has_temporaries:
            lines.append("temporary: what a call of your function took beside its result. It is not in the budget.")
        return lines

    @property
    def _title(self) -> str:
        return f"Held between its source and you, under a budget of {format_bytes(self.budget_bytes)}"

    def _rewrites(self) -> list[str]:
        return [f"{s.rule} at {s.before.origin}: {s.reason}" for s in self.steps] or ["none"]

    def __str__(self) -> str:
        columns = self._shown(_COLUMNS)
        rows = [[heading for heading, _ in columns], *self._rows()]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        sides = ["<" if side == "left" else ">" for _, side in columns]
        lines = ["  ".join(f"{c:{side}{n}}" for c, side, n in zip(row, sides, widths, strict=True)) for row in rows]
        table = [f"  {line.rstrip()}" for line in lines]
        return "\n".join(
            [
                "As written:",
                _indented(render(self.written, origins=True)),
                "Rewrites:",
                *(f"  {line}" for line in self._rewrites()),
                "As it runs:",
                _indented(render(self.plan)),
                f"{self._title}:",
                *(table if len(rows) > 1 else ["  nothing"]),
                *(f"  {line}" for line in self._summary()),
            ]
        )

    __repr__ = __str__

    def __rich__(self) -> Any:
        """For `rich.print`: the same, with the table set as one."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self._title, title_justify="left")
        for heading, side in self._shown(_COLUMNS):
            table.add_column(heading, justify=side)
        for row in self._rows():
            table.add_row(*map(Text, row))
        rewrites = "\n".join(f"  {line}" for line in self._rewrites())
        head = f"As written:\n{_indented(render(self.written, origins=True))}\nRewrites:\n{rewrites}"
        plan = f"As it runs:\n{_indented(render(self.plan))}"
        return Group(Text(head), Text(plan), table, Text("\n".join(self._summary())))

    def _repr_html_(self) -> str:
        """For notebooks."""

        columns = self._shown(_COLUMNS)

        def line(tag: str, row: Sequence[str]) -> str:
            styled = zip(row, columns, strict=True)
            return "".join(
                f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>' for text, (_, side) in styled
            )

        body = "".join(f"<tr>{line('td', row)}</tr>" for row in self._rows())
        rewrites = "".join(f"<li>{html.escape(text)}</li>" for text in self._rewrites())
        return (
            f"<details><summary>As written, and {len(self.steps)} rewrites</summary>"
            f"<pre>{html.escape(render(self.written, origins=True))}</pre><ul>{rewrites}</ul></details>"
            f"<pre>{html.escape(render(self.plan))}</pre>"
            f"<table><caption>{html.escape(self._title)}</caption>"
            f"<thead><tr>{line('th', [heading for heading, _ in columns])}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{'<br>'.join(map(html.escape, self._summary()))}</p>"
        )


def explain(node: Node, settings: Settings, num_sampled: int = 0, num_failed: int = 0) -> Explanation:
    """Explains a plan that would run with these settings."""
    plan, steps = optimize(settled(node), PASSES) if settings.optimize is not None else (settled(node), [])
    division = divide(plan, settings.measured_by_node(plan))
    return Explanation(
        node,
        tuple(steps),
        plan,
        division,
        settings.budget_bytes,
        num_sampled,
        num_failed,
        is_sampled=bool(settings.measured),
    )


def _size(need: Need, nbytes: int | None) -> str:
    if nbytes is None:
        return "?"
    return f"{'≈ ' if need.estimated else ''}{format_bytes(nbytes)}"


def _least(need: Need) -> str:
    """What a stage needs at least, or what is known of that."""
    known = need.footprint.known_bytes
    if need.footprint.floor_bytes is None and known:
        return f"> {format_bytes(known)}"
    return _size(need, need.footprint.floor_bytes)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
