"""The command line: `python -m benchmarks [names] [--quick]`."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import harness, machine, picture, report
from benchmarks.workload import find_workloads

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    workloads = find_workloads()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="penstock beside its peers.")
    parser.add_argument("names", nargs="*", help=f"workloads to run (default: all): {', '.join(workloads)}")
    parser.add_argument("--quick", action="store_true", help="few repetitions, under a minute; rough figures")
    parser.add_argument("--readme", action="store_true", help="put this run into benchmarks/README.md")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in workloads]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(workloads)}")

    effort = harness.QUICK if arguments.quick else harness.FULL
    wanted = arguments.names or [
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

    # A run of some workloads, or a quick one, must not pass for the record.
    whole = not arguments.quick and set(wanted) == set(workloads)
    stem = "latest" if whole else "partial"
    report.write_json(
        RESULTS / f"{stem}.json", report.as_json(reports, facts, made, "quick" if arguments.quick else "full")
    )
    caption = f"{facts['cpu']}, {facts['cores']} cores, {made[:10]}; MB: peak memory over the data itself"
    picture.draw(RESULTS / f"{stem}.png", reports, caption)
    if arguments.readme:
        report.write_readme(reports, facts, made)
    missed = sum(verdict.met is False for done in reports for verdict in done.verdicts())
    failed = sum(outcome.error is not None for done in reports for outcome in done.outcomes)
    console.print(
        f"{len(reports)} workloads in {time.monotonic() - start:.0f} s; targets missed: {missed}; "
        f"contenders failed: {failed}; written: results/{stem}.json, results/{stem}.png"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
