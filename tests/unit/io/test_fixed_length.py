"""Records of one length: random access, positions, budgets, bad files."""

import zlib
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.io import fixed_length
from penstock.io.paths import open_random
from penstock.testing import check_op, check_source
from tests.unit.io.files import at_the_minimum, failed_by_file

RECORDS = [b"%09d;" % (i * i) for i in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.bin").write_bytes(b"HEAD" + b"".join(RECORDS) + b"FT")
    (tmp_path / "b.bin").write_bytes(b"HEADFT")
    (tmp_path / "c.bin").write_bytes(b"HEAD" + b"".join(RECORDS[:3]) + b"FT")
    (tmp_path / "a.z").write_bytes(zlib.compress((tmp_path / "a.bin").read_bytes()))
    (tmp_path / "bad.bin").write_bytes(b"HEAD" + b"".join(RECORDS[:3])[:-1] + b"FT")
    return tmp_path


def test_the_laws(folder: Path) -> None:
    check_source(ps.FixedLengthRecordDataset(str(folder / "[abc].bin"), 10, 4, 2))
    check_op(ps.FixedLengthRecordDataset([folder / "a.z"] * 2, 10, 4, 2, compression_type="ZLIB"))
    check_op(ps.FixedLengthRecordDataset([folder / "c.bin", folder / "bad.bin", folder / "c.bin"], 10, 4, 2))
    check_op(ps.FixedLengthRecordDataset([folder / "c.bin", folder / "no.bin", folder / "c.bin"], 10, 4, 2))
    check_op(ps.FixedLengthRecordDataset([folder / "a.bin", folder / "c.bin"], 10, 4, 2, num_parallel_reads=2))


def test_order_is_on_indices(folder: Path) -> None:
    records = ps.FixedLengthRecordDataset([folder / "a.bin", folder / "c.bin"], 10, 4, 2)
    assert len(records) == 23
    shuffled = records.shuffle(seed=3)
    assert "arithmetic on indices" in str(shuffled.explain())
    assert sorted(shuffled) == sorted(RECORDS + RECORDS[:3])
    assert list(records.shard(5, 2)) == (RECORDS + RECORDS[:3])[2::5]
    assert list(records.skip(19).take(2)) == [RECORDS[19], RECORDS[0]]


def test_a_file_that_does_not_fit_is_one_error(folder: Path) -> None:
    dataset = ps.FixedLengthRecordDataset([folder / "c.bin", folder / "bad.bin", folder / "c.bin"], 10, 4, 2)
    run = dataset.ignore_errors().run()
    assert list(run) == RECORDS[:3] * 2
    assert failed_by_file(run) == {str(folder / "bad.bin"): 1}
    with pytest.raises(ps.errors.FormatError, match=r"records of 10 bytes, got 29 bytes .*: 2 records and 9 bytes"):
        list(dataset)


def test_a_file_that_shrinks_is_an_error(folder: Path) -> None:
    dataset = ps.FixedLengthRecordDataset(folder / "c.bin", 10, 4, 2)
    (folder / "c.bin").write_bytes(b"HEAD" + RECORDS[0])
    assert list(dataset.ignore_errors()) == [] or list(dataset.ignore_errors()) == RECORDS[:1]
    with pytest.raises(ps.errors.FormatError, match="the file has become shorter"):
        list(dataset)


def test_the_minimum_is_enough(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100_000))
    (tmp_path / "z").write_bytes(zlib.compress(bytes(100_000)))
    assert len(at_the_minimum(ps.FixedLengthRecordDataset(tmp_path / "a", 5_000))) == 20
    assert len(at_the_minimum(ps.FixedLengthRecordDataset(tmp_path / "a", 50))) == 2_000
    shuffled = ps.FixedLengthRecordDataset(tmp_path / "a", 500).shuffle(30, seed=2, reshuffle_each_iteration=False)
    assert len(at_the_minimum(shuffled)) == 200
    assert len(at_the_minimum(ps.FixedLengthRecordDataset(tmp_path / "z", 5_000, compression_type="ZLIB"))) == 20


def test_a_file_far_larger_than_the_budget(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 << 20)
    records = ps.FixedLengthRecordDataset(tmp_path / "large", 1 << 14)
    with records.shuffle(seed=1).batch(8).run(memory="1MB") as run:
        assert sum(len(batch) for batch in run) == 1 << 12
        assert run.ledger.peak_bytes <= 1_000_000


def test_files_are_closed_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]) * 10)
    dataset = ps.FixedLengthRecordDataset([tmp_path / f"{i}.bin" for i in range(3)], 5)
    files: list[Any] = []

    def noted(path: str) -> Any:
        files.append(open_random(path))
        return files[-1]

    monkeypatch.setattr(fixed_length, "open_random", noted)
    for ordered in (dataset, dataset.shuffle(6, seed=1)):
        with ordered.run() as run:
            assert len(list(run)) == 6
        assert [file._descriptor for file in files] == [-1, -1, -1]
        files.clear()
