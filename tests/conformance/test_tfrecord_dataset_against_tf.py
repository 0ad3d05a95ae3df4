"""TFRecord files in both directions: what TensorFlow writes penstock reads, and the other way round."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from tests.conformance.test_files_against_tf import until_error
from tests.unit.io.test_tfrecord import BAD, framed

GENERATOR = np.random.default_rng(0)
RECORDS = [GENERATOR.bytes(size) for size in (0, 1, 5, 300, 0, 70_000, 12, 16, 1_000_000, 3)]
COMPRESSIONS = [None, "", "GZIP", "ZLIB"]
TF_OPTIONS = {None: "", "": "", "GZIP": "GZIP", "ZLIB": "ZLIB"}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_files_of_either_are_read_by_the_other(tmp_path: Path, compression: str | None) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    with ps.io.TFRecordWriter(ours, ps.io.TFRecordOptions(compression)) as writer:
        for record in RECORDS:
            writer.write(record)
    with tf.io.TFRecordWriter(theirs, TF_OPTIONS[compression]) as writer:
        for record in RECORDS:
            writer.write(record)
    for path in (ours, theirs):
        assert list(ps.TFRecordDataset(path, compression)) == RECORDS
        assert list(tf.data.TFRecordDataset(path, compression).as_numpy_iterator()) == RECORDS
    both = [ours, theirs]
    found = ps.TFRecordDataset(both, compression, buffer_size=5)
    assert list(found) == list(tf.data.TFRecordDataset(both, compression, buffer_size=5).as_numpy_iterator())
    assert found.cardinality() == tf.data.TFRecordDataset(both).cardinality().numpy()


@pytest.mark.parametrize("num_parallel_reads", [None, 1, 2, 3, 7])
def test_files_are_read_in_turn_as_in_tf_data(tmp_path: Path, num_parallel_reads: int | None) -> None:
    files = []
    for i, size in enumerate([3, 0, 5, 1, 4]):
        files.append(str(tmp_path / f"{i}"))
        Path(files[-1]).write_bytes(framed(*[b"%d.%d" % (i, k) for k in range(size)]))
    theirs = tf.data.TFRecordDataset(files, num_parallel_reads=num_parallel_reads)
    assert until_error(ps.TFRecordDataset(files, num_parallel_reads=num_parallel_reads)) == until_error(theirs)
    names = ps.Dataset.from_tensor_slices([file.encode() for file in files])
    assert until_error(ps.TFRecordDataset(names, num_parallel_reads=num_parallel_reads)) == until_error(theirs)


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_read_as_far_as_in_tf_data(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "bad")
    Path(path).write_bytes(BAD[name][0])
    (ours, we_failed), (theirs, they_failed) = (
        until_error(ps.TFRecordDataset(path)),
        until_error(tf.data.TFRecordDataset(path)),
    )
    assert ours == theirs
    assert we_failed
    assert they_failed or name == "11 bytes more"  # which tf.data takes for the end


def as_numpy(element: Any) -> Any:
    return {name: np.asarray(value).tolist() for name, value in element.items()}


def test_parsing_as_users_write_it_gives_what_tf_data_gives(tmp_path: Path) -> None:
    path = str(tmp_path / "examples")
    train = tf.train
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(50):
            feature = {
                "x": train.Feature(float_list=train.FloatList(value=[i, i / 7])),
                "y": train.Feature(int64_list=train.Int64List(value=[i - 25])),
                "ünï": train.Feature(bytes_list=train.BytesList(value=[b"%d" % i * i])),
            }
            if i % 3:
                feature["z"] = train.Feature(int64_list=train.Int64List(value=[i] * 4))
            writer.write(train.Example(features=train.Features(feature=feature)).SerializeToString())

    def spec(library: Any, kinds: tuple[Any, Any, Any]) -> Any:
        number, whole, text = kinds
        feature = library.io.FixedLenFeature
        return {
            "x": feature([2], number),
            "y": feature([], whole),
            "z": feature([2, 2], whole, [[1, 2], [3, 4]]),
            "ünï": feature([], text),
        }

    ours_spec, theirs_spec = spec(ps, ("float32", "int64", bytes)), spec(tf, (tf.float32, tf.int64, tf.string))
    ours = ps.TFRecordDataset(path).map(lambda r: ps.io.parse_single_example(r, ours_spec)).batch(8)
    theirs = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, theirs_spec)).batch(8)
    assert any(step.rule == "parse_blocks" for step in ours.explain().steps)
    for a, b in zip(ours, theirs.as_numpy_iterator(), strict=True):
        assert as_numpy(a) == as_numpy(b)
        assert {name: value.dtype for name, value in a.items()} == {name: value.dtype for name, value in b.items()}


def test_what_to_tfrecord_writes_tensorflow_reads(tmp_path: Path) -> None:
    columns = {
        "x": GENERATOR.random((20, 3), np.float32),
        "i": np.arange(20),
        "s": np.array([b"s%d" % i for i in range(20)], object),
    }
    files = ps.Dataset.from_tensor_slices(columns).to_tfrecord(tmp_path / "out", 3, "GZIP")
    assert [os.path.basename(file) for file in files] == [f"out-0000{i}-of-00003" for i in range(3)]
    spec = {
        "x": tf.io.FixedLenFeature([3], tf.float32),
        "i": tf.io.FixedLenFeature([], tf.int64),
        "s": tf.io.FixedLenFeature([], tf.string),
    }
    records = tf.data.TFRecordDataset(files, "GZIP", num_parallel_reads=3)
    found = list(records.map(lambda r: tf.io.parse_single_example(r, spec)).batch(20).as_numpy_iterator())
    assert as_numpy(found[0]) == as_numpy(columns)


def test_lists_of_any_length_that_to_tfrecord_writes_tensorflow_reads(tmp_path: Path) -> None:
    rows = [{"n": list(range(i)), "x": [0.5] * i, "s": [b"a", b""][:i], "r": [7] * (3 - i)} for i in (2, 0, 3, 1)]
    records = ps.Dataset.from_tensor_slices([ps.io.encode_example(row) for row in rows])

    def spec(io: Any) -> dict[str, Any]:
        var = {"n": io.VarLenFeature(np.int64), "x": io.VarLenFeature(np.float32), "s": io.VarLenFeature(tf.string)}
        return {**var, "r": io.RaggedFeature(tf.int64)}

    ours = spec(ps.io)
    one_by_one = records.map(lambda record: ps.io.parse_single_example(record, ours))
    unbatched = records.batch(2).map(lambda batch: ps.io.parse_example(batch, ours)).unbatch()
    wanted = tf.io.parse_example([record.numpy() for record in map(tf.constant, records)], spec(tf.io))
    for number, parsed in enumerate((one_by_one, unbatched)):
        (file,) = parsed.to_tfrecord(tmp_path / str(number))
        again = ps.TFRecordDataset(file)
        found = tf.io.parse_example(list(again), spec(tf.io))
        for name in ("n", "x", "s"):
            for part in ("indices", "values", "dense_shape"):
                assert np.array_equal(getattr(found[name], part), getattr(wanted[name], part)), (number, name, part)
        assert found["r"].to_list() == wanted["r"].to_list()
        assert [
            (e["n"].values.tolist(), e["x"].values.tolist(), e["s"].values.tolist(), e["r"].tolist())
            for e in again.map(lambda record: ps.io.parse_single_example(record, ours))
        ] == [tuple(row.values()) for row in rows]
