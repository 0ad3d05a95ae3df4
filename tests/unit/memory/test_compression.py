"""Compressed files: as other programs read them, inside the budget, and with lengths that are not believed."""

import importlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import ElementTooLarge, FormatError
from penstock.memory.checksum import UNKNOWN_CHECKSUM, with_checksum
from penstock.memory.compression import codec_of
from penstock.memory.footer import compressed_buffers
from penstock.memory.ipc import IpcReader, IpcWriter
from penstock.testing import check_source, elements_of, same

D = ps.Dataset
CODECS = {"GZIP": "zstd", "SNAPPY": "lz4"}
compressed = pytest.mark.parametrize("compression", CODECS)
pytestmark = pytest.mark.timeout(60)


def only_file(folder: Path) -> Path:
    (file,) = folder.rglob("*.arrow")
    return file


def runs(count: int, size: int = 25_000) -> ps.Dataset:
    """Arrays that can be compressed well."""
    return D.range(count).map(lambda n: np.full(size, n, np.float64))


@compressed
@pytest.mark.parametrize(
    "dataset",
    [
        D.range(600),
        D.range(300).map(lambda x: (x, {"a": np.full(3, x), "b": b"text" * int(x % 5)})),
        D.range(20).map(lambda x: np.full((int(x) % 4, 2), x, np.float32)),
        D.range(5).map(lambda x: np.full(30_000, x)),
        D.range(5).map(lambda x: np.random.default_rng(int(x)).random(30_000)),
        D.range(9).map(lambda x: np.arange(x)).ragged_batch(2),
        D.from_tensor_slices(np.array([b"a", b"", b"\0" * 9999], dtype=object)),
        D.range(4).map(lambda x: (x == 1, np.complex64(1j) * x, np.zeros((2, 0), np.float16))),
        D.range(3).map(lambda x: np.datetime64("2024-01-01") + np.arange(3).astype("timedelta64[D]")),
    ],
    ids=["numbers", "nest", "shapes", "large", "random", "ragged", "strings", "dtypes", "dates"],
)
def test_elements_come_back_as_they_were(tmp_path: Path, dataset: ps.Dataset, compression: str) -> None:
    dataset.save(tmp_path, compression)
    expected = elements_of(dataset.run(), 1000)
    for found in (D.load(tmp_path), D.load(tmp_path, compression=compression)):
        assert all(map(same, elements_of(found.run(), 1000), expected))
        assert found.cardinality() == len(expected)


@compressed
def test_the_codec_is_in_the_file_and_files_are_smaller(tmp_path: Path, compression: str) -> None:
    runs(20).save(tmp_path / "plain")
    runs(20).save(tmp_path / "packed", compression)
    sizes = [only_file(tmp_path / name).stat().st_size for name in ("plain", "packed")]
    assert sizes[1] < sizes[0] / 20
    reader = IpcReader(only_file(tmp_path / "packed"))
    found = compressed_buffers(reader.read_head_of(reader.batches[0]))
    assert found is not None
    assert found[0] == {"lz4": 0, "zstd": 1}[CODECS[compression]]


@pytest.mark.parametrize("compression", [None, "", "NONE", "AUTO"])
def test_no_compression(tmp_path: Path, compression: str | None) -> None:
    runs(3).save(tmp_path, compression)
    reader = IpcReader(only_file(tmp_path))
    assert compressed_buffers(reader.read_head_of(reader.batches[0])) is None
    assert codec_of(compression) is None


@pytest.mark.parametrize("compression", ["gzip", "ZSTD", 1, ["GZIP"]])
def test_other_names_are_refused(tmp_path: Path, compression: Any) -> None:
    with pytest.raises(ValueError, match=r"compression: expected one of None, .*'GZIP'"):
        runs(1).save(tmp_path, compression)


@compressed
def test_polars_duckdb_and_pandas_open_them(tmp_path: Path, compression: str) -> None:
    polars, duckdb, pandas = map(importlib.import_module, ("polars", "duckdb", "pandas"))
    D.range(600).map(lambda n: {"number": n, "values": np.full(40, n)}).save(tmp_path, compression)
    path = only_file(tmp_path)
    assert polars.read_ipc(path)["number"].to_list() == list(range(600))
    assert pandas.read_feather(path)["values"][599].tolist() == [599] * 40
    table = pa.ipc.open_file(path).read_all()
    assert duckdb.from_arrow(table).query("seen", "select sum(number) from seen").fetchall() == [(179_700,)]


