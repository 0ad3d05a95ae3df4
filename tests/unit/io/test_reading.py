"""shard(by="file"): which files, and which elements of shared ones, each of several workers reads."""

import gzip
import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io import file_shares
from penstock.io.file_shares import owners_by_weight, share_of
from penstock.testing import check_op

SIZES = (40, 90, 10, 25, 60)  # elements of each file


# --- who gets what ---


def shares(monkeypatch: pytest.MonkeyPatch, sizes: list[int], num_shards: int) -> list[list[Any]]:
    monkeypatch.setattr(file_shares, "_sizes", lambda paths: sizes)
    paths = [str(i) for i in range(len(sizes))]
    return [share_of(paths, num_shards, index) for index in range(num_shards)]


@pytest.mark.parametrize(
    ("sizes", "num_shards", "expected"),
    [
        ([5, 5, 5, 5], 2, ["0 1", "2 3"]),
        ([100, 101, 99, 100], 4, ["0", "1", "2", "3"]),
        ([6, 3, 3], 2, ["0", "1 2"]),
        ([7], 3, ["0[0/3]", "0[1/3]", "0[2/3]"]),
        ([4, 4], 4, ["0[0/2]", "0[1/2]", "1[0/2]", "1[1/2]"]),
        ([4, 4, 4], 2, ["0 1[0/2]", "1[1/2] 2"]),
        ([0, 0], 2, ["0", "1"]),
        ([], 2, ["", ""]),
        ([1000, 1, 1], 1, ["0 1 2"]),
    ],
)
def test_files_are_whole_where_that_is_fair(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], num_shards: int, expected: list[str]
) -> None:
    def shown(part: Any) -> str:
        return part.path if part.owners is None else f"{part.path}[{part.mine}/{len(part.owners)}]"

    found = shares(monkeypatch, sizes, num_shards)
    assert [" ".join(map(shown, share)) for share in found] == expected


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 10**12), max_size=30), st.integers(1, 40))
def test_every_element_is_somebodys_and_work_is_equal(sizes: list[int], num_shards: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = shares(patch, sizes, num_shards)
    whole = Counter(part.path for share in found for part in share if part.owners is None)
    shared: dict[str, list[Any]] = {}
    for share in found:
        for part in share:
            if part.owners is not None:
                shared.setdefault(part.path, []).append(part)
    assert set(whole) | set(shared) == {str(i) for i in range(len(sizes))}
    assert not set(whole) & set(shared)
    assert all(count == 1 for count in whole.values())
    for parts in shared.values():
        assert len({part.owners for part in parts}) == 1
        assert [part.mine for part in parts] == list(range(len(parts)))
        assert set(parts[0].owners) <= set(range(len(parts)))
    fair = sum(max(1, size) for size in sizes) / num_shards
    for share in found:
        # To within a twentieth, and the grain of a pattern for each of the two files at its ends.
        parts = [
            max(1, sizes[int(p.path)]) * (1 if p.owners is None else p.owners.count(p.mine) / len(p.owners))
            for p in share
        ]
        grain = max([max(1, sizes[int(p.path)]) for p in share if p.owners is not None], default=0) / 128
        assert abs(sum(parts) - fair) <= fair / 20 + 2 * grain + 1


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=8))
def test_shared_elements_are_dealt_out_evenly(weights: list[int]) -> None:
    owners = owners_by_weight(weights)
    for owner, weight in enumerate(weights):
        dealt = np.cumsum([o == owner for o in owners])
        fair = np.arange(1, len(owners) + 1) * weight / sum(weights)
        assert np.abs(dealt - fair).max() <= 2
    if len(set(weights)) == 1:
        assert owners == tuple(range(len(weights)))


# --- every format ---


def text(path: Path, rows: Iterable[int]) -> None:
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % row for row in rows)))


def records(path: Path, rows: Iterable[int]) -> None:
    with ps.io.TFRecordWriter(path, "GZIP") as writer:
        for row in rows:
            writer.write(b"%d" % row)


def fixed(path: Path, rows: Iterable[int]) -> None:
    path.write_bytes(gzip.compress(b"".join(b"%06d" % row for row in rows)))


def plain_records(path: Path, rows: Iterable[int]) -> None:
    with ps.io.TFRecordWriter(path) as writer:
        for row in rows:
            writer.write(b"%d" % row)


def plain_fixed(path: Path, rows: Iterable[int]) -> None:
    path.write_bytes(b"".join(b"%06d" % row for row in rows))


def csv(path: Path, rows: Iterable[int]) -> None:
    path.write_text("x,y\n" + "".join(f"{row},a\n" for row in rows))


def json_lines(path: Path, rows: Iterable[int]) -> None:
    path.write_text("".join(json.dumps({"x": row, "v": [row] * 3}) + "\n" for row in rows))


