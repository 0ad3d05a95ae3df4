"""Runs workloads: one child process per contender, repetitions in turn, memory watched from outside.

The steps of one workload:

1. All children start, import their libraries and make their data; what each then holds is its baseline.
2. One after another they build their pipeline and run one warm-up epoch, while the parent looks at the
   child's memory every 2 ms. The highest figure over the baseline is the contender's extra memory.
3. Rounds: in each, every contender runs one repetition (several epochs if one is shorter than `SHORTEST_S`),
   so that a slow minute of the machine hits all alike. A slow contender sits out some rounds, spread evenly.
   The rate is the median over its repetitions.

Contenders whose difference is smaller than that between two processes share one (`in_turn`).
"""

from __future__ import annotations

import json
import math
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.memory import held_bytes
from benchmarks.workload import Contender, Target, Workload

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_S = 0.002
SAMPLE_WITH_WORKERS_S = 0.02
SHORTEST_S = 0.25
TURNS_PER_ROUND, TURN_S = 2, 0.12
ANSWER_WITHIN_S = 60.0
T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How much time a run may take."""

    rounds: int
    contender_s: float
    fewest: int
    imports: int

    def repetitions(self, seconds: float) -> int:
        """How many repetitions of `seconds` a contender gets: all rounds, or what fits its time."""
        fitting = int(self.contender_s / max(seconds, 1e-9))
        return min(self.rounds, max(self.fewest, fitting))


FULL = Effort(rounds=9, contender_s=5.0, fewest=3, imports=9)
QUICK = Effort(rounds=3, contender_s=0.8, fewest=1, imports=3)


@dataclass
class Outcome:
    """What one contender reached. `value` is rows/s for rates, seconds for all else.

    `cpu_value` is the same by CPU time over all its threads and workers. It hardly feels a busy machine, and it
    says what the pipeline takes from the training step that shares the cores.
    """

    contender: Contender
    samples: list[float] = field(default_factory=list)
    cpu_samples: list[float] = field(default_factory=list)
    value: float | None = None
    cpu_value: float | None = None
    extra_bytes: int | None = None
    budget_bytes: int | None = None
    refused: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A target with the figure that was reached; None where a contender failed or did not run."""

    target: Target
    figure: float | None

    @property
    def met(self) -> bool | None:
        if self.figure is None:
            return None
        return self.figure >= self.target.limit if self.target.over else self.figure <= self.target.limit


@dataclass
class Report:
    workload: Workload
    outcomes: list[Outcome]

    def outcome(self, name: str) -> Outcome | None:
        return next((o for o in self.outcomes if o.contender.name == name), None)

    def verdicts(self) -> list[Verdict]:
        return [Verdict(target, self._figure(target)) for target in self.workload.targets]

    def _figure(self, target: Target) -> float | None:
        mine = self.outcome(target.who)
        if mine is None:
            return None
        if target.over is None:
            return mine.value if target.of == "value" else mine.extra_bytes
        other = self.outcome(target.over)
        if mine.value is None or other is None or other.value is None:
            return None
        if self.workload.metric == "in turn":
            return statistics.median(a / b for a, b in zip(mine.cpu_samples, other.cpu_samples, strict=True))
        return mine.value / other.value


class ChildError(Exception):
    """A contender failed, or did not answer in time."""


class RefusedError(ChildError):
    """A contender was given too little memory, and said so."""

    def __init__(self, reason: str, budget_bytes: int) -> None:
        super().__init__(reason)
        self.budget_bytes = budget_bytes