@compressed
def test_the_laws_of_a_source(tmp_path: Path, compression: str) -> None:
    D.range(30).map(lambda x: (x, np.full(4, x))).save(tmp_path, compression)
    check_source(D.load(tmp_path))


@compressed
def test_snapshots_are_compressed_too(tmp_path: Path, compression: str) -> None:
    calls: list[int] = []
    ds = D.range(20).map(lambda n: calls.append(int(n)) or np.full(25_000, n)).snapshot(tmp_path, compression)
    for _ in range(2):
        assert [int(x[0]) for x in ds] == list(range(20))
    assert calls == list(range(20))
    assert only_file(tmp_path).stat().st_size < 200_000


# --- inside the budget ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, *CODECS])
@pytest.mark.parametrize("size", [10, 5_000, 100_000])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_smallest_budget_that_is_named_is_enough(
    tmp_path: Path, compression: str | None, size: int, in_order: bool
) -> None:
    count = 300 if size == 10 else 20
    runs(count, size).save(tmp_path, compression)
    ds = D.load(tmp_path) if in_order else D.load(tmp_path).shuffle(seed=1)
    minimum = ds.explain().to_dict()["minimum_bytes"]
    assert minimum > 8 * size
    with ds.run(memory=minimum) as run:
        assert sorted(int(x[0]) for x in run) == list(range(count))
    assert run.ledger.peak_bytes <= minimum
    assert run.ledger.charged_bytes == 0
    with pytest.raises(ps.errors.BudgetTooSmall):
        ds.run(memory=minimum - 1)


@compressed
@pytest.mark.parametrize("reading", [False, True])
def test_the_smallest_budget_of_a_snapshot(tmp_path: Path, compression: str, reading: bool) -> None:
    ds = runs(10, 100_000).snapshot(tmp_path, compression)
    if reading:
        assert len(list(ds)) == 10
    minimum = ds.explain(sample=3).to_dict()["minimum_bytes"]
    with ds.run(memory=minimum) as run:
        assert [int(x[0]) for x in run] == list(range(10))
    assert run.ledger.peak_bytes <= minimum
    assert run.ledger.charged_bytes == 0


@compressed
def test_what_is_being_compressed_and_unpacked_is_on_the_ledger(tmp_path: Path, compression: str) -> None:
    peaks = {}
    for name, how in (("plain", None), ("packed", compression)):
        ds = runs(4, 500_000).with_options(ps.Options(memory="64MB"))
        with ds.run() as run:
            from penstock.runtime.save import save

            save(run, ds.node.spec, tmp_path / name, how, None, None)
            saving = run.ledger.peak_bytes
        with D.load(tmp_path / name).run(memory="64MB") as run:
            assert len(list(run)) == 4
        peaks[name] = saving, run.ledger.peak_bytes
    assert peaks["packed"][0] > peaks["plain"][0] + 4_000_000
    assert peaks["packed"][1] > peaks["plain"][1] + 4_000_000


@compressed
def test_saving_that_has_no_room_to_compress_says_so(tmp_path: Path, compression: str) -> None:
    with pytest.raises(ps.errors.OverBudget, match="save"):
        runs(4, 500_000).with_options(ps.Options(memory="6MB")).save(tmp_path, compression)
    assert not list(tmp_path.rglob("*.arrow"))


# --- bytes that somebody has changed --------------------------------------------------------------------------------


def damaged(path: Path, change: Any) -> None:
    """Changes the body of the first batch, and makes its checksum fit."""
    reader = IpcReader(path)
    stored = reader.batches[0]
    head = reader.read_head_of(stored)
    found = compressed_buffers(head)
    assert found is not None
    data = bytearray(path.read_bytes())
    body = memoryview(data)[stored.offset + len(head) : stored.offset + stored.nbytes]
    offset = max(found[1], key=lambda place: place[1])[0]
    change(body[offset:])
    at = data.index(b"batch:", stored.offset)
    data[at : at + 14] = UNKNOWN_CHECKSUM
    begin, end = stored.offset + 8, stored.offset + len(head)
    data[begin:end] = with_checksum(bytes(data[begin:end]), [body])
    path.write_bytes(data)


def set_length(length: int) -> Any:
    return lambda buffer: struct.pack_into("<q", buffer, 0, length)


