"""TFRecordWriter: a file as a whole, or none."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock._native import frame_records

RECORDS = [b"first", b"", b"third" * 100]


def framed(records: list[bytes]) -> bytes:
    out = bytearray(sum(map(len, records)) + 16 * len(records))
    frame_records(records, out, 0)
    return bytes(out)


def test_records_are_framed(tmp_path: Path) -> None:
    with ps.io.TFRecordWriter(tmp_path / "data") as writer:
        for record in RECORDS:
            writer.write(record)
    assert (tmp_path / "data").read_bytes() == framed(RECORDS)
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize("path", [str, os.fsencode, Path])
def test_names_come_in_any_form(tmp_path: Path, path: type) -> None:
    with ps.io.TFRecordWriter(path(str(tmp_path / "dätä"))) as writer:
        writer.write(b"x")
    assert (tmp_path / "dätä").read_bytes() == framed([b"x"])


@pytest.mark.parametrize("options", ["GZIP", ps.io.TFRecordOptions("GZIP"), ps.io.TFRecordOptions("GZIP", 1)])
def test_gzip(tmp_path: Path, options: ps.io.TFRecordOptions | str) -> None:
    with ps.io.TFRecordWriter(tmp_path / "data", options) as writer:
        for record in RECORDS:
            writer.write(record)
            writer.flush()
    assert gzip.decompress((tmp_path / "data").read_bytes()) == framed(RECORDS)


def test_zlib(tmp_path: Path) -> None:
    sizes = []
    for level in (0, 9):
        with ps.io.TFRecordWriter(tmp_path / "data", ps.io.TFRecordOptions("ZLIB", compression_level=level)) as writer:
            for record in RECORDS:
                writer.write(record)
        data = (tmp_path / "data").read_bytes()
        assert zlib.decompress(data) == framed(RECORDS)
        sizes.append(len(data))
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("compression", [None, "", "GZIP", "ZLIB"])
def test_large_and_many_records(tmp_path: Path, compression: str | None) -> None:
    rng = np.random.default_rng(0)
    sizes = [*rng.integers(0, 5000, 300).tolist(), 300_000, 262_128, 262_127, 0, 10_000_000, 1]
    records = [rng.integers(0, 4, size, dtype=np.uint8).tobytes() for size in sizes]
    with ps.io.TFRecordWriter(tmp_path / "data", compression) as writer:
        for record in records:
            writer.write(record)
    data = (tmp_path / "data").read_bytes()
    undone = {"GZIP": gzip.decompress, "ZLIB": zlib.decompress}.get(compression or "", bytes)(data)
    assert undone == framed(records)


def test_framed_records(tmp_path: Path) -> None:
    data, _ = ps.io.encode_examples({"x": np.arange(6).reshape(3, 2)}, framed=True)
    with ps.io.TFRecordWriter(tmp_path / "data") as writer:
        writer.write(b"before")
        writer.write_framed(data)
        writer.write(b"after")
    assert (tmp_path / "data").read_bytes() == framed([b"before"]) + data + framed([b"after"])


def test_nothing_under_the_name_before_the_end(tmp_path: Path) -> None:
    writer = ps.io.TFRecordWriter(tmp_path / "data")
    writer.write(b"x" * 1_000_000)
    writer.flush()
    assert not (tmp_path / "data").exists()
    writer.close()
    assert (tmp_path / "data").exists()
    writer.close()
    with pytest.raises(ValueError, match="data: its writer is closed"):
        writer.write(b"more")
    assert repr(writer) == f"TFRecordWriter({str(tmp_path / 'data')!r}, closed)"


def test_an_exception_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"old")

    def write_and_fail() -> None:
        with ps.io.TFRecordWriter(tmp_path / "data") as writer:
            writer.write(b"x" * 1_000_000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert (tmp_path / "data").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["data"]


def test_a_killed_process_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    program = (
        "import os, sys, penstock as ps\n"
        "writer = ps.io.TFRecordWriter(sys.argv[1])\n"
        "writer.write(b'x' * 1_000_000)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "data").exists()
    assert all(name.startswith(".data.") and name.endswith(".part") for name in os.listdir(tmp_path))


def test_a_writer_that_is_lost_warns(tmp_path: Path) -> None:
    writer = ps.io.TFRecordWriter(tmp_path / "data")
    writer.write(b"x")
    with pytest.warns(ResourceWarning, match="data was not written: its writer was never closed"):
        del writer
    assert os.listdir(tmp_path) == []


def test_errors_name_the_path(tmp_path: Path) -> None:
    with pytest.raises(ps.errors.SpillError, match=r"cannot write to .*/missing/data: there is no directory"):
        ps.io.TFRecordWriter(tmp_path / "missing" / "data")
    with pytest.raises(ValueError, match="expected the name of a file"):
        ps.io.TFRecordWriter(tmp_path)
    with pytest.raises(ValueError, match="expected the name of a file, got '/dev/null'"):
        ps.io.TFRecordWriter("/dev/null")
    with pytest.raises(ValueError, match='options: expected None, "GZIP" or "ZLIB", got \'LZ4\''):
        ps.io.TFRecordWriter(tmp_path / "data", "LZ4")
    with pytest.raises(ValueError, match="compression_level: expected 0 to 9"):
        ps.io.TFRecordOptions("GZIP", 10)
    with ps.io.TFRecordWriter(tmp_path / "data") as writer:
        with pytest.raises(TypeError, match="expected bytes, got str"):
            writer.write("text")  # type: ignore[arg-type]  # wrong on purpose
        writer.write(bytearray(b"ab"))
        writer.write(memoryview(b"cd"))
    assert (tmp_path / "data").read_bytes() == framed([b"ab", b"cd"])


def test_a_full_disk_is_told_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ps.io.TFRecordWriter(tmp_path / "data")
    writer._file.close()  # type: ignore[union-attr]
    writer._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115  # the system's own full disk
    with pytest.raises(ps.errors.SpillError, match=r"cannot write to .*data: No space left on device"):
        writer.write(b"x" * 1_000_000)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("end", [ps.io.TFRecordWriter.close, ps.io.TFRecordWriter.discard])
def test_a_writer_that_has_ended_takes_nothing(tmp_path: Path, end: Callable[[ps.io.TFRecordWriter], None]) -> None:
    writer = ps.io.TFRecordWriter(tmp_path / "a")
    writer.write(b"small")
    end(writer)
    for record in (b"small", bytes(1 << 20), bytearray(b"x")):
        with pytest.raises(ps.errors.BadArgument, match="closed"):
            writer.write(record)


def test_records_around_the_size_of_the_buffer(tmp_path: Path) -> None:
    records = [bytes(size) for size in (3, 262_144 - 16 - 19, 0, 262_144 - 16, 262_144 - 15, 5, 262_143, 7)]
    with ps.io.TFRecordWriter(tmp_path / "a") as writer:
        for record in records:
            writer.write(record)
    assert list(ps.TFRecordDataset(str(tmp_path / "a"))) == records


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    for target in ("disk/data", "disk/not yet there"):
        link = tmp_path / "link"
        link.symlink_to(target)
        with ps.io.TFRecordWriter(link) as writer:
            writer.write(b"x")
        assert os.readlink(link) == target
        assert (tmp_path / target).read_bytes() == framed([b"x"])
        link.unlink()
    assert os.listdir(tmp_path) == ["disk"]
    assert sorted(os.listdir(tmp_path / "disk")) == ["data", "not yet there"]
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ps.errors.SpillError, match=r"round: Too many levels of symbolic links"):
        ps.io.TFRecordWriter(tmp_path / "round")
