"""on_error="skip" on every source: what cannot be read is left out and counted by file, and errors name their place."""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.testing import check_op
from tests.unit.io.files import failed_by_file

Case = tuple[Callable[[Path], None], Callable[..., Any], str, int]


def damaged_gzip(path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 10**9, 20_000)
    data = gzip.compress(b"".join(b"%09d\n" % row for row in rows))
    path.write_bytes(data[: len(data) // 2])


def damaged_record(path: Path) -> None:
    with ps.io.TFRecordWriter(path) as writer:
        for i in range(9):
            writer.write(b"record %d" % i)
    data = bytearray(path.read_bytes())
    data[3 * 24 + 14] ^= 1
    path.write_bytes(data)


def odd_length(path: Path) -> None:
    path.write_bytes(b"x" * 25)


def bad_field(path: Path) -> None:
    path.write_text("a,b\n1,2\n3,no\n5,6\n")


def bad_line(path: Path) -> None:
    path.write_text("".join(json.dumps({"a": i}) + "\n" for i in range(3)) + '{"a": [\n{"a": 4}\n')


def null_row(path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None, 3]}), path)


def null_in_arrow(path: Path) -> None:
    table = pa.table({"a": [1, None, 3]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def cut_archive(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for i in range(3):
            info = tarfile.TarInfo(f"{i}.bin")
            info.size = 2000
            archive.addfile(info, io.BytesIO(bytes(2000)))
    path.write_bytes(path.read_bytes()[: 2 * 2560 + 600])


def bad_image(path: Path) -> None:
    (path / "a").mkdir(parents=True)
    pixels = ps.image.encode_png(np.zeros((4, 4, 3), np.uint8))
    (path / "a" / "0.png").write_bytes(pixels)
    (path / "a" / "1.png").write_bytes(pixels[:30])


D = ps.Dataset
# How the file is written, how it is read, what the error says, and how many elements are left.
CASES: dict[str, Case] = {
    "text": (damaged_gzip, lambda p, **k: ps.TextLineDataset(p, "GZIP", **k), "ends at byte", 10_000),
    "text, in turn": (
        damaged_gzip,
        lambda p, **k: ps.TextLineDataset(p, "GZIP", num_parallel_reads=2, **k),
        "ends at byte",
        10_000,
    ),
    "tfrecord": (damaged_record, lambda p, **k: ps.TFRecordDataset(p, **k), "record 3 at byte 72", 8),
    "fixed length": (odd_length, lambda p, **k: ps.FixedLengthRecordDataset(p, 4, **k), "25 bytes", 0),
    "csv records": (
        bad_field,
        lambda p, **k: ps.CsvDataset(p, [np.int64, np.int64], header=True, **k),
        r"record 2|record 1|row 2|row 1",
        2,
    ),
    "csv": (bad_field, lambda p, **k: D.from_csv(p, dtypes={"b": "int64"}, **k), r"row 1.*\bb\b|row 2.*\bb\b", 2),
    "json lines": (bad_line, lambda p, **k: D.from_json_lines(p, dtypes={"a": "int64"}, **k), "row 3", 4),
    "parquet": (null_row, lambda p, **k: D.from_parquet(p, **k), "row 1", 2),
    "arrow": (null_in_arrow, lambda p, **k: D.from_arrow(p, **k), "row 1", 2),
    "tar": (cut_archive, lambda p, **k: D.from_tar(p, **k), "byte", 2),
    "images": (bad_image, lambda p, **k: D.from_image_folder(p, **k), "expected a whole PNG|expected a PNG|PNG", 1),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_cannot_be_read_is_left_out_and_counted(tmp_path: Path, name: str) -> None:
    write, make, place, left = CASES[name]
    path = tmp_path / "data"
    write(path)
    bad = path / "a" / "1.png" if path.is_dir() else path
    with pytest.raises(ps.errors.FormatError, match=place) as caught:
        list(make(str(path)))
    assert str(bad) in str(caught.value)
    run = make(str(path), on_error="skip").run()
    found = sum(1 for _ in run)
    assert found == left or (name.startswith("text") and 1_000 < found < 20_000)
    assert failed_by_file(run) == {str(bad): 1}
    check_op(make(str(path), on_error="skip"), most=20)
    with pytest.raises(ps.errors.BadArgument, match="on_error: expected 'raise' or 'skip', got 'stop'"):
        make(str(path), on_error="stop")


@pytest.mark.parametrize("name", ["text", "tfrecord", "fixed length", "csv records", "tar"])
def test_missing_files_are_left_out_and_counted(tmp_path: Path, name: str) -> None:
    make = CASES[name][1]
    gone = str(tmp_path / "gone")
    run = make(gone, on_error="skip").run()
    assert list(run) == []
    assert failed_by_file(run) == {gone: 1}


def test_records_that_are_left_out_are_no_places_of_a_shuffle(tmp_path: Path) -> None:
    """What comes is a shuffle of the good ones, wherever the bad ones were."""
    damaged_record(tmp_path / "a")
    skipping = ps.TFRecordDataset(tmp_path / "a", on_error="skip")
    good = list(skipping)
    expected = list(D.from_tensor_slices(np.array(good, object)).shuffle(4, seed=1).run(epoch=0))
    assert list(skipping.shuffle(4, seed=1).run(epoch=0)) == expected
    assert list(skipping.shard(2, 1)) == good[1::2]


def test_a_length_of_2_63_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(struct.pack("<Q", 1 << 63) + bytes(8))
    with pytest.raises(ps.errors.FormatError, match="record 0 at byte 0"):
        list(ps.TFRecordDataset(tmp_path / "a"))


def good_table(path: Path, kind: str) -> None:
    if kind == "parquet":
        pq.write_table(pa.table({"column": [1, 2]}), path)
    elif kind == "arrow":
        table = pa.table({"column": [1, 2]})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("column\n1\n2\n" if kind == "csv" else '{"column": 1}\n{"column": 2}\n')


def unreadable(path: Path, why: str) -> None:
    pq.write_table(pa.table({"column": [1, 2]}), path)
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-20], "name": whole.replace(b"column", b"c\xff\xfemn"[:6]), "empty": b""}[why])


READERS = {"parquet": D.from_parquet, "arrow": D.from_arrow, "csv": D.from_csv, "json": D.from_json_lines}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("parquet", "cut"),
        ("parquet", "name"),
        ("parquet", "missing"),
        ("arrow", "empty"),
        ("arrow", "missing"),
        ("csv", "missing"),
        ("csv", "empty"),
        ("json", "missing"),
        ("json", "empty"),
    ],
)
def test_the_first_file_that_can_be_read_says_what_elements_are(tmp_path: Path, kind: str, why: str) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    good_table(good, kind)
    if why != "missing":
        unreadable(bad, why)
    read = READERS[kind]
    counted = {} if (kind, why) == ("json", "empty") else {str(bad): 1}  # which is no error: it has no lines
    for files in ([bad, good], [good, bad]):
        for dataset in (read(files, on_error="skip"), read(files).ignore_errors()):
            run = dataset.run()
            assert [int(row["column"]) for row in run] == [1, 2]
            assert failed_by_file(run) == counted
        if counted:
            with pytest.raises(ps.errors.FormatError, match=str(bad)):
                list(read(files))
    check_op(read([bad, good], on_error="skip"))
    for on_error in ("raise", "skip"):
        with pytest.raises(ps.errors.FormatError, match=str(bad)):
            read([bad, bad], on_error=on_error)


def test_the_budget_is_that_of_files_behind_one_that_cannot_be_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.arange(4)}), tmp_path / "0")
    (tmp_path / "1").write_bytes(b"")
    pq.write_table(pa.table({"a": np.arange(400_000)}), tmp_path / "2")
    files = [str(tmp_path / name) for name in "012"]
    smallest = [
        D.from_parquet(some, on_error="skip").explain().to_dict()["minimum_bytes"] for some in (files, files[2])
    ]
    assert smallest[0] == smallest[1]
