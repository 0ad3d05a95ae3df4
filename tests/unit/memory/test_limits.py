"""What the process may use: limits of containers, read from directories that look like the kernel's."""

import os
from pathlib import Path

import pytest

from penstock.memory import limits
from penstock.memory.limits import available_bytes

HOST = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
NO_LIMIT_V1 = 9223372036854771712


def write(root: Path, files: dict[str, object]) -> str:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return str(root)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> str:
    """The process is in this group, whatever it really is in."""
    monkeypatch.setattr(limits, "_own_group", lambda: "/pods/pod1/app")
    return "pods/pod1/app"


@pytest.mark.parametrize("files, expected", [
    ({}, HOST),
    ({"memory.max": 1000}, 1000),
    ({"memory.max": "max"}, HOST),
    ({"memory.max": ""}, HOST),
    ({"memory.max": 0}, HOST),
    ({"memory.max": HOST * 10}, HOST),
    ({"memory/memory.limit_in_bytes": 2000}, 2000),
    ({"memory/memory.limit_in_bytes": NO_LIMIT_V1}, HOST),
    ({"memory/memory.limit_in_bytes": -1}, HOST),
    ({"memory.max": 3000, "memory/memory.limit_in_bytes": 2000}, 2000),
    # The own group, and every group above it, of either version: the tightest counts.
    ({"pods/pod1/app/memory.max": 4000}, 4000),
    ({"pods/pod1/app/memory.max": "max", "pods/pod1/memory.max": 5000}, 5000),
    ({"pods/pod1/app/memory.max": 9000, "pods/memory.max": 6000}, 6000),
    ({"memory/pods/pod1/app/memory.limit_in_bytes": 4000}, 4000),
    ({"memory/pods/pod1/app/memory.limit_in_bytes": NO_LIMIT_V1, "memory/pods/memory.limit_in_bytes": 4500}, 4500),
    # Others' groups do not.
    ({"pods/pod2/memory.max": 10, "memory/pods/pod2/memory.limit_in_bytes": 10}, HOST),
])  # fmt: skip
def test_the_tightest_limit_counts(tmp_path: Path, group: str, files: dict[str, object], expected: int) -> None:
    assert available_bytes(write(tmp_path, files)) == expected


def test_what_cannot_be_read_is_no_limit(tmp_path: Path, group: str) -> None:
    (tmp_path / "memory.max").mkdir()
    assert available_bytes(str(tmp_path)) == HOST


def test_no_directory_is_no_limit() -> None:
    assert available_bytes("/nowhere/at/all") == HOST


class FakePath:
    """`Path`, with another text for `/proc/self/cgroup`."""

    text: str | None = None

    def __init__(self, path: str) -> None:
        assert path == "/proc/self/cgroup"

    def read_text(self) -> str:
        if self.text is None:
            raise FileNotFoundError
        return self.text


@pytest.mark.parametrize("text, group", [
    ("0::/user.slice/app\n", "/user.slice/app"),
    ("0::/\n", "/"),
    ("5:cpu:/a\n4:memory:/docker/1\n0::/\n", "/docker/1"),
    ("4:cpu,memory:/docker/1\n", "/docker/1"),
    ("4:cpu:/a\n", ""),
    ("0::/odd:name/app\n", "/odd:name/app"),
    ("", ""),
    (None, ""),
])  # fmt: skip
def test_the_own_group_is_found(monkeypatch: pytest.MonkeyPatch, text: str | None, group: str) -> None:
    monkeypatch.setattr(FakePath, "text", text)
    monkeypatch.setattr(limits, "Path", FakePath)
    assert limits._own_group() == group


def test_this_process_has_a_limit_that_makes_sense() -> None:
    assert 0 < available_bytes() <= HOST
