"""The command line: `penstock demo` shows the main job on data that it makes itself."""

from __future__ import annotations

import argparse
import inspect
import sys
from time import perf_counter
from typing import Any

import numpy as np

from . import __version__
from .dataset import Dataset
from .errors import BadArgument, BudgetTooSmall
from .memory.ledger import format_bytes
from .memory.limits import available_bytes
from .observe.process import PeakMemory
from .options import parse_memory

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="penstock", description="Input pipelines inside a memory budget.")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="slice, shuffle, map and batch a 400 MB array under a 64 MB budget")
    demo.add_argument("--rows", type=_count, default=100_000, help="rows of 500 float64 (default: 100,000, 400 MB)")
    demo.add_argument("--memory", type=_budget, default="64MB", help="the budget (default: 64MB)")
    demo.add_argument("--epochs", type=_count, default=3, help="passes over the data (default: 3)")
    options = parser.parse_args(arguments)
    try:
        return run_demo(options.rows, options.memory, options.epochs)
    except (BadArgument, BudgetTooSmall) as error:
        parser.error(str(error))


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def _budget(text: str) -> str | float:
    """As for `run`, where a fraction is a number and not text."""
    try:
        return float(text) if "." in text else text
    except ValueError:
        return text


def run_demo(num_rows: int, memory: str | float, num_epochs: int) -> int:
    """Feeds a loop from an array much larger than the budget, and compares the budget with what the system saw."""
    from rich.console import Console

    console = Console(highlight=False)
    budget_bytes = parse_memory(memory, available_bytes())
    console.print(f"Making an array of {num_rows:,} × 500 float64 ({format_bytes(num_rows * 4000)}) …")
    dataset = pipeline(_make_data(num_rows), np.arange(num_rows))
    console.print("\n[bold]The pipeline[/bold]")
    console.print(inspect.getsource(pipeline), end="", soft_wrap=True, markup=False)
    console.print(f"\n[bold]dataset.explain(memory={memory!r}, sample=1)[/bold]")
    console.print(str(dataset.explain(memory=memory, sample=1)), soft_wrap=True, markup=False)
    console.print(f"\n[bold]for rows, numbers in dataset.run(memory={memory!r}): …[/bold]")

    num_seen = np.zeros(num_rows, np.int64)
    with PeakMemory() as watch:
        start = perf_counter()
        peak_bytes = _feed_loop(dataset, memory, num_epochs, num_seen, console)
        elapsed_s = perf_counter() - start

    _show({
        "rows per second": f"{num_rows * num_epochs / elapsed_s:,.0f}",
        "the array (yours, sliced in place)": format_bytes(num_rows * 4000),
        "budget": format_bytes(budget_bytes),
        "most that the pipeline held, by its own ledger": format_bytes(peak_bytes),
        "growth of the process, as the system saw it": format_bytes(watch.growth_bytes),
    }, console)  # fmt: skip
    is_complete = bool((num_seen == num_epochs).all())
    is_inside = watch.growth_bytes <= budget_bytes
    if not is_complete:
        console.print("[red]Some rows came more or less often than there were epochs: please report this.[/red]")
    elif not is_inside:
        console.print("[red]The process grew by more than the budget: please report this.[/red]")
    else:
        how_often = "once" if num_epochs == 1 else f"{num_epochs} times"
        console.print(f"[green]Every row came {how_often}, and memory stayed within the budget.[/green]")
    return 0 if is_inside and is_complete else 1


def _make_data(num_rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    data = np.empty((num_rows, 500))
    for start in range(0, num_rows, 4096):  # in pieces, so that making the data does not itself need a second array
        rng.random(out=data[start : start + 4096])
    return data


# fmt: off
def pipeline(data: np.ndarray, numbers: np.ndarray) -> Dataset:
    def standardize(row: np.ndarray, number: np.int64) -> tuple[np.ndarray, np.int64]:
        return ((row - 0.5) * 3.46).astype(np.float32), number

    return (Dataset.from_tensor_slices((data, numbers))
            .map(standardize)
            .shuffle(10_000, seed=1)
            .batch(256))
# fmt: on


def _feed_loop(dataset: Dataset, memory: str | float, num_epochs: int, num_seen: np.ndarray, console: Any) -> int:
    """Reads some epochs, and counts how often each row came; the most that a run held."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:>9,.0f} rows"),
        TimeRemainingColumn(),
    )
    peak_bytes = 0
    with Progress(*columns, console=console) as progress:
        for epoch in range(num_epochs):
            task = progress.add_task(f"epoch {epoch}", total=len(num_seen))
            with dataset.run(memory=memory) as run:
                for _, numbers in run:
                    num_seen[numbers] += 1
                    progress.advance(task, len(numbers))
                peak_bytes = max(peak_bytes, run.ledger.peak_bytes)
    return peak_bytes


def _show(figures: dict[str, str], console: Any) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, figure in figures.items():
        table.add_row(name, figure)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
