"""What does a budget cost? Three pipelines under budgets from 8 to 512 MB, and as small as they may be.

- `budget-array`: a shuffle that is arithmetic on indices. Nothing in it grows with the budget.
- `budget-images`: elements of 600 kB in the buffer of a stream's shuffle (the filter keeps it from being one over
  indices). The buffer of 64 is 38 MB, and what has no room goes to disk. The function that makes an element does next
  to nothing, so that the disk cannot hide behind it: with real decoding the curve is flatter.
- `budget-cache`: 200 MB in a cache, of which what has no room goes to disk. The warm-up is the pass that fills it.

tf.data runs the same programs. It has no budget.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Refused, Target, Workload

MB = 1_000_000
BUDGETS = (8, 16, 32, 64, 128, 256, 512)
IN_QUICK = (8, 16, 64, 512)
UNLIMITED, FOUR_BATCHES, MINIMUM = "penstock, unlimited", "4 batches a stage", "minimum"
WIDTH, IMAGE_BYTES, CACHED_BYTES = 500, 600_000, 100_000
SAMPLE = 8


@dataclass(frozen=True)
class Job:
    """A pipeline in both libraries: `program(library, data)`."""

    title: str
    program: Callable[[Any, Any], Any]
    make_data: Callable[[int], Any]
    rows: int
    quick_rows: int
    batch: tuple[tuple[int, ...], str]

    @property
    def batch_bytes(self) -> int:
        shape, dtype = self.batch
        return int(np.prod(shape)) * np.dtype(dtype).itemsize


def filled(library: Any, number: Any, nbytes: int) -> Any:
    """An element of so many bytes."""
    if library.__name__ == "penstock":
        return np.full(nbytes, number % 251, np.uint8)
    return library.fill([nbytes], library.cast(number % 251, library.uint8))


def dataset_class(library: Any) -> Any:
    return library.Dataset if library.__name__ == "penstock" else library.data.Dataset


def shuffled_array(library: Any, array: Batch) -> Any:
    return dataset_class(library).from_tensor_slices(array).shuffle(len(array), seed=1).batch(256).prefetch(2)


def images(library: Any, numbers: Batch) -> Any:
    made = dataset_class(library).from_tensor_slices(numbers)
    made = made.map(lambda number: filled(library, number, IMAGE_BYTES), num_parallel_calls=4)
    return made.filter(lambda image: image[0] < 255).shuffle(64, seed=1).batch(4).prefetch(2)


def cached(library: Any, rows: int) -> Any:
    numbers = dataset_class(library).range(rows)
    return numbers.map(lambda number: filled(library, number, CACHED_BYTES)).cache().batch(16)


def random_rows(rows: int) -> Batch:
    return np.random.default_rng(0).random((rows, WIDTH))


JOBS = {
    "budget-array": Job(
        "100k x 500 float64, full shuffle, batch 256, prefetch 2",
        shuffled_array,
        random_rows,
        100_000,
        20_000,
        ((256, WIDTH), "float64"),
    ),
    "budget-images": Job(
        "600 kB each, parallel map, filter, shuffle(64), batch 4, prefetch 2",
        images,
        np.arange,
        512,
        128,
        ((4, IMAGE_BYTES), "uint8"),
    ),
    "budget-cache": Job(
        "100 kB each, 200 MB in cache, batch 16: later passes",
        cached,
        int,
        2_000,
        500,
        ((16, CACHED_BYTES), "uint8"),
    ),
}


@dataclass(frozen=True)
class Needs:
    """What penstock says of a pipeline before it runs."""

    minimum_bytes: int
    num_stages: int


def ask_needs(name: str) -> Needs:
    """Asks `explain` in a process of its own: the sample runs without a budget, and must not show in the figures."""
    command = [sys.executable, "-m", "benchmarks.bench_budget", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Needs(*map(int, done.stdout.split()))


def print_needs(name: str) -> None:
    import penstock as ps

    job = JOBS[name]
    data = np.zeros((job.rows, WIDTH)) if job.make_data is random_rows else job.make_data(job.rows)
    explained = job.program(ps, data).explain(sample=SAMPLE)
    print(explained.minimum_bytes, len(explained.to_dict()["stages"]))


@dataclass(frozen=True)
class Budgeted:
    """The epochs of a dataset under a budget."""

    dataset: Any
    budget_bytes: int

    def __call__(self) -> Iterable[Batch]:
        batches: Iterable[Batch] = self.dataset.run(memory=self.budget_bytes)
        return batches


def build_budgeted(data: Any, name: str, budget_of: Callable[[Needs], int]) -> Epoch:
    import penstock as ps

    needs = ask_needs(name)
    budget_bytes = budget_of(needs)
    if budget_bytes < needs.minimum_bytes:
        raise Refused(budget_bytes, needs.minimum_bytes)
    return Budgeted(JOBS[name].program(ps, data), budget_bytes)


def build_unlimited(data: Any, name: str) -> Epoch:
    import penstock as ps

    dataset = JOBS[name].program(ps, data)
    return lambda: iter(dataset)


def build_tf_data(data: Any, name: str) -> Epoch:
    import tensorflow as tf

    dataset = JOBS[name].program(tf, data)
    return lambda: dataset.as_numpy_iterator()


def contenders(name: str) -> tuple[Contender, ...]:
    def under(label: str, budget_of: Callable[[Needs], int], in_quick: bool = True) -> Contender:
        build = partial(build_budgeted, name=name, budget_of=budget_of)
        return Contender(label, "penstock", build, ("penstock",), in_quick=in_quick)

    def fixed(megabytes: int) -> Contender:
        return under(f"{megabytes} MB", lambda needs: megabytes * MB, megabytes in IN_QUICK)

    return (
        Contender(UNLIMITED, "penstock", partial(build_unlimited, name=name), ("penstock",)),
        under(MINIMUM, lambda needs: needs.minimum_bytes),
        *map(fixed, BUDGETS),
        under(FOUR_BATCHES, lambda needs: 4 * JOBS[name].batch_bytes * needs.num_stages),
        Contender("tf.data", "tf.data", partial(build_tf_data, name=name), ("tensorflow",)),
    )


WORKLOADS = tuple(
    Workload(
        name,
        job.title,
        contenders(name),
        (Target(FOUR_BATCHES, 0.8, over=UNLIMITED),),
        make_data=job.make_data,
        rows=job.rows,
        quick_rows=job.quick_rows,
        batch=job.batch,
        record="budget",
        in_quick=False,
    )
    for name, job in JOBS.items()
)


if __name__ == "__main__":
    print_needs(sys.argv[1])
