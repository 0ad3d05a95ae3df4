"""The child process of one contender: makes its data, builds its pipeline, runs epochs when told to.

It speaks JSON lines: a command on stdin, an answer on what was stdout (libraries that print do so on stderr).
It measures time only; the parent watches its memory from outside, so that watching costs the child nothing.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import time
from typing import Any

from benchmarks.workload import Batch, Contender, Epoch, Refused, Workload, first_batch


class Seat:
    """One contender at work: the commands that the parent may send are its methods."""

    def __init__(self, workload: Workload, contender: Contender, rows: int) -> None:
        for name in contender.imports:
            importlib.import_module(name)
        self.workload = workload
        self.contender = contender
        self.rows = rows
        self.data: Any = workload.make_data(rows)
        self.epoch: Epoch | None = None

    def build(self) -> dict[str, Any]:
        start = time.perf_counter()
        self.epoch = self.contender.build(self.data)
        return {
            "seconds": time.perf_counter() - start,
            "budget_bytes": getattr(self.epoch, "budget_bytes", None),
        }

    def check(self) -> dict[str, Any]:
        """See that the contender does the job that was asked for."""
        assert self.epoch is not None
        self._expect(first_batch(self.epoch()))
        return {}

    def _expect(self, batch: Batch) -> None:
        got = (tuple(batch.shape), str(batch.dtype))
        if self.workload.batch is not None and got != self.workload.batch:
            raise ValueError(f"the first batch should be {self.workload.batch}, but is {got}")

    def epochs(self, count: int) -> dict[str, Any]:
        assert self.epoch is not None
        gc.collect()
        rows = 0
        start, cpu_start = time.perf_counter(), cpu_seconds()
        for _ in range(count):
            rows += self.workload.consume(self.epoch())
        seconds, cpu_s = time.perf_counter() - start, cpu_seconds() - cpu_start
        expected = count * self.rows
        if rows != expected:
            raise ValueError(f"{count} epoch(s) should deliver {expected} rows, but delivered {rows}")
        return {"seconds": seconds, "cpu_s": cpu_s, "rows": rows}

    def turns(self, name: str, count: int) -> dict[str, Any]:
        """Epochs of another contender of the same workload, in this process and on the same data."""
        self.epoch = self.workload.contender(name).build(self.data)
        return self.epochs(count)

    def first(self) -> dict[str, Any]:
        """Time from nothing to the first batch, the building of the pipeline included."""
        self.epoch = None
        gc.collect()
        start = time.perf_counter()
        self.epoch = self.contender.build(self.data)
        batch = first_batch(self.epoch())
        seconds = time.perf_counter() - start
        self._expect(batch)
        return {"seconds": seconds}


def cpu_seconds() -> float:
    """CPU time of all threads of this process and of the workers that it has waited for."""
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime


def main() -> None:
    module, workload_name, contender_name, rows = sys.argv[1:]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        workloads = importlib.import_module(module).WORKLOADS
        workload: Workload = next(w for w in workloads if w.name == workload_name)
        seat = Seat(workload, workload.contender(contender_name), int(rows))
        print(json.dumps({"ready": True}), file=answers)
        for line in sys.stdin:
            command = json.loads(line)
            answer = getattr(seat, command.pop("do"))(**command)
            print(json.dumps(answer), file=answers)
    except Refused as error:
        print(json.dumps({"refused": str(error), "budget_bytes": error.budget_bytes}), file=answers)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers)
        raise


if __name__ == "__main__":
    main()
