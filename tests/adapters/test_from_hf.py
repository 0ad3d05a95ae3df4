"""`from_hf` with the real `datasets`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadType
from penstock.testing import check_op, check_source

datasets.disable_progress_bars()

FEATURES = datasets.Features(
    {
        "x": datasets.Sequence(datasets.Value("float32"), length=2),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "name": datasets.Value("string"),
    }
)


def rows(num: int = 12) -> Any:
    columns = {
        "x": [[n, -n] for n in range(num)],
        "label": [n % 2 for n in range(num)],
        "name": list("abcdefghijkl"[:num]),
    }
    return datasets.Dataset.from_dict(columns, features=FEATURES)


def test_rows() -> None:
    dataset = ps.from_hf(rows())
    assert len(dataset) == 12
    *_, last = dataset
    assert last["x"].tolist() == [11, -11]
    assert (int(last["label"]), last["name"]) == (1, b"l")
    check_source(dataset)


def test_columns_of_fixed_width_are_not_copied(tmp_path: Path) -> None:
    rows().select_columns(["x", "label"]).save_to_disk(str(tmp_path / "rows"))
    mapped = datasets.load_from_disk(str(tmp_path / "rows"))
    (batch,) = ps.from_hf(mapped).batch(12)
    column = mapped.data.table.column("label").chunk(0)
    assert batch["label"].ctypes.data == column.buffers()[1].address
    assert batch["x"].tolist() == [[n, -n] for n in range(12)]


def test_selected_rows_are_read_at_any_place() -> None:
    for chosen in (rows().shuffle(seed=3), rows().select([5, 3, 9])):
        expected = [row["name"].encode() for row in chosen]
        dataset = ps.from_hf(chosen)
        assert [row["name"] for row in dataset] == expected
        assert len(dataset) == len(expected)
        check_op(dataset.shuffle(seed=1).batch(2, drop_remainder=True))


def test_formats_and_transforms() -> None:
    (row, *_) = ps.from_hf(rows().with_format("torch", columns=["x"]))
    assert list(row) == ["x"]
    doubled = rows().with_transform(lambda batch: {"twice": [2 * np.array(x) for x in batch["x"]]})
    assert [row["twice"].tolist() for row in ps.from_hf(doubled).take(2)] == [[0, 0], [2, -2]]


def test_features_that_must_be_decoded() -> None:
    grid = datasets.Features({"grid": datasets.Array2D((2, 3), "float32")})
    made = datasets.Dataset.from_dict({"grid": [np.full((2, 3), n).tolist() for n in range(4)]}, features=grid)
    assert [row["grid"].shape for row in ps.from_hf(made)] == [(2, 3)] * 4
    assert [float(row["grid"][1, 2]) for row in ps.from_hf(made).skip(2)] == [2, 3]


def test_streams() -> None:
    dataset = ps.from_hf(rows().to_iterable_dataset())
    assert dataset.cardinality() == ps.UNKNOWN
    assert [row["name"] for row in dataset] == [bytes([c]) for c in b"abcdefghijkl"]


def test_what_is_no_dataset() -> None:
    with pytest.raises(BadType, match=r"expected one of the splits \['train'\]"):
        ps.from_hf(datasets.DatasetDict({"train": rows()}))
    with pytest.raises(BadType, match=r"from_hf at test_from_hf.py:\d+: dataset: expected a datasets.Dataset"):
        ps.from_hf([1])


def test_nulls_are_filled_or_refused_by_name() -> None:
    rows = datasets.Dataset.from_dict({"x": [1, None, 3]})
    with pytest.raises(
        ps.errors.FormatError, match=r"from_hf at test_from_hf.py:.* column x, got null; give a fill_null"
    ):
        list(ps.from_hf(rows))
    assert [int(row["x"]) for row in ps.from_hf(rows, fill_null=7)] == [1, 7, 3]


def rows_with_nulls() -> datasets.Dataset:
    return datasets.Dataset.from_dict(
        {"x": [1, None, 3], "name": ["a", "b", None], "in": [{"y": [4]}, {"y": [5]}, None]}
    )


def pulled(dataset: ps.Dataset) -> list[Any]:
    """Elements, and errors in their place."""
    run, found = iter(dataset), []
    while True:
        try:
            found.append(next(run))
        except ps.errors.FormatError as error:
            found.append(re.sub(".*py:[0-9]+: ", "", str(error)))
        except StopIteration:
            return found


def test_nulls_of_selected_rows_are_told_by_row_and_column() -> None:
    first, second, third = pulled(ps.from_hf(rows_with_nulls().select([2, 1, 0])))
    assert first.startswith("row 0, 2 of the table: expected a value in column name, got null; give a fill_null")
    assert second.startswith("row 1: expected a value in column x, got null")
    assert third["x"] == 1
    filled = list(ps.from_hf(rows_with_nulls().select([2, 1, 0]), fill_null={"x": 7, "name": b"?", "in": 0}))
    assert [(int(row["x"]), row["name"], row["in"]["y"].tolist()) for row in filled] == [
        (3, b"?", []), (7, b"b", [5]), (1, b"a", [4])
    ]  # fmt: skip


def test_selected_rows_have_the_types_of_their_columns() -> None:
    features = datasets.Features({"x": datasets.Value("int16"), "l": datasets.List(datasets.Value("float64"))})
    table = datasets.Dataset.from_dict({"x": [1, 2, 3], "l": [[1.0], [2.0, 3.0], []]}, features=features)
    chunked = datasets.concatenate_datasets([table, table])
    found = list(ps.from_hf(chunked.select([5, 1, 3])))
    assert [(row["x"].dtype, row["l"].dtype) for row in found] == [(np.int16, np.float64)] * 3
    assert [(int(row["x"]), row["l"].tolist()) for row in found] == [(3, []), (2, [2.0, 3.0]), (1, [1.0])]


def test_nulls_of_streams_are_told_by_row_and_column() -> None:
    stream = rows_with_nulls().to_iterable_dataset()
    first, second, third = pulled(ps.from_hf(stream))
    assert first["x"] == 1
    assert second.startswith("row 1: expected a value in column x, got null; give a fill_null")
    assert third.startswith("row 2: expected a value in column name, got null")
    filled = list(ps.from_hf(stream.select_columns(["x", "name"]), fill_null={"x": 7, "name": "?"}))
    assert [(int(row["x"]), row["name"]) for row in filled] == [(1, b"a"), (7, b"b"), (3, b"?")]


def test_nulls_of_rows_that_are_decoded() -> None:
    picture = np.full((2, 2, 3), 9, np.uint8)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int32")})
    rows = datasets.Dataset.from_dict({"image": [picture, None, picture], "label": [1, 2, None]}, features=features)
    first, second, third = pulled(ps.from_hf(rows))
    assert first["image"].tolist() == picture.tolist()
    assert second.startswith("row 1: expected a value in column image, got null; give a fill_null")
    assert third.startswith("row 2: expected a value in column label, got null")
    filled = list(ps.from_hf(rows.select([2, 1]), fill_null={"label": -1, "image": picture * 0}))
    assert [(int(row["image"].max()), int(row["label"]), row["label"].dtype) for row in filled] == [
        (9, -1, np.int32), (0, 2, np.int32)
    ]  # fmt: skip
    with pytest.raises(ps.errors.BadArgument, match=r"expected columns among \['image', 'label'\], got \['l'\]"):
        ps.from_hf(rows, fill_null={"l": 1})
    with pytest.raises(ps.errors.BadArgument, match="expected rows as they are stored, got rows of a transform"):
        ps.from_hf(rows.with_transform(dict), fill_null=1)
