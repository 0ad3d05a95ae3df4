"""How fast do TFRecord files become batches, and batches TFRecord files?

Examples have 16 floats and 2 ints. Parsing is written as users write it, a function of one record; tf.data also gets
`parse_example` on batches, by hand. A row of the writing workload is an Example that was encoded and written.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Family, Target, Workload

EXAMPLES, NUM_FLOATS, BATCH, WINDOW = 500_000, 16, 256, 10_000
WRITTEN_BY_TF, PARSED_BY_TF = 20_000, 100_000  # it would take half a minute for all
RECORDS, RECORD_BYTES = 100_000, 3_000
WRITTEN = 500_000


def folder() -> str:
    made = tempfile.mkdtemp(prefix="bench_tfrecord_")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def columns_of(rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.random((rows, NUM_FLOATS), dtype=np.float32),
        "a": generator.integers(0, 1000, rows),
        "b": generator.integers(0, 1 << 40, rows),
    }


def make_examples(rows: int) -> str:
    import penstock as ps

    path = os.path.join(folder(), "examples.tfrecord")
    with ps.io.TFRecordWriter(path) as writer:
        writer.write_framed(ps.io.encode_examples(columns_of(rows), framed=True)[0])
    return path


def make_records(rows: int) -> str:
    import penstock as ps

    path = os.path.join(folder(), "records.tfrecord")
    generator = np.random.default_rng(0)
    with ps.io.TFRecordWriter(path) as writer:
        for _ in range(rows):
            writer.write(generator.bytes(RECORD_BYTES))
    return path


def floats_of(batches: Iterable[Any]) -> Iterator[Batch]:
    """The floats of each batch: the features are there if those are."""
    for batch in batches:
        yield batch["x"]


# --- parsing ---


def parsing(memory: str | None = None, shuffled: bool = False, by_hand: bool = False) -> Callable[[str], Epoch]:
    """penstock, as users write it, or on batches."""

    def build(path: str) -> Epoch:
        import penstock as ps

        feature = ps.io.FixedLenFeature
        spec = {"x": feature([NUM_FLOATS], "float32"), "a": feature([], "int64"), "b": feature([], "int64")}
        dataset: Any = ps.TFRecordDataset(path)
        if by_hand:
            dataset = dataset.batch(BATCH).map(lambda records: ps.io.parse_example(records, spec))
        else:
            dataset = dataset.map(lambda record: ps.io.parse_single_example(record, spec))
            dataset = (dataset.shuffle(WINDOW) if shuffled else dataset).batch(BATCH)
        return lambda: floats_of(dataset.run(memory=memory))

    return build


def tf_parsing(shuffled: bool = False, by_hand: bool = False, parallel: bool = False) -> Callable[[str], Epoch]:
    def build(path: str) -> Epoch:
        import tensorflow as tf

        feature = tf.io.FixedLenFeature
        spec = {"x": feature([NUM_FLOATS], tf.float32), "a": feature([], tf.int64), "b": feature([], tf.int64)}
        calls = tf.data.AUTOTUNE if parallel else None
        dataset = tf.data.TFRecordDataset(path)
        if by_hand:
            dataset = dataset.shuffle(WINDOW) if shuffled else dataset
            dataset = dataset.batch(BATCH).map(lambda r: tf.io.parse_example(r, spec), num_parallel_calls=calls)
        else:
            dataset = dataset.map(lambda r: tf.io.parse_single_example(r, spec), num_parallel_calls=calls)
            dataset = (dataset.shuffle(WINDOW) if shuffled else dataset).batch(BATCH)
        return lambda: floats_of(dataset.as_numpy_iterator())

    return build


# --- reading ---


def count_records(records: Iterable[Any]) -> int:
    """Read one byte of each record."""
    rows = 0
    for batch in records:
        for record in batch:
            record[0]
        rows += len(batch)
    return rows


def build_reading(path: str) -> Epoch:
    import penstock as ps

    dataset = ps.TFRecordDataset(path).batch(BATCH)
    return lambda: iter(dataset)


def build_tf_reading(path: str) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.TFRecordDataset(path).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


# --- writing ---


def make_columns(rows: int) -> tuple[dict[str, Any], str]:
    return columns_of(rows), folder()


def written(write: Callable[[dict[str, Any], str], None]) -> Callable[[tuple[dict[str, Any], str]], Epoch]:
    """An epoch is a file; what it gives are the floats that went into it."""

    def build(data: tuple[dict[str, Any], str]) -> Epoch:
        columns, path = data

        def epoch() -> Iterator[Batch]:
            write(columns, os.path.join(path, "written.tfrecord"))
            yield columns["x"]

        return epoch

    return build


def write_penstock(columns: dict[str, Any], path: str) -> None:
    import penstock as ps

    ps.Dataset.from_tensor_slices(columns).to_tfrecord(path)


def write_penstock_one_by_one(columns: dict[str, Any], path: str) -> None:
    import penstock as ps

    with ps.io.TFRecordWriter(path) as writer:
        for x, a, b in zip(columns["x"], columns["a"], columns["b"], strict=True):
            writer.write(ps.io.encode_example({"x": x, "a": a, "b": b}))


def write_tensorflow(columns: dict[str, Any], path: str) -> None:
    import tensorflow as tf

    train = tf.train
    with tf.io.TFRecordWriter(path) as writer:
        for x, a, b in zip(columns["x"], columns["a"], columns["b"], strict=True):
            feature = {
                "x": train.Feature(float_list=train.FloatList(value=x)),
                "a": train.Feature(int64_list=train.Int64List(value=[a])),
                "b": train.Feature(int64_list=train.Int64List(value=[b])),
            }
            writer.write(train.Example(features=train.Features(feature=feature)).SerializeToString())


OURS, THEIRS = ("penstock", "penstock.readers"), ("penstock", "tensorflow")
TF_DATA: Family = "tf.data"
WORKLOADS = (
    Workload(
        "tfrecord",
        "500k Examples of 16 floats and 2 ints in a TFRecord file, parsed one by one, batch 256",
        (
            Contender("penstock", "penstock", parsing(), OURS),
            Contender("penstock, 8 MB", "penstock", parsing("8MB"), OURS),
            Contender("penstock, parse_example by hand", "penstock", parsing(by_hand=True), OURS),
            Contender("tf.data", TF_DATA, tf_parsing(), THEIRS, rows=PARSED_BY_TF),
            Contender("tf.data, AUTOTUNE", TF_DATA, tf_parsing(parallel=True), THEIRS, rows=PARSED_BY_TF),
            Contender("tf.data, parse_example by hand", TF_DATA, tf_parsing(by_hand=True), THEIRS),
            Contender(
                "tf.data, parse_example by hand, AUTOTUNE", TF_DATA, tf_parsing(by_hand=True, parallel=True), THEIRS
            ),
        ),
        (
            Target("penstock", 30, over="tf.data"),
            Target("penstock", 4, over="tf.data, parse_example by hand"),
        ),
        make_data=make_examples,
        rows=EXAMPLES,
        quick_rows=EXAMPLES // 5,
        batch=((BATCH, NUM_FLOATS), "float32"),
    ),
    Workload(
        "tfrecord_shuffled",
        "the same with shuffle(10,000) between parsing and batch",
        (
            Contender("penstock", "penstock", parsing(shuffled=True), OURS),
            Contender("tf.data", TF_DATA, tf_parsing(shuffled=True), THEIRS, rows=PARSED_BY_TF),
            Contender("tf.data, parse_example by hand", TF_DATA, tf_parsing(shuffled=True, by_hand=True), THEIRS),
        ),
        (
            Target("penstock", 30, over="tf.data"),
            Target("penstock", 4, over="tf.data, parse_example by hand"),
        ),
        make_data=make_examples,
        rows=EXAMPLES,
        quick_rows=EXAMPLES // 5,
        batch=((BATCH, NUM_FLOATS), "float32"),
    ),
    Workload(
        "tfrecord_read",
        "100k records of 3 kB, not parsed, batch 256",
        (
            Contender("penstock", "penstock", build_reading, OURS),
            Contender("tf.data", TF_DATA, build_tf_reading, THEIRS),
        ),
        (Target("penstock", 2, over="tf.data"),),
        make_data=make_records,
        rows=RECORDS,
        quick_rows=RECORDS // 5,
        batch=((BATCH,), "object"),
        consume=count_records,
    ),
    Workload(
        "tfrecord_write",
        "500k such Examples from arrays into a TFRecord file",
        (
            Contender("penstock", "penstock", written(write_penstock), OURS),
            Contender("penstock, one by one", "penstock", written(write_penstock_one_by_one), OURS),
            Contender("TensorFlow", TF_DATA, written(write_tensorflow), THEIRS, rows=WRITTEN_BY_TF),
        ),
        (Target("penstock", 10, over="TensorFlow"),),
        make_data=make_columns,
        rows=WRITTEN,
        quick_rows=WRITTEN // 5,
    ),
)
