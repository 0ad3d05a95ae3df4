"""save and load: a directory that changes as a whole, read in any order."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_source, elements_of, same

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "dataset",
    [
        D.range(600),
        D.range(300).map(lambda x: (x, {"a": np.full(3, x), "b": b"text" * int(x % 5)})),
        D.range(20).map(lambda x: np.full((int(x) % 4, 2), x, np.float32)),
        D.range(5).map(lambda x: np.full(30_000, x)),
        D.range(9).map(lambda x: np.arange(x)).ragged_batch(2),
        D.from_tensor_slices(np.array([b"a", b"", b"\0"], dtype=object)),
    ],
    ids=["numbers", "nest", "shapes", "large", "ragged", "strings"],
)
def test_elements_come_back_as_they_were(tmp_path: Path, dataset: ps.Dataset) -> None:
    dataset.save(tmp_path)
    found = D.load(tmp_path)
    assert all(map(same, elements_of(found.run(), 1000), elements_of(dataset.run(), 1000)))
    assert found.cardinality() == len(elements_of(dataset.run(), 1000))


def test_the_laws_of_a_source(tmp_path: Path) -> None:
    D.range(30).map(lambda x: (x, np.full(4, x))).save(tmp_path)
    check_source(D.load(tmp_path))


def test_shuffling_shuffles_indices(tmp_path: Path) -> None:
    D.range(50).map(lambda x: np.full(20_000, x)).save(tmp_path)
    ds = D.load(tmp_path).shuffle(seed=1).batch(2)
    with ds.run(memory=2_000_000) as run:
        assert sorted(int(x) for batch in run for x in batch[:, 0]) == list(range(50))
        assert run.ledger.peak_bytes <= 2_000_000
    assert run.ledger.charged_bytes == 0
    assert "in order .shuffle" in str(ds.explain())


@pytest.mark.parametrize("memory", [30_000, 100_000, 1_000_000])
def test_small_elements_in_any_order(tmp_path: Path, memory: int) -> None:
    D.range(2000).map(lambda x: (x, np.full(5, x))).save(tmp_path)
    with D.load(tmp_path).shuffle(seed=1).batch(20).run(memory=memory) as run:
        found = [(int(x), y.tolist()) for xs, ys in run for x, y in zip(xs, ys, strict=True)]
    assert sorted(found) == [(i, [i] * 5) for i in range(2000)]
    assert run.ledger.peak_bytes <= memory


def test_saving_again_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    D.range(5).save(tmp_path)
    (tmp_path / "mine.txt").write_text("stays")
    old = D.load(tmp_path)
    old.map(lambda x: x + 10).save(tmp_path)  # reads what it replaces
    assert list(D.load(tmp_path)) == [10, 11, 12, 13, 14]
    assert len(files(tmp_path)) == 3
    last = D.load(tmp_path)
    D.range(2).save(tmp_path)
    with pytest.raises(ps.errors.FormatError, match=r"is gone.*load it again"):
        list(last)


class Bad(RuntimeError):
    pass


def fails(x: Any) -> Any:
    if x == 3:
        raise Bad("three")
    return x


@pytest.mark.parametrize("before", [True, False])
def test_an_error_leaves_what_was_there(tmp_path: Path, before: bool) -> None:
    path = tmp_path / "saved"
    if before:
        D.range(2).save(path)
    with pytest.raises(Bad):
        D.range(5).map(fails).save(path)
    with pytest.raises(Bad) as caught:
        D.range(5).save(path, shard_func=fails)
    assert "in save(shard_func=fails) at test_saved.py" in caught.value.__notes__[0]
    if before:
        assert list(D.load(path)) == [0, 1]
        assert len(files(path)) == 2
    else:
        assert files(path) == []
        with pytest.raises(ps.errors.BadArgument, match=r"load at .*: path: there is no saved dataset in"):
            D.load(path)


def test_shards(tmp_path: Path) -> None:
    D.range(10).save(tmp_path, shard_func=lambda x: x % 3)
    assert list(D.load(tmp_path)) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    sizes = []

    def read(shards: ps.Dataset) -> ps.Dataset:
        sizes.extend(shard.cardinality() for shard in shards)
        return shards.shuffle(3, seed=1).interleave(lambda shard: shard, cycle_length=3)

    assert sorted(D.load(tmp_path, reader_func=read)) == list(range(10))
    assert sizes == [4, 3, 3]
    assert list(D.load(tmp_path, reader_func=lambda shards: shards.flat_map(lambda x: x).take(5))) == [0, 3, 6, 9, 1]


@pytest.mark.parametrize("number", [1.5, [1], "a", None, True])
def test_a_shard_is_a_number(tmp_path: Path, number: Any) -> None:
    with pytest.raises(ps.errors.BadType, match="shard_func: expected an integer"):
        D.range(3).save(tmp_path, shard_func=lambda x: number)


@pytest.mark.parametrize(
    "save, says",
    [
        (lambda path: D.range(3).save(3), r"save at .*: path: expected the path of a directory, got int"),
        (lambda path: D.range(3).save(path, "gzip"), r"save at .*: compression: expected one of .*got 'gzip'"),
        (lambda path: D.range(3).save(path, shard_func=3), r"save at .*: shard_func: expected a function"),
        (lambda path: D.range(3).save(path, checkpoint_args={}), r"save at .*: checkpoint_args"),
        (lambda path: D.range(3).repeat().save(path), r"save at .*: cannot save an infinite dataset"),
        (lambda path: D.range(3).window(2).save(path), r"save at .*: .*cannot be stored"),
        (lambda path: D.range(3).save(__file__), r"save at .*: path: expected a directory"),
        (lambda path: D.load(path / "none"), r"load at .*: path: there is no saved dataset"),
    ],
)
def test_arguments(tmp_path: Path, save: Any, says: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=says):
        save(tmp_path)


def test_a_spec_that_was_given(tmp_path: Path) -> None:
    D.range(3).map(lambda x: np.full(2, x)).save(tmp_path)
    assert D.load(tmp_path).element_spec == ps.TensorSpec((2,), np.int64)
    wider = ps.TensorSpec((None,), np.int64)
    assert D.load(tmp_path, element_spec=wider).element_spec == wider
    with pytest.raises(ps.errors.SpecMismatch, match=r"load at .*: element_spec: 2 int64 was saved, got"):
        D.load(tmp_path, element_spec=ps.TensorSpec((2,), np.float32))


def only_file(path: Path) -> Path:
    (file,) = path.glob("set-*/*.arrow")
    return file


def test_a_file_that_is_cut_or_gone(tmp_path: Path) -> None:
    D.range(600).save(tmp_path)
    file = only_file(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(ps.errors.FormatError, match=str(file)):
        list(D.load(tmp_path))
    file.unlink()
    with pytest.raises(ps.errors.FormatError, match="is gone"):
        list(D.load(tmp_path))


def test_what_is_said_of_it_is_damaged(tmp_path: Path) -> None:
    D.range(3).save(tmp_path)
    for text in ("", "{", "[]", '{"version": 2}', '{"version": 1}'):
        (tmp_path / "penstock.json").write_text(text)
        with pytest.raises(ps.errors.FormatError, match=r"penstock\.json"):
            D.load(tmp_path)


def test_a_damaged_batch_is_an_error_in_the_place_of_its_elements(tmp_path: Path) -> None:
    D.range(4).map(lambda x: np.full(20_000, x)).save(tmp_path)
    file = only_file(tmp_path)
    data = bytearray(file.read_bytes())
    data[data.index(np.full(20_000, 2).tobytes()) + 70_000] ^= 1  # one bit in the third batch
    file.write_bytes(data)
    with pytest.raises(ps.errors.FormatError, match="checksum"):
        list(D.load(tmp_path))
    assert [int(x[0]) for x in D.load(tmp_path).ignore_errors()] == [0, 1, 3]


CHILD = """
    import sys, penstock as ps
    def slow(x):
        if x == 300:
            print("half", flush=True)
            sys.stdin.readline()
        return x
    ps.Dataset.range(600).map(slow).save(sys.argv[1])
