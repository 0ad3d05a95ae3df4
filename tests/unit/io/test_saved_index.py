"""The index of TFRecord files: saved beside them, believed only if it fits, and of remote files too."""

import logging
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

import penstock as ps
from penstock._native import crc32c
from penstock.io import record_index, remote
from penstock.testing import check_op

RECORDS = [b"%d" % i * (i % 7) for i in range(200)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "a.tfrecord", RECORDS)


def written(path: Path, records: list[bytes]) -> Path:
    with ps.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path


def index_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.penstock-index")


class Walks:
    """Counts how often files are gone through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        walk = record_index._indexed

        def counted(path: str, *rest: Any) -> Any:
            self.paths.append(path)
            return walk(path, *rest)

        monkeypatch.setattr(record_index, "_indexed", counted)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    return Walks(monkeypatch)


def shuffled(path: Any, **options: Any) -> list[bytes]:
    return list(ps.TFRecordDataset(path, **options).shuffle(50, seed=1))


def test_a_saved_index_is_used_by_later_programs(file: Path, walks: Walks) -> None:
    expected = shuffled(file)
    assert not index_of(file).exists()
    assert shuffled(file, index="memory") == expected
    assert not index_of(file).exists()
    assert shuffled(file, index="saved") == expected
    assert index_of(file).stat().st_size == 48 + 8 * (len(RECORDS) + 1)
    assert [name.name for name in file.parent.iterdir() if name.name.endswith(".part")] == []
    del walks.paths[:]
    assert shuffled(file, index="saved") == expected
    assert walks.paths == []
    check_op(ps.TFRecordDataset(file, index="saved").shuffle(50, seed=1).shard(3, 1), most=20)


def test_it_is_on_the_ledger(tmp_path: Path) -> None:
    file = written(tmp_path / "a", [b""] * 50_000)
    for _ in range(2):  # found, then read
        with ps.TFRecordDataset(file, index="saved").shard(1000, 0).run(memory="4MB") as run:
            assert sum(1 for _ in run) == 50
            assert run.stats()["peak_bytes"] >= 400_000


def test_one_that_has_no_room_in_memory_is_saved_and_read_by_way_of_the_disk(tmp_path: Path, walks: Walks) -> None:
    file = written(tmp_path / "a", [b"%d" % i for i in range(50_000)])
    for _ in range(2):  # found, then read
        with ps.TFRecordDataset(file, index="saved").shard(1000, 7).run(memory="300kB") as run:
            assert list(run) == [b"%d" % i for i in range(7, 50_000, 1000)]
            assert run.stats()["spilled_bytes"] >= 400_000
    assert walks.paths == [str(file)]
    index_of(file).write_bytes(index_of(file).read_bytes()[:-8] + bytes(8))  # not believed, there neither
    assert len(list(ps.TFRecordDataset(file, index="saved").shard(1000, 7).run(memory="300kB"))) == 50
    assert walks.paths == 2 * [str(file)]


def rewritten(file: Path) -> None:
    written(file, [b"new", *RECORDS])


def touched(file: Path) -> None:
    os.utime(file, ns=(0, 1))


def cut(file: Path) -> None:
    index_of(file).write_bytes(index_of(file).read_bytes()[:-3])


def emptied(file: Path) -> None:
    index_of(file).write_bytes(b"")


def flipped(file: Path) -> None:
    data = bytearray(index_of(file).read_bytes())
    data[200] ^= 1
    index_of(file).write_bytes(data)


def of_another_kind(file: Path) -> None:
    index_of(file).write_bytes(b"x" * index_of(file).stat().st_size)


def hostile(file: Path) -> None:
    """A whole and right index of records that would reach beyond the file, backwards, and into each other."""
    starts = np.frombuffer(index_of(file).read_bytes()[48:], np.int64).copy()
    starts[5], starts[6] = 1 << 62, -1
    found = file.stat()
    header = struct.pack(
        "<16sqqqQ", b"PENSTOCK-RECORDS", found.st_size, found.st_mtime_ns, len(RECORDS), crc32c(starts)
    )
    index_of(file).write_bytes(header + starts.tobytes())


def huge(file: Path) -> None:
    found = file.stat()
    header = struct.pack("<16sqqqQ", b"PENSTOCK-RECORDS", found.st_size, found.st_mtime_ns, (1 << 60) - 1, 0)
    index_of(file).write_bytes(header)


@pytest.mark.parametrize(
    "change", [rewritten, touched, cut, emptied, flipped, of_another_kind, hostile, huge], ids=lambda f: f.__name__
)
def test_an_index_that_does_not_fit_is_made_anew(file: Path, walks: Walks, change: Any) -> None:
    shuffled(file, index="saved")
    change(file)
    del walks.paths[:]
    found = shuffled(file, index="saved")
    assert walks.paths == [str(file)]
    assert found == shuffled(file)
    del walks.paths[:]
    assert shuffled(file, index="saved") == found
    assert walks.paths == []


def test_a_folder_that_cannot_be_written_is_told(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    expected = shuffled(file)
    with caplog.at_level(logging.WARNING, "penstock"):
        assert shuffled(file, index="saved") == expected
    assert f"{file}: its index cannot be saved: Permission denied" in caplog.text
    assert [name.name for name in file.parent.iterdir()] == [file.name]


def test_damaged_files_have_no_saved_index(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])
    run = ps.TFRecordDataset(file, index="saved").shuffle(10, seed=1).ignore_errors().run()
    assert len(list(run)) == len(RECORDS) - 1
    assert not index_of(file).exists()


def test_patterns_do_not_find_it(file: Path) -> None:
    shuffled(file, index="saved")
    assert list(ps.TFRecordDataset(f"{file.parent}/*")) == RECORDS


def test_mistakes_and_copies(file: Path) -> None:
    with pytest.raises(ps.errors.BadArgument, match="index: expected None, 'memory' or 'saved', got 'disk'"):
        ps.TFRecordDataset(file, index="disk")
    node = pickle.loads(pickle.dumps(ps.TFRecordDataset(file, index="saved").node))
    assert node.op.index == "saved"
    list(ps.Dataset(node).shard(2, 0))
    assert index_of(file).exists()


# --- remote files ---


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this machine as if it were far away."""
    (tmp_path / "bucket").mkdir()
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setitem(remote._FILE_SYSTEMS, ("s3://bucket", ""), (system, "bucket"))
    return tmp_path / "bucket"