class Child:
    """A contender's process, seen from the parent."""

    def __init__(self, module: str, workload: Workload, contender: Contender, rows: int) -> None:
        self.contender = contender
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", module, workload.name, contender.name, str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=child_environment(),
            text=True,
            bufsize=1,
        )
        self.baseline_bytes = 0
        self.peak_bytes = 0

    def wait_ready(self) -> None:
        self._answer(watched=False)
        self.baseline_bytes = self.peak_bytes = self._held_bytes()

    def ask(self, do: str, *, watched: bool = False, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; `watched` follows the child's memory meanwhile."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        except BrokenPipeError as error:
            raise ChildError(self._last_words()) from error
        return self._answer(watched)

    def look(self) -> None:
        """Take the memory held now into the peak."""
        self.peak_bytes = max(self.peak_bytes, self._held_bytes())

    def close(self) -> None:
        """End it at once: it has nothing to save, and TensorFlow takes seconds to leave in order."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def _answer(self, watched: bool) -> dict[str, Any]:
        assert self._process.stdout is not None
        pause_s = SAMPLE_WITH_WORKERS_S if self.contender.has_workers else SAMPLE_S
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not select.select([self._process.stdout], [], [], pause_s if watched else 0.5)[0]:
            if watched:
                self.look()
            if time.monotonic() > deadline:
                self._process.kill()
                raise ChildError(f"no answer within {ANSWER_WITHIN_S:.0f} s")
        if watched:
            self.look()
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(answer["error"])
        if "refused" in answer:
            raise RefusedError(answer["refused"], answer["budget_bytes"])
        return answer

    def _held_bytes(self) -> int:
        return held_bytes(self._process.pid, with_workers=self.contender.has_workers)

    def _last_words(self) -> str:
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return f"the process ended with status {status}: {lines[-1] if lines else 'it said nothing'}"


def child_environment() -> dict[str, str]:
    """The environment without chatter, and with compiled modules kept: an installed package has them."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONWARNINGS": "ignore"}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **quiet}


def run(module: str, workload: Workload, effort: Effort, say: Say) -> Report:
    """Run one workload. A contender that fails is reported as failed; the others go on."""
    chosen = [c for c in workload.contenders if c.in_quick or effort is not QUICK]
    outcomes = [Outcome(contender) for contender in chosen]
    if workload.metric == "import":
        time_imports(outcomes, effort, say)
    elif workload.metric == "in turn":
        in_turn(module, workload, outcomes, effort, say)
    else:
        rows = (workload.quick_rows if effort is QUICK else None) or workload.rows
        children = [Child(module, workload, contender, contender.rows or rows) for contender in chosen]
        try:
            race(workload, list(zip(children, outcomes, strict=True)), effort, say)
        finally:
            for child in children:
                child.close()
    return Report(workload, outcomes)


def race(workload: Workload, lanes: list[tuple[Child, Outcome]], effort: Effort, say: Say) -> None:
    """Warm-up with memory watched, then rounds."""
    of_first = workload.metric == "first batch"
    warm_up, measure = (warm_up_first, measure_first) if of_first else (warm_up_rate, measure_rate)
    say(f"{workload.name}: starting")
    for child, outcome in lanes:  # all are ready before anything is measured
        _try(outcome, child.wait_ready)
    plan: list[tuple[Child, Outcome, int, int]] = []
    for child, outcome in lanes:
        if outcome.error is None and outcome.refused is None:
            say(f"{workload.name}: warm-up, {outcome.contender.name}")
            ready = _try(outcome, partial(warm_up, child, outcome, effort))
            if ready is not None:
                plan.append((child, outcome, *ready))
    for turn in range(effort.rounds):
        say(f"{workload.name}: round {turn + 1} of {effort.rounds}")
        for child, outcome, repetitions, count in plan:
            due = (turn + 1) * repetitions // effort.rounds > turn * repetitions // effort.rounds
            if due and outcome.error is None:
                _try(outcome, partial(measure, child, outcome, count))
    for _, outcome, _, _ in plan:
        if outcome.error is None and workload.metric == "rate":
            outcome.value = statistics.median(outcome.samples)
            outcome.cpu_value = statistics.median(outcome.cpu_samples)


def warm_up_rate(child: Child, outcome: Outcome, effort: Effort) -> tuple[int, int]:
    """Build, run an epoch under watch, and choose the repetitions and the epochs of each."""
    outcome.budget_bytes = child.ask("build", watched=True)["budget_bytes"]
    seconds = float(child.ask("epochs", watched=True, count=1)["seconds"])
    child.look()
    outcome.extra_bytes = child.peak_bytes - child.baseline_bytes
    child.ask("check")
    if seconds < 2.0:  # the first epoch has first touches in it; a second one tells the true length
        seconds = float(child.ask("epochs", watched=True, count=1)["seconds"])
        outcome.extra_bytes = child.peak_bytes - child.baseline_bytes
    count = max(1, math.ceil(SHORTEST_S / seconds))
    return effort.repetitions(seconds * count), count


