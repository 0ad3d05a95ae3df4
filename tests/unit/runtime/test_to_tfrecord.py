"""to_tfrecord: what is written, where, and what an error leaves."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
COLUMNS = {"x": np.arange(4000, dtype=np.float32).reshape(1000, 4), "i": np.arange(1000)}
SPEC = {"x": ps.io.FixedLenFeature([4], "float32"), "i": ps.io.FixedLenFeature([], "int64")}


def numbers_in(files: list[str], compression: str | None = None) -> list[list[int]]:
    """The ints of the Examples, by file."""
    return [
        [int(ps.io.parse_single_example(record, SPEC)["i"]) for record in ps.TFRecordDataset(file, compression)]
        for file in files
    ]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("is_stacked", [True, False])
def test_elements_are_dealt_out_in_turn(
    tmp_path: Path, compression: str | None, num_shards: int, is_stacked: bool
) -> None:
    dataset = D.from_tensor_slices(COLUMNS)
    dataset = dataset if is_stacked else dataset.map(lambda element: element, stateful=True)
    files = dataset.to_tfrecord(tmp_path / "a", num_shards, compression)
    assert sorted(os.path.basename(file) for file in files) == sorted(os.listdir(tmp_path))
    assert numbers_in(files, compression) == [list(range(i, 1000, num_shards)) for i in range(num_shards)]


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    (first,) = D.from_tensor_slices(COLUMNS).to_tfrecord(tmp_path / "a")
    (second,) = ps.TFRecordDataset(first).to_tfrecord(str(tmp_path / "b"))
    assert Path(first).read_bytes() == Path(second).read_bytes()


def test_encode_makes_records_of_other_elements(tmp_path: Path) -> None:
    pairs = D.zip((D.range(5), D.range(10, 15)))
    (file,) = pairs.to_tfrecord(tmp_path / "a", encode=lambda a, b: b"%d,%d" % (a, b))
    assert list(ps.TFRecordDataset(file)) == [b"%d,%d" % (i, 10 + i) for i in range(5)]
    (file,) = D.range(3).to_tfrecord(tmp_path / "a", encode=lambda i: {"i": i, "x": np.zeros(4, np.float32)})
    assert numbers_in([file]) == [[0, 1, 2]]


def failing(element: Any) -> Any:
    if element == 700:
        raise RuntimeError("no")
    return b"%d" % element


@pytest.mark.parametrize("write, error", [
    (lambda path: D.range(1000).map(failing).to_tfrecord(path, 2), RuntimeError),
    (lambda path: D.range(1000).to_tfrecord(path, encode=failing), RuntimeError),
    (lambda path: D.range(3).to_tfrecord(path), ps.errors.BadType),
    (lambda path: D.range(3).to_tfrecord(path, encode=lambda i: 3), ps.errors.BadType),
    (lambda path: D.range(3).to_tfrecord(path, encode=3), ps.errors.BadType),
    (lambda path: D.range(3).to_tfrecord(3), ps.errors.BadType),
    (lambda path: D.range(3).to_tfrecord(path, 0), ps.errors.BadArgument),
    (lambda path: D.range(3).to_tfrecord(path, compression_type="SNAPPY"), ps.errors.BadArgument),
    (lambda path: D.range(3).repeat().to_tfrecord(path), ps.errors.BadArgument),
    (lambda path: D.range(3).to_tfrecord(path.parent / "no" / "a", encode=failing), ps.errors.SpillError),
])  # fmt: skip
def test_an_error_leaves_what_was_there(tmp_path: Path, write: Any, error: type[Exception]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error):
        write(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_large_elements_are_written_within_a_budget(tmp_path: Path) -> None:
    columns = {"x": np.zeros((400, 25_000), np.float32)}  # 40 MB, as views
    dataset = D.from_tensor_slices(columns).with_options(ps.Options(memory="4MB"))
    (file,) = dataset.to_tfrecord(tmp_path / "a")
    assert sum(1 for _ in ps.TFRecordDataset(file)) == 400


def test_many_files_at_a_time_are_within_the_budget(tmp_path: Path) -> None:
    """What each file holds while it is open: where records are compressed, zlib's tables; else nothing."""
    dataset = D.from_tensor_slices(COLUMNS)
    with pytest.raises(ps.errors.ElementTooLarge, match="asked for 28 MB more"):
        dataset.with_options(ps.Options(memory="16MB")).to_tfrecord(tmp_path / "a", 100, "GZIP")
    assert not os.listdir(tmp_path)
    assert len(dataset.with_options(ps.Options(memory="32MB")).to_tfrecord(tmp_path / "b", 100, "GZIP")) == 100
    tracemalloc.start()
    try:
        dataset.with_options(ps.Options(memory="4MB")).to_tfrecord(tmp_path / "c", 100)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
