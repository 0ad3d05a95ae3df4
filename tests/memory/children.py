"""Programs that run in a process of their own, where what they occupy is theirs alone. Each prints one line of JSON.

python children.py <name>: see PROGRAMS at the end.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory, resident_bytes

D = ps.Dataset
MB = 1_000_000


def settled() -> int:
    gc.collect()
    return resident_bytes()


def warm_up() -> None:
    """Runs a small pipeline, so that what is loaded or allocated once for all is there before the watch begins."""
    for dataset in (D.range(2000).map(lambda x: x + 1).batch(16).prefetch(2), D.range(2000).shuffle(seed=1).batch(16)):
        for _ in dataset:
            pass


def watched(dataset: Any, memory: str = "64MB", most: int = 1_000_000) -> dict[str, Any]:
    """Consumes a dataset, each batch dropped before the next, under watch."""
    warm_up()
    before = settled()
    count = batch_bytes = 0
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory=memory) as run:
        for batch in run:
            count += len(batch)
            batch_bytes = max(batch_bytes, batch.nbytes)
            watch._look()  # at every step as well as in between: a short peak must not be missed
            if count >= most:
                break
        peak = run.ledger.peak_bytes
    del batch, run
    return {
        "growth": watch.peak_bytes - before,
        "left": settled() - before,
        "batch": batch_bytes,
        "count": count,
        "ledger_peak": peak,
    }


def table() -> np.ndarray:
    """100k × 500 float64, 400 MB, every page of it touched."""
    data = np.empty((100_000, 500))
    data[:] = 1.0
    return data


def in_order() -> dict[str, Any]:
    return watched(D.from_tensor_slices(table()).batch(1000))


def shuffled() -> dict[str, Any]:
    return watched(D.from_tensor_slices(table()).shuffle(seed=1).batch(1000))


def window_shuffled() -> dict[str, Any]:
    return watched(D.from_tensor_slices(table()).shuffle(10_000, seed=1).batch(1000).prefetch(1))


def images() -> np.ndarray:
    """50k × 3,072 uint8, 154 MB."""
    data = np.empty((50_000, 3072), np.uint8)
    data[:] = 1
    return data


def mapped() -> dict[str, Any]:
    dataset = D.from_tensor_slices(images()).shuffle(seed=1).map(lambda x: x.astype(np.float32) / 255).batch(256)
    return watched(dataset)


def mapped_above_the_shuffle() -> dict[str, Any]:
    """As written, the buffer would hold 10,000 float images, 123 MB."""
    dataset = (
        D.from_tensor_slices(images()).map(lambda x: x.astype(np.float32) / 255).shuffle(10_000, seed=1).batch(256)
    )
    return watched(dataset, most=20_000)


def vectorized() -> dict[str, Any]:
    dataset = D.from_tensor_slices(images()).shuffle(seed=1)
    return watched(dataset.map(lambda x: x.astype(np.float32) / 255, vectorized=True).batch(256))


def huge_range() -> dict[str, Any]:
    return watched(D.range(10**9).shuffle(seed=1).batch(32), most=32)


def parallel_within_budget() -> dict[str, Any]:
    """Elements of 1 MB, eight calls at once, ten ready: more than the budget allows."""
    dataset = D.range(200).map(lambda x: np.ones((1, 125_000)), num_parallel_calls=8).prefetch(10)
    return watched(dataset, memory="12MB")


def epochs() -> dict[str, Any]:
    """Growth from epoch to epoch of a pipeline with every kind of buffer."""
    data = np.ones((4000, 250), np.float32)
    dataset = (
        D.from_tensor_slices((data, np.arange(4000)))
        .map(lambda x, i: (x * 2, i), num_parallel_calls=2)
        .shuffle(500)
        .filter(lambda x, i: i % 3 != 0)
        .shuffle(100)
        .batch(64)
        .prefetch(2)
    )
    sizes = []
    for _ in range(20):
        for _ in dataset.run(memory="32MB"):
            pass
        sizes.append(settled())
    return {"sizes": sizes}


def cached_on_disk() -> dict[str, Any]:
    """Three epochs of 200 elements of 4 MB, made once: 800 MB under a budget of 64 MB."""
    calls = []

    def make(x: Any) -> np.ndarray:
        calls.append(x)
        return np.full((1, 500_000), x, np.float64)

    dataset = D.range(200).map(make).cache()
    warm_up()
    list(D.range(9).map(lambda x: np.full(10_000, x)).cache().run(memory=400_000))  # loads pyarrow
    before = settled()
    found, peaks = [], []
    with PeakMemory(period_s=0.001) as watch:
        for _ in range(3):
            with dataset.run(memory="64MB") as run:
                found.append([float(x[0, -1]) for x in run])
                peaks.append(run.ledger.peak_bytes)
    equal = found == [[float(i) for i in range(200)]] * 3
    return {"growth": watch.peak_bytes - before, "peaks": peaks, "equal": equal, "calls": len(calls)}


def shuffled_on_disk(count: int, nbytes: int, size: int | None, prefetch: int) -> dict[str, Any]:
    """A stream that is shuffled with a buffer much larger than the budget, for a consumer that takes its time."""

    def elements() -> Iterator[np.ndarray]:
        for i in range(count):
            yield np.full(nbytes // 8, i)

    def shuffled(dataset: Any) -> Any:
        return dataset.shuffle(size, seed=1)

    warm_up()
    list(shuffled(D.range(99).filter(lambda x: True).map(lambda x: np.full(9000, x), stateful=True)).run(memory="1MB"))
    before = settled()
    dataset = shuffled(D.from_generator(elements))
    found = []
    with PeakMemory(period_s=0.001) as watch, (dataset.prefetch(prefetch) if prefetch else dataset).run("64MB") as run:
        for i, x in enumerate(run):
            found.append(int(x[-1]))
            if i % (count // 100) == 0:
                time.sleep(0.002)
        peak = run.ledger.peak_bytes
        spilled = run._stages.spill.peak_bytes
    del run, x
    equal = found == [int(x) for x in shuffled(D.range(count))]
    growth, left = watch.peak_bytes - before, settled() - before
    return {"growth": growth, "left": left, "ledger_peak": peak, "equal": equal, "spilled": spilled}


def large_shuffled_on_disk() -> dict[str, Any]:
    return shuffled_on_disk(400, 4 * MB, 200, prefetch=0)


def large_shuffled_on_disk_ahead() -> dict[str, Any]:
    return shuffled_on_disk(400, 4 * MB, 200, prefetch=2)


def small_shuffled_on_disk() -> dict[str, Any]:
    return shuffled_on_disk(120_000, 1000, 100_000, prefetch=0)


def all_shuffled_on_disk() -> dict[str, Any]:
    return shuffled_on_disk(100_000, 1000, None, prefetch=0)


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    program.__name__: program
    for program in (
        in_order,
        shuffled,
        window_shuffled,
        mapped,
        mapped_above_the_shuffle,
        vectorized,
        huge_range,
        parallel_within_budget,
        cached_on_disk,
        large_shuffled_on_disk,
        large_shuffled_on_disk_ahead,
        small_shuffled_on_disk,
        all_shuffled_on_disk,
        epochs,
    )
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
