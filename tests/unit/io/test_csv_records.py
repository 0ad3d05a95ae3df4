"""CsvDataset: positions, budgets, what is refused (what is read is compared with tf.data in tests/conformance)."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op
from tests.unit.io.files import at_the_minimum, failed_by_file

DATA = b'name,x\n"a, b",1\nc,\nbad\n"d\ne""f",4\r\ng,x\nh,6'


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_the_laws(tmp_path: Path, compression: str | None) -> None:
    (tmp_path / "a.csv").write_bytes(gzip.compress(DATA) if compression else DATA)
    files = [tmp_path / "a.csv", tmp_path / "no.csv", tmp_path / "a.csv"]
    dataset = ps.CsvDataset(files, [bytes, [np.int32(-1)]], compression, header=True)
    check_op(dataset)
    run = dataset.ignore_errors().run()
    expected = [(b"a, b", 1), (b"c", -1), (b'd\ne"f', 4), (b"h", 6)]
    assert list(run) == expected * 2
    assert failed_by_file(run) == {str(files[0]): 4, str(files[1]): 1}
    assert len(at_the_minimum(dataset.ignore_errors())) == 8


def test_errors_name_file_record_and_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(DATA)
    found = []
    run = ps.CsvDataset(tmp_path / "a.csv", [bytes, np.int32], header=True).run()
    for _ in range(6):
        try:
            next(run)
        except ps.errors.FormatError as error:
            found.append(str(error).split("a.csv, ")[1])
    assert found == [
        "record 1: expected a value in field 1, got b''",
        "record 2: expected 2 fields, got 1",
        "record 4: expected int32 in field 1, got b'x'",
    ]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_header_that_does_not_fit_is_an_error_in_its_place(tmp_path: Path, compression: str | None) -> None:
    names = []
    for i, data in enumerate([b'"a,b\n1,2\n', b'a"b,c\n1,2\n3,4\n', b"a,b\n5,6\n"]):
        names.append(tmp_path / f"{i}.csv")
        names[-1].write_bytes(gzip.compress(data) if compression else data)
    dataset = ps.CsvDataset(names, [np.int32, np.int32], compression, header=True)
    run = dataset.ignore_errors().run()
    assert list(run) == [(1, 2), (3, 4), (5, 6)]
    assert failed_by_file(run) == {str(name): 1 for name in names[:2]}
    with pytest.raises(ps.errors.FormatError, match=r"0.csv, header: expected a quote at the end of the field, the"):
        list(dataset)
    check_op(dataset)


def test_mistakes_are_refused() -> None:
    with pytest.raises(
        TypeError, match="record_defaults: expected float32, float64, int32, int64 or string for field 0"
    ):
        ps.CsvDataset("x", [np.uint8])
    with pytest.raises(ValueError, match="field_delim: expected one character"):
        ps.CsvDataset("x", [bytes], field_delim="ab")
    with pytest.raises(TypeError, match="na_value: expected a text, got None"):
        ps.CsvDataset("x", [bytes], na_value=None)
    with pytest.raises(ValueError, match="either this or exclude_cols"):
        ps.CsvDataset("x", [bytes], select_cols=[0], exclude_cols=[1])
    with pytest.raises(ValueError, match="expected rising numbers"):
        ps.CsvDataset("x", [bytes, bytes], select_cols=[1, 0])
    with pytest.raises(ValueError, match="select_cols: expected as many as record_defaults, 1, got 2"):
        ps.CsvDataset("x", [bytes], select_cols=[0, 1])


def test_a_quote_that_is_never_closed_takes_no_more_than_the_budget(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'a,1\n"' + b"x" * 2_000_000)
    run = ps.CsvDataset(tmp_path / "a.csv", [bytes, np.int32]).run(memory="500kB")
    assert next(run) == (b"a", 1)
    with pytest.raises(ps.errors.ElementTooLarge):
        next(run)
