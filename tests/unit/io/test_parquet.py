"""Parquet files against pyarrow and Polars; positions, budgets, nulls, bad files."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.testing import check_op, check_source
from tests.unit.io.files import ALL, at_the_minimum, busy_arrow, failed_by_file

N = 30
TABLE = pa.table(
    {
        "x": np.arange(N),
        "s": [str(i) * i for i in range(N)],
        "v": pa.array([[float(i)] * 3 for i in range(N)], pa.list_(pa.float32(), 3)),
        "l": [[i] * (i % 4) for i in range(N)],
        "b": [i % 2 == 0 for i in range(N)],
        "st": [{"a": i, "t": str(i)} for i in range(N)],
        "d": pa.array([datetime.date(2020, 1, 1 + i) for i in range(N)]),
        "c": pa.array(["u", "v", "w"] * 10).dictionary_encode(),
    }
)


def plain(element: Any) -> Any:
    """An element as Python values."""
    if isinstance(element, dict):
        return {key: plain(part) for key, part in element.items()}
    if isinstance(element, bytes):
        return element.decode()
    return element.tolist() if isinstance(element, (np.ndarray, np.generic)) else element


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=7)
    pq.write_table(TABLE.slice(0, 5), tmp_path / "b.parquet")
    return tmp_path


def test_rows_are_those_of_pyarrow(folder: Path) -> None:
    dataset = ps.Dataset.from_parquet(str(folder / "*.parquet"))
    assert [plain(row) for row in dataset] == TABLE.to_pylist() + TABLE.slice(0, 5).to_pylist()
    assert len(dataset) == N + 5
    assert dataset.element_spec["v"] == ps.TensorSpec((3,), np.float32)
    assert dataset.element_spec["l"] == ps.TensorSpec((None,), np.int64)
    batches = list(ps.Dataset.from_parquet(folder / "a.parquet", columns=["v", "x"]).batch(8))
    assert list(batches[0]) == ["v", "x"]
    assert np.concatenate([batch["x"] for batch in batches]).tolist() == list(range(N))
    assert batches[0]["v"].shape == (8, 3)


def test_rows_are_those_that_polars_wrote(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"i": [1, 2, 3], "f": [0.5, 1.5, 2.5], "s": ["a", "", "é"], "u": pl.Series([1, 2, 255], dtype=pl.UInt8)}
    )
    for compression in ("zstd", "snappy", "uncompressed", "lz4"):
        frame.write_parquet(tmp_path / "p.parquet", compression=compression)  # type: ignore[arg-type]
        found = [plain(row) for row in ps.Dataset.from_parquet(tmp_path / "p.parquet")]
        assert found == frame.to_dicts()


def test_the_laws(folder: Path) -> None:
    check_source(ps.Dataset.from_parquet(str(folder / "*.parquet"), columns=["x", "s", "l"]))
    check_op(ps.Dataset.from_parquet(folder / "a.parquet", columns=["v", "x"]).skip(9).batch(4))


def test_skipping_reads_no_row_group(folder: Path) -> None:
    skipped = ps.Dataset.from_parquet(folder / "a.parquet", columns=["x"]).skip(28)
    assert [int(row["x"]) for row in skipped] == [28, 29]


def test_nulls_are_refused_or_filled(tmp_path: Path) -> None:
    table = pa.table(
        {"x": [1, None, 3], "s": ["a", "b", None], "v": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2))}
    )
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=2)
    path = tmp_path / "n.parquet"
    with pytest.raises(ps.errors.FormatError, match=r"n.parquet, row 1: expected a value in column x, got null"):
        list(ps.Dataset.from_parquet(path))
    run = ps.Dataset.from_parquet(path, on_error="skip").run()
    assert [plain(row) for row in run] == [{"x": 1, "s": "a", "v": [1, 2]}]
    assert failed_by_file(run) == {str(path): 2}
    filled = [plain(row) for row in ps.Dataset.from_parquet(path, fill_null={"x": -1, "s": "?", "v": 9})]
    assert filled[1:] == [{"x": -1, "s": "b", "v": [9, 9]}, {"x": 3, "s": "?", "v": [3, 9]}]
    numbers_only = ps.Dataset.from_parquet(path, fill_null=0).ignore_errors()
    assert [plain(row)["x"] for row in numbers_only] == [1, 0]
    with pytest.raises(ps.errors.FormatError, match=r"in column x, got null; fill_null=1.5 is none of int64: give one"):
        list(ps.Dataset.from_parquet(path, fill_null=1.5))
    with pytest.raises(ps.errors.FormatError, match=r"fill_null=nan is none of int64"):  # and NumPy does not warn of it
        list(ps.Dataset.from_parquet(path, fill_null=float("nan")))
    with pytest.raises(ValueError, match="fill_null: expected a value for x of int64, got 'no'"):
        ps.Dataset.from_parquet(path, fill_null={"x": "no"})
    with pytest.raises(ValueError, match="fill_null: expected columns among"):
        ps.Dataset.from_parquet(path, fill_null={"y": 1})


def shape_of(row: Any, depth: int) -> tuple[int, ...] | None:
    """The shape of lists in lists; None if those in one are not all alike."""
    if depth == 1:
        return (len(row),)
    shapes = {shape_of(part, depth - 1) for part in row}
    if None in shapes or len(shapes) > 1:
        return None
    return (len(row), *(shapes.pop() if shapes else (0,) * (depth - 1)))  # type: ignore[misc]


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize(
    ("value", "kind"), [(7, pa.int32()), (b"\xff", pa.binary()), ([1.0, 2.0], pa.list_(pa.float32(), 2))]
)
def test_lists_in_lists_are_arrays_of_more_dimensions(
    tmp_path: Path, depth: int, value: Any, kind: pa.DataType
) -> None:
    random = np.random.default_rng(depth)
    rows: list[Any] = []
    for sizes in random.integers(0, 4, (40, depth)).tolist():
        row = value
        for size in sizes:
            row = [row] * size
        rows.append(row if random.random() < 0.7 or not row else [*row[1:], row[0][:-1]])
    for i in range(depth):
        kind = pa.large_list(kind) if i % 2 else pa.list_(kind)
    table = pa.table({"v": pa.array([None, *rows], kind), "x": range(41)}).slice(1)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=9)
    shapes = [shape_of(row, depth) for row in rows]
    expected = [i for i, shape in enumerate(shapes, 1) if shape is not None]
    assert 10 < len(expected) < 40
    for source in (ps.Dataset.from_parquet(tmp_path / "a.parquet"), ps.Dataset.from_arrow(table)):
        found = list(source.ignore_errors())
        assert [int(row["x"]) for row in found] == expected
        for row in found:
            assert plain({"v": row["v"]}) == {"v": rows[int(row["x"]) - 1]}
            assert row["v"].shape[:depth] == shapes[int(row["x"]) - 1]
        with pytest.raises(ps.errors.FormatError, match="expected lists of one length inside each other in column v"):
            list(source)
        check_op(source)
        assert len(at_the_minimum(source.ignore_errors())) == len(expected)
    assert len(list(ps.Dataset.from_arrow(table, on_error="skip").take(3))) == 3


def test_mistakes_are_found_on_the_users_line(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"from_parquet at test_parquet.py:\d+: columns: expected some of x, s, .*got y"
    ):
        ps.Dataset.from_parquet(folder / "a.parquet", columns=["y"])
    with pytest.raises(FileNotFoundError, match=r"no.parquet: expected a file, there is none"):
        ps.Dataset.from_parquet(folder / "no.parquet")
    with pytest.raises(TypeError, match="columns: expected a list of names"):
        ps.Dataset.from_parquet(folder / "a.parquet", columns="x")
    pq.write_table(pa.table({"m": [[{"a": 1}]]}), folder / "m.parquet")
    with pytest.raises(TypeError, match="column m: expected numbers, strings"):
        ps.Dataset.from_parquet(folder / "m.parquet")


def test_bad_files_are_errors_in_their_place(folder: Path) -> None:
    data = bytearray((folder / "b.parquet").read_bytes())
    (folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    (folder / "empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"x": ["other"]}), folder / "other.parquet")
    names = ["b", "cut", "b", "empty", "no", "other", "b"]
    dataset = ps.Dataset.from_parquet([folder / f"{name}.parquet" for name in names], columns=["x"], on_error="skip")
    run = dataset.run()
    assert len(list(run)) == 15
    assert failed_by_file(run) == {str(folder / f"{name}.parquet"): 1 for name in ("cut", "empty", "no", "other")}
    check_op(ps.Dataset.from_parquet([folder / f"{name}.parquet" for name in names], columns=["x"]))


def test_the_rows_of_a_damaged_row_group_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    table = pa.table({"s": [f"text {i * i}" for i in range(3000)]})
    pq.write_table(table, path, row_group_size=1000, compression="gzip", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start + 60 : start + 160] = b"\xff" * 100
    path.write_bytes(data)
    run = ps.Dataset.from_parquet(path).ignore_errors().run()
    found = [row["s"] for row in run]
    assert found == [f"text {i * i}".encode() for i in (*range(1000), *range(2000, 3000))]
    assert failed_by_file(run) == {str(path): 1000}
    with pytest.raises(ps.errors.FormatError, match="row group 1, after row 1,000: expected Parquet data"):
        list(ps.Dataset.from_parquet(path))


def test_a_damaged_name_of_a_column_is_an_error_in_its_place(tmp_path: Path) -> None:
    """Once for each place of a footer that has the name: the schema, and each row group."""
    good = tmp_path / "good"
    pq.write_table(pa.table({"abcdef": [1, 2]}), good, row_group_size=1, store_schema=False)
    data, names, at = good.read_bytes(), [], -1
    while (at := data.find(b"abcdef", at + 1)) >= 0:
        names.append(tmp_path / f"bad{len(names)}")
        names[-1].write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    assert len(names) == 3
    run = ps.Dataset.from_parquet([good, *names], on_error="skip").run()
    assert [row["abcdef"] for row in run] == [1, 2, 2, 1]
    assert failed_by_file(run) == {str(name): 1 for name in names}
    for name in names:
        with pytest.raises(ps.errors.FormatError, match=rf"{name}.*: (?i:.*utf-8)"):
            ps.Dataset.from_parquet(name)
    check_op(ps.Dataset.from_parquet([good, *names]))


@pytest.mark.parametrize("columns", [["x", "v"], ["s", "x"], ["l"]])
def test_the_minimum_is_enough(tmp_path: Path, columns: list[str]) -> None:
    big = pa.concat_tables([TABLE] * 10).combine_chunks()
    pq.write_table(big, tmp_path / "t.parquet", row_group_size=100)
    assert len(at_the_minimum(ps.Dataset.from_parquet(tmp_path / "t.parquet", columns=columns))) == 10 * N


def test_the_minimum_is_enough_for_pages_as_writers_make_them(tmp_path: Path) -> None:
    table = {f"c{i}": np.random.default_rng(i).random(300_000) for i in range(4)}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    dataset = ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(1024)
    minimum = dataset.explain().to_dict()["minimum_bytes"]  # nothing was sampled
    assert sum(len(batch["c3"]) for batch in dataset.run(memory=minimum)) == 300_000


def test_a_file_far_larger_than_the_budget(tmp_path: Path) -> None:
    """48 MB decoded, in one row group, under 6 MB; pyarrow's own account stays below that too."""
    numbers = np.random.default_rng(1).random((2, 3_000_000))
    table = pa.table({"a": numbers[0], "b": numbers[1]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3_000_000, use_dictionary=False, compression="none")
    del table
    pool = pa.default_memory_pool()
    before, most, total = pool.bytes_allocated(), 0, 0.0
    with ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(1024).run(memory="6MB") as run:
        for batch in run:
            total += float(batch["a"].sum())
            most = max(most, pool.bytes_allocated() - before)
        assert run.ledger.peak_bytes <= 6_000_000
    assert most <= 6_000_000
    assert total == pytest.approx(numbers[0].sum())


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_what_arrow_holds_was_reserved(tmp_path: Path, compression: str, dictionary: bool) -> None:
    random, count = np.random.default_rng(0), 100_000
    table = pa.table(
        {"f": random.random(count), "few": random.integers(0, 50, count), "s": [f"text {i}" for i in range(count)]}
    )
    pq.write_table(table, tmp_path / "t.parquet", count, compression=compression, use_dictionary=dictionary)
    del table
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    with ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(256).run(memory="32MB") as run:
        for _ in run:
            most = max(most, pool.bytes_allocated() - before)
        assert most <= run.ledger.peak_bytes


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_others_who_use_arrow_change_nothing(tmp_path: Path, compression: str) -> None:
    table = pa.table({"x": np.arange(5_000), "s": [f"text {i}" for i in range(5_000)]})
    pq.write_table(table, tmp_path / "t.parquet", 2_500, compression=compression)
    dataset = ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(100)
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]

    def read() -> tuple[list[Any], int]:
        run = dataset.run(memory=minimum)
        return [plain(batch["x"]) + plain(batch["s"]) for batch in run], run.ledger.peak_bytes

    alone = read()
    with busy_arrow():
        assert read() == alone


