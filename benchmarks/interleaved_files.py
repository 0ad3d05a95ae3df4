"""What do threads cost, or gain, where files are read in turn? `python -m benchmarks.interleaved_files`

Eight TFRecord files of 4,000 small records through `interleave(TFRecordDataset, cycle_length=4, num_parallel_calls=…)`:
one by one, in batches, with a function, and shuffled. In milliseconds for all records, the quickest of some passes,
here and in tf.data. Records that lie in the page cache are read in microseconds: there is nothing for threads to gain.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import penstock as ps

NUM_FILES, NUM_RECORDS, RECORD_BYTES, BATCH, PASSES = 8, 4_000, 200, 64, 3
CALLS = {"none": None, "4": 4, "AUTOTUNE": -1}  # as both libraries write it

PIPELINES: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "one by one": lambda records, length: records,
    "batch": lambda records, length: records.batch(BATCH),
    "map, batch": lambda records, length: records.map(length).batch(BATCH),
    "shuffle, batch, prefetch": lambda records, length: records.shuffle(1000).batch(BATCH).prefetch(2),
}


def write_files(folder: str) -> list[str]:
    paths = [os.path.join(folder, f"{i}.tfrecord") for i in range(NUM_FILES)]
    for path in paths:
        with ps.io.TFRecordWriter(path) as writer:
            for _ in range(NUM_RECORDS):
                writer.write(bytes(RECORD_BYTES))
    return paths


def quickest_ms(elements: Callable[[], Iterable[Any]]) -> float:
    best = float("inf")
    for _ in range(PASSES):
        start = time.perf_counter()
        for _element in elements():
            pass
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(folder)
        for calls, number in CALLS.items():
            how = {"cycle_length": 4, "num_parallel_calls": number}
            ours = ps.Dataset.from_tensor_slices(paths).interleave(ps.TFRecordDataset, **how)
            theirs = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, **how)
            for name, pipeline in PIPELINES.items():
                here = quickest_ms(lambda pipeline=pipeline, ours=ours: pipeline(ours, len))
                there = quickest_ms(pipeline(theirs, tf.strings.length).as_numpy_iterator)
                print(f"num_parallel_calls {calls:8} {name:24}: {here:8.0f} ms, tf.data {there:8.0f}", flush=True)


if __name__ == "__main__":
    main()
