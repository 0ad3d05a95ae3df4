"""TFRecord files: those of TensorFlow are read here, and those written here are read by TensorFlow."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from penstock._native import scan_records

RNG = np.random.default_rng(0)
RECORDS = [
    b"",
    b"one",
    b"\x00" * 17,
    *[RNG.integers(0, 256, size, dtype=np.uint8).tobytes() for size in (1, 100, 3071, 3072, 3073, 70_000)],
    bytes(10_000_000),
    b"last",
]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("level", [None, 0, 9])
def test_tensorflow_reads_what_is_written_here(tmp_path: Path, compression: str | None, level: int | None) -> None:
    path = tmp_path / "data"
    with ps.io.TFRecordWriter(path, ps.io.TFRecordOptions(compression, level)) as writer:
        for record in RECORDS:
            writer.write(record)
    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path), compression or "")] == RECORDS


@pytest.mark.parametrize("options", [tf.io.TFRecordOptions(), tf.io.TFRecordOptions("GZIP", compression_level=1)])
def test_options_of_tensorflow_are_taken(tmp_path: Path, options: tf.io.TFRecordOptions) -> None:
    path = tmp_path / "data"
    with ps.io.TFRecordWriter(path, options) as writer:
        writer.write(b"one")
    assert list(ps.TFRecordDataset(path, options.compression_type)) == [b"one"]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_what_tensorflow_writes_is_found_here(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "data"
    with tf.io.TFRecordWriter(str(path), compression or "") as writer:
        for record in RECORDS:
            writer.write(record)
    data = path.read_bytes()
    data = {"GZIP": gzip.decompress, "ZLIB": zlib.decompress}.get(compression or "", bytes)(data)
    offsets, lengths = np.empty(100, np.int64), np.empty(100, np.int64)
    count, offset, stop, _, _ = scan_records(data, 0, True, True, offsets, lengths)
    assert (count, offset, stop) == (len(RECORDS), len(data), 0)
    assert [data[at : at + size] for at, size in zip(offsets[:count], lengths[:count], strict=True)] == RECORDS


def test_a_block_of_examples_is_a_file_that_tensorflow_parses(tmp_path: Path) -> None:
    x, n = RNG.random((300, 4)).astype(np.float32), RNG.integers(-(2**62), 2**62, 300)
    words = ps.Ragged(np.array([b"a", b"bb", b"ccc"] * 100, dtype=object), np.sort(RNG.integers(0, 301, 301)))
    words.row_splits[[0, -1]] = 0, 300
    data, lengths = ps.io.encode_examples({"x": x, "n": n, "words": words}, framed=True)
    (tmp_path / "data").write_bytes(data)
    assert lengths.sum() + 16 * 300 == len(data)
    features = {
        "x": tf.io.FixedLenFeature([4], tf.float32),
        "n": tf.io.FixedLenFeature([], tf.int64),
        "words": tf.io.RaggedFeature(tf.string),
    }
    batch = next(iter(tf.data.TFRecordDataset(str(tmp_path / "data")).batch(300)))
    parsed = tf.io.parse_example(batch, features)
    assert np.array_equal(parsed["x"], x)
    assert np.array_equal(parsed["n"], n)
    assert parsed["words"].to_list() == words.to_list()
    ours = ps.io.parse_example(batch.numpy(), features)
    assert np.array_equal(ours["x"], x)
    assert ours["words"].to_list() == words.to_list()