LONG = [b"x" * size for size in (3, 2_000_000, 0, 5, 1_500_000, 70_000, 8)]


def test_remote_files_have_an_index_if_asked_for(bucket: Path, walks: Walks) -> None:
    written(bucket / "a", RECORDS)
    written(bucket / "b", LONG)
    files = ["s3://bucket/a", "s3://bucket/b"]
    expected = shuffled([str(bucket / "a"), str(bucket / "b")])
    del walks.paths[:]
    assert shuffled(files) == expected
    assert walks.paths == []
    assert shuffled(files, index="memory") == expected
    assert walks.paths == files
    assert shuffled(files, index="saved") == expected
    assert index_of(bucket / "a").exists()
    assert not [name.name for name in bucket.iterdir() if name.name.endswith(".part")]
    del walks.paths[:]
    assert shuffled(files, index="saved") == expected
    assert walks.paths == []
    ds = ps.TFRecordDataset(files, index="saved").shuffle(50, seed=1)
    assert "arithmetic on indices" in str(ds.explain())
    assert list(ds.run(memory="12MB")) == expected
    check_op(ds.skip(190))


def test_a_store_that_cannot_be_written_is_told(
    bucket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written(bucket / "a", RECORDS)

    class ReadOnly:
        """What pyarrow's own file systems do that have no writing."""

        def __init__(self, system: Any) -> None:
            self.open_input_file, self.get_file_info = system.open_input_file, system.get_file_info

        def open_output_stream(self, path: str) -> None:
            raise pa.ArrowNotImplementedError("no writing here")

    system, root = remote._FILE_SYSTEMS["s3://bucket", ""]
    monkeypatch.setitem(remote._FILE_SYSTEMS, ("s3://bucket", ""), (ReadOnly(system), root))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert shuffled("s3://bucket/a", index="saved") == shuffled(bucket / "a")
    assert "s3://bucket/a: its index cannot be saved: no writing here" in caplog.text


def test_remote_files_that_are_missing_or_cut(bucket: Path) -> None:
    written(bucket / "a", RECORDS)
    (bucket / "a").write_bytes((bucket / "a").read_bytes()[:-5])
    run = ps.TFRecordDataset(["s3://bucket/a", "s3://bucket/gone"], index="saved").shard(1, 0).shuffle(9, seed=1).run()
    errors, good = [], 0
    while True:
        try:
            next(run)
            good += 1
        except StopIteration:
            break
        except ps.errors.FormatError as error:
            errors.append(str(error))
    assert good == len(RECORDS) - 1
    assert any("s3://bucket/gone: expected a file, there is none" in text for text in errors)
    assert any("record 199" in text and "the file ends" in text for text in errors)
