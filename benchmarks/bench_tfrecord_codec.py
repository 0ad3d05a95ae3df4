"""What do Examples cost: parsed in blocks and one by one, and written to a file?

Records have 16 floats and 2 ints, and are in memory as a list of bytes. Reading files is another question.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

RECORDS, BLOCK = 500_000, 1024
WRITTEN = 50_000


def make_values(records: int) -> tuple[Batch, Batch]:
    generator = np.random.default_rng(0)
    return generator.random((records, 16), np.float32), generator.integers(0, 1000, (records, 2))


def make_records(records: int) -> list[bytes]:
    from penstock.io import encode_example

    x, y = make_values(records)
    return [encode_example({"x": x[i], "y": y[i]}) for i in range(records)]


def features(io: Any) -> dict[str, Any]:
    return {"x": io.FixedLenFeature([16], np.float32), "y": io.FixedLenFeature([2], np.int64)}


def blocks_of(records: list[bytes]) -> Iterator[list[bytes]]:
    return (records[start : start + BLOCK] for start in range(0, len(records), BLOCK))


# --- parsing ---


def build_penstock_blocks(records: list[bytes]) -> Epoch:
    import penstock as ps

    parser = ps.io.ExampleParser(features(ps.io))
    return lambda: (parser.parse_block(block)["x"] for block in blocks_of(records))


def build_tensorflow_blocks(records: list[bytes]) -> Epoch:
    import tensorflow as tf

    asked = features(tf.io)
    return lambda: (tf.io.parse_example(block, asked)["x"].numpy() for block in blocks_of(records))


def build_tensorflow_blocks_of_tensors(records: list[bytes]) -> Epoch:
    """Without the time that TensorFlow takes to make a tensor of bytes."""
    import tensorflow as tf

    asked = features(tf.io)
    tensors = [tf.constant(block) for block in blocks_of(records)]
    return lambda: (tf.io.parse_example(block, asked)["x"].numpy() for block in tensors)


def build_penstock_one_by_one(records: list[bytes]) -> Epoch:
    import penstock as ps

    asked = features(ps.io)
    return lambda: (
        np.stack([ps.io.parse_single_example(record, asked)["x"] for record in block]) for block in blocks_of(records)
    )


# --- writing ---


def written(write: Any) -> Epoch:
    """An epoch that writes a file and then delivers its size as so many rows."""

    def epoch() -> Iterable[Batch]:
        with tempfile.TemporaryDirectory() as folder:
            count = write(str(Path(folder, "data.tfrecord")))
        yield np.zeros((count, 1))

    return epoch


def build_penstock_writer(values: tuple[Batch, Batch]) -> Epoch:
    import penstock as ps

    def write(path: str) -> int:
        with ps.io.TFRecordWriter(path) as writer:
            for x, y in zip(*values, strict=True):
                writer.write(ps.io.encode_example({"x": x, "y": y}))
        return len(values[0])

    return written(write)


def build_penstock_block_writer(values: tuple[Batch, Batch]) -> Epoch:
    import penstock as ps

    def write(path: str) -> int:
        with ps.io.TFRecordWriter(path) as writer:
            for start in range(0, len(values[0]), BLOCK):
                block = {"x": values[0][start : start + BLOCK], "y": values[1][start : start + BLOCK]}
                writer.write_framed(ps.io.encode_examples(block, framed=True)[0])
        return len(values[0])

    return written(write)


def build_tensorflow_writer(values: tuple[Batch, Batch]) -> Epoch:
    import tensorflow as tf

    def feature(x: Batch, y: Batch) -> Any:
        return {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=y)),
        }

    def write(path: str) -> int:
        with tf.io.TFRecordWriter(path) as writer:
            for x, y in zip(*values, strict=True):
                example = tf.train.Example(features=tf.train.Features(feature=feature(x, y)))
                writer.write(example.SerializeToString())
        return len(values[0])

    return written(write)


WORKLOADS = (
    Workload(
        "example-parse",
        "500k Examples of 16 floats and 2 ints, in blocks of 1,024",
        (
            Contender("penstock", "penstock", build_penstock_blocks, ("penstock",)),
            Contender("tf.io.parse_example", "tf.data", build_tensorflow_blocks, ("tensorflow",)),
            Contender("tf.io, of tensors", "tf.data", build_tensorflow_blocks_of_tensors, ("tensorflow",)),
            Contender("penstock, one by one", "penstock", build_penstock_one_by_one, ("penstock",), rows=100_000),
        ),
        (Target("penstock", 4.0, over="tf.io, of tensors"),),
        make_data=make_records,
        rows=RECORDS,
        quick_rows=RECORDS // 5,
        batch=((BLOCK, 16), "float32"),
    ),
    Workload(
        "example-write",
        "50k Examples of 16 floats and 2 ints to a TFRecord file",
        (
            Contender("penstock", "penstock", build_penstock_writer, ("penstock",)),
            Contender("penstock, in blocks", "penstock", build_penstock_block_writer, ("penstock",)),
            Contender("tf.io.TFRecordWriter", "tf.data", build_tensorflow_writer, ("tensorflow",)),
        ),
        (Target("penstock", 10.0, over="tf.io.TFRecordWriter"),),
        make_data=make_values,
        rows=WRITTEN,
        quick_rows=WRITTEN // 5,
    ),
)
