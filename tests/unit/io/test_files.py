"""list_files: which names match, and how they are spelled."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.testing import check_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv", "a10.txt", "sub/d.txt", "sub/a.txt", "sub2/x", ".dot", "[z].txt", "é.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(folder: Path, *patterns: str) -> list[str]:
    found = list(ps.Dataset.list_files([f"{folder}/{pattern}" for pattern in patterns], shuffle=False))
    assert all(type(name) is bytes for name in found)
    return [name.decode().removeprefix(f"{folder}/") for name in found]


# Every row was asked of the real tf.data.
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", ["[z].txt", "a.txt", "a10.txt", "b.txt", "é.txt"]),
        ("*", [".dot", "[z].txt", "a.txt", "a10.txt", "b.txt", "c.csv", "sub", "sub2", "é.txt"]),
        ("?.txt", ["a.txt", "b.txt", "é.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("[a-c].*", ["a.txt", "b.txt", "c.csv"]),
        ("[!a].txt", ["b.txt", "é.txt"]),
        ("[^a].txt", ["b.txt", "é.txt"]),
        ("[[]z].txt", ["[z].txt"]),
        (r"\[z\].txt", ["[z].txt"]),
        ("*/*", ["sub/a.txt", "sub/d.txt", "sub2/x"]),
        ("**/a.txt", ["sub/a.txt"]),
        ("sub/*", ["sub/a.txt", "sub/d.txt"]),
        ("a.txt", ["a.txt"]),
        ("sub", ["sub"]),
    ],
)
def test_patterns(folder: Path, pattern: str, expected: list[str]) -> None:
    assert names(folder, pattern) == expected


def test_several_patterns_are_sorted_together_and_may_name_a_file_twice(folder: Path) -> None:
    assert names(folder, "c*", "a.*") == ["a.txt", "c.csv"]
    assert names(folder, "a*", "a.txt") == ["a.txt", "a.txt", "a10.txt"]
    assert names(folder, "c*", "nothing*") == ["c.csv"]


def test_relative_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert list(ps.Dataset.list_files("c*", shuffle=False)) == [b"./c.csv"]
    assert list(ps.Dataset.list_files("sub/d*", shuffle=False)) == [b"sub/d.txt"]
    assert list(ps.Dataset.list_files("c.csv", shuffle=False)) == [b"c.csv"]


def test_a_path_or_bytes_as_pattern(folder: Path) -> None:
    for pattern in (folder / "c.csv", str(folder / "c.csv").encode()):
        assert list(ps.Dataset.list_files(pattern, shuffle=False)) == [str(folder / "c.csv").encode()]


def test_spec_and_laws(folder: Path) -> None:
    ds = ps.Dataset.list_files(str(folder / "*"), shuffle=False)
    assert len(ds) == 9
    assert ds.element_spec == ps.TensorSpec((), ps.string)
    check_source(ds)


def test_shuffled_unless_told_not_to(folder: Path) -> None:
    ds = ps.Dataset.list_files(str(folder / "*"), seed=1)
    passes = [list(ds) for _ in range(4)]
    assert all(sorted(one) == sorted(passes[0]) for one in passes)
    assert len({tuple(one) for one in passes}) > 1
    assert list(ps.Dataset.list_files(str(folder / "*"), seed=1)) == passes[0]


@pytest.mark.parametrize("pattern", ["nothing*", "no.txt", "[a", "no/such/*"])
def test_no_match_names_the_pattern(folder: Path, pattern: str) -> None:
    with pytest.raises(ps.errors.BadArgument, match=r"list_files at .*: file_pattern: no file matches") as caught:
        ps.Dataset.list_files(f"{folder}/{pattern}")
    assert f"{folder}/{pattern}" in str(caught.value)


@pytest.mark.parametrize("pattern", [3, [3], None, {"a": "b"}])
def test_not_a_pattern(pattern: Any) -> None:
    with pytest.raises(ps.errors.BadType, match="file_pattern: expected a pattern or a list of them"):
        ps.Dataset.list_files(pattern)