def measure_rate(child: Child, outcome: Outcome, count: int) -> None:
    answer = child.ask("epochs", count=count)
    outcome.samples.append(answer["rows"] / answer["seconds"])
    outcome.cpu_samples.append(answer["rows"] / max(answer["cpu_s"], 1e-9))
    child.look()  # a pipeline that grows from epoch to epoch shows here
    outcome.extra_bytes = child.peak_bytes - child.baseline_bytes


def warm_up_first(child: Child, outcome: Outcome, effort: Effort) -> tuple[int, int]:
    """The very first batch of the process, planning and lazy imports included, is the figure that counts."""
    outcome.value = float(child.ask("first", watched=True)["seconds"])
    child.look()
    outcome.extra_bytes = child.peak_bytes - child.baseline_bytes
    return effort.repetitions(outcome.value), 1


def measure_first(child: Child, outcome: Outcome, count: int) -> None:
    outcome.samples.extend(float(child.ask("first")["seconds"]) for _ in range(count))


def in_turn(module: str, workload: Workload, outcomes: list[Outcome], effort: Effort, say: Say) -> None:
    """All contenders in one process, in turn, each round in the opposite order of the one before.

    Two processes differ by some percent though they do the same, by where their memory happens to lie.
    """
    rows = (workload.quick_rows if effort is QUICK else None) or workload.rows
    child = Child(module, workload, workload.contenders[0], rows)
    try:
        say(f"{workload.name}: starting")
        child.wait_ready()
        seconds = min(float(child.ask("turns", name=o.contender.name, count=1)["seconds"]) for o in outcomes * 2)
        count = max(1, math.ceil(TURN_S / seconds))
        num_rounds = effort.rounds * TURNS_PER_ROUND
        for turn in range(num_rounds):
            say(f"{workload.name}: round {turn + 1} of {num_rounds}")
            for outcome in outcomes[:: -1 if turn % 2 else 1]:
                answer = child.ask("turns", name=outcome.contender.name, count=count)
                outcome.samples.append(answer["rows"] / answer["seconds"])
                outcome.cpu_samples.append(answer["rows"] / max(answer["cpu_s"], 1e-9))
        for outcome in outcomes:
            outcome.value = statistics.median(outcome.samples)
            outcome.cpu_value = statistics.median(outcome.cpu_samples)
    except ChildError as error:
        for outcome in outcomes:
            outcome.error = str(error)
    finally:
        child.close()


IMPORT = """
import time
clocks = time.perf_counter, time.process_time
{before}
start = [clock() for clock in clocks]
import {module}
print(*(clock() - then for clock, then in zip(clocks, start)))
"""


def time_imports(outcomes: list[Outcome], effort: Effort, say: Say) -> None:
    """Seconds that `import x` takes after `import numpy`, in fresh interpreters, files compiled and cached."""
    for turn in range(effort.imports + 1):
        say(f"import: round {turn} of {effort.imports}" if turn else "import: warm-up")
        for outcome in outcomes:
            enough = sum(outcome.samples) > effort.contender_s and len(outcome.samples) >= effort.fewest
            if outcome.error is not None or enough:
                continue
            (module,) = outcome.contender.imports
            code = IMPORT.format(before="" if module == "numpy" else "import numpy", module=module)
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=ROOT,
                env=child_environment(),
                capture_output=True,
                text=True,
            )
            if done.returncode:
                outcome.error = (done.stderr.strip().splitlines() or ["failed"])[-1]
                continue
            seconds, cpu_s = (float(word) for word in done.stdout.split()[-2:])
            if turn:  # the first round compiled modules and filled the file cache
                outcome.samples.append(seconds)
                outcome.cpu_samples.append(cpu_s)
    for outcome in outcomes:
        if outcome.samples:
            outcome.value = statistics.median(outcome.samples)
            outcome.cpu_value = statistics.median(outcome.cpu_samples)


def _try(outcome: Outcome, step: Callable[[], T]) -> T | None:
    try:
        return step()
    except RefusedError as error:
        outcome.refused, outcome.budget_bytes = str(error), error.budget_bytes
        return None
    except ChildError as error:
        outcome.error = str(error)
        outcome.value = None
        return None
