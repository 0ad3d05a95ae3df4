"""Pipelines drawn at random, with elements of kilobytes and megabytes, each in a process of its own.

python random_pipelines.py FIRST COUNT: draws pipeline number FIRST and the following, forks for each, and prints a line
of JSON for each: what it was, its budget, and by how much the process grew.
"""

import gc
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # the first spill would load it, 6 MB

import penstock as ps
from penstock.element import nbytes_of
from penstock.observe.process import PeakMemory, resident_bytes

D = ps.Dataset
MB = 1_000_000
TOTAL_BYTES = 240 * MB
MOST_ELEMENTS = 800
DEADLINE_S = 30.0
FOLDER = ""  # for files


# --- elements -------------------------------------------------------------------------------------------------------


def sizes_of(kind: str, rng: random.Random) -> list[int]:
    """Bytes of elements, 240 MB of them or 800."""

    def lognormal(median: int) -> int:
        return max(16, min(3 * MB, int(median * rng.lognormvariate(0, 1))))

    draw: dict[str, Callable[[], int]] = {
        "50 kB": lambda: 50_000,
        "600 kB": lambda: 600_000,
        "2 MB": lambda: 2 * MB,
        "around 100 kB": lambda: lognormal(100_000),
        "around 500 kB": lambda: lognormal(500_000),
        "one in 40 large": lambda: 3 * MB if rng.random() < 0.025 else 40_000,
    }
    sizes: list[int] = []
    while sum(sizes) < TOTAL_BYTES and len(sizes) < MOST_ELEMENTS:
        sizes.append(draw[kind]())
    return sizes


SIZES = ("50 kB", "600 kB", "2 MB", "around 100 kB", "around 500 kB", "one in 40 large")


