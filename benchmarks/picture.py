"""Draws a run: a panel of bars per workload, on a logarithmic scale; curves where contenders differ in their budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Report

COLOURS = {
    "penstock": "#d1495b",
    "tf.data": "#edae49",
    "torch": "#66a182",
    "grain": "#2e78a8",
    "hand": "#9a9a9a",
}
AXES = {
    "rate": "rows per second (longer is better)",
    "first batch": "milliseconds (shorter is better)",
    "import": "milliseconds (shorter is better)",
}


def draw(path: Path, reports: Sequence[Report], caption: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(2, len(reports))
    lines = -(-len(reports) // columns)
    height = 0.42 * max(len(report.outcomes) for report in reports) + 1.1
    figure, axes = plt.subplots(lines, columns, figsize=(7.6 * columns, height * lines + 0.4), squeeze=False)
    panels = list(axes.flat)
    for report, panel in zip(reports, panels, strict=False):
        scale = 1.0 if report.workload.metric == "rate" else 1e3
        done = [outcome for outcome in report.outcomes if outcome.value is not None]
        values = [(outcome.value or 0.0) * scale for outcome in done]
        names = [outcome.contender.name for outcome in done]
        panel.barh(names, values, color=[COLOURS[outcome.contender.family] for outcome in done], height=0.7)
        panel.set_xscale("log")
        if values:
            panel.set_xlim(min(values) / 3, max(values) * 12)
        for place, (value, outcome) in enumerate(zip(values, done, strict=True)):
            extra = "" if outcome.extra_bytes is None else f"   +{outcome.extra_bytes / 1e6:,.0f} MB"
            panel.text(value * 1.08, place, f"{_short(value)}{extra}", va="center", fontsize=8.5)
        panel.invert_yaxis()
        panel.set_title(report.workload.title, fontsize=10.5, loc="left")
        panel.set_xlabel(AXES[report.workload.metric], fontsize=8.5)
        panel.tick_params(labelsize=8.5)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(reports) :]:
        panel.set_visible(False)
    figure.text(0.01, 0.004, caption, fontsize=8.5, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_budgets(path: Path, reports: Sequence[Report], caption: str) -> None:
    """Per workload a panel of rates and one of real memory, both against the budget."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    reports = [report for report in reports if any(outcome.budget_bytes for outcome in report.outcomes)]
    if not reports:
        return
    figure, axes = plt.subplots(2, len(reports), figsize=(5.2 * len(reports), 7.2), squeeze=False, sharex="col")
    for report, (rates, memory) in zip(reports, axes.T, strict=True):
        points = sorted((o for o in report.outcomes if o.budget_bytes), key=lambda o: o.budget_bytes or 0)
        done = [outcome for outcome in points if outcome.value is not None]
        budgets = [(outcome.budget_bytes or 0) / 1e6 for outcome in done]
        extra = [(outcome.extra_bytes or 0) / 1e6 for outcome in done]
        for panel, values in ((rates, [outcome.value or 0.0 for outcome in done]), (memory, extra)):
            panel.plot(budgets, values, "o-", color=COLOURS["penstock"], label="penstock under a budget")
        for outcome in report.outcomes:
            if outcome.budget_bytes is None and outcome.value is not None:
                style = {"color": COLOURS[outcome.contender.family], "linestyle": "--", "label": outcome.contender.name}
                rates.axhline(outcome.value, **style)
                memory.axhline((outcome.extra_bytes or 0) / 1e6, **style)
        for outcome in points:
            where = (outcome.budget_bytes or 0) / 1e6
            if outcome.refused is not None:
                rates.axvspan(where / 1.15, where * 1.15, color="#dddddd")
                rates.text(where, 0.5, "refused", rotation=90, ha="center", va="center", fontsize=8.5,
                           transform=rates.get_xaxis_transform())  # fmt: skip
            elif not outcome.contender.name.endswith("MB") and outcome.value is not None:
                rates.annotate(outcome.contender.name, (where, outcome.value), (0, -13), fontsize=8,
                               textcoords="offset points", ha="center")  # fmt: skip
        memory.plot(budgets, budgets, ":", color="#555555", label="the budget itself")
        rates.set_ylim(bottom=0)
        rates.set_xscale("log", base=2)
        memory.set_yscale("log")
        memory.set_xticks([8, 16, 32, 64, 128, 256, 512], ["8", "16", "32", "64", "128", "256", "512"])
        memory.set_xlabel("budget in MB", fontsize=8.5)
        rates.set_ylabel("rows per second", fontsize=8.5)
        memory.set_ylabel("peak extra memory in MB, as the system sees it", fontsize=8.5)
        rates.set_title(report.workload.title, fontsize=9.5, loc="left")
        for panel in (rates, memory):
            panel.tick_params(labelsize=8.5)
            panel.spines[["top", "right"]].set_visible(False)
        rates.yaxis.set_major_formatter(lambda value, _: _short(value))
    lines, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="lower right", ncols=len(labels), fontsize=8.5, frameon=False)
    figure.text(0.01, 0.008, caption, fontsize=8.5, color="#555555")
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _short(value: float) -> str:
    for limit, divisor, letter in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e3, 1e3, " k")):
        if value >= limit:
            return f"{value / divisor:.3g}{letter}"
    return f"{value:.3g}"
