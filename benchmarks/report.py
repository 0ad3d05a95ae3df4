"""What a run leaves behind: tables on the screen, JSON, and the results section of the README."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.harness import Outcome, Report, Verdict
from benchmarks.workload import Workload

README = Path(__file__).resolve().parent / "README.md"
Row = tuple[str, ...]


def show(console: Console, report: Report) -> None:
    """Print one workload: its contenders, then its targets."""
    workload = report.workload
    table = Table(title=f"{workload.name}: {workload.title}", title_justify="left", box=box.SIMPLE_HEAD)
    for number, heading in enumerate(headings(workload)):
        table.add_column(heading, justify="right" if number else "left")
    for outcome, row in zip(report.outcomes, contender_rows(report), strict=True):
        table.add_row(*row, style="bold" if outcome.contender.family == "penstock" else None)
    console.print(table)
    for outcome in report.outcomes:
        if outcome.error is not None:
            console.print(f"        [red]failed[/]  {outcome.contender.name}: {escape(outcome.error)}")
        if outcome.refused is not None:
            console.print(f"       refused  {outcome.contender.name}: {escape(outcome.refused)}", highlight=False)
    colours = {"met": "green", "missed": "red", "not measured": "yellow"}
    for asked, reached, word in target_rows(report):
        console.print(f"  [{colours[word]}]{word:>12}[/]  {asked}: {reached}", highlight=False)
    console.print()


def headings(workload: Workload) -> Row:
    first = workload.contenders[0].name
    if workload.metric == "in turn":
        return ("contender", "rows/s", "rows/CPU s", f"of {first}, turn by turn", "from", "to")
    if workload.record == "budget":
        return ("contender", "budget", "rows/s", f"of {first}", "rows/CPU s", "extra memory")
    if workload.metric == "rate":
        return ("contender", "rows/s", f"{first} is", "of limit", "rows/CPU s", "of limit", "extra memory")
    if workload.metric == "first batch":
        return ("contender", "first batch", "later ones", "extra memory")
    return ("contender", "seconds", "CPU seconds")


def contender_rows(report: Report) -> list[Row]:
    """A row per contender, as text."""
    rows: list[Row] = []
    first = report.outcomes[0]
    limit = report.outcome(report.workload.limit or "")
    for outcome in report.outcomes:
        if outcome.value is None:
            cells = ["failed" if outcome.refused is None else "refused"]
            if report.workload.record == "budget":
                cells.insert(0, _budget(outcome))
            cells += [""] * (len(headings(report.workload)) - 1 - len(cells))
        elif report.workload.metric == "in turn":
            ratios = turn_ratios(outcome, first)
            spread = [f"{figure:.3f}" for figure in (statistics.median(ratios), min(ratios), max(ratios))]
            cells = [f"{outcome.value:,.0f}", f"{outcome.cpu_value:,.0f}", *spread]
        elif report.workload.record == "budget":
            share, cpu = _share(outcome.value, first.value), f"{outcome.cpu_value:,.0f}"
            cells = [_budget(outcome), f"{outcome.value:,.0f}", share, cpu, megabytes(outcome.extra_bytes)]
        elif report.workload.metric == "rate":
            compared = outcome is not first and first.value is not None
            versus = f"{(first.value or 0.0) / outcome.value:.3g}x as fast" if compared else ""
            share = _share(outcome.value, limit.value if limit else None)
            cpu_share = _share(outcome.cpu_value, limit.cpu_value if limit else None)
            cpu = f"{outcome.cpu_value:,.0f}"
            cells = [f"{outcome.value:,.0f}", versus, share, cpu, cpu_share, megabytes(outcome.extra_bytes)]
        elif report.workload.metric == "first batch":
            later = f"{min(outcome.samples) * 1e3:,.1f} ms" if outcome.samples else ""
            cells = [f"{outcome.value * 1e3:,.1f} ms", later, megabytes(outcome.extra_bytes)]
        else:
            cells = [f"{outcome.value:.3f}", f"{outcome.cpu_value:.3f}"]
        rows.append((outcome.contender.name, *cells))
    return rows


def turn_ratios(outcome: Outcome, first: Outcome) -> list[float]:
    """Rows per CPU second of one contender over those of another, turn by turn."""
    return [a / b for a, b in zip(outcome.cpu_samples, first.cpu_samples, strict=True)]


def _budget(outcome: Outcome) -> str:
    return "" if outcome.budget_bytes is None else megabytes(outcome.budget_bytes)


def _share(value: float | None, limit: float | None) -> str:
    return f"{value / limit:.2g}" if value and limit else ""


def target_rows(report: Report) -> list[tuple[str, str, str]]:
    """(what was asked, what was reached, met / missed / not measured) per target."""
    rows = []
    for verdict in report.verdicts():
        target = verdict.target
        if target.over:
            asked = f"{target.who}, at least {target.limit:g}x {target.over}"
            reached = "-" if verdict.figure is None else f"{verdict.figure:.3g}x"
        elif target.of == "extra_bytes":
            asked = f"{target.who}, at most {megabytes(target.limit)} extra"
            reached = megabytes(verdict.figure)
        else:
            asked = f"{target.who}, at most {target.limit * 1e3:g} ms"
            reached = "-" if verdict.figure is None else f"{verdict.figure * 1e3:.3g} ms"
        rows.append((asked, reached, word_for(verdict)))
    return rows


def word_for(verdict: Verdict) -> str:
    return {True: "met", False: "missed", None: "not measured"}[verdict.met]


def megabytes(nbytes: float | None) -> str:
    return "-" if nbytes is None else f"{nbytes / 1e6:,.1f} MB"


def as_json(reports: Iterable[Report], facts: dict[str, object], made: str, effort: str) -> dict[str, Any]:
    return {
        "made": made,
        "effort": effort,
        "machine": facts,
        "workloads": [
            {
                "name": report.workload.name,
                "title": report.workload.title,
                "metric": report.workload.metric,
                "unit": "rows/s" if report.workload.metric in ("rate", "in turn") else "s",
                "contenders": [_outcome_json(outcome) for outcome in report.outcomes],
                "targets": [_verdict_json(verdict) for verdict in report.verdicts()],
            }
            for report in reports
        ],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.contender.name,
        "family": outcome.contender.family,
        "value": outcome.value,
        "samples": outcome.samples,
        "cpu_value": outcome.cpu_value,
        "cpu_samples": outcome.cpu_samples,
        "extra_bytes": outcome.extra_bytes,
        "budget_bytes": outcome.budget_bytes,
        "refused": outcome.refused,
        "error": outcome.error,
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    target = verdict.target
    return {
        "who": target.who,
        "of": target.of,
        "over": target.over,
        "at_least" if target.over else "at_most": target.limit,
        "figure": verdict.figure,
        "met": verdict.met,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_readme(record: str, reports: Sequence[Report], facts: dict[str, object], made: str) -> None:
    """Put this run's tables between the two marks of their record in the README."""
    begin, end = (f"<!-- {record}: {word} -->" for word in ("begin", "end"))
    text = README.read_text()
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    if not rest or end not in text:
        raise ValueError(f"{README.name} has no lines {begin!r} and {end!r}")
    README.write_text(f"{before}{begin}\n{as_markdown(reports, facts, made)}{end}{after}")


def as_markdown(reports: Sequence[Report], facts: dict[str, object], made: str) -> str:
    versions = facts["versions"]
    assert isinstance(versions, dict)
    lines = [
        f"Run of {made[:10]}: {facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f"; load before the run {facts['load_before']}.",
        "",
        "| target | reached | |",
        "| --- | ---: | --- |",
    ]
    for report in reports:
        for asked, reached, word in target_rows(report):
            lines.append(f"| `{report.workload.name}`: {asked} | {reached} | {_emphasis(word)} |")
    for report in reports:
        names = headings(report.workload)
        lines += ["", f"### `{report.workload.name}`: {report.workload.title}", ""]
        lines += [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}"]
        lines += [f"| {' | '.join(row)} |" for row in contender_rows(report)]
    return "\n".join([*lines, ""])


def _emphasis(word: str) -> str:
    return word if word == "met" else f"**{word}**"
