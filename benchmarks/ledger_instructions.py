"""What does the ledger cost, in instructions? `python -m benchmarks.ledger_instructions`, where valgrind is installed.

Instructions are the same in each run, whatever else the machine does: what times cannot tell from noise shows here. A
copy of memory takes few of them for its time, so the ledger's part of the time is smaller than its part of these.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from benchmarks.bench_ledger import WITH, WITHOUT, Patches, build, ledger_patches
from benchmarks.bench_shuffle import WIDTH
from benchmarks.harness import ROOT

ROWS = 20_000
# What several epochs take beyond fewer: without the start of Python, and what only a first epoch does.
FEW, MANY = 2, 6
CONTENDERS: dict[str, tuple[Callable[[], Patches], ...]] = {WITH: (), WITHOUT: (ledger_patches,)}
SIZES = (1_000, 32)
_COLLECTED = re.compile(r"Collected : (\d+)")


def run_epochs(contender: str, size: int, in_order: bool, count: int) -> None:
    epoch = build(np.ones((ROWS, WIDTH)), size, in_order, CONTENDERS[contender])
    for _ in range(count):
        for _ in epoch():
            pass


def count_instructions(contender: str, size: int, in_order: bool, count: int) -> int:
    """Instructions of a process that does so many epochs."""
    code = (
        f"from benchmarks.ledger_instructions import run_epochs; run_epochs({contender!r}, {size}, {in_order}, {count})"
    )
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    found = _COLLECTED.search(done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"valgrind failed:\n{done.stderr}")
    return int(found[1])


def main() -> None:
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    print(f"instructions of {MANY - FEW} epochs over {ROWS:,} x {WIDTH} float64, with the ledger and without it")
    for in_order in (True, False):
        for size in SIZES:
            with_ledger, without = (
                count_instructions(name, size, in_order, MANY) - count_instructions(name, size, in_order, FEW)
                for name in CONTENDERS
            )
            order = "in order" if in_order else "shuffled"
            share = with_ledger / without - 1
            print(f"{order}, batches of {size:,}: {with_ledger:,} and {without:,}, the ledger {share:+.2%}")


if __name__ == "__main__":
    main()
