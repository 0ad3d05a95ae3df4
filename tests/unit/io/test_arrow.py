"""Arrow tables and IPC files: without a copy where that is possible, at any place, bad files."""

import datetime as dt
import os
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import penstock as ps
from penstock.testing import check_op, check_source
from tests.unit.io.files import at_the_minimum, busy_arrow, failed_by_file
from tests.unit.io.test_parquet import TABLE, N, plain

SPLIT = pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7, 2), TABLE.slice(9)])


@pytest.mark.parametrize("table", [TABLE, SPLIT, TABLE.combine_chunks().to_batches()[0]], ids=["one", "split", "batch"])
def test_rows_are_those_of_pyarrow(table: pa.Table) -> None:
    dataset = ps.Dataset.from_arrow(table)
    assert [plain(row) for row in dataset] == TABLE.to_pylist()
    assert [plain(row) for row in dataset.shuffle(seed=4)] != TABLE.to_pylist()
    assert sorted(plain(row)["x"] for row in dataset.shuffle(seed=4)) == list(range(N))
    assert "arithmetic on indices" in str(dataset.shuffle(seed=4).explain())


def test_the_laws() -> None:
    few, split = TABLE.slice(2, 12), SPLIT.slice(2, 12)
    check_source(ps.Dataset.from_arrow(few, columns=["s", "l", "b"]))
    check_source(ps.Dataset.from_arrow(split, columns=["s", "l", "b"]))
    check_source(ps.Dataset.from_arrow(split, columns=["v", "x"]))
    check_source(ps.Dataset.from_arrow(few, columns=["v", "x"]))


def test_numbers_are_views() -> None:
    array = np.arange(1000.0)
    (batch,) = ps.Dataset.from_arrow(pa.table({"x": array})).batch(1000)
    assert np.shares_memory(batch["x"], array)
    assert not batch["x"].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        batch["x"][0] = 1


def test_numbers_beside_strings_are_views() -> None:
    array = np.arange(10.0)
    table = pa.table({"x": array, "s": list("abcdefghij")})
    (batch,) = ps.Dataset.from_arrow(table).batch(10)
    assert np.shares_memory(batch["x"], array)
    assert not batch["x"].flags.writeable
    assert batch["s"].tolist() == [letter.encode() for letter in "abcdefghij"]


def test_polars_frames_are_tables() -> None:
    frame = pl.DataFrame({"a": [1, 2], "s": ["x", "y"]})
    assert [plain(row) for row in ps.Dataset.from_arrow(frame)] == frame.to_dicts()


def test_categories_of_polars_are_bytes() -> None:
    words = ["b", "a", None, "a"]
    frame = pl.DataFrame(
        {"c": pl.Series(words, dtype=pl.Categorical), "e": pl.Series(words, dtype=pl.Enum(["a", "b"]))}
    )
    dataset = ps.Dataset.from_arrow(frame, fill_null="none")
    expected = [{"c": word, "e": word} for word in (b"b", b"a", b"none", b"a")]
    assert list(dataset) == expected
    assert list(dataset.skip(1)) == expected[1:]


def test_times_with_a_zone_are_in_utc() -> None:
    noon = dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC)
    kinds = {zone: pa.timestamp("us", zone) for zone in ("UTC", "Europe/Berlin", "+03:00")}
    table = pa.table({zone: pa.array([noon], kind) for zone, kind in kinds.items()})
    (row,) = ps.Dataset.from_arrow(table)
    assert row == dict.fromkeys(kinds, np.datetime64("2020-07-01T12:00:00.000000"))


def test_fields_of_one_name_are_refused_at_any_depth() -> None:
    """A dict could hold only one of them, and the other would be lost."""
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    for column in (twice, pa.StructArray.from_arrays([twice], ["x"])):
        with pytest.raises(ps.errors.BadArgument, match=r"names of their own in s(\.x)?, got \['x'\] more than once"):
            ps.Dataset.from_arrow(pa.table({"s": column}))
    assert list(ps.Dataset.from_arrow(pa.table({"s": twice, "y": [3]}), columns=["y"])) == [{"y": 3}]


def test_nulls_are_refused_or_filled() -> None:
    table = pa.table({"x": [1, None, 3] * 4, "st": [{"a": 1}, {"a": 2}, None] * 4})
    dataset = ps.Dataset.from_arrow(table)
    with pytest.raises(ps.errors.FormatError, match=r"row 1: expected a value in column x, got null"):
        list(dataset)
    check_op(dataset)
    check_op(dataset.take(3))
    run = ps.Dataset.from_arrow(table, on_error="skip").run()
    assert len(list(run)) == 4
    assert failed_by_file(run) == {"table": 8}
    filled = ps.Dataset.from_arrow(table, fill_null=-1)
    assert [plain(row) for row in filled.take(3)] == [
        {"x": 1, "st": {"a": 1}},
        {"x": -1, "st": {"a": 2}},
        {"x": 3, "st": {"a": -1}},
    ]
    check_source(filled)