def read_first(path: Path, reserved: list[int] | None = None) -> Any:
    import contextlib

    def decompressing(nbytes: int) -> Any:
        if reserved is not None:
            reserved.append(nbytes)
        return contextlib.nullcontext()

    reader = IpcReader(path)
    return reader.read(reader.batches[0], decompressing=decompressing)


@compressed
@pytest.mark.parametrize("length", [-2, -(1 << 63), 1 << 40, (1 << 63) - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_is_reserved(
    tmp_path: Path, compression: str, length: int
) -> None:
    runs(1).save(tmp_path, compression)
    damaged(only_file(tmp_path), set_length(length))
    reserved: list[int] = []
    with pytest.raises(FormatError, match=r"the batch at byte \d+ is damaged: .*bytes"):
        read_first(only_file(tmp_path), reserved)
    assert reserved == []


def test_a_length_that_could_be_is_reserved_before_it_is_there(tmp_path: Path) -> None:
    """A few bytes that would become more than the budget: pyarrow never gets to see them."""
    runs(1, 2_000_000).save(tmp_path, "GZIP")
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    damaged(only_file(tmp_path), set_length(16_500_000))
    with D.load(tmp_path).run(memory="64MB") as run, pytest.raises(FormatError, match="damaged"):
        next(run)
    ds = D.load(tmp_path)
    ds.node.op.saved.shards[0] = ds.node.op.saved.shards[0]._replace(read_bytes=0)
    with ds.run(memory="17MB") as run, pytest.raises(ElementTooLarge, match="load"):
        next(run)
    # Not to the byte: the pool is the process's, and others' small arrays come and go in it.
    assert pool.bytes_allocated() - before < 1_000_000


@compressed
@pytest.mark.parametrize("difference", [-8, 8])
def test_a_length_that_is_not_that_of_the_data(tmp_path: Path, compression: str, difference: int) -> None:
    runs(1).save(tmp_path, compression)
    damaged(only_file(tmp_path), set_length(200_000 + difference))
    with pytest.raises(FormatError, match="damaged"):
        read_first(only_file(tmp_path))


@compressed
def test_any_changed_byte_is_found_or_harmless(tmp_path: Path, compression: str) -> None:
    """With checksums that fit: whatever lies there, elements have the shapes that were saved, or it is an error."""
    D.range(40).map(lambda n: np.arange(n, n + 50)).save(tmp_path, compression)
    path = only_file(tmp_path)
    good = path.read_bytes()
    reader = IpcReader(path)
    stored = reader.batches[0]
    num_errors = 0
    for place in range(stored.offset, stored.offset + stored.nbytes, 3):
        changed = bytearray(good)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        try:
            damaged(path, lambda buffer: None)
            rows = read_first(path)
        except (FormatError, AssertionError, ValueError, struct.error):
            num_errors += 1
            continue
        assert len(rows) == 40
        assert sum(row.nbytes for row in rows) <= 40 * 50 * 8
    assert num_errors > 20


def test_a_checksum_finds_damage_in_compressed_bytes(tmp_path: Path) -> None:
    runs(2).save(tmp_path, "GZIP")
    path = only_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[IpcReader(path).batches[0].nbytes // 2 + IpcReader(path).batches[0].offset] ^= 1
    path.write_bytes(data)
    found = elements_of(D.load(tmp_path).run())
    assert "damaged" in str(found[0].error)
    assert found[1][0] == 1


def test_large_blocks_of_lz4_are_reserved(tmp_path: Path) -> None:
    runs(1).save(tmp_path, "SNAPPY")
    reserved: list[int] = []
    read_first(only_file(tmp_path), reserved)

    def four_megabytes(buffer: memoryview) -> None:
        buffer[8 + 5] = 0x70

    damaged(only_file(tmp_path), four_megabytes)
    with pytest.raises(FormatError):  # the header of a frame has a checksum of its own
        read_first(only_file(tmp_path), reserved)
    assert reserved[1] > reserved[0] + 4_000_000


def test_files_that_are_never_compressed_are_refused_if_they_are(tmp_path: Path) -> None:
    """Those of a cache are read without room for it."""
    writer = IpcWriter(tmp_path / "x.arrow", codec="zstd")
    writer.write([np.zeros(1000)])
    writer.close()
    reader = IpcReader(tmp_path / "x.arrow")
    with pytest.raises(FormatError, match="compressed"):
        reader.read(reader.batches[0])