def parquet(path: Path, rows: Iterable[int]) -> None:
    table = pa.table({"x": list(rows)}).append_column(
        "v", pa.array([[float(row)] * 2 for row in rows], pa.list_(pa.float32(), 2))
    )
    pq.write_table(table, path, row_group_size=7)


def arrow(path: Path, rows: Iterable[int]) -> None:
    table = pa.table({"x": list(rows)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=9)


def tar(path: Path, rows: Iterable[int]) -> None:
    with tarfile.open(path, "w") as archive:
        for row in rows:
            info = tarfile.TarInfo(f"{row}.x")
            info.size = 3
            archive.addfile(info, io.BytesIO(b"%03d" % row))


FORMATS: dict[str, tuple[Callable[[Path, Iterable[int]], None], Callable[[list[str]], Any]]] = {
    "text": (text, lambda files: ps.TextLineDataset(files, "GZIP").map(lambda x: np.int64(int(x)))),
    "tfrecord": (records, lambda files: ps.TFRecordDataset(files, "GZIP").map(lambda x: np.int64(int(x)))),
    "fixed length": (
        fixed,
        lambda files: ps.FixedLengthRecordDataset(files, 6, compression_type="GZIP").map(lambda x: np.int64(int(x))),
    ),
    "csv records": (csv, lambda files: ps.CsvDataset(files, [np.int64, bytes], header=True).map(lambda x, y: x)),
    "csv": (csv, lambda files: ps.Dataset.from_csv(files).map(lambda e: e["x"])),
    "json lines": (json_lines, lambda files: ps.Dataset.from_json_lines(files).map(lambda e: e["v"][0])),
    "parquet": (parquet, lambda files: ps.Dataset.from_parquet(files).map(lambda e: e["x"] + int(e["v"][0]) - e["x"])),
    "arrow": (arrow, lambda files: ps.Dataset.from_arrow(files).map(lambda e: e["x"])),
    "tar": (tar, lambda files: ps.Dataset.from_tar(files).map(lambda e: np.int64(int(e["x"])))),
}


def written(folder: Path, write: Callable[[Path, Iterable[int]], None]) -> list[str]:
    files, first = [], 0
    for i, size in enumerate(SIZES):
        files.append(str(folder / f"{i}"))
        write(Path(files[-1]), range(first, first + size))
        first += size
    return files


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_shards_are_everything_once(tmp_path: Path, name: str) -> None:
    write, make = FORMATS[name]
    files = written(tmp_path, write)
    whole = make(files)
    for num_shards in (1, 2, 3, 7):
        found = [[int(x) for x in whole.shard(num_shards, i, by="file")] for i in range(num_shards)]
        assert sorted(x for part in found for x in part) == list(range(sum(SIZES)))
        assert all(part == sorted(part) for part in found)
    check_op(whole.shard(3, 1, by="file"), most=24)
    assert list(whole.shard(3, 1, by="file").skip(30)) == list(whole.shard(3, 1, by="file"))[30:]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_part_needs_no_more_memory(tmp_path: Path, name: str) -> None:
    write, make = FORMATS[name]
    ds = make(written(tmp_path, write)).shard(2, 0, by="file").batch(4)
    minimum = ds.explain(sample=1000).to_dict()["minimum_bytes"]
    run = ds.run(memory=minimum)
    assert [int(x) for batch in run for x in batch] == [int(x) for batch in ds for x in batch]
    assert run.ledger.peak_bytes <= minimum


def test_shards_read_their_files_and_no_others(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{i}.txt") for i in range(4)]
    for file in files:
        Path(file).write_text("x\n" * 10)
    first = ps.TextLineDataset(files).shard(2, 0, by="file")
    for file in files[2:]:
        Path(file).unlink()
    assert len(list(first)) == 20
    assert "2 files" in str(first.explain())
    assert "TextLineDataset" in str(first.explain())


IN_TURN: dict[str, tuple[Callable[[Path, Iterable[int]], None], Callable[[Any, int], Any]]] = {
    "text": (text, lambda files, n: ps.TextLineDataset(files, "GZIP", num_parallel_reads=n)),
    "tfrecord": (records, lambda files, n: ps.TFRecordDataset(files, "GZIP", num_parallel_reads=n)),
    "tfrecord, at any place": (plain_records, lambda files, n: ps.TFRecordDataset(files, num_parallel_reads=n)),
    "fixed length": (plain_fixed, lambda files, n: ps.FixedLengthRecordDataset(files, 6, num_parallel_reads=n)),
}


@pytest.mark.parametrize("name", sorted(IN_TURN))
def test_files_that_are_read_in_turn_are_shared_too(tmp_path: Path, name: str) -> None:
    write, make = IN_TURN[name]
    files = written(tmp_path, write)
    whole = make(files, 2).map(lambda x: np.int64(int(x)))
    for num_shards in (1, 2, 7):
        found = [[int(x) for x in whole.shard(num_shards, i, by="file")] for i in range(num_shards)]
        assert sorted(x for part in found for x in part) == list(range(sum(SIZES)))
    mine = whole.shard(3, 1, by="file")
    check_op(mine, most=24)
    minimum = mine.batch(4).explain(sample=1000).to_dict()["minimum_bytes"]
    run = mine.batch(4).run(memory=minimum)
    assert [int(x) for batch in run for x in batch] == [int(x) for x in mine]
    assert run.ledger.peak_bytes <= minimum
    names = ps.Dataset.from_tensor_slices(np.array([file.encode() for file in files], object))
    with pytest.raises(ps.errors.BadArgument, match="got a dataset of names; shard that dataset"):
        make(names, 2).shard(2, 0, by="file")


def test_what_is_read_at_any_place_is_sharded_by_element(tmp_path: Path) -> None:
    with ps.io.TFRecordWriter(tmp_path / "a") as writer:
        for i in range(10):
            writer.write(b"%d" % i)
    for ds in (ps.TFRecordDataset(tmp_path / "a"), ps.FixedLengthRecordDataset(tmp_path / "a", 1)):
        assert list(ds.shard(3, 1, by="file")) == list(ds.shard(3, 1))
    table = ps.Dataset.from_arrow(pa.table({"x": range(10)}))
    with pytest.raises(ps.errors.BadArgument, match="by='file': expected a source of files below, got range"):
        ps.Dataset.range(10).shard(3, 1, by="file")
    assert list(table.shard(3, 1, by="file")) == list(table.shard(3, 1))


def test_tables_with_nulls_are_sharded_by_element(tmp_path: Path) -> None:
    """What lies in memory, or is mapped, is no stream of files even where some rows are refused."""
    table = pa.table({"x": [1, None, 3, 4, 5, 6]})
    path = str(tmp_path / "a.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    for source in (table, path):
        ds = ps.Dataset.from_arrow(source, on_error="skip")
        assert [list(ds.shard(2, i, by="file")) for i in range(2)] == [list(ds.shard(2, i)) for i in range(2)]


def test_mistakes(tmp_path: Path) -> None:
    ds = ps.TextLineDataset(str(tmp_path / "a"))
    with pytest.raises(ps.errors.BadArgument, match=r"shard at .*: by: expected 'element' or 'file', got 'size'"):
        ds.shard(2, 0, by="size")
    with pytest.raises(ps.errors.BadArgument, match=r"shard at .*expected a source of files below, got shuffle"):
        ds.shuffle(3).shard(2, 0, by="file")
    with pytest.raises(ps.errors.BadArgument, match="index: expected less than"):
        ds.shard(2, 2, by="file")


# --- errors ---


def read(dataset: Any) -> list[Any]:
    run, found = dataset.run(), []
    while True:
        try:
            found.append(next(run))
        except StopIteration:
            return found
        except ps.errors.FormatError:
            found.append("error")


@pytest.mark.parametrize("num_shards", [2, 3, 5, 8])
def test_each_error_is_told_by_one_shard(tmp_path: Path, num_shards: int) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % i for i in np.random.default_rng(0).integers(0, 10**9, 2000)))
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "good").write_bytes(whole)
    files = [str(tmp_path / name) for name in ("cut", "gone", "good", "cut")]
    ds = ps.TextLineDataset(files, "GZIP")
    expected = Counter(read(ds))
    assert expected["error"] == 3
    found = [read(ds.shard(num_shards, i, by="file")) for i in range(num_shards)]
    assert sum((Counter(part) for part in found), Counter()) == expected
    check_op(ds.shard(num_shards, 1, by="file"), most=10)


def test_rows_that_do_not_fit_are_skipped_and_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{i}\n" if i % 5 else "no\n" for i in range(1, 100)))
    ds = ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"x": "int64"}, on_error="skip")
    runs = [ds.shard(3, i, by="file").run() for i in range(3)]
    assert sorted(int(e["x"]) for run in runs for e in run) == [i for i in range(1, 100) if i % 5]
    counted = [n for run in runs for stage in run.stats()["stages"] for n in stage["failed_by_file"].values()]
    assert sum(counted) == 19


@pytest.mark.parametrize("name", ["text", "csv"])
def test_skip_counts_what_came_before_an_error(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    whole = gzip.compress(b"a,b\n" + b"".join(b"%d,%s\n" % (i, rng.bytes(20).hex().encode()) for i in range(3000)))
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "good.csv.gz").write_bytes(whole)
    files = [str(tmp_path / "cut.csv.gz"), str(tmp_path / "good.csv.gz")]
    ds = ps.TextLineDataset(files, "GZIP") if name == "text" else ps.Dataset.from_csv(files)
    expected = read(ds)
    at = expected.index("error")
    assert at > 100
    for count in (at - 3, at, at + 1, at + 5):
        assert read(ds.skip(count)) == expected[count:]
