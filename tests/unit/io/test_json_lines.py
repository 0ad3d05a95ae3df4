"""JSON lines: nested objects, arrays, positions, budgets, lines that do not fit."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import FormatError
from penstock.testing import check_op, check_source
from tests.unit.io.files import at_the_minimum, failed_by_file
from tests.unit.io.test_parquet import plain

ROWS: list[Any] = [
    {"x": i, "s": f"é {i}", "at": {"y": i / 2, "ok": True}, "l": [i] * (i % 3), "d": "2020-01-01"} for i in range(20)
]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_bytes(TEXT)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(TEXT.rstrip()))
    return tmp_path


def test_lines_are_dicts(folder: Path) -> None:
    dataset = ps.Dataset.from_json_lines([folder / "a.jsonl", folder / "b.jsonl.gz"])
    assert [plain(row) for row in dataset] == ROWS * 2
    assert dataset.element_spec["at"]["y"] == ps.TensorSpec((), np.float64)
    assert dataset.element_spec["l"] == ps.TensorSpec((None,), np.int64)
    assert dataset.element_spec["d"] == ps.TensorSpec((), ps.string)
    chosen = ps.Dataset.from_json_lines(folder / "a.jsonl", columns=["at"], dtypes=None)
    assert [plain(row) for row in chosen] == [{"at": row["at"]} for row in ROWS]


def test_the_laws(folder: Path) -> None:
    check_source(ps.Dataset.from_json_lines(folder / "a.jsonl", columns=["x", "l"]))
    check_op(ps.Dataset.from_json_lines([folder / "b.jsonl.gz", folder / "no", folder / "a.jsonl"], columns=["at"]))


def test_lines_that_do_not_fit_are_errors_in_their_place(tmp_path: Path) -> None:
    lines = [json.dumps({"x": i, "s": str(i)}) for i in range(60)]
    first = tmp_path / "first.jsonl"
    first.write_text("\n".join(lines))
    lines[7], lines[20], lines[33], lines[40], lines[50] = (
        '{"x": 1',
        '{"x": "y", "s": ""}',
        '{"x": 3}',
        "",
        '{"z": 1, "x": 1, "s": ""}',
    )
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    run = ps.Dataset.from_json_lines([first, tmp_path / "bad.jsonl"], on_error="skip").run()
    expected = [*range(60), *[i for i in range(60) if i not in (7, 20, 33, 40, 50)]]
    assert [int(row["x"]) for row in run] == expected
    assert failed_by_file(run) == {str(tmp_path / "bad.jsonl"): 4}
    check_op(ps.Dataset.from_json_lines([first, tmp_path / "bad.jsonl"]).skip(55).take(40))
    with pytest.raises(
        ps.errors.FormatError, match=r"bad.jsonl, row 7: expected an object of x: int64, s: string, got"
    ):
        list(ps.Dataset.from_json_lines([first, tmp_path / "bad.jsonl"]))


ODD = {
    "another type": ('{"a": 1}\n{"a": "x"}\n{"a": 3}\n', {"dtypes": {"a": np.int64}}, 1),
    "another type, none given": ('{"a": "x"}\n{"a": 1}\n{"a": 3.0}\n', {}, 1),
    "a name twice": ('{"a": 1}\n{"a": 1, "a": 2}\n{"a": 3}', {}, 1),
    "not chosen": ('{"a": 1, "b": 1}\n{"a": 3, "b": "x"}\n', {"columns": ["a"]}, 0),
    "not chosen, empty": ('{"a": 1, "b": null}\n{"a": 3, "b": null}\n', {"columns": ["a"]}, 0),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_line_in_the_first_block_is_an_error_in_its_place(tmp_path: Path, name: str) -> None:
    text, options, num_bad = ODD[name]
    (tmp_path / "a.jsonl").write_text(text)
    run = ps.Dataset.from_json_lines(tmp_path / "a.jsonl", on_error="skip", **options).run()
    assert [float(row["a"]) for row in run] == [1, 3]
    assert failed_by_file(run) == ({str(tmp_path / "a.jsonl"): 1} if num_bad else {})
    dataset = ps.Dataset.from_json_lines(tmp_path / "a.jsonl", **options)
    assert [float(row["a"]) for row in dataset.ignore_errors()] == [1, 3]
    check_op(dataset)


def test_types_in_the_first_block_are_those_of_most_lines(tmp_path: Path) -> None:
    """Whatever the odd ones are: numbers go together, and so do lists of them, and objects."""
    lines: list[Any] = [{"n": i, "l": [], "o": {"x": i}} for i in range(9)]
    lines += [{"n": 0.5, "l": [0.5], "o": {"x": 0.5, "y": "s"}}, {"n": "s", "l": 1, "o": []}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [lines[-1], *lines]))
    spec = ps.Dataset.from_json_lines(tmp_path / "a.jsonl", on_error="skip").element_spec
    assert spec["n"] == ps.TensorSpec((), np.float64)
    assert spec["l"] == ps.TensorSpec((None,), np.float64)
    assert spec["o"] == {"x": ps.TensorSpec((), np.float64), "y": ps.TensorSpec((), ps.string)}


def test_mistakes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("not json\n")
    with pytest.raises(ps.errors.FormatError, match=r"a.jsonl: expected JSON lines to find types in, got"):
        ps.Dataset.from_json_lines(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text('{"a": [{"b": 1}]}\n')
    with pytest.raises(TypeError, match="column a: expected numbers, strings"):
        ps.Dataset.from_json_lines(tmp_path / "b.jsonl")


def test_the_minimum_is_enough(folder: Path) -> None:
    for name in ("a.jsonl", "b.jsonl.gz"):
        assert len(at_the_minimum(ps.Dataset.from_json_lines(folder / name))) == len(ROWS)


@pytest.mark.parametrize("levels", [101, 2_000, 100_000])
def test_lines_that_are_nested_too_deep_are_errors_in_their_place(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "a.jsonl"
    arrays = '{"a":' + "[" * levels + "]" * levels + "}\n"
    objects = '{"a":' * levels + "1" + "}" * levels + "\n"
    for deep in (arrays, objects):
        path.write_text(deep)
        with pytest.raises(FormatError, match=r"a\.jsonl, row 0: expected objects and arrays nested at most 100 deep"):
            ps.Dataset.from_json_lines(path)
    path.write_text('{"a": 1}\n' + arrays + objects + '{"a": 2}\n')
    run = ps.Dataset.from_json_lines(path).run()
    assert next(run) == {"a": 1}
    for row in (1, 2):
        with pytest.raises(FormatError, match=rf"a\.jsonl, row {row}: "):
            next(run)
    assert list(run) == [{"a": 2}]


def test_brackets_in_strings_and_side_by_side_are_no_levels(tmp_path: Path) -> None:
    row = {"s": '\\"' + "[{" * 500, "l": [[i] for i in range(500)]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (read,) = ps.Dataset.from_json_lines(tmp_path / "a.jsonl", columns=["s"])
    assert read["s"].decode() == row["s"]


LARGE = 2**63


@pytest.mark.parametrize("values, dtype, read", [
    ([1, LARGE, 2**64 - 1], "uint64", [1, LARGE, 2**64 - 1]),
    ([1, -1, LARGE], "int64", [1, -1, "row 2: .*int64"]),
    ([1, 2**64, 5], "int64", [1, "row 1: .*int64", 5]),
    ([1.5, LARGE], "float64", [1.5, float(LARGE)]),
])  # fmt: skip
def test_integers_beyond_int64(tmp_path: Path, values: list[Any], dtype: str, read: list[Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"x": {value}, "in": {{"l": [{value}]}}, "s": "{LARGE}"}}\n' for value in values))
    dataset = ps.Dataset.from_json_lines(path)
    assert dataset.element_spec["x"].dtype == dataset.element_spec["in"]["l"].dtype == dtype
    run = iter(dataset)
    for expected in read:
        if isinstance(expected, str):
            with pytest.raises(ps.errors.FormatError, match=f"a.jsonl, {expected}.*give dtypes, uint64 or float64"):
                next(run)
        else:
            row = next(run)
            assert (row["x"], row["in"]["l"].tolist(), row["x"].dtype) == (expected, [expected], dtype)
    as_floats = ps.Dataset.from_json_lines(path, ["x"], {"x": "float64"})
    assert [float(row["x"]) for row in as_floats] == [float(value) for value in values]


def test_a_large_integer_after_the_types_were_found_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"x": 1, "filled": "a" * 1000})] * 1100 + [json.dumps({"x": LARGE, "filled": ""})]
    path.write_text("\n".join(lines))
    with pytest.raises(ps.errors.FormatError, match=r"a.jsonl, row 1,100: .*give dtypes, uint64 or float64"):
        list(ps.Dataset.from_json_lines(path))


def test_strings_that_look_like_dates_are_bytes_at_any_depth(tmp_path: Path) -> None:
    row = json.dumps({"a": "2020-01-01", "o": {"a": "2020-01-01"}, "l": ["2020-01-01"], "n": [["2020-01-01"]]}) + "\n"
    (tmp_path / "a.jsonl").write_text(row * 12_000 + row.replace("2020-01-01", "none"))
    found = list(ps.Dataset.from_json_lines(tmp_path / "a.jsonl"))
    for element, text in ((found[0], b"2020-01-01"), (found[-1], b"none")):
        assert element["a"] == element["o"]["a"] == text
        assert element["l"].tolist() == [text]
        assert element["n"].tolist() == [[text]]


def test_dtypes_of_what_is_inside(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": [], "o": {"x": 1, "y": null}}\n' * 2)
    with pytest.raises(TypeError, match=r"column a: expected values in the first block, it is empty; give its type in"):
        ps.Dataset.from_json_lines(path)
    with pytest.raises(TypeError, match=r"column o.y: expected values in the first block"):
        ps.Dataset.from_json_lines(path, dtypes={"a": np.int64})
    with pytest.raises(ValueError, match="dtypes: expected some of x, y in o, got z"):
        ps.Dataset.from_json_lines(path, ["o"], {"o": {"z": np.int64}})
    dtypes = {"a": np.int16, "o": {"x": np.float32, "y": bytes}}
    dataset = ps.Dataset.from_json_lines(path, dtypes=dtypes, fill_null="?", columns=["o", "a"])
    assert [plain(row) for row in dataset] == [{"o": {"x": 1, "y": "?"}, "a": []}] * 2
    path.write_text('{"a": [1, 2]}\n{"a": [3.5]}\n{"a": []}\n')
    found = list(ps.Dataset.from_json_lines(path, dtypes={"a": np.float32}))
    assert [row["a"].tolist() for row in found] == [[1, 2], [3.5], []]
    assert found[2]["a"].dtype == np.float32


def test_arrays_in_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    values = [[[1, 2], [3, 4]], [], [[1], [2, 3]], [[], []], [[1, None]], [[5, 6, 7]], None]
    path.write_text("".join(json.dumps({"v": value, "x": i}) + "\n" for i, value in enumerate(values)))
    dataset = ps.Dataset.from_json_lines(path)
    assert dataset.element_spec["v"] == ps.TensorSpec((None, None), np.int64)
    run = ps.Dataset.from_json_lines(path, on_error="skip").run()
    assert [(int(row["x"]), row["v"].shape) for row in run] == [(0, (2, 2)), (1, (0, 0)), (3, (2, 0)), (5, (1, 3))]
    assert failed_by_file(run) == {str(path): 3}
    with pytest.raises(
        FormatError, match=r"a.jsonl, row 2: expected lists of one length inside each other in column v"
    ):
        list(dataset)
    filled = ps.Dataset.from_json_lines(path, fill_null={"v": 9}, on_error="skip")
    assert [row["v"].tolist() for row in filled] == [values[0], [], [[], []], [[1, 9]], [[5, 6, 7]], []]
    check_op(dataset)
    path.write_text('{"v": [[1, 2], [3, 4]], "o": [{"a": 1}]}\n')
    with pytest.raises(TypeError, match=r"column o: expected numbers, .* got struct<a: int64>"):
        ps.Dataset.from_json_lines(path)


def test_names_that_are_no_text_are_errors_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"o": {"a": 1}}\n{"o": {"\xff": 1}}\n{"o": {"a": 2}}\n')
    run = ps.Dataset.from_json_lines(path, on_error="skip").run()
    assert [int(row["o"]["a"]) for row in run] == [1, 2]
    assert failed_by_file(run) == {str(path): 1}
    path.write_bytes(b'{"o": {"\xff": 1}}\n')
    with pytest.raises(FormatError, match=r"a.jsonl: expected JSON lines to find types in, got: .*utf-8"):
        ps.Dataset.from_json_lines(path)
