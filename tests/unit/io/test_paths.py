"""Paths, patterns and URIs: the same for every format."""

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.io.paths import expand_paths, open_random, open_stream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv", "sub/d.txt", "with space.txt", "odd[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    return tmp_path


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
