"""to_parquet: what is written is read again, by penstock, pyarrow and Polars; a crash leaves nothing."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from tests.unit.io.test_parquet import TABLE, plain

D = ps.Dataset


def test_rows_come_back(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = ["x", "s", "v", "l", "b", "st", "c"]
    dataset = D.from_arrow(TABLE, columns=columns)
    dataset.to_parquet(path, row_group_size=8)
    assert pq.ParquetFile(path).metadata.num_row_groups == 4
    again = D.from_parquet(path)
    assert [plain(row) for row in again] == [plain(row) for row in dataset]
    assert again.element_spec == dataset.element_spec
    assert pl.read_parquet(path)["x"].to_list() == list(range(30))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "datetime64[us]"]
)
def test_dtypes_come_back(tmp_path: Path, dtype: str) -> None:
    array = np.arange(12).reshape(4, 3).astype(dtype)
    D.from_tensor_slices((array, array[:, 0])).to_parquet(tmp_path / "t.parquet", compression="zstd")
    (batch,) = D.from_parquet(tmp_path / "t.parquet").batch(4)
    assert list(batch) == ["f0", "f1"]
    assert batch["f0"].dtype == array.dtype
    assert np.array_equal(batch["f0"], array)


def test_bytes_in_another_order_are_turned_round(tmp_path: Path) -> None:
    array = np.arange(12, dtype=">i4").reshape(4, 3)
    dataset = D.from_tensor_slices((array, array[:, 0]))
    for written in (dataset, dataset.map(lambda a, b: (a, a[0])), dataset.map(lambda a, b: (a[: b % 2], b))):
        written.to_parquet(tmp_path / "t.parquet")
        found = list(D.from_parquet(tmp_path / "t.parquet"))
        assert [plain(row) for row in found] == [{"f0": a.tolist(), "f1": int(b)} for a, b in written]
        assert found[0]["f0"].dtype == np.int32


@pytest.mark.parametrize(
    ("element", "refusal"),
    [
        ({"q": {}, "x": np.arange(2)}, "expected parts with one column or more, got an empty dict"),
        (np.arange(2, dtype=np.longdouble), "that Arrow has a type for, got 2 float128"),
        (np.arange(2).astype("datetime64[h]"), "that Arrow has a type for, got"),
        ({1: np.arange(2), "f1": np.arange(2)}, r"names of their own, got 'f1' for each of \[1, 'f1'\]"),
        ({"a": {1: 2, "f1": 3}}, r"names of their own, got 'f1' for each of \[1, 'f1'\]"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(tmp_path: Path, element: Any, refusal: str) -> None:
    for dataset in (D.from_tensors(element), D.range(1).map(lambda i: element)):
        with pytest.raises(ps.errors.BadType, match=refusal):
            dataset.to_parquet(tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())


def test_what_only_a_run_can_tell(tmp_path: Path) -> None:
    D.range(5).map(lambda i: {"i": i, "l": np.arange(i)}).to_parquet(tmp_path / "t.parquet")
    found = [plain(row) for row in D.from_parquet(tmp_path / "t.parquet")]
    assert found == [{"i": i, "l": list(range(i))} for i in range(5)]
    D.from_tensor_slices(np.array([b"a", b"bc"])).to_parquet(tmp_path / "s.parquet")
    assert list(D.from_parquet(tmp_path / "s.parquet")) == [{"value": b"a"}, {"value": b"bc"}]
    D.range(0).to_parquet(tmp_path / "none.parquet")
    assert list(D.from_parquet(tmp_path / "none.parquet")) == []


def failing(x: Any) -> Any:
    if x == 7:
        raise ZeroDivisionError
    return x


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    D.range(3).to_parquet(path)
    for bad, error in (
        (D.range(10).map(failing), ZeroDivisionError),
        (D.range(10).map(lambda x: x if x < 5 else np.float64(x)), ps.errors.SpecMismatch),
        (D.range(10).repeat(), ValueError),
        (D.range(10).window(2), TypeError),
    ):
        with pytest.raises(error):
            bad.to_parquet(path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
        assert len(D.from_parquet(path)) == 3
    with pytest.raises(ValueError, match="compression: expected one of"):
        D.range(3).to_parquet(path, compression="no")


def test_the_budget_holds(tmp_path: Path) -> None:
    rows = D.range(400).map(lambda i: np.full(2_500, float(i))).with_options(ps.Options(memory="1MB"))
    rows.to_parquet(tmp_path / "t.parquet")
    assert pq.ParquetFile(tmp_path / "t.parquet").metadata.num_row_groups > 100
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.num_rows == 400
    assert table.schema.field("value").type in (pa.large_list(pa.float64()), pa.list_(pa.float64()))


LISTS = {"n": ps.io.VarLenFeature("int64"), "s": ps.io.VarLenFeature(bytes), "r": ps.io.RaggedFeature("float32")}


def test_rows_that_wait_are_not_an_array_each(tmp_path: Path) -> None:
    """Arrays of one or two numbers are fifteen times as large as those."""
    dataset = D.range(12_000).map(lambda i: {"a": np.arange(i % 3), "b": np.float32(i)})
    tracemalloc.start()
    try:
        dataset.with_options(ps.Options(memory="4MB")).to_parquet(tmp_path / "a")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    rows = list(D.from_parquet(tmp_path / "a"))
    assert [row["b"] for row in rows] == list(range(12_000))
    assert all(row["a"].tolist() == list(range(i % 3)) for i, row in enumerate(rows))


def test_lists_that_were_parsed_are_list_columns(tmp_path: Path) -> None:
    rows = [{"n": list(range(i)), "s": [b"a"] * (3 - i), "r": [0.5] * i} for i in (2, 0, 3, 1)]
    records = D.from_tensor_slices([ps.io.encode_example(row) for row in rows])
    batches = records.batch(3).map(lambda batch: ps.io.parse_example(batch, LISTS))
    for parsed in (records.map(lambda record: ps.io.parse_single_example(record, LISTS)), batches.unbatch()):
        parsed.to_parquet(tmp_path / "t.parquet")
        assert [plain(row) for row in D.from_parquet(tmp_path / "t.parquet")] == rows
        assert pl.read_parquet(tmp_path / "t.parquet").to_dicts() == rows
    with pytest.raises(TypeError, match=r"got rows of unequal length .*unbatch\(\) batches first"):
        batches.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TypeError, match=r"got a sparse array of 2 dimensions; unbatch\(\) batches first"):
        batches.map(lambda batch: batch["n"]).to_parquet(tmp_path / "t.parquet")


@pytest.mark.parametrize("dtype", ["datetime64[D]", "datetime64[ns]", "timedelta64[us]"])
def test_a_time_that_is_none_is_refused_with_its_place(tmp_path: Path, dtype: str) -> None:
    times = np.arange(12).astype(dtype).reshape(6, 2)
    times[4, 1] = "NaT"
    dataset = D.from_tensor_slices({"i": np.arange(6), "d": {"t": times}})
    text = "element 4: expected a time in column d.t, got NaT, which in Parquet is a null"
    for rows in (dataset, dataset.map(lambda row: row)):
        with pytest.raises(ps.errors.BadArgument, match=text):
            rows.to_parquet(tmp_path / "t.parquet", row_group_size=3)
        assert not (tmp_path / "t.parquet").exists()
    with pytest.raises(ps.errors.BadArgument, match="element 1: expected a time in column value, got NaT"):
        D.from_tensor_slices(times[3:, 1]).to_parquet(tmp_path / "t.parquet")
    dataset.filter(lambda row: not np.isnat(row["d"]["t"]).any()).to_parquet(tmp_path / "t.parquet")
    assert [int(row["i"]) for row in D.from_parquet(tmp_path / "t.parquet")] == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("dtype, read_as", [("datetime64[s]", "datetime64[ms]"), ("timedelta64[s]", "timedelta64[s]")])
def test_times_in_seconds(tmp_path: Path, dtype: str, read_as: str) -> None:
    times = np.array([-5, 0, 1_700_000_000]).astype(dtype)
    D.from_tensor_slices(times).to_parquet(tmp_path / "t.parquet")
    (batch,) = D.from_parquet(tmp_path / "t.parquet").batch(3)
    assert batch["value"].dtype == read_as
    assert (batch["value"] == times).all()
