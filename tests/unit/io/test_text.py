"""Lines of text files: positions, budgets, bad files."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.testing import check_op, check_source
from tests.unit.io.files import at_the_minimum, failed_by_file

LINES = [b"x" * (i * 7919 % 300) for i in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n\nfour")
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(b"\n".join(LINES[:6]) + b"\n" + b"y" * 10_000 + b"\nz\r")
    (tmp_path / "c.gz").write_bytes(gzip.compress((tmp_path / "c.txt").read_bytes()))
    return tmp_path


def test_the_laws(folder: Path) -> None:
    check_source(ps.TextLineDataset(str(folder / "*.txt")))
    check_op(ps.TextLineDataset([folder / "c.gz"] * 2, "GZIP"))
    check_op(ps.TextLineDataset([folder / "a.txt", folder / "no", folder / "c.txt"]))
    check_op(ps.TextLineDataset([folder / "a.txt", folder / "no", folder / "c.txt"], num_parallel_reads=2))


def test_a_missing_file_is_an_error_in_its_place(folder: Path) -> None:
    run = ps.TextLineDataset([folder / "a.txt", folder / "no.txt", folder / "a.txt"]).run()
    assert [next(run) for _ in range(4)] == [b"one", b"two", b"", b"four"]
    with pytest.raises(FileNotFoundError, match=r"no.txt: expected a file, there is none"):
        next(run)
    assert next(run) == b"one"
    assert failed_by_file(run) == {str(folder / "no.txt"): 1}


def test_a_file_that_comes_later_is_read(tmp_path: Path) -> None:
    dataset = ps.TextLineDataset(tmp_path / "later.txt")
    (tmp_path / "later.txt").write_text("here\n")
    assert list(dataset) == [b"here"]


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ps.errors.FormatError, match="expected a file, got a directory"):
        list(ps.TextLineDataset(tmp_path))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_what_lies_before_the_damage_is_read(folder: Path, compression: str) -> None:
    pack: Any = gzip.compress if compression == "GZIP" else zlib.compress
    data = bytearray(pack(b"".join(b"%07d\n" % (i * i) for i in range(50_000))))
    (folder / "cut").write_bytes(data[:-50])
    data[len(data) // 2 :] = bytes(byte ^ 0x5A for byte in data[len(data) // 2 :])
    (folder / "damaged").write_bytes(data)
    (folder / "nothing").write_bytes(b"plain text\n")
    (folder / "good").write_bytes(pack(b"good\n"))
    names = ["cut", "damaged", "nothing", "good"]
    dataset = ps.TextLineDataset([folder / name for name in names], compression).ignore_errors()
    run = dataset.run()
    found = list(run)
    assert found[-1] == b"good"
    assert found[0] == b"0000000"
    assert len(found) > 50_000
    assert list(failed_by_file(run)) == [str(folder / name) for name in names[:3]]
    with pytest.raises(ps.errors.FormatError, match=f"cut: expected more {compression} data, the file ends at byte"):
        list(ps.TextLineDataset(folder / "cut", compression))
    with pytest.raises(ps.errors.FormatError, match=f"damaged: expected {compression} data after byte"):
        list(ps.TextLineDataset(folder / "damaged", compression))


def test_members_of_a_gzip_file_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "two.gz").write_bytes(gzip.compress(b"a\n") + gzip.compress(b"") + gzip.compress(b"b\n") + b"\0" * 9)
    assert list(ps.TextLineDataset(tmp_path / "two.gz", "GZIP")) == [b"a", b"b"]


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ValueError, match=r"TextLineDataset at .*compression_type: expected None, '', 'GZIP' or 'ZLIB'"):
        ps.TextLineDataset("x", "LZ4")


def test_a_line_longer_than_the_budget_names_the_budget_it_takes(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"a\n" + b"b" * 3_000_000)
    run = ps.TextLineDataset(tmp_path / "long").run(memory="1MB")
    assert next(run) == b"a"
    with pytest.raises(ps.errors.ElementTooLarge, match="use memory="):
        next(run)


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("reads", [None, 2])
def test_the_minimum_is_enough(tmp_path: Path, compression: str | None, reads: int | None) -> None:
    data = b"\n".join(LINES) + b"\n" + b"l" * 30_000
    for name in "ab":
        (tmp_path / name).write_bytes(gzip.compress(data) if compression else data)
    dataset = ps.TextLineDataset([tmp_path / "a", tmp_path / "b"], compression, num_parallel_reads=reads)
    expected = [*LINES, b"l" * 30_000] * 2
    found = at_the_minimum(dataset)
    assert sorted(found) == sorted(expected)
    assert reads or found == expected


def test_a_file_far_larger_than_the_budget(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        for i in range(2_000):
            file.write(b"%05d" % i + b"-" * 10_000 + b"\n")
    with ps.TextLineDataset(tmp_path / "large").batch(10).run(memory="1MB") as run:
        assert sum(len(batch) for batch in run) == 2_000
        assert run.ledger.peak_bytes <= 1_000_000


def test_nothing_is_held_of_a_file_that_cannot_be_taken_to_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"line\n" * 1000))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"x\ny\n"))
    dataset = ps.TextLineDataset([tmp_path / "a.gz", tmp_path / "b.gz"], compression_type="GZIP")
    with dataset.run() as run:
        for _ in range(5):
            next(run)
        state = run.state_dict()
    (tmp_path / "a.gz").write_bytes(b"something else")
    run = dataset.run()
    run.load_state_dict(state)
    assert list(run)[-1] == b"y"
    assert run.ledger.charged_bytes == 0
