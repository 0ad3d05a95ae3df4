"""The command line: `python -m benchmarks [names] [--quick]`."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import harness, machine, picture, report
from benchmarks.workload import Workload, find_workloads

RESULTS = Path(__file__).resolve().parent / "results"


def named(word: str, workloads: dict[str, tuple[str, Workload]]) -> list[str]:
    """The workloads that a word stands for: the one of that name, or all of the file of that name."""
    if word in workloads:
        return [word]
    return [name for name, (module, _) in workloads.items() if module == f"benchmarks.bench_{word}"]


def main() -> int:
    workloads = find_workloads()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="penstock beside its peers.")
    parser.add_argument(
        "names", nargs="*", help=f"workloads, or files of them, to run (default: all): {', '.join(workloads)}"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, under a minute; rough figures")
    parser.add_argument("--readme", action="store_true", help="put this run into benchmarks/README.md")
    arguments = parser.parse_args()
    unknown = [word for word in arguments.names if not named(word, workloads)]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(workloads)}")

    effort = harness.QUICK if arguments.quick else harness.FULL
    wanted = [name for word in arguments.names for name in named(word, workloads)] or [
        name for name, (_, workload) in workloads.items() if workload.in_quick or not arguments.quick
    ]
    console = Console() if sys.stdout.isatty() else Console(width=120)
    facts = machine.machine_facts()
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    console.print(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['versions']}")
    if machine.is_busy(facts):
        console.print(f"the machine is busy (load {facts['load_before']}): trust rows/CPU s more than rows/s")
    if arguments.quick:
        console.print("quick: a fifth of the rows, few repetitions, some peers left out; rough ratios")
    start = time.monotonic()
    reports = []
    for name in wanted:
        module, workload = workloads[name]
        with console.status(name) as status:
            done = harness.run(module, workload, effort, status.update)
        report.show(console, done)
        reports.append(done)

    written = []
    for record in ("latest", "budget"):
        of_record = [done for done in reports if done.workload.record == record]
        if not of_record:
            continue
        # A run of some workloads, or a quick one, must not pass for the record.
        all_names = {name for name, (_, workload) in workloads.items() if workload.record == record}
        whole = not arguments.quick and all_names <= set(wanted)
        stem = record if whole else {"latest": "partial", "budget": "partial.budget"}[record]
        effort_name = "quick" if arguments.quick else "full"
        report.write_json(RESULTS / f"{stem}.json", report.as_json(of_record, facts, made, effort_name))
        caption = f"{facts['cpu']}, {facts['cores']} cores, {made[:10]}; MB: peak memory over the data itself"
        draw = picture.draw_budgets if record == "budget" else picture.draw
        draw(RESULTS / f"{stem}.png", of_record, caption)
        written.append(f"results/{stem}.*")
        if arguments.readme:
            report.write_readme(record, of_record, facts, made)
    missed = sum(verdict.met is False for done in reports for verdict in done.verdicts())
    failed = sum(outcome.error is not None for done in reports for outcome in done.outcomes)
    console.print(
        f"{len(reports)} workloads in {time.monotonic() - start:.0f} s; targets missed: {missed}; "
        f"contenders failed: {failed}; written: {', '.join(written)}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
