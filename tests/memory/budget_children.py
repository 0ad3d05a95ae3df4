"""Programs that run in a process of their own under a budget of 64 MB, on elements of 4 MB, for a slow consumer.

python budget_children.py <name>: see PROGRAMS at the end. Each prints one line of JSON.
"""

import functools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
BUDGET = 64 * MB
LARGE = 500_000  # float64: 4 MB


def generated(count: int, size: int = LARGE) -> Any:
    """Elements of which nothing is known before they come."""

    def elements() -> Iterator[np.ndarray]:
        for i in range(count):
            yield np.full(size, float(i))

    return D.from_generator(elements)


def mapped(count: int, size: int = LARGE) -> Any:
    return D.range(count).filter(lambda i: True).map(lambda i: np.full(size, float(i)))


def prefetched(source: Any) -> Any:
    return source(60).prefetch(8)


def parallel(source: Any) -> Any:
    return source(60).map(lambda x: x + 1, num_parallel_calls=16)


def interleaved(source: Any) -> Any:
    return D.range(16).interleave(lambda i: source(4).map(lambda x: x + i), cycle_length=16)


def interleaved_in_threads(source: Any) -> Any:
    return D.range(16).interleave(lambda i: source(4).map(lambda x: x + i), cycle_length=16, num_parallel_calls=16)


def shuffled(source: Any) -> Any:
    return source(240).shuffle(200, seed=1)


def cached(source: Any) -> Any:
    return source(200).cache().repeat(2)


def padded(source: Any) -> Any:
    return source(60).map(lambda x: x[: LARGE - int(x[0]) * 1000]).padded_batch(4)


def windowed(source: Any) -> Any:
    return source(60).window(6).flat_map(lambda window: window)


def all_together(source: Any) -> Any:
    return (
        D.range(4)
        .interleave(lambda i: source(15), cycle_length=4)
        .map(lambda x: x + 1, num_parallel_calls=16)
        .cache()
        .shuffle(40, seed=1)
        .padded_batch(2)
        .prefetch(8)
        .repeat(2)
    )


def first_numbers(dataset: Any, memory: Any, delay_s: float = 0.0) -> tuple[list[float], int]:
    """The first number of each element, and the most that was on the ledger."""
    with dataset.run(memory=memory) as run:
        found = []
        for x in run:
            found.append(float(x.flat[0]))
            time.sleep(delay_s)
        return found, run.ledger.peak_bytes


def under_watch(build: Callable[[Any], Any], source: Any) -> dict[str, Any]:
    """The growth of this process while a slow consumer reads a pipeline."""
    warm_up()
    # The same pipeline on small elements: the results to expect, and all that is loaded once.
    expected, _ = first_numbers(build(functools.partial(source, size=1000)), "64MB")
    first_numbers(build(functools.partial(source, size=1000)), 200_000)
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        found, ledger_peak = first_numbers(build(source), BUDGET, delay_s=0.002)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "equal": found == expected}


def compressed(compression: str) -> dict[str, Any]:
    """The growth of this process while elements are saved compressed, and read again."""

    def through_files(count: int, size: int) -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            numbers = D.range(count).map(lambda n: np.random.default_rng(int(n)).integers(0, 99, size).astype(float))
            numbers.with_options(ps.Options(memory=BUDGET)).save(folder, compression)
            loaded = D.load(folder).shuffle(seed=1, reshuffle_each_iteration=False).prefetch(4)
            found, peak = first_numbers(loaded, BUDGET, delay_s=0.002)
            peaks.append(peak)
            return found

    peaks: list[int] = []
    warm_up()
    through_files(3, 1000)
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        found = through_files(30, LARGE)
    expected = sorted(float(np.random.default_rng(n).integers(0, 99, LARGE)[0]) for n in range(30))
    return {"growth": watch.peak_bytes - before, "ledger_peak": max(peaks), "equal": sorted(found) == expected}


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def survives_a_hard_limit() -> dict[str, Any]:
    """4 GB pass through a process that may have no more than 128 MB of addresses beyond what it has as it begins."""
    warm_up()
    first_numbers(generated(99, 9000).shuffle(50, seed=1), 1 * MB)  # loads what writes to disk
    count = 1000

    def pipeline(source: Any) -> Any:
        return source.map(lambda x: x + 1).shuffle(50, seed=1).batch(2).prefetch(2)

    size = status_bytes("VmSize") + 128 * MB
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    total = 0.0
    with pipeline(generated(count)).run(memory=BUDGET) as run:
        for batch in run:
            total += float(batch[:, 0].sum())
    return {"equal": total == sum(range(1, count + 1)), "nbytes": count * LARGE * 8}


def soaked() -> dict[str, Any]:
    """What this process occupies after each of 50 epochs, some of them left early."""
    data = generated(60, 2000).map(lambda x: x * 2).cache()
    dataset = data.random_map(lambda x, g: x + g.integers(9), seed=1).filter(lambda x: True).shuffle(30).batch(4)
    sizes = []
    for epoch in range(50):
        with dataset.prefetch(2).run(memory=450_000) as run:
            for i, _ in enumerate(run):
                if epoch % 3 == 2 and i == 7:
                    break
            spilled = sum(stage["spilled_bytes"] for stage in run.stats()["stages"])
        sizes.append(settled())
    return {"sizes": sizes, "spilled": spilled}


PIPELINES = (
    prefetched,
    parallel,
    interleaved,
    interleaved_in_threads,
    shuffled,
    cached,
    padded,
    windowed,
    all_together,
)
PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    **{
        f"{build.__name__} {source.__name__}": functools.partial(under_watch, build, source)
        for build in PIPELINES
        for source in (generated, mapped)
    },
    **{f"compressed {name}": functools.partial(compressed, name) for name in ("GZIP", "SNAPPY")},
    "survives_a_hard_limit": survives_a_hard_limit,
    "soaked": soaked,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
