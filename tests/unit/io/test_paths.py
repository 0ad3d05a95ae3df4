"""Paths, patterns and URIs: the same for every format."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import penstock as ps
from penstock.io import paths
from penstock.io.paths import expand_paths, open_random, open_stream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv", "sub/d.txt", "with space.txt", "odd[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    return tmp_path


@pytest.fixture
def remote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket that lies in a folder of this machine."""
    (folder / "bucket").mkdir()
    for name in ("b.txt", "a.txt", "sub/d.txt"):
        (folder / "bucket" / name).parent.mkdir(exist_ok=True)
        (folder / "bucket" / name).write_text(f"{name}\n" * 3)
    system = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    monkeypatch.setitem(paths._FILE_SYSTEMS, ("s3", "bucket", ""), system)
    return "s3://bucket"


def test_columns_without_a_file_are_a_bad_argument() -> None:
    for source in (ps.Dataset.from_parquet, ps.Dataset.from_arrow, ps.Dataset.from_csv, ps.Dataset.from_json_lines):
        with pytest.raises(ps.errors.BadArgument, match="expected one file or more, got none"):
            source([])


def test_names_in_all_their_forms(folder: Path) -> None:
    a, b = str(folder / "a.txt"), str(folder / "b.txt")
    assert expand_paths(a) == [a]
    assert expand_paths(a.encode()) == [a]
    assert expand_paths(folder / "a.txt") == [a]
    assert expand_paths([b, folder / "a.txt"]) == [b, a]
    assert expand_paths(np.array([b, a])) == [b, a]
    assert expand_paths(str(folder / "[ab].txt")) == [a, b]
    assert expand_paths([str(folder / "c.*"), str(folder / "?.txt")]) == [str(folder / "c.csv"), a, b]
    assert expand_paths(str(folder / "odd[1].txt")) == [str(folder / "odd[1].txt")]
    assert expand_paths("not/there") == ["not/there"]
    assert expand_paths([]) == []


def test_what_is_no_name_is_refused(folder: Path) -> None:
    with pytest.raises(TypeError, match="filenames: expected a path or a list of paths, got int 3"):
        expand_paths(3)
    with pytest.raises(TypeError, match="paths: expected a path or a list of paths, got list"):
        expand_paths(["a", 3], "paths")
    with pytest.raises(ValueError, match="no file matches"):
        expand_paths(str(folder / "*.none"))
    with pytest.raises(ValueError, match="file system that pyarrow has, got 'nothing://x/y'"):
        list(ps.TextLineDataset("nothing://x/y"))
    with pytest.raises(ValueError, match=r"paths: expected the name of a file, got 'a\\x00b': no name has a NUL in it"):
        expand_paths(["c", b"a\0b"], "paths")
    with pytest.raises(ValueError, match="path: expected the name of a file"):
        ps.io.TFRecordWriter("a\0b")


def test_file_uris(folder: Path) -> None:
    uri = (folder / "with space.txt").as_uri()
    assert "%20" in uri
    assert list(ps.TextLineDataset(uri)) == [b"with space.txt"]
    assert list(ps.TextLineDataset(folder.as_uri() + "/[ab].txt")) == [b"a.txt", b"b.txt"]
    assert list(ps.FixedLengthRecordDataset(uri, 5)) == [b"with ", b"space", b".txt\n"]


def test_remote_files(remote: str) -> None:
    assert expand_paths(f"{remote}/*.txt") == [f"{remote}/a.txt", f"{remote}/b.txt"]
    assert expand_paths(f"{remote}/*/*.txt") == [f"{remote}/sub/d.txt"]
    lines = ps.TextLineDataset(f"{remote}/*.txt")
    assert list(lines) == [b"a.txt"] * 3 + [b"b.txt"] * 3
    run = lines.run()
    next(run), next(run)
    resumed = lines.run()
    resumed.load_state_dict(run.state_dict())
    assert list(resumed) == [b"a.txt"] + [b"b.txt"] * 3
    records = ps.FixedLengthRecordDataset(f"{remote}/a.txt", 6)
    assert list(records.skip(2)) == [b"a.txt\n"]
    assert len(records) == 3
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/no.txt: expected a file, there is none"):
        list(ps.TextLineDataset(f"{remote}/no.txt"))


def test_remote_tables(remote: str, folder: Path) -> None:
    table = pa.table({"x": [1, 2, 3]})
    pq.write_table(table, folder / "bucket" / "t.parquet")
    (folder / "bucket" / "t.csv").write_text("x\n1\n2\n3\n")
    (folder / "bucket" / "t.jsonl").write_text('{"x": 1}\n{"x": 2}\n{"x": 3}\n')
    with pa.ipc.new_file(str(folder / "bucket" / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    for dataset in (
        ps.Dataset.from_parquet(f"{remote}/t.parquet"),
        ps.Dataset.from_csv(f"{remote}/t.csv"),
        ps.Dataset.from_json_lines(f"{remote}/t.jsonl"),
        ps.Dataset.from_arrow(f"{remote}/t.arrow"),
    ):
        assert [int(row["x"]) for row in dataset] == [1, 2, 3]


def test_streams_and_random_access(folder: Path) -> None:
    file = open_random(str(folder / "a.txt"))
    assert (file.size, file.read_at(2, 3), file.read_at(4, 99)) == (6, b"txt", b"t\n")
    buffer = bytearray(4)
    assert file.read_into(1, memoryview(buffer)) == 4
    assert buffer == b".txt"
    file.close()
    stream = open_stream(str(folder / "a.txt"), offset=2)
    assert stream.readinto(memoryview(buffer)) == 4
    assert buffer == b"txt\n"
    stream.close()


def test_a_file_that_may_not_be_read_is_named(folder: Path) -> None:
    with pytest.raises(ps.errors.FormatError, match="expected a file, got a directory"):
        open_random(str(folder))
    with pytest.raises(ps.errors.FormatError, match=r"a.txt/x: cannot be read: Not a directory"):
        open_random(str(folder / "a.txt" / "x"))