@pytest.mark.parametrize("values", ["numbers", "few numbers", "strings", "lists"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_large_pages_are_reserved_before_they_are_read(tmp_path: Path, values: str, compression: str) -> None:
    count = 400_000
    numbers = np.random.default_rng(0).integers(0, 1000 if values == "few numbers" else 1 << 60, count)
    column: Any = numbers if "numbers" in values else [f"{n:x}" for n in numbers]
    if values == "lists":
        column = pa.ListArray.from_arrays(np.arange(0, count + 1, 4, dtype=np.int32), numbers)
    options: Any = {"compression": compression, "data_page_size": 2 << 20, "dictionary_pagesize_limit": 16 << 20}
    pq.write_table(pa.table({"c": column}), tmp_path / "t.parquet", count, max_rows_per_page=count, **options)
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    with ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(2_048).run(memory="64MB") as run:
        next(run)
        reserved = run.ledger.charged_bytes
        for _ in run:
            most = max(most, pool.bytes_allocated() - before)
        assert most <= reserved + (1 << 20)
        assert most <= run.ledger.peak_bytes


def test_pages_of_another_size_are_in_the_minimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).random(1_000_000)
    options: Any = {
        "compression": "zstd",
        "use_dictionary": False,
        "data_page_size": 8 << 20,
        "max_rows_per_page": 1_000_000,
    }
    pq.write_table(pa.table({"x": numbers}), tmp_path / "t.parquet", 1_000_000, **options)
    dataset = ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(256)
    with dataset.run(memory="32MB") as run:
        assert sum(len(batch["x"]) for batch in run) == 1_000_000
        assert run.ledger.peak_bytes > 8_000_000
    minimum = dataset.explain().to_dict()["minimum_bytes"]  # nothing was sampled
    assert 8_000_000 < minimum < 20_000_000
    with dataset.run(memory=minimum) as run:
        assert len(next(run)["x"]) == 256
    # Of very many row groups not all are looked at before a run: those that need more say so when they are met.
    monkeypatch.setattr("penstock.io.parquet._MOST_LOOKED_AT", 0)
    with pytest.raises(ps.errors.OverBudget, match=r"use memory=1\d_\d{3}_\d{3} or more"):
        list(ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(256).run(memory="6MB"))


def test_columns_with_small_dictionaries_need_little(tmp_path: Path) -> None:
    """Whatever writers may put in a dictionary at most, or in a page: these take a few kB each."""
    random, count = np.random.default_rng(0), 300_000
    words = pa.array([f"{i:012}" for i in range(1000)])
    table = {f"s{i}": words.take(pa.array(random.integers(0, 1000, count))) for i in range(15)}
    few = {f"f{i}": random.integers(0, 1000, count).astype(np.float32) for i in range(20)}
    pq.write_table(pa.table({**table, **few}), tmp_path / "t.parquet", count)
    with ps.Dataset.from_parquet(tmp_path / "t.parquet").batch(256).run(memory="8MB") as run:
        assert len(next(run)["s0"]) == 256
        assert run.ledger.peak_bytes <= 8_000_000