@pytest.mark.parametrize("columns", [["x"], ["s"], ["l"], ["x", "s", "l", "b"]], ids=str)
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_file_needs_one_record_batch(tmp_path: Path, compression: str, columns: list[str]) -> None:
    count, at_once = 10_000, 5_000
    table = pa.table({
        "x": np.arange(count),
        "s": [b"%d" % i for i in range(count)],
        "l": [[i] * (i % 5) for i in range(count)],
        "b": np.arange(count) % 3 == 0,
        "other": np.random.default_rng(0).random(count),
    })  # fmt: skip
    feather.write_feather(table, tmp_path / "a", compression=compression, chunksize=at_once)
    dataset = ps.Dataset.from_arrow(tmp_path / "a", columns=columns)
    expected = [plain(row) for row in dataset]
    # As it lies in the file, unpacked, and the codec; and a few rows.
    batch_bytes = 2 * table.select(columns).slice(0, at_once).nbytes + (500 << 10)
    for pipeline, least_bytes in ((dataset, 0), (dataset.shuffle(1000, seed=1), 150 * 1000)):
        with pytest.raises(ps.errors.BudgetTooSmall, match="from_arrow"):
            list(pipeline.run(memory=8000))
        minimum = pipeline.explain(sample=count).to_dict()["minimum_bytes"]
        assert minimum < batch_bytes + least_bytes + 120 * 1000 * len(columns)
        run = pipeline.run(memory=minimum)
        found = [plain(row) for row in run]
        assert found == expected if pipeline is dataset else sorted(found, key=str) == sorted(expected, key=str)
        assert run.ledger.peak_bytes <= minimum


def test_a_large_row_of_a_compressed_file_is_made_alone(tmp_path: Path) -> None:
    rows = [b"a" * (50_000 if i == 900 else 10) for i in range(1000)]
    feather.write_feather(pa.table({"s": rows}), tmp_path / "a", compression="zstd")
    dataset = ps.Dataset.from_arrow(tmp_path / "a")
    assert [row["s"] for row in dataset.run(memory=dataset.explain(sample=1000).to_dict()["minimum_bytes"])] == rows


def test_empty_tables() -> None:
    assert list(ps.Dataset.from_arrow(TABLE.slice(0, 0))) == []
    assert list(ps.Dataset.from_arrow(TABLE.schema.empty_table().select(["x"])).batch(2)) == []


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_files(tmp_path: Path, compression: str) -> None:
    feather.write_feather(TABLE, tmp_path / "a.arrow", compression=compression, chunksize=8)
    dataset = ps.Dataset.from_arrow([tmp_path / "a.arrow"] * 2)
    assert [plain(row) for row in dataset] == TABLE.to_pylist() * 2
    assert dataset.cardinality() == (2 * N if compression == "uncompressed" else ps.UNKNOWN)
    check_op(dataset)
    check_op(ps.Dataset.from_arrow(tmp_path / "a.arrow", columns=["x"]).shuffle(5, seed=1).batch(4))
    assert len(at_the_minimum(dataset)) == 2 * N


def test_a_mapped_file_is_one_whoever_else_uses_arrow(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(20_000)})
    feather.write_feather(table, str(tmp_path / "t.arrow"), "uncompressed", chunksize=10)
    with busy_arrow():
        for _ in range(5):
            assert ps.Dataset.from_arrow(tmp_path / "t.arrow").cardinality() == 20_000


def test_bad_files_are_errors_in_their_place(tmp_path: Path) -> None:
    feather.write_feather(TABLE, tmp_path / "good", compression="uncompressed", chunksize=8)
    data = (tmp_path / "good").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty").write_bytes(b"")
    names = ["good", "cut", "empty", "no", "good"]
    dataset = ps.Dataset.from_arrow([tmp_path / name for name in names])
    run = dataset.ignore_errors().run()
    assert [plain(row) for row in run] == TABLE.to_pylist() * 2
    assert failed_by_file(run) == {str(tmp_path / name): 1 for name in names[1:4]}
    with pytest.raises(ps.errors.FormatError, match="cut: expected an Arrow IPC file, got"):
        list(dataset)
    with pytest.raises(TypeError, match="table_or_path: expected an Arrow table"):
        ps.Dataset.from_arrow(3)


def test_damaged_schemas_are_errors_in_their_place(tmp_path: Path) -> None:
    """Every other byte of the footer in turn: what is refused names the file, and the file before is read."""
    names = [str(tmp_path / "good"), str(tmp_path / "bad")]
    table = pa.table({"v": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), "o": [{"abc": 1}, {"abc": 2}]})
    feather.write_feather(table, names[0], compression="uncompressed")
    data = Path(names[0]).read_bytes()
    said = []
    for at in range(data.find(b"\xff\xff\xff\xff\0\0\0\0") + 1, len(data), 2):
        Path(names[1]).write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert [row["o"]["abc"] for row in ps.Dataset.from_arrow(names, on_error="skip")][:2] == [1, 2]
        try:
            list(ps.Dataset.from_arrow(names[1]))
        except ps.errors.FormatError as error:
            said.append(str(error))
    assert all(names[1] in text for text in said)
    assert any("expected names of columns in UTF-8" in text for text in said)
    assert any("expected lists of some size in column v, got a size of -" in text for text in said)