def array(size: int, i: int) -> np.ndarray:
    return np.full(max(1, size // 4), i, np.float32)


def text(size: int, i: int) -> bytes:
    return bytes([65 + i % 26]) * size


ELEMENTS: dict[str, Callable[[int, int], Any]] = {
    "array": array,
    "bytes": text,
    "pair": lambda size, i: (array(size, i), np.int64(i)),
    "dict": lambda size, i: {"x": array(size // 2, i), "raw": text(size // 2, i), "id": np.int64(i)},
    "list of strings": lambda size, i: np.array([b"%d" % i * 40] * max(1, size // 200), object),
}


def from_generator(sizes: list[int], element: Callable[[int, int], Any]) -> Any:
    def elements() -> Iterator[Any]:
        for i, size in enumerate(sizes):
            yield element(size, i)

    return D.from_generator(elements)


def from_map(sizes: list[int], element: Callable[[int, int], Any], calls: int | None = None) -> Any:
    return D.range(len(sizes)).map(lambda i: element(sizes[i], int(i)), num_parallel_calls=calls)


def from_inner(sizes: list[int], element: Callable[[int, int], Any], calls: int | None = None) -> Any:
    """Five elements from each of many datasets, read by turns."""

    def inner(k: Any) -> Any:
        return D.range(5 * k, min(len(sizes), 5 * k + 5)).map(lambda i: element(sizes[i], int(i)))

    return D.range(-(-len(sizes) // 5)).interleave(inner, cycle_length=4, num_parallel_calls=calls)


def from_slices(sizes: list[int], element: Callable[[int, int], Any]) -> Any:
    """Datasets of arrays that functions made."""

    def inner(i: Any) -> Any:
        return D.from_tensors(element(sizes[i], int(i)))

    return D.range(len(sizes)).flat_map(inner)


def from_records(sizes: list[int], element: Callable[[int, int], Any]) -> Any:
    """Byte strings of those sizes in a file, of which the elements are made."""
    path = Path(tempfile.mkdtemp(dir=FOLDER), "records")
    from_map(sizes, text).to_tfrecord(str(path))
    records = ps.TFRecordDataset(str(path))
    return records if element is text else records.map(lambda record: element(len(record), record[0]))


SOURCES: dict[str, Callable[[list[int], Callable[[int, int], Any]], Any]] = {
    "generator": from_generator,
    "map": from_map,
    "parallel map": lambda sizes, element: from_map(sizes, element, 4),
    "interleave": from_inner,
    "parallel interleave": lambda sizes, element: from_inner(sizes, element, 4),
    "flat_map of from_tensors": from_slices,
    "TFRecord": from_records,
}


# --- steps ----------------------------------------------------------------------------------------------------------


def anew(element: Any) -> Any:
    """The same in other memory; nothing besides is made on the way."""
    if isinstance(element, np.ndarray):
        return element.copy()
    if isinstance(element, bytes):
        return bytes(bytearray(element)) if len(element) < 1000 else element[1:]
    if isinstance(element, tuple):
        return tuple(map(anew, element))
    return {key: anew(value) for key, value in element.items()} if isinstance(element, dict) else element


def unpacked(*element: Any) -> Any:
    return anew(element[0] if len(element) == 1 else element)


STEPS: dict[str, Callable[[Any], Any]] = {
    "map": lambda d: d.map(unpacked),
    "parallel map": lambda d: d.map(unpacked, num_parallel_calls=8),
    "unordered": lambda d: d.map(unpacked, num_parallel_calls=ps.AUTOTUNE, deterministic=False),
    "filter": lambda d: d.filter(lambda *element: True),
    "shuffle": lambda d: d.shuffle(200, seed=1),
    "shuffle all": lambda d: d.shuffle(10**6, seed=2),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(20),
    "prefetch some": lambda d: d.prefetch(ps.AUTOTUNE),
    "ragged_batch": lambda d: d.ragged_batch(4),
    "repeat": lambda d: d.repeat(2).take(600),
    "concatenate": lambda d: d.concatenate(d.take(20)),
    "sample": lambda d: D.sample_from_datasets([d, d], seed=4).take(300),
    "ignore_errors": lambda d: d.ignore_errors(),
    "enumerate": lambda d: d.enumerate().map(lambda i, element: element),
    "shard": lambda d: d.shard(3, 1),
    "skip": lambda d: d.skip(7),
    "flat_map": lambda d: d.flat_map(lambda *element: D.from_tensors(unpacked(*element)).repeat(2)),
}


# --- one pipeline ---------------------------------------------------------------------------------------------------


def draw(number: int) -> tuple[dict[str, Any], Any]:
    """What pipeline this number is, and the pipeline."""
    rng = random.Random(number)
    kind, source, sizes = rng.choice(list(ELEMENTS)), rng.choice(list(SOURCES)), rng.choice(SIZES)
    steps = rng.choices(list(STEPS), k=rng.randint(1, 4))
    about = {"number": number, "element": kind, "sizes": sizes, "source": source, "steps": steps}
    about["budget"] = rng.choice([32, 64, 64, 128])
    about["consumer"] = rng.choice(["fast", "slow", "stops"])
    dataset = SOURCES[source](sizes_of(sizes, rng), ELEMENTS[kind])
    for step in steps:
        dataset = STEPS[step](dataset)
    return about, dataset


def consume(run: Any, consumer: str, started: float) -> int:
    """Takes what comes, or some of it; bytes of the largest element."""
    largest = 0
    for count, element in enumerate(run, 1):
        largest = max(largest, nbytes_of(element))
        del element  # or it would still be held while the next one is made
        if consumer == "slow":
            time.sleep(0.001)
        if time.monotonic() - started > DEADLINE_S or (consumer == "stops" and count == 60):
            break
    return largest


def grown(about: dict[str, Any], dataset: Any) -> dict[str, Any]:
    """Two epochs of it, and by how much the process has grown meanwhile."""
    memory = about["budget"] * MB
    started = time.monotonic()
    gc.collect()
    before = resident_bytes()
    largest, peak = 0, 0
    with PeakMemory(period_s=0.002) as watch:
        for _ in range(2):
            with dataset.run(memory=memory) as run:
                largest = max(largest, consume(run, about["consumer"], started))
                peak = max(peak, run.ledger.peak_bytes)
    del run
    gc.collect()
    return {
        "growth": watch.peak_bytes - before,
        "ledger_peak": peak,
        "largest": largest,
        "left": resident_bytes() - before,
        "seconds": round(time.monotonic() - started, 2),
    }


def warm_up() -> None:
    """What is loaded or made once for all is there before the watch begins."""
    for dataset in (D.range(2000).map(lambda x: x + 1, num_parallel_calls=2).batch(16).prefetch(2), D.range(9).cache()):
        for _ in dataset.run(memory="64MB"):
            pass
    pa.array([b"x"])


def in_child(number: int) -> dict[str, Any]:
    """The same process for all would begin with what earlier ones left; one started anew takes longer than most run."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        about: dict[str, Any] = {"number": number}
        try:
            about, dataset = draw(number)
            warm_up()
            about.update(grown(about, dataset))
        except BaseException as error:  # told to who has forked
            about["error"] = "".join(traceback.format_exception(error)[-3:])
        os.write(writing, json.dumps(about).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else {"number": number, "error": "the process died"}


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as FOLDER:
        for number in range(first, first + count):
            print(json.dumps(in_child(number)), flush=True)
