"""What a benchmark file declares: workloads, their contenders, and the targets they are held to.

A benchmark file `bench_<question>.py` has a tuple `WORKLOADS`. Nothing heavy is imported when the file is: a
contender names the libraries it needs in `imports`, and only its own child process loads them. A new file is
one more name in `QUESTIONS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

QUESTIONS = (
    "in_order",
    "shuffle",
    "cast",
    "range_map",
    "operators",
    "images",
    "nested",
    "parquet",
    "tfrecord",
    "map_fn",
    "first_batch",
    "import",
    "budget",
    "ledger",
    "tfrecord_codec",
    "training",
)

Batch = np.ndarray[Any, Any]
Epoch = Callable[[], Iterable[Batch]]
"""One pass over the data; called once per epoch on a pipeline that was built once."""

Family = Literal["penstock", "tf.data", "torch", "grain", "hand"]
Metric = Literal["rate", "first batch", "import", "in turn"]
Record = Literal["latest", "budget"]


class Refused(Exception):
    """A contender was given less memory than its library says it needs: an answer, not a failure."""

    def __init__(self, budget_bytes: int, minimum_bytes: int) -> None:
        super().__init__(f"needs at least {minimum_bytes:,} bytes")
        self.budget_bytes = budget_bytes


def touch(batches: Iterable[Batch]) -> int:
    """Read one number of each batch."""
    rows = 0
    for batch in batches:
        batch.item(0)
        rows += len(batch)
    return rows


def add_up(batches: Iterable[Batch]) -> int:
    """Read every number of each batch: what a view saves by not copying, it pays here."""
    rows = 0
    for batch in batches:
        batch.sum()
        rows += len(batch)
    return rows


def first_batch(batches: Iterable[Batch]) -> Batch:
    """The first batch only; the rest is never asked for."""
    iterator: Iterator[Batch] = iter(batches)
    batch = next(iterator)
    batch.item(0)
    return batch


@dataclass(frozen=True)
class Contender:
    """One way to do a workload's job.

    Attributes:
        name: Unique in its workload.
        family: Whose it is; decides the colour in the picture.
        build: Makes the pipeline from the workload's data and returns its Epoch. Batches are NumPy arrays.
        imports: Modules that are loaded before the memory baseline is taken.
        rows: Rows of its epoch, where it is so slow that it gets fewer than the others (rates are per row).
        has_workers: It starts processes, which count in its memory.
        in_quick: Whether `--quick` runs it.
    """

    name: str
    family: Family
    build: Callable[[Any], Epoch]
    imports: tuple[str, ...] = ()
    rows: int | None = None
    has_workers: bool = False
    in_quick: bool = True


@dataclass(frozen=True)
class Target:
    """A figure that a contender must reach.

    With `over`, the contender's rate divided by that of `over` must be at least `limit` (by CPU time and turn by turn
    where they take turns in one process). Without it, the
    contender's figure (seconds or bytes) must be at most `limit`.
    """

    who: str
    limit: float
    over: str | None = None
    of: Literal["value", "extra_bytes"] = "value"


@dataclass(frozen=True)
class Workload:
    """One job that every contender does in a child process of its own.

    Attributes:
        name: What one writes on the command line.
        title: What one reads in the table.
        contenders: Shown in this order; the first is the one that the others are compared with.
        limit: The contender, written by hand, that shows what the machine can do.
        make_data: Makes the input of so many rows, before the memory baseline is taken.
        rows: Rows of one epoch; a contender that delivers another number fails.
        quick_rows: Rows under `--quick`.
        batch: Shape and dtype that the first batch must have.
        consume: Reads the batches of an epoch and returns the number of rows.
        metric: `rate` in rows/s, or seconds to the `first batch` of a new pipeline, or of an `import`. `in turn` is
            a rate whose contenders take turns in one process, for differences smaller than those between processes.
        record: The files in `results/` and the section of the README that it belongs to.
        in_quick: Whether `--quick` runs it.
    """

    name: str
    title: str
    contenders: tuple[Contender, ...]
    targets: tuple[Target, ...] = ()
    limit: str | None = None
    make_data: Callable[[int], Any] = int
    rows: int = 0
    quick_rows: int | None = None
    batch: tuple[tuple[int, ...], str] | None = None
    consume: Callable[[Iterable[Batch]], int] = touch
    metric: Metric = "rate"
    record: Record = "latest"
    in_quick: bool = True

    def contender(self, name: str) -> Contender:
        return next(c for c in self.contenders if c.name == name)


def find_workloads() -> dict[str, tuple[str, Workload]]:
    """All workloads by name, each with the module that declares it, in the order of `QUESTIONS`."""
    found: dict[str, tuple[str, Workload]] = {}
    for question in QUESTIONS:
        module = importlib.import_module(f"benchmarks.bench_{question}")
        for workload in module.WORKLOADS:
            if workload.name in found:
                raise ValueError(f"two workloads are named {workload.name!r}")
            found[workload.name] = (module.__name__, workload)
    return found
