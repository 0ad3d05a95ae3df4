"""Files of cache(filename), snapshot, save and load that others remove, or that nobody may touch: errors of ours."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, FormatError, PenstockError, SpillError

D = ps.Dataset
COUNT = 300


def rows() -> Any:
    return D.range(COUNT).map(lambda i: np.full(1000, i))


def empty(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()


KEPT: dict[str, Callable[[Path], Any]] = {
    "cache": lambda folder: rows().cache(folder / "kept"),
    "snapshot": lambda folder: rows().snapshot(folder),
}


@pytest.mark.parametrize("harm", [shutil.rmtree, empty])
@pytest.mark.parametrize("name", KEPT)
def test_what_is_removed_while_it_is_written(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    dataset = KEPT[name](folder)
    run = dataset.run(memory="10MB")
    found = [int(next(run)[0]) for _ in range(10)]
    harm(folder)
    with pytest.raises(SpillError, match=rf"{name} at .*cannot write to {folder}.*: No such file.*somebody else"):
        found.extend(int(row[0]) for row in run)
    assert run.ledger.charged_bytes == 0
    folder.mkdir(exist_ok=True)
    with dataset.run(memory="10MB") as more:
        more.load_state_dict(run.state_dict())
        assert found + [int(row[0]) for row in more] == list(range(COUNT))


def test_a_directory_that_is_removed_while_a_dataset_is_saved_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "saved"

    def remove(i: Any) -> Any:
        if i == 5:
            shutil.rmtree(folder)
        return i

    with pytest.raises(SpillError, match=rf"save at .*cannot write to {folder}/set-.*somebody else has removed it"):
        D.range(10).map(remove, stateful=True).save(folder)


@pytest.fixture
def not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who may not write there; the one that runs tests may be allowed everything."""

    def refuse(path: Any, *args: Any, **options: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "makedirs", refuse)
    monkeypatch.setattr("penstock.memory.cache_file._try_lock", refuse)


@pytest.mark.usefixtures("not_allowed")
@pytest.mark.parametrize(
    "use",
    [
        lambda folder: list(rows().snapshot(folder)),
        lambda folder: rows().save(folder),
        lambda folder: list(rows().cache(folder / "kept")),
    ],
)
def test_where_nobody_may_write(tmp_path: Path, use: Callable[[Path], Any]) -> None:
    with pytest.raises(BadArgument, match=rf"{tmp_path}.*: Permission denied; name another directory"):
        use(tmp_path)


USES: dict[str, Callable[[str], Any]] = {
    "save": lambda path: rows().save(path),
    "snapshot": lambda path: list(rows().snapshot(path)),
    "cache": lambda path: list(rows().cache(path)),
    "load": lambda path: list(D.load(path)),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("path", ["file/below", "/proc/none/at/all", "long" * 100])
def test_names_that_cannot_be_used(tmp_path: Path, name: str, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PenstockError, match=rf"{name} at "):
        USES[name](os.path.join(tmp_path, path))


def test_what_is_saved_but_cannot_be_read(tmp_path: Path) -> None:
    rows().save(tmp_path)
    loaded = D.load(tmp_path)
    (shard,) = tmp_path.rglob("*.arrow")
    shard.unlink()
    shard.mkdir()
    with pytest.raises(FormatError, match=rf"load at .*{shard}: it cannot be read at byte .*: Is a directory"):
        list(loaded)
    (tmp_path / "penstock.json").unlink()
    (tmp_path / "penstock.json").mkdir()
    with pytest.raises(FormatError, match=rf"load at .*{tmp_path}/penstock.json: it cannot be read: Is a directory"):
        list(D.load(tmp_path))