"""


def test_a_killed_save_leaves_what_was_there(tmp_path: Path) -> None:
    D.range(5).save(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    D.range(6).save(tmp_path)  # leaves the other's alone while that one lives
    assert len(list(tmp_path.glob("set-*.part"))) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(D.load(tmp_path)) == list(range(6))
    D.range(7).save(tmp_path)
    assert list(tmp_path.glob("set-*.part")) == []
    assert list(D.load(tmp_path)) == list(range(7))


def test_saving_stays_within_the_budget(tmp_path: Path) -> None:
    options = ps.Options(memory=200_000)
    D.range(2000).map(lambda x: np.full(100, x)).with_options(options).save(tmp_path, shard_func=lambda x: x[0] % 40)
    assert len(os.listdir(next(tmp_path.glob("set-*")))) == 40
    assert sorted(int(x[0]) for x in D.load(tmp_path)) == list(range(2000))


def test_paths_as_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, folder = tmp_path / "here", tmp_path / "a folder"
    here.mkdir()
    folder.mkdir()
    monkeypatch.chdir(here)
    dataset = ps.Dataset.range(5)
    dataset.save((folder / "saved").as_uri())
    assert list(ps.Dataset.load((folder / "saved").as_uri())) == list(ps.Dataset.load(folder / "saved")) == [*range(5)]
    assert list(dataset.cache((folder / "kept").as_uri())) == list(dataset.snapshot((folder / "taken").as_uri()))
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") == ["kept", "saved", "taken"]
    assert not list(here.iterdir())


@pytest.mark.parametrize("uri", ["s3://bucket/path", "gs://bucket/path", "hdfs://host/path", "file://"])
def test_other_uris_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = ps.Dataset.range(5)
    uses = {
        "path": [dataset.save, ps.Dataset.load, lambda uri: list(dataset.snapshot(uri))],
        "filename": [dataset.cache],
    }
    for argument, functions in uses.items():
        for use in functions:
            with pytest.raises(
                ps.errors.BadArgument, match=f"{argument}: expected .* on this machine, .*, got '{uri}'"
            ):
                use(uri)
    assert not list(tmp_path.iterdir())
