"""A disk that is really full: the error says so, no half file gets a name, nothing delivered is lost."""

import errno
import functools
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.full_disk_children import PROGRAMS

CHILDREN = Path(__file__).with_name("full_disk_children.py")
ROOT = CHILDREN.parents[2]
pytestmark = pytest.mark.timeout(120)


@functools.cache
def may_mount() -> bool:
    """Whether a process here may have a small disk of its own: an ordinary user needs user namespaces for that."""
    if shutil.which("unshare") is None:
        return False
    mount = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def told(command: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def folders(tmp_path: Path) -> tuple[Path, Path]:
    disk, other = tmp_path / "disk", tmp_path / "other"
    disk.mkdir()
    other.mkdir()
    return disk, other


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_disk_of_4_megabytes(tmp_path: Path, name: str) -> None:
    disk, other = folders(tmp_path)
    if not may_mount():  # files that may not grow are the nearest thing to it
        assert "File too large" in told([sys.executable, str(CHILDREN), name, str(disk), str(other), "130000"])
        return
    program = (
        f"mount -t tmpfs -o size=4m none '{disk}' && exec '{sys.executable}' '{CHILDREN}' {name} '{disk}' '{other}'"
    )
    text = told(["unshare", "-rm", "sh", "-c", program])
    assert "No space left on device" in text
    assert str(disk) in text
    assert " are free" in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_that_may_not_grow(tmp_path: Path, name: str) -> None:
    """What a quota or a file system's largest file comes to: the system takes a part of a write, and then no more."""
    disk, other = folders(tmp_path)
    text = told([sys.executable, str(CHILDREN), name, str(disk), str(other), "130000"])
    assert "File too large" in text
    assert str(disk) in text
    assert " kB" in text


class FullAtWrite:
    """Opens files for writing; the n-th write to any of them finds the disk full, after it took a part."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, path: str) -> Any:
        file, disk = FileIO(path, "wb"), self

        class File:
            def write(self, data: Any) -> int | None:
                disk.left -= 1
                if disk.left > 0:
                    return file.write(data)
                if disk.left == 0:
                    return file.write(memoryview(data)[:3])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            def close(self) -> None:
                file.close()

        return File()


def elements(calls: list[int] | None = None) -> ps.Dataset:
    def made(n: np.int64) -> np.ndarray:
        if calls is not None:
            calls.append(int(n))
        return np.full(20_000, n)

    return ps.Dataset.range(6).map(made)


def delivered(run: ps.Run, found: list[int]) -> str:
    """Adds what a run delivers; what its error said, if the disk was full."""
    try:
        for x in run:
            found.append(int(x[0]))
    except ps.errors.SpillError as error:
        return str(error)
    return ""


def until_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Lets the first write fail, then the second, until there are no more."""
    for n in range(1, 100):
        disk = FullAtWrite(n)
        monkeypatch.setattr("penstock.memory.ipc.open_new", disk)
        yield n
        if disk.left > 0:
            assert n > 6
            return
    raise AssertionError("no end of it")


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_saving_whichever_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str | None) -> None:
    ps.Dataset.range(3).save(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for n in until_enough(monkeypatch):
        refused = ""
        try:
            elements().save(tmp_path, compression)
        except ps.errors.SpillError as error:
            refused = str(error)
        if refused:
            assert re.search(rf"no room to write on to {tmp_path}.*after .*B, .*B are free", refused), n
            assert sorted(tmp_path.rglob("*")) == before
            assert [int(x) for x in ps.Dataset.load(tmp_path)] == [0, 1, 2]
    assert [int(x[0]) for x in ps.Dataset.load(tmp_path)] == list(range(6))


def test_a_manifest_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ps.Dataset.range(3).save(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("penstock.memory.saved_set.json.dump", full)
    with pytest.raises(ps.errors.SpillError, match=r"penstock\.json: No space left"):
        elements().save(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert [int(x) for x in ps.Dataset.load(tmp_path)] == [0, 1, 2]


def test_caching_in_a_file_whichever_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in until_enough(monkeypatch):
        found: list[int] = []
        ds = elements().cache(tmp_path / "kept")
        run = ds.run(memory="4MB")
        refused = delivered(run, found)
        if refused:
            assert f"no room to write on to {tmp_path}/kept.part" in refused
            assert list(tmp_path.iterdir()) == []
            monkeypatch.undo()
            with ds.run(memory="4MB") as rest:
                rest.load_state_dict(run.state_dict())
                found += [int(x[0]) for x in rest]
            del rest
            (tmp_path / "kept").unlink(missing_ok=True)  # a rest that is all of it was kept
        del run, ds
        gc.collect()
        assert found == list(range(6)), n
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_overflowing_whichever_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in until_enough(monkeypatch):
        calls: list[int] = []
        found: list[int] = []
        ds = elements(calls).cache().with_options(ps.Options(memory="500kB", spill_dir=tmp_path))
        run = ds.run()
        refused = delivered(run, found)
        if refused:
            assert re.search(rf"no room to write .*kB to {tmp_path}/penstock-spill-.*: No space left", refused)
            monkeypatch.undo()
            with ds.run() as rest:
                rest.load_state_dict(run.state_dict())
                found += [int(x[0]) for x in rest]
            del rest
        monkeypatch.undo()
        assert found == list(range(6)), n
        assert [int(x[0]) for x in ds] == list(range(6))
        assert len(calls) <= 7  # one was made when the disk was full
        del run, ds
        gc.collect()
        assert list(tmp_path.iterdir()) == []
