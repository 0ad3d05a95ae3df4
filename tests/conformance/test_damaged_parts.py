"""Files of every format with damage in their middle: whoever skips, shares or resumes agrees with who reads it all."""

import gzip
import io
import json
import struct
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.testing import check_op, elements_of, same

N, PART = 15, 5
D = ps.Dataset


def flipped(data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + bytes(byte ^ 0xFF for byte in data[start:stop]) + data[stop:]


def parquet(path: Path) -> None:
    """Three row groups; in the second a column is damaged behind its first pages."""
    table = pa.table({"x": np.arange(N), "s": [f"text {i}" for i in range(N)]})
    pq.write_table(
        table, path, row_group_size=PART, compression="gzip", use_dictionary=False, data_page_size=1, write_batch_size=2
    )
    column = pq.ParquetFile(path).metadata.row_group(1).column(1)
    start, end = column.data_page_offset, column.data_page_offset + column.total_compressed_size
    path.write_bytes(flipped(path.read_bytes(), (start + end) // 2, end))


def parquet_of_fewer_rows(path: Path) -> None:
    """The second row group has fewer rows than the footer says, which does not contradict itself."""
    table = pa.table({"x": [[i] * 3 for i in range(1000)]})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table.slice(0, N), path, row_group_size=PART, **options)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    # Numbers of the footer are stored doubled: of all rows, and of the second row group, whose values are 3 * PART.
    at = [i for i in range(len(footer)) if footer[i - 1 : i + 1] == bytes([0x16, 2 * PART])][1]
    total = footer.index(bytes([0x16, 2 * N]))
    changed = bytearray(footer)
    changed[at] = 2 * (PART + 2)
    changed[total + 1] = 2 * (N + 2)
    path.write_bytes(data[: -8 - len(footer)] + bytes(changed) + data[-8:])
    assert [pq.ParquetFile(path).metadata.row_group(i).num_rows for i in range(3)] == [PART, PART + 2, PART]


def parquet_that_contradicts_itself(path: Path) -> None:
    """The second row group would have 2**19 rows, and all of them together are fewer."""
    table = pa.table({"x": np.arange(3 * 8192)})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table, path, row_group_size=8192, **options)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    said = b"\x16\x80\x80\x01"  # 8192 as the footer writes it
    at = [i for i in range(len(footer)) if footer.startswith(said, i)]
    # The last number of each row group; those of its column come before.
    changed = footer[: at[-3]] + b"\x16\x80\x80\x40" + footer[at[-3] + 4 :]
    path.write_bytes(data[: -8 - len(footer)] + changed + data[-8:])


def arrow(path: Path, compression: str | None) -> None:
    """Three record batches; the strings of the second lie nowhere."""
    table = pa.table({"x": np.arange(N), "s": [f"text {i:020}" for i in range(N)]})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=PART)
    data = path.read_bytes()
    if compression is None:
        offsets = np.arange(0, 25 * PART + 1, 25, dtype=np.int32).tobytes()
        at = data.index(offsets, data.index(offsets) + 1)
        path.write_bytes(data[: at + 8] + struct.pack("<i", 2**30) + data[at + 12 :])
    else:
        magic = b"\x28\xb5\x2f\xfd"
        frames = [i for i in range(len(data)) if data.startswith(magic, i)]
        at = frames[len(frames) // 2]
        path.write_bytes(flipped(data, at + 6, at + 20))


def lines(path: Path) -> None:
    data = gzip.compress(b"".join(b"%d\n" % i for i in np.random.default_rng(0).integers(0, 10**9, N)))
    path.write_bytes(flipped(data, len(data) // 2, len(data) // 2 + 9))


def records(path: Path, compression: str) -> None:
    with ps.io.TFRecordWriter(path, compression) as writer:
        for i in range(N):
            writer.write(b"record %02d" % i)
    data = path.read_bytes()
    at = len(data) // 2 if compression else 25 * (N // 2) + 14
    path.write_bytes(flipped(data, at, at + 1))


def fixed(path: Path) -> None:
    data = gzip.compress(np.random.default_rng(0).bytes(6 * N))
    path.write_bytes(flipped(data, len(data) // 2, len(data) // 2 + 9))


def csv(path: Path) -> None:
    path.write_text("x,y\n" + "".join(f"{'no' if i // PART == 1 else i},a\n" for i in range(N)))


def json_lines(path: Path) -> None:
    path.write_text("".join("{\n" if i // PART == 1 else json.dumps({"x": i}) + "\n" for i in range(N)))


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for i in range(N):
            info = tarfile.TarInfo(f"{i}.x")
            info.size = 3
            archive.addfile(info, io.BytesIO(b"%03d" % i))
    path.write_bytes(flipped(path.read_bytes(), 1024 * (N // 2) + 100, 1024 * (N // 2) + 160))


FORMATS: dict[str, tuple[Callable[[Path], None], Callable[..., Any]]] = {
    "parquet": (parquet, D.from_parquet),
    "parquet, fewer rows": (parquet_of_fewer_rows, D.from_parquet),
    "arrow, packed": (lambda path: arrow(path, "zstd"), D.from_arrow),
    "arrow, mapped": (lambda path: arrow(path, None), D.from_arrow),
    "text": (lines, lambda files, **k: ps.TextLineDataset(files, "GZIP", **k)),
    "tfrecord": (lambda path: records(path, ""), ps.TFRecordDataset),
    "tfrecord, gzip": (lambda path: records(path, "GZIP"), lambda f, **k: ps.TFRecordDataset(f, "GZIP", **k)),
    "fixed length": (fixed, lambda f, **k: ps.FixedLengthRecordDataset(f, 6, compression_type="GZIP", **k)),
    "csv": (csv, lambda files, **k: D.from_csv(files, dtypes={"x": "int64"}, **k)),
    "csv records": (csv, lambda files, **k: ps.CsvDataset(files, [np.int64, bytes], header=True, **k)),
    "json lines": (json_lines, lambda files, **k: D.from_json_lines(files, dtypes={"x": "int64"}, **k)),
    "tar": (tar, D.from_tar),
}


def made(folder: Path, name: str, **keywords: Any) -> Any:
    """The file twice: what follows the damage is in its place, too."""
    write, make = FORMATS[name]
    write(folder / "a")
    return make([str(folder / "a")] * 2, **keywords)


def read(dataset: Any, **keywords: Any) -> list[Any]:
    return elements_of(dataset.run(epoch=0, **keywords))


@pytest.mark.parametrize("name", FORMATS)
def test_who_skips_arrives_where_who_reads_does(tmp_path: Path, name: str) -> None:
    dataset = made(tmp_path, name)
    whole = read(dataset)
    assert any("raised FormatError" in repr(element) for element in whole)
    for count in range(len(whole) + 2):
        assert same(read(dataset.skip(count)), whole[count:]), count
    for num_shards in (2, 3, 7):  # which read some and skip some
        for index in range(num_shards):
            assert same(read(dataset.shard(num_shards, index)), whole[index::num_shards])
        shares = [read(dataset.shard(num_shards, index, by="file")) for index in range(num_shards)]
        assert Counter(repr(element) for share in shares for element in share) == Counter(map(repr, whole))
    if dataset.cardinality() >= 0:
        assert dataset.cardinality() == len(whole)


@pytest.mark.parametrize("name", FORMATS)
def test_who_resumes_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    for on_error in ("raise", "skip"):
        dataset = made(tmp_path, name, on_error=on_error)
        check_op(dataset.shuffle(4, seed=3))
        check_op(dataset.shard(3, 1, by="file"))


def test_each_row_of_a_damaged_row_group_is_an_error(tmp_path: Path) -> None:
    whole = read(made(tmp_path, "parquet"))
    assert len(whole) == 2 * N
    run = made(tmp_path, "parquet", on_error="skip").run()
    num_good = len(list(run))
    assert 2 * (N - PART) <= num_good < 2 * N
    assert run.stats()["stages"][0]["failed_by_file"] == {str(tmp_path / "a"): 2 * N - num_good}
    with pytest.raises(ps.errors.FormatError, match=r"a, row (\d+): row group 1, after row \d+: expected Parquet data"):
        list(made(tmp_path, "parquet"))
    parts = [read(D.from_parquet(str(tmp_path / "a")).distribute(2, index)) for index in range(2)]
    assert len(parts[0]) == len(parts[1]) == N // 2  # and one is left over


def test_rows_that_a_damaged_footer_makes_up_are_one_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [-1]}), tmp_path / "good")
    parquet_that_contradicts_itself(tmp_path / "a")
    files = [str(tmp_path / "good"), str(tmp_path / "a")]
    run = D.from_parquet(files, on_error="skip").run()
    assert [row["x"] for row in run] == [-1, *range(8192), *range(2 * 8192, 3 * 8192)]
    assert run.stats()["stages"][0]["failed_by_file"] == {files[1]: 1}
    with pytest.raises(ps.errors.FormatError, match=r"row group 1: expected as many rows as values.*, got 524,288"):
        list(D.from_parquet(files))
    assert next(iter(D.from_parquet(files).skip(8194)))["x"] == 2 * 8192
