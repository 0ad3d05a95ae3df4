"""CSV files as dicts: types, positions, budgets, rows that do not fit."""

import gc
import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.testing import check_op, check_source
from tests.unit.io.files import at_the_minimum, failed_by_file
from tests.unit.io.test_parquet import plain

ROWS = [{"name": f"a {i}", "x": i, "y": i / 4, "ok": i % 2 == 0} for i in range(25)]
TEXT = "name,x,y,ok\n" + "".join(f"{r['name']},{r['x']},{r['y']},{str(r['ok']).lower()}\n" for r in ROWS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    return tmp_path


def test_rows_are_dicts_with_types(folder: Path) -> None:
    dataset = ps.Dataset.from_csv([folder / "a.csv", folder / "b.csv.gz"])
    assert [plain(row) for row in dataset] == ROWS * 2
    kinds = {name: spec.dtype for name, spec in dataset.element_spec.items()}
    assert kinds == {"name": ps.string, "x": np.int64, "y": np.float64, "ok": np.bool_}
    assert [plain(row) for row in dataset.take(25)] == pl.read_csv(folder / "a.csv").to_dicts()
    chosen = ps.Dataset.from_csv(folder / "a.csv", columns=["y", "x"], dtypes={"x": np.float32})
    (batch,) = chosen.batch(25)
    assert list(batch) == ["y", "x"]
    assert batch["x"].dtype == np.float32
    assert batch["y"].tolist() == [row["y"] for row in ROWS]


def test_the_laws(folder: Path) -> None:
    check_source(ps.Dataset.from_csv(folder / "a.csv", columns=["x", "name"]))
    check_op(ps.Dataset.from_csv([folder / "b.csv.gz", folder / "no.csv", folder / "a.csv"]))


def test_quotes_delimiters_and_headers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'"a b";c\r\n"x;\n""y""";1\r\nz;2')
    dataset = ps.Dataset.from_csv(tmp_path / "a.csv", delimiter=";")
    assert [plain(row) for row in dataset] == [{"a b": 'x;\n"y"', "c": 1}, {"a b": "z", "c": 2}]
    check_op(dataset)
    (tmp_path / "b.csv").write_bytes(b'1,a"b\n2,c\n')
    dataset = ps.Dataset.from_csv(tmp_path / "b.csv", header=False, quotes=False)
    assert [plain(row) for row in dataset] == [{"f0": 1, "f1": 'a"b'}, {"f0": 2, "f1": "c"}]


def test_columns_may_stand_in_another_order_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,a\n")
    (tmp_path / "b.csv").write_text("y,z,x\nb,9,2\n")
    (tmp_path / "c.csv").write_text("x\n3\n")
    dataset = ps.Dataset.from_csv(str(tmp_path / "?.csv"))
    run = dataset.run()
    assert [plain(next(run)), plain(next(run))] == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    with pytest.raises(ps.errors.FormatError, match=r"c.csv: expected a column y, got x"):
        next(run)


def test_rows_that_do_not_fit_are_errors_in_their_place(tmp_path: Path) -> None:
    rows = ["x,y", *[f"{i},{i}" for i in range(100)]]
    rows[21] = "abc,20"
    rows[51] = "50"
    rows[71] = ",70"
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(ps.errors.FormatError, match=r"a.csv, row 20, column x: expected int64, got 'abc'"):
        list(ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"x": np.int64}))
    dataset = ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"x": np.int64, "y": np.int64}, on_error="skip")
    run = dataset.run()
    assert [int(row["y"]) for row in run] == [i for i in range(100) if i not in (20, 50, 70)]
    assert failed_by_file(run) == {str(tmp_path / "a.csv"): 3}
    found = []
    run = ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"x": np.int64, "y": np.int64}).run()
    for _ in range(100):
        try:
            next(run)
        except ps.errors.FormatError as error:
            found.append(str(error).split("a.csv, ")[1].split(":")[0])
    assert found == ["row 20, column x", "row 50", "row 70"]
    filled = ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"x": np.int64}, fill_null=-1, on_error="skip")
    assert [int(row["x"]) for row in filled][69 - 2 + 1] == -1


def test_rows_that_do_not_fit_are_errors_when_it_is_their_turn(tmp_path: Path) -> None:
    """An error takes a thousand bytes: those of all rows in a part of a file would be many times that part."""

    def num_errors() -> int:
        # Not isinstance, which asks objects of others what they are.
        return sum(issubclass(type(found), ps.errors.FormatError) for found in gc.get_objects())

    (tmp_path / "a").write_text("x\n" + "ab\n" * 300 + "7\n")
    num_of_others = num_errors()
    with ps.Dataset.from_csv(tmp_path / "a", dtypes={"x": "int64"}).run() as run:
        for number in range(3):
            with pytest.raises(ps.errors.FormatError, match=rf"row {number}, column x: expected int64, got 'ab'"):
                next(run)
        assert num_errors() < num_of_others + 10
        for _ in range(297):
            with pytest.raises(ps.errors.FormatError):
                next(run)
        assert next(run) == {"x": 7}


