"""Every format read of real stores of objects, as of files here."""

from __future__ import annotations

import gzip
import io
import itertools
import tarfile
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

from .stores import Folder

D = ps.Dataset
RECORDS = [b"record %d" % i + b"x" * (i % 50) for i in range(300)]


def records_as_file(records: list[bytes]) -> bytes:
    data = bytearray()
    for record in records:
        head = len(record).to_bytes(8, "little")
        data += head + _masked(head) + record + _masked(record)
    return bytes(data)


def _masked(data: bytes) -> bytes:
    crc = ps._native.crc32c(np.frombuffer(data, np.uint8))
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def resumed_in_the_middle(ds: Any, n: int) -> list[Any]:
    run = ds.run()
    for _ in range(n):
        next(run)
    other = ds.run()
    other.load_state_dict(run.state_dict())
    return list(other)


def test_records(store: Folder) -> None:
    for i in range(3):
        store.put(f"t-{i}", records_as_file(RECORDS[i::3]))
    in_order = RECORDS[0::3] + RECORDS[1::3] + RECORDS[2::3]
    files = ps.TFRecordDataset(store / "t-*")
    assert list(files) == in_order
    assert resumed_in_the_middle(files, 70) == in_order[70:]
    assert sorted(ps.TFRecordDataset([store / "t-0", store / "t-1"], num_parallel_reads=2)) == sorted(in_order[:200])
    shards = [list(files.shard(5, i, by="file")) for i in range(5)]
    assert sorted(itertools.chain(*shards)) == sorted(RECORDS)


@pytest.mark.parametrize("index", ["memory", "saved"])
def test_records_by_number(store: Folder, index: str) -> None:
    for i in range(2):
        store.put(f"t-{i}", records_as_file(RECORDS[i::2]))
    expected = list(D.from_tensor_slices(RECORDS[0::2] + RECORDS[1::2]).shuffle(100, seed=1))
    ds = ps.TFRecordDataset(store / "t-*", index=index).shuffle(100, seed=1)
    assert list(ds) == expected
    assert list(ps.TFRecordDataset(store / "t-*", index=index).shuffle(100, seed=1)) == expected
    assert resumed_in_the_middle(ps.TFRecordDataset(store / "t-*", index=index).shard(3, 1), 7)
    saved = [".t-0.penstock-index", ".t-1.penstock-index"] if index == "saved" else []
    assert store.names() == [*saved, "t-0", "t-1"]


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_records(store: Folder, compression: str) -> None:
    pack = gzip.compress if compression == "GZIP" else zlib.compress
    ds = ps.TFRecordDataset(store.put("t", pack(records_as_file(RECORDS))), compression)
    assert list(ds) == RECORDS
    assert resumed_in_the_middle(ds, 111) == RECORDS[111:]


def test_lines_and_fields(store: Folder) -> None:
    text = b"".join(b"%d,%d.5,s%d\n" % (i, i, i) for i in range(1000))
    store.put("t.csv", b"a,b,c\n" + text)
    store.put("t.csv.gz", gzip.compress(b"a,b,c\n" + text))
    store.put("lines", text)
    assert list(ps.TextLineDataset(store / "lines")) == text.splitlines()
    assert list(ps.TextLineDataset(store / "t.csv.gz", "GZIP").skip(1)) == text.splitlines()
    rows = list(ps.CsvDataset(store / "t.csv", [np.int64, np.float32, bytes], header=True))
    assert rows[7] == (7, 7.5, b"s7")
    assert len(rows) == 1000
    for name in ("t.csv", "t.csv.gz"):
        ds = D.from_csv(store / name)
        assert [row["a"] for row in ds] == list(range(1000))
        assert [row["c"] for row in resumed_in_the_middle(ds, 990)] == [b"s%d" % i for i in range(990, 1000)]
    store.put("t.jsonl", b"".join(b'{"a": %d, "b": {"c": [%d]}}\n' % (i, i) for i in range(1000)))
    assert [row["b"]["c"].tolist() for row in D.from_json_lines(store / "t.jsonl")] == [[i] for i in range(1000)]