def test_offsets_that_lead_nowhere_are_an_error(tmp_path: Path) -> None:
    table = pa.table({"s": ["abcdefgh"] * 10})
    feather.write_feather(table, tmp_path / "a", compression="uncompressed")
    data = bytearray((tmp_path / "a").read_bytes())
    at = data.find(np.arange(0, 88, 8, dtype=np.int32).tobytes())
    assert at > 0
    data[at + 8 : at + 12] = np.int32(2**30).tobytes()
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ps.errors.FormatError, match="expected Arrow data"):
        list(ps.Dataset.from_arrow(tmp_path / "a"))


def cut_short(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize("columns", [["x"], ["x", "s"]], ids=["views", "strings"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("chunk", [10_000, 100], ids=["one piece", "pieces"])
def test_a_file_that_is_cut_short_while_it_is_read(
    tmp_path: Path, columns: list[str], shuffled: bool, chunk: int
) -> None:
    table = pa.table({"x": np.arange(10_000), "s": [f"{i:06}" for i in range(10_000)]})
    for name in "ab":
        feather.write_feather(table, tmp_path / name, "uncompressed", chunksize=chunk)
    for names in ("a", "ab"):
        feather.write_feather(table, tmp_path / "a", "uncompressed", chunksize=chunk)
        dataset = ps.Dataset.from_arrow([tmp_path / name for name in names], columns=columns)
        run = (dataset.shuffle(seed=1) if shuffled else dataset).run()
        next(run)
        cut_short(tmp_path / "a")
        found, failed = [], []
        while True:
            try:
                found.append(next(run))
            except StopIteration:
                break
            except ps.errors.FormatError as error:
                failed.append(str(error))
        assert all("a: expected" in text and "got 100: it was cut short" in text for text in failed)
        assert len(failed) + len(found) == 10_000 * len(names) - 1
        assert len(failed) > 5_000
        assert failed_by_file(run) == {str(tmp_path / "a"): len(failed)}


def test_rows_of_a_file_that_is_cut_short_are_skipped(tmp_path: Path) -> None:
    for name in "ab":
        feather.write_feather(pa.table({"x": np.arange(1000)}), tmp_path / name, "uncompressed", chunksize=10)
    run = ps.Dataset.from_arrow([tmp_path / "a", tmp_path / "b"], on_error="skip").run()
    first = next(run)
    cut_short(tmp_path / "a")
    found = [row["x"] for row in run]
    failed = failed_by_file(run)
    assert first["x"] == 0
    assert found[-1000:] == list(range(1000))
    assert failed == {str(tmp_path / "a"): 1999 - len(found)}
    assert len(found) < 1999


def test_a_file_that_is_replaced_lives_on(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"x": np.arange(1000)}), tmp_path / "a", "uncompressed")
    run = ps.Dataset.from_arrow(tmp_path / "a").run()
    next(run)
    (tmp_path / "b").write_bytes(b"short")
    (tmp_path / "b").rename(tmp_path / "a")
    assert len(list(run)) == 999


def test_strings_are_looked_at_again_when_the_file_was_written_to(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"s": ["abcdefgh"] * 1000}), tmp_path / "a", compression="uncompressed")
    data = (tmp_path / "a").read_bytes()
    at = data.find(np.arange(0, 8008, 8, dtype=np.int32).tobytes())
    dataset = ps.Dataset.from_arrow(tmp_path / "a")
    run = dataset.run()
    next(run)
    with open(tmp_path / "a", "r+b") as file:
        file.seek(at)
        file.write(np.full(1001, 2**30, np.int32).tobytes())
    os.utime(tmp_path / "a", ns=(1, 1))
    with pytest.raises(ps.errors.FormatError, match="expected Arrow data"):
        list(run)


def test_the_first_file_that_can_be_read_tells_the_columns(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no table")
    feather.write_feather(pa.table({"x": [1, 2]}), tmp_path / "b", "uncompressed")
    names = [tmp_path / "a", tmp_path / "gone", tmp_path / "b"]
    run = ps.Dataset.from_arrow(names, on_error="skip").run()
    assert [plain(row) for row in run] == [{"x": 1}, {"x": 2}]
    assert failed_by_file(run) == {str(tmp_path / "a"): 1, str(tmp_path / "gone"): 1}
    with pytest.raises(ps.errors.FormatError, match="a: expected an Arrow IPC file"):
        list(ps.Dataset.from_arrow(names))
    with pytest.raises(ps.errors.FormatError, match="a: expected an Arrow IPC file"):
        ps.Dataset.from_arrow(names[:2], on_error="skip")