def test_mistakes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "a.csv").write_text("x,y\n1,\n")
    with pytest.raises(ps.errors.FormatError, match="the file is empty"):
        ps.Dataset.from_csv(tmp_path / "empty.csv")
    with pytest.raises(TypeError, match="column y: expected values in the first block, it is empty"):
        ps.Dataset.from_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="dtypes: expected some of x, y, got z"):
        ps.Dataset.from_csv(tmp_path / "a.csv", dtypes={"z": int})
    with pytest.raises(ValueError, match="on_error: expected 'raise' or 'skip'"):
        ps.Dataset.from_csv(tmp_path / "a.csv", on_error="no")


@pytest.mark.parametrize("dtype", ["float16", "complex64", "bogus", "longdouble"])
def test_types_that_text_cannot_be_parsed_as_are_refused(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    for make, name in ((ps.Dataset.from_csv, "a.csv"), (ps.Dataset.from_json_lines, "a.jsonl")):
        with pytest.raises(ps.errors.BadType, match=f"can be parsed as for column x .*, got '{dtype}'"):
            make(tmp_path / name, dtypes={"x": dtype}, on_error="skip")


def test_a_header_alone_is_a_file_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").write_text("x,y\n1,2")  # without a line end
    assert [plain(row) for row in ps.Dataset.from_csv(tmp_path / "b.csv")] == [{"x": 1, "y": 2}]
    types = {"x": np.int64, "y": bytes}
    assert list(ps.Dataset.from_csv(tmp_path / "a.csv", dtypes=types)) == []
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert [plain(row) for row in ps.Dataset.from_csv(both, dtypes=types)] == [{"x": 1, "y": "2"}]
    assert [plain(row) for row in ps.Dataset.from_csv(both, ["x"], {"x": np.int64})] == [{"x": 1}]
    assert [plain(row) for row in ps.Dataset.from_csv(both)] == [{"x": 1, "y": 2}]
    with pytest.raises(ps.errors.FormatError, match="there is only a header; give dtypes of all columns"):
        ps.Dataset.from_csv([both[0], both[0]], dtypes={"x": np.int64})


def test_a_quote_that_is_not_closed_swallows_nothing_in_silence(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x,y\n1,"a\n2,b\n')
    (tmp_path / "b.csv").write_text('x,y\n1,a\n2,"b\n3,c\n')
    (tmp_path / "c.csv").write_text('x,y\n1,5" wide\n2,b\n')
    with pytest.raises(ps.errors.FormatError, match=r"a.csv: expected CSV rows .*: a quote is not closed"):
        ps.Dataset.from_csv(tmp_path / "a.csv")
    run = ps.Dataset.from_csv(tmp_path / "b.csv", on_error="skip").run()
    assert [plain(row) for row in run] == [{"x": 1, "y": "a"}]
    assert failed_by_file(run) == {str(tmp_path / "b.csv"): 1}
    with pytest.raises(ps.errors.FormatError, match=r"b.csv, row 1: expected .*: a quote is not closed"):
        list(ps.Dataset.from_csv(tmp_path / "b.csv"))
    inches = [plain(row) for row in ps.Dataset.from_csv(tmp_path / "c.csv")]
    assert inches == [{"x": 1, "y": '5" wide'}, {"x": 2, "y": "b"}]


def test_the_minimum_is_enough(folder: Path) -> None:
    for name in ("a.csv", "b.csv.gz"):
        assert len(at_the_minimum(ps.Dataset.from_csv(folder / name))) == len(ROWS)


def test_a_file_far_larger_than_the_budget(tmp_path: Path) -> None:
    with (tmp_path / "large.csv").open("w") as file:
        file.write("i,f,s\n")
        for i in range(300_000):
            file.write(f"{i},{i / 8},text {i}\n")
    with ps.Dataset.from_csv(tmp_path / "large.csv").batch(256).run(memory="1MB") as run:
        assert sum(int(batch["i"].sum()) for batch in run) == 300_000 * 299_999 // 2
        assert run.ledger.peak_bytes <= 1_000_000


@pytest.mark.parametrize("values, dtype, num_bad", [
    ([1, 2**63, 2**64 - 1], "uint64", 0),
    ([-1, 2**63], "int64", 1),
    ([1, 2**64], "int64", 1),
    ([1.5, 2**63], "float64", 0),
])  # fmt: skip
def test_integers_beyond_int64(tmp_path: Path, values: list[float], dtype: str, num_bad: int) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{value},1\n" for value in values) + ",2\n")
    dataset = ps.Dataset.from_csv(tmp_path / "a.csv", fill_null=0)
    assert dataset.element_spec["x"].dtype == dtype
    found = [row["x"].item() for row in dataset.ignore_errors()]
    assert found == [*values[: len(values) - num_bad], 0]
    if num_bad:
        with pytest.raises(ps.errors.FormatError, match=r"a.csv, row 1, column x: expected int64.*give dtypes, uint64"):
            list(dataset)