def test_records_of_one_length(store: Folder) -> None:
    data = np.arange(4000, dtype=np.int32).tobytes()
    store.put("t", b"head" + data + b"foot!")
    store.put("t.gz", gzip.compress(data))
    ds = ps.FixedLengthRecordDataset(store / "t", 16, header_bytes=4, footer_bytes=5)
    expected = [data[i : i + 16] for i in range(0, len(data), 16)]
    assert list(ds) == expected
    assert sorted(ds.shuffle(200, seed=1)) == sorted(expected)
    assert list(ds.skip(990)) == expected[990:]
    assert list(ps.FixedLengthRecordDataset(store / "t.gz", 16, compression_type="GZIP")) == expected


def test_tables(store: Folder) -> None:
    table = pa.table({"x": np.arange(5000), "s": [f"row {i}" for i in range(5000)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1500)
    store.put("t.parquet", sink.getvalue())
    for name, options in (("t.arrow", None), ("t.lz4", "lz4")):
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=options)) as writer:
            writer.write_table(table, max_chunksize=2000)
        store.put(name, sink.getvalue())
    for ds in (
        D.from_parquet(store / "t.parquet"),
        D.from_arrow(store / "t.arrow"),
        D.from_arrow(store / "t.lz4"),
    ):
        rows = list(ds)
        assert [int(row["x"]) for row in rows] == list(range(5000))
        assert rows[4321]["s"] == b"row 4321"
        assert [int(row["x"]) for row in resumed_in_the_middle(ds, 4990)] == list(range(4990, 5000))
    assert [row["x"] for row in D.from_parquet(store / "t.par*", columns=["x"]).skip(4998)] == [4998, 4999]


def test_archives(store: Folder) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for i in range(50):
            for ending, data in (("txt", b"text %d" % i), ("cls", b"%d" % i)):
                info = tarfile.TarInfo(f"folder/{i}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    for i in range(2):
        store.put(f"s-{i}.tar", sink.getvalue())
    store.put("s.tar.gz", gzip.compress(sink.getvalue()))
    assert [sample["cls"] for sample in D.from_tar(store / "s-{0..1}.tar")] == [b"%d" % i for i in range(50)] * 2
    assert [sample["txt"] for sample in D.from_tar(store / "s.tar.gz")] == [b"text %d" % i for i in range(50)]
    assert [s["txt"] for s in resumed_in_the_middle(D.from_tar(store / "s-0.tar"), 48)] == [b"text 48", b"text 49"]


def test_images(store: Folder) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    encoded = ps.image.encode_png(pixels)
    for name in ("cat/1.png", "cat/100% a?.png", "dog/deep/2 x.png", "dog/readme.txt"):
        store.put(f"images/{name}", encoded)
    ds = D.from_image_folder(store / "images")
    assert ds.class_names == ("cat", "dog")
    found = list(ds)
    assert [int(label) for _, label in found] == [0, 0, 1]
    assert all((image == pixels).all() for image, _ in found)
    assert ps.io.read_file(store / "images/dog/readme.txt") == encoded
    assert ps.io.read_file((store / "images/dog/deep/2%20x.png").encode()) == encoded


def test_odd_names(store: Folder) -> None:
    names = ["a b.txt", "a#b.txt", "50%25.txt", "what?.txt", "x[1].txt", "ä*.txt", "{0..1}.txt", "sub/a.txt"]
    for name in names:
        store.put(name, name.encode() + b"\n")
    assert sorted(ps.TextLineDataset(store / "*.txt")) == sorted(name.encode() for name in names if "/" not in name)
    assert list(ps.TextLineDataset(store / "*/*.txt")) == [b"sub/a.txt"]
    assert list(ps.TextLineDataset(store / "what?.txt")) == [b"what?.txt"]
    assert list(ps.TextLineDataset(store / "a#b.txt")) == [b"a#b.txt"]
    assert list(ps.TextLineDataset(store / "a%20?.txt")) == [b"a b.txt"]
    assert list(ps.TextLineDataset(store / "%C3%A4%2A.t*")) == ["ä*.txt".encode()]
    listed = D.list_files(store / "*.txt", shuffle=False)
    assert [ps.io.read_file(name) for name in listed] == [line + b"\n" for line in ps.TextLineDataset(store / "*.txt")]
    assert sorted(listed.interleave(ps.TextLineDataset)) == sorted(ps.TextLineDataset(store / "*.txt"))
