"""Draws a run: a panel of bars per workload, on a logarithmic scale."""

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


def _short(value: float) -> str:
    for limit, divisor, letter in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e3, 1e3, " k")):
        if value >= limit:
            return f"{value / divisor:.3g}{letter}"
    return f"{value:.3g}"
