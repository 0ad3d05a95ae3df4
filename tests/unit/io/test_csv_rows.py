"""Where CSV rows end: as Arrow has it, in one pass, whatever quotes stand in the text."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import penstock as ps
from penstock.io.csv_rows import RowEnds
from penstock.testing import check_op
from tests.unit.io.files import failed_by_file

FIELDS = [b"1", b"", b" ", b"a", b'5" disk', b'a""b', b'x"', b'"q"', b'"a,b"', b'"a\nb"', b'"a""b"', b'"a"b"c', b'""']
FIELDS += [b'""""', b'"\r\n,"', b'"z', b'\xef\xbb\xbf"q', b'"' + b"z" * 3000 + b'\n"']
TOKENS = [b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b',"', b'",', b'"\n']
field = st.one_of(st.sampled_from(FIELDS), st.lists(st.sampled_from(TOKENS), max_size=4).map(b"".join))
row = st.tuples(field, field, st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r"])).map(
    lambda t: t[0] + b"," + t[1] + t[2]
)
TEXTS = {"a": pa.binary(), "b": pa.binary()}


def whole(text: bytes, quotes: bool) -> Any:
    """What Arrow makes of all the text at once, without rows of more or fewer fields."""
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(use_threads=False, block_size=len(text) + 1),
        csv.ParseOptions(
            quote_char='"' if quotes else False, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        ),
        csv.ConvertOptions(column_types=TEXTS, null_values=[]),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(row, max_size=8),
    st.sampled_from([1, 8]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([b"", b"\n", b"\xef\xbb\xbf"]),
    st.booleans(),
)
def test_rows_are_those_of_the_whole_file(
    folder: Path, rows: list[bytes], times: int, is_cut: bool, packed: bool, before: bytes, quotes: bool
) -> None:
    text = before + b"a,b\n0,0\n" + b"".join(rows) * times
    text = text.rstrip(b"\r\n") if is_cut else text
    expected = whole(text, quotes).to_pylist()
    # In an open quote a row behind it is none.
    is_open = whole(text + b'\n"",\n', quotes).num_rows == len(expected)
    path = folder / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    dataset = ps.Dataset.from_csv(
        path, dtypes=dict.fromkeys("ab", bytes), quotes=quotes, fill_null=b"", on_error="skip"
    )
    for memory in (300_000, "64MB"):
        run = dataset.run(memory=memory)
        found = list(run)
        if is_open:  # Arrow puts the rest of the file in a field, which may make a row
            assert found in (expected, expected[:-1])
            assert failed_by_file(run)
        else:
            assert found == expected


@given(st.lists(row, max_size=8).map(b"".join), st.sampled_from(",;\t"), st.booleans())
def test_rows_one_by_one(text: bytes, delimiter: str, quotes: bool) -> None:
    ends = RowEnds(delimiter, quotes)
    rows = ends.split(text)
    assert b"".join(rows) == text
    closed = ends.last_end(text, 0, len(text))
    assert ends.split(text[:closed]) == [r for r in ends.split(text[:closed]) if r.endswith((b"\n", b"\r"))]
    assert not ends.is_open(text[:closed])
    assert ends.last_end(b"###" + text + b"###", 3, 3 + len(text)) == 3 + closed


def test_a_stray_quote_is_text(tmp_path: Path) -> None:
    lines = [f'{i},5" disk,3' if i == 10 else f"{i},disk number {i},3" for i in range(20_000)]
    (tmp_path / "a.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    run = ps.Dataset.from_csv(tmp_path / "a.csv").run(memory="1MB")
    found = list(run)
    assert [int(row["a"]) for row in found] == list(range(20_000))
    assert found[10]["b"] == b'5" disk'
    assert run.ledger.peak_bytes <= 1_000_000
    (tmp_path / "b.csv").write_text("a,b,c\n" + "\n".join(lines[5:20]) + "\n")
    check_op(ps.Dataset.from_csv(tmp_path / "b.csv"))


def test_a_long_row_is_gone_through_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 2_000_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'a,b\n1,2\n3,"' + b"x\n" * (size // 2) + b'"\n4,5\n'))
    last_end, looked = RowEnds.last_end, []

    def counted(self: RowEnds, data: bytes, start: int, stop: int) -> int:
        looked.append(stop - start)
        return last_end(self, data, start, stop)

    dataset = ps.Dataset.from_csv(tmp_path / "a.csv.gz", dtypes={"b": bytes})
    monkeypatch.setattr(RowEnds, "last_end", counted)
    assert [len(row["b"]) for row in dataset] == [1, size, 1]
    assert sum(looked) < 8 * size  # streams that are inflated come in pieces of 16 kB


def test_a_long_row_does_not_make_the_others_one_chunk(tmp_path: Path) -> None:
    rows = [b"%d,%s\n" % (i, b"x" * (9000 if i == 50 else 80)) for i in range(3000)]
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + b"".join(rows))
    dataset = ps.Dataset.from_csv(tmp_path / "a.csv", buffer_size=256_000)
    run = dataset.run(memory=700_000)
    assert len(list(run)) == 3000
    assert run.ledger.peak_bytes <= 700_000


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_line_ends_and_empty_lines(tmp_path: Path, end: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(b"x,y" + end + b"1,a" + end)
    (tmp_path / "b.csv").write_bytes(end * 2 + b"y,x" + end * 3 + b'"b' + end + b'",2' + end + b"c,3" + end * 2)
    rows = [(1, b"a"), (2, b"b" + end), (3, b"c")]
    for names in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
        dataset = ps.Dataset.from_csv([tmp_path / name for name in names])
        assert sorted((int(row["x"]), row["y"]) for row in dataset) == rows


def test_a_header_without_a_line_end_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(ps.errors.FormatError, match="there is only a header; give dtypes"):
        ps.Dataset.from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize("header", [b"\xff,x\n1,2\n", b"\n\n", b""])
def test_a_header_that_cannot_be_read_is_an_error_in_its_place(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_bytes(header)
    run = ps.Dataset.from_csv([tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "a.csv"]).run()
    assert int(next(run)["x"]) == 1
    with pytest.raises(ps.errors.FormatError, match=r"b.csv: expected a row with the names of columns, "):
        next(run)
    assert int(next(run)["x"]) == 1


def test_blanks_are_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\n\t\n\t\n")
    dtypes = dict.fromkeys("xy", bytes)
    assert len(list(ps.Dataset.from_csv(tmp_path / "a.tsv", dtypes=dtypes, delimiter="\t", fill_null=b""))) == 2
    (tmp_path / "a.csv").write_text("x,y\n1,2\n \n3,4\n")
    run = ps.Dataset.from_csv(tmp_path / "a.csv", on_error="skip").run()
    assert [int(row["x"]) for row in run] == [1, 3]
    assert failed_by_file(run) == {str(tmp_path / "a.csv"): 1}
