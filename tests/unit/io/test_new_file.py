"""Files that get their names when they are whole, here and in stores of objects."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

import penstock as ps
from penstock.io import remote
from penstock.io.new_file import NewFile, _writing_in_turn

D = ps.Dataset


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bucket `s3://bucket` that lies in a folder of this machine."""
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setitem(remote._FILE_SYSTEMS, ("s3://bucket", ""), (system, "bucket"))
    (tmp_path / "bucket").mkdir()
    return tmp_path / "bucket"


def failing(row: Any) -> Any:
    if row["x"] == 7:
        raise ZeroDivisionError
    return row


ROWS = D.from_tensor_slices({"x": np.arange(20)})


@pytest.mark.parametrize("uri", ["s3://bucket/", "file://"])
def test_uris_of_files_are_written_and_read(bucket: Path, uri: str) -> None:
    folder = uri if uri.startswith("s3") else bucket.as_uri() + "/"
    with ps.io.TFRecordWriter(folder + "a%20b", "GZIP") as writer:
        writer.write(b"one" * 200_000)
        assert "a b" not in os.listdir(bucket)
    assert list(ps.TFRecordDataset(folder + "a%20b", "GZIP")) == [b"one" * 200_000]
    files = ROWS.to_tfrecord(folder + "n", num_shards=2)
    assert files == [folder + "n-00000-of-00002", folder + "n-00001-of-00002"]
    spec = {"x": ps.io.FixedLenFeature([], "int64")}
    found = ps.TFRecordDataset(files).map(lambda record: ps.io.parse_single_example(record, spec)["x"])
    assert sorted(found) == list(range(20))
    ROWS.to_parquet(folder + "t.parquet")
    assert [row["x"] for row in D.from_parquet(folder + "t.parquet")] == list(range(20))
    assert sorted(os.listdir(bucket)) == ["a b", "n-00000-of-00002", "n-00001-of-00002", "t.parquet"]


def test_an_error_leaves_what_was_there(bucket: Path) -> None:
    (bucket / "t").write_bytes(b"old")
    for write in (D.to_parquet, D.to_tfrecord):
        with pytest.raises(ZeroDivisionError):
            write(ROWS.map(failing), "s3://bucket/t")
        assert os.listdir(bucket) == ["t"]
        assert (bucket / "t").read_bytes() == b"old"


def test_errors_name_the_uri(bucket: Path) -> None:
    for write in (ps.io.TFRecordWriter, ROWS.to_parquet, ROWS.to_tfrecord):
        with pytest.raises(ps.errors.SpillError, match="cannot write to s3://bucket/missing/t: "):
            write("s3://bucket/missing/t")
        with pytest.raises(ps.errors.BadArgument, match="expected the URI of a file system that pyarrow has"):
            write("nowhere://bucket/t")
    assert os.listdir(bucket) == []


def test_what_streams_hold_is_in_the_budget(bucket: Path) -> None:
    for write in (D.to_parquet, D.to_tfrecord):
        with pytest.raises(ps.errors.ElementTooLarge):
            write(ROWS.with_options(ps.Options(memory="8MB")), "s3://bucket/t")
        write(ROWS.with_options(ps.Options(memory="32MB")), "s3://bucket/t")


def test_s3_sends_a_part_before_it_takes_the_next() -> None:
    system = _writing_in_turn(fs.S3FileSystem(region="here", anonymous=True))
    settings = system.__reduce__()[1][0]
    assert (settings["background_writes"], settings["region"]) == (False, "here")


def test_a_link_to_a_table_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("t.parquet")
    ROWS.to_parquet(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ROWS.to_tfrecord(tmp_path / "link") == [str(tmp_path / "link")]
    assert sorted(os.listdir(tmp_path)) == ["link", "t.parquet"]
    assert len(list(ps.TFRecordDataset(str(tmp_path / "t.parquet")))) == 20


def test_a_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    for write in (ROWS.map(failing).to_parquet, ROWS.map(failing).to_tfrecord):
        with pytest.raises(ps.errors.BadArgument, match="expected the name of a file"):
            write(tmp_path)


def test_places_that_cannot_be_written_to_are_errors_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in (
        (tmp_path / "no" / "t", "there is no directory .*/no"),
        (tmp_path / "file" / "t", "there is no directory .*/file"),
        (tmp_path / ("t" * 300), "File name too long"),
    ):
        for write in (ps.io.TFRecordWriter, ROWS.to_parquet, ROWS.to_tfrecord):
            with pytest.raises(ps.errors.SpillError, match=f"cannot write to {path}: {why};") as refused:
                write(path)
            assert isinstance(refused.value, OSError)
    assert os.listdir(tmp_path) == ["file"]


def test_a_disk_that_is_full_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = importlib.import_module("pyarrow")
    monkeypatch.setattr(NewFile, "open", lambda new, for_arrow=False: pa.OSFile("/dev/full", "wb"))
    with pytest.raises(ps.errors.SpillError, match=f"cannot write to {tmp_path}/t: No space left on device"):
        ROWS.to_parquet(tmp_path / "t")
    assert os.listdir(tmp_path) == []
