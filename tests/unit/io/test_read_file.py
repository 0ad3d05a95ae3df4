"""read_file: local paths of every kind, URIs, and errors that name the file."""

from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import penstock as ps
from penstock.io import remote


@pytest.fixture(autouse=True)
def no_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FILE_SYSTEMS", {})


def test_local_paths(tmp_path: Path) -> None:
    place = tmp_path / "a file with ä and %41.bin"
    place.write_bytes(bytes(range(256)) * 1000)
    for path in (place, str(place), str(place).encode(), place.as_uri()):
        assert ps.io.read_file(path) == place.read_bytes()
    empty = tmp_path / "empty"
    empty.touch()
    assert ps.io.read_file(empty) == b""


def test_names_from_list_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode())
    ds = ps.Dataset.list_files(str(tmp_path / "*"), shuffle=False).map(ps.io.read_file)
    assert list(ds) == [b"a", b"b"]


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.jpg"):
        ps.io.read_file(tmp_path / "missing.jpg")
    with pytest.raises(FileNotFoundError, match=r"missing\.jpg"):
        ps.io.read_file((tmp_path / "missing.jpg").as_uri())
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        ps.io.read_file(tmp_path)
    with pytest.raises(TypeError, match="int"):
        ps.io.read_file(7)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A bucket that is a folder; the list has the URIs for which a file system was asked."""
    (tmp_path / "bucket" / "folder").mkdir(parents=True)
    (tmp_path / "bucket" / "folder" / "a b.bin").write_bytes(b"remote")
    asked: list[str] = []

    class FakeFileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            asked.append(uri)
            host = uri.partition("://")[2].partition("?")[0]
            return pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()), host

    monkeypatch.setattr(pyarrow.fs, "FileSystem", FakeFileSystem)
    return asked


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs"])
def test_remote_files(scheme: str, bucket: list[str]) -> None:
    assert ps.io.read_file(f"{scheme}://bucket/folder/a b.bin") == b"remote"
    assert ps.io.read_file(f"{scheme}://bucket/folder/a%20b.bin".encode()) == b"remote"
    assert bucket == [f"{scheme}://bucket"], "a file system is looked for once"


def test_options_in_the_query_reach_the_file_system(bucket: list[str]) -> None:
    assert ps.io.read_file("s3://bucket/folder/a%20b.bin?region=eu-west-1") == b"remote"
    assert bucket == ["s3://bucket?region=eu-west-1"]


def test_errors_name_the_uri(bucket: list[str]) -> None:
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/folder/missing\.bin"):
        ps.io.read_file("s3://bucket/folder/missing.bin")


def test_an_unknown_scheme() -> None:
    with pytest.raises(ValueError, match="nowhere://x/y: "):
        ps.io.read_file("nowhere://x/y")
