"""`from_hf` with the real `datasets`."""

from __future__ import annotations

import pickle
import re
from datetime import date, time
from pathlib import Path
from types import MappingProxyType
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


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_numbers_beside_strings_are_not_copied(tmp_path: Path) -> None:
    made = datasets.concatenate_datasets([rows(), rows()])
    made.save_to_disk(str(tmp_path / "rows"), num_shards=2)
    for table in (made, datasets.load_from_disk(str(tmp_path / "rows"))):
        first, second = ps.from_hf(table).batch(12)
        for batch, number in ((first, 0), (second, 1)):
            label, x, name = (table.data.table.column(c).chunk(number) for c in ("label", "x", "name"))
            assert address(batch["label"]) == label.buffers()[1].address + label.offset * 8
            assert address(batch["x"]) == x.values.buffers()[1].address + (x.offset * 2 + x.values.offset) * 4
            assert not batch["x"].flags.writeable
            assert batch["name"].tolist() == [text.encode() for text in name.to_pylist()]
        check_op(ps.from_hf(table).batch(5))


def test_arrays_of_a_declared_shape_are_not_copied() -> None:
    features = datasets.Features({"grid": datasets.Array2D((2, 3), "int16"), "name": datasets.Value("string")})
    columns = {"grid": [np.full((2, 3), n).tolist() for n in range(4)], "name": list("abcd")}
    table = datasets.Dataset.from_dict(columns, features=features)
    (batch,) = ps.from_hf(table).batch(4)
    stored = table.data.table.column("grid").chunk(0).storage
    assert address(batch["grid"]) == stored.values.values.buffers()[1].address
    assert (batch["grid"].dtype, batch["grid"].tolist()) == (np.int16, columns["grid"])
    columns["grid"][2] = None
    missing = datasets.Dataset.from_dict(columns, features=features)
    assert [row["name"] for row in ps.from_hf(missing).ignore_errors()] == [b"a", b"b", b"d"]
    lengths = datasets.Features({"grid": datasets.Array2D((None, 2), "int16")})
    any_length = datasets.Dataset.from_dict({"grid": [[[1, 2]], [[3, 4], [5, 6]]]}, features=lengths)
    assert ps.from_hf(any_length).element_spec == {"grid": ps.TensorSpec((None, 2), np.int16)}
    assert [row["grid"].tolist() for row in ps.from_hf(any_length)] == [[[1, 2]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize("is_selected", [False, True], ids=["in order", "selected"])
@pytest.mark.parametrize(
    ("lists", "spec"),
    [
        ([[[1, 2], [3, 4]], [], [[5, 6]]], ps.TensorSpec((None, 2), np.int64)),
        ([[[1, 2], [3, 4]], [], [[5]]], ps.TensorSpec((None, None), np.int64)),
        ([[[1, 2], [3]], [], [[5, 6]]], ps.RaggedSpec((None, None), np.int64)),
        ([[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]] * 3], ps.TensorSpec((None, 2, 2), np.int64)),
        ([[[[1, 2]], [[3, 4]]], [[[5]], [[6]], [[7]]]], ps.TensorSpec((None, 1, None), np.int64)),
        ([[[[1, 2]], [[3, 4], []]], [[[5]]]], ps.RaggedSpec((None, None, None), np.int64)),
    ],
)
def test_lists_of_lists(lists: list[Any], spec: Any, is_selected: bool) -> None:
    table = datasets.Dataset.from_dict({"n": range(len(lists)), "a": lists})
    order = list(range(len(lists)))[:: -1 if is_selected else 1]
    dataset = ps.from_hf(table.select(order) if is_selected else table)
    if not is_selected:
        assert dataset.element_spec["a"] == spec
    for row, number in zip(dataset, order, strict=True):
        is_ragged = isinstance(spec, ps.RaggedSpec)
        found = row["a"].to_list() if is_ragged else row["a"].tolist()
        assert (row["n"], found, row["a"].dtype) == (number, lists[number], np.int64)
        assert spec.holds(row["a"])
    check_source(dataset)


def test_lists_of_dicts_are_dicts_of_lists() -> None:
    lists = [[{"t": "x", "s": {"q": [1]}}, {"t": "y", "s": {"q": [2, 3]}}], [], [{"t": "z", "s": {"q": []}}]]
    table = datasets.Dataset.from_dict({"a": lists})
    for dataset in (ps.from_hf(table), ps.from_hf(table.select(range(3)).shuffle(seed=1)).shuffle(3)):
        found = sorted((row["a"]["t"].tolist(), row["a"]["s"]["q"].to_list()) for row in dataset)
        assert found == [([], []), ([b"x", b"y"], [[1], [2, 3]]), ([b"z"], [[]])]
    fixed = datasets.Features({"a": datasets.List({"v": datasets.Value("int8")}, length=2)})
    pairs = datasets.Dataset.from_dict({"a": [[{"v": 1}, {"v": 2}], [{"v": 3}, {"v": 4}]]}, features=fixed)
    assert [row["a"]["v"].tolist() for row in ps.from_hf(pairs)] == [[1, 2], [3, 4]]


def test_lists_of_dicts_of_streams_are_dicts_of_lists() -> None:
    lists = [[{"t": "x", "s": {"q": 1}}, {"t": "y", "s": {"q": 2}}], [], [{"t": None, "s": {"q": 3}}]]
    stream = datasets.Dataset.from_dict({"a": lists}).to_iterable_dataset()
    found = [row["a"] for row in ps.from_hf(stream, fill_null={"a": "?"})]
    assert [row["t"].tolist() for row in found] == [[b"x", b"y"], [], [b"?"]]
    assert [row["s"]["q"].tolist() for row in found] == [[1, 2], [], [3]]


def test_dicts_in_lists_of_streams_may_lack_keys() -> None:
    def given() -> Any:
        yield {"x": [{"a": 1}, {"a": 2, "b": 3}]}
        yield {"x": [{"a": 1, "b": 2}, None, {"a": 2}]}
        yield {"x": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]}
        yield {"x": [{"a": {"c": 1}, "b": 0}, {"a": {"c": 2, "d": 3}, "b": 0}]}

    stream = datasets.IterableDataset.from_generator(given)
    first, second, third, fourth = pulled(ps.from_hf(stream))
    assert first.startswith("row 0: expected a value in column x.b, got null; give a fill_null")
    assert second.startswith("row 1: expected a value in column x.a, got null")
    assert {key: values.tolist() for key, values in third["x"].items()} == {"a": [1, 3], "b": [2, 4]}
    assert fourth.startswith("row 3: expected a value in column x.a.d, got null")
    filled = [row["x"] for row in ps.from_hf(stream, fill_null=-1)]
    assert [row["b"].tolist() for row in filled] == [[-1, 3], [2, -1, -1], [2, 4], [0, 0]]
    assert [row["a"].tolist() for row in filled[:3]] == [[1, 2], [1, -1, 2], [1, 3]]
    assert {key: values.tolist() for key, values in filled[3]["a"].items()} == {"c": [1, 2], "d": [-1, 3]}


def test_lists_of_streams_with_more_than_dicts_in_them() -> None:
    stream = datasets.IterableDataset.from_generator(lambda: iter([{"x": [{"a": 1}, 2]}]))
    with pytest.raises(BadType, match="expected numbers or strings, got an object array holding dict, int"):
        list(ps.from_hf(stream))


@pytest.mark.parametrize("is_selected", [False, True], ids=["in order", "selected"])
def test_nulls_inside_arrays_of_a_declared_shape(is_selected: bool) -> None:
    features = datasets.Features({"m": datasets.Array2D((2, 2), "int32")})
    arrays = [[[1, 2], None], [[3, 4], [5, 6]], [[7, None], [8, 9]]]
    table = datasets.Dataset.from_dict({"m": arrays}, features=features)
    for nulls in (table, datasets.concatenate_datasets([table.select([1]), table]).select([1, 2, 3])):
        dataset = ps.from_hf(nulls.select([0, 1, 2]) if is_selected else nulls)
        first, second, third = pulled(dataset)
        for found, row in ((first, 0), (third, 2)):
            assert re.match(rf"row {row}(, \d of the table)?: expected a value in column m, got null", found)
        assert (second["m"].dtype, second["m"].tolist()) == (np.int32, arrays[1])
    filled = [row["m"].to_list() for row in ps.from_hf(table, fill_null=0)]
    assert filled == [[[1, 2], []], [[3, 4], [5, 6]], [[7, 0], [8, 9]]]


@pytest.mark.parametrize("lists", [[[[1], [2]], None], [[[1], [2, 3]], None]], ids=["even", "uneven"])
def test_a_list_of_fixed_size_that_is_null_is_filled_as_an_empty_one(lists: list[Any]) -> None:
    pairs = datasets.List(datasets.List(datasets.Value("int32")), length=2)
    inside = [{"a": row} if row else None for row in lists]
    for features, column in ((pairs, lists), ({"a": pairs}, inside)):
        table = datasets.Dataset.from_dict({"x": column}, features=datasets.Features({"x": features}))
        dataset = ps.from_hf(table, fill_null=0)
        spec = dataset.element_spec["x"] if column is lists else dataset.element_spec["x"]["a"]
        for row in dataset:
            assert spec.holds(row["x"] if column is lists else row["x"]["a"])


def test_arrays_of_another_shape_than_declared_are_read_as_they_are() -> None:
    features = datasets.Features({"m": datasets.Array2D((2, 2), "int32")})
    arrays = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10]]]
    table = datasets.Dataset.from_dict({"m": arrays}, features=features)
    assert [row["m"].tolist() for row in ps.from_hf(table)] == arrays


def test_nulls_in_lists_of_lists() -> None:
    lists = [[[1, 2], None], [[1]], None, [[4, None]]]
    table = datasets.Dataset.from_dict({"a": lists})
    filled = [row["a"].to_list() for row in ps.from_hf(table, fill_null=9)]
    assert filled == [[[1, 2], []], [[1]], [], [[4, 9]]]
    first, second, *others = pulled(ps.from_hf(table))
    assert first.startswith("row 0: expected a value in column a, got null")
    # Rows that are no elements do not make the others ragged.
    assert (second["a"].tolist(), [type(other) for other in others]) == ([[1]], [str, str])
    dicts = datasets.Dataset.from_dict({"a": [[{"x": 1}, None], [{"x": 2}], None, [{"x": None}]]})
    assert [row["a"]["x"].tolist() for row in ps.from_hf(dicts).ignore_errors()] == [[2]]
    assert [row["a"]["x"].tolist() for row in ps.from_hf(dicts, fill_null=-1)] == [[1, -1], [2], [], [-1]]


def test_columns_beside_images_keep_their_types() -> None:
    kinds = {"image": datasets.Image(), "box": datasets.List(datasets.Value("float64")), "on": datasets.Value("bool")}
    pictures = [np.full((size, 2, 3), size, np.uint8) for size in (1, 2, 3)]
    columns = {"on": [True, False, True], "image": pictures, "box": [[0.1], [0.2, 0.3], []]}
    table = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    for dataset, order in ((ps.from_hf(table), [0, 1, 2]), (ps.from_hf(table.select([2, 0])), [2, 0])):
        for row, number in zip(dataset, order, strict=True):
            assert list(row) == list(table.features)
            assert row["image"].tolist() == pictures[number].tolist()
            assert (row["box"].dtype, row["box"].tolist()) == (np.float64, columns["box"][number])
            assert (type(row["on"]), bool(row["on"])) == (np.bool_, columns["on"][number])
    encoded = ps.from_hf(table.cast_column("image", datasets.Image(decode=False)))
    assert [ps.image.decode_image(row["image"]["bytes"]).shape for row in encoded] == [(n, 2, 3) for n in (1, 2, 3)]


def test_times_and_labels() -> None:
    kinds = {
        "day": datasets.Value("date32"),
        "at": datasets.Value("timestamp[ms]"),
        "utc": datasets.Value("timestamp[s, tz=UTC]"),
        "took": datasets.Value("duration[us]"),
        "label": datasets.ClassLabel(names=["a", "b"]),
        "on": datasets.Value("bool"),
    }
    columns: dict[str, list[Any]] = {name: [0, 1] for name in kinds}
    columns["day"] = [date(1970, 1, 1), date(1970, 1, 2)]
    table = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    _, row = ps.from_hf(table)
    dtypes = ["datetime64[D]", "datetime64[ms]", "datetime64[s]", "timedelta64[us]", "int64", "bool"]
    assert [str(value.dtype) for value in row.values()] == dtypes
    assert [int(value.astype(np.int64)) for value in row.values()] == [1] * 6
    clock = datasets.Dataset.from_dict({"t": [time(1, 2, 3)]})
    with pytest.raises(BadType, match="expected numbers or strings, got an object array holding time"):
        list(ps.from_hf(clock))


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
    fills = MappingProxyType({"label": -1, "image": picture * 0})
    filled = list(ps.from_hf(rows.select([2, 1]), fill_null=fills))
    assert [(int(row["image"].max()), int(row["label"]), row["label"].dtype) for row in filled] == [
        (9, -1, np.int32), (0, 2, np.int32)
    ]  # fmt: skip
    with pytest.raises(ps.errors.BadArgument, match=r"expected columns among \['image', 'label'\], got \['l'\]"):
        ps.from_hf(rows, fill_null={"l": 1})
    with pytest.raises(ps.errors.BadArgument, match="expected rows as they are stored, got rows of a transform"):
        ps.from_hf(rows.with_transform(dict), fill_null=1)


def test_a_dataset_can_be_pickled_and_files_are_mapped_again(tmp_path: Path) -> None:
    long = datasets.Dataset.from_dict({"x": list(range(20_000)), "name": ["a"] * 20_000})
    long.save_to_disk(tmp_path / "long")
    stored = datasets.load_from_disk(tmp_path / "long")
    made = {
        "as stored": ps.from_hf(stored),
        "selected": ps.from_hf(stored.select(range(500, 1000, 2))),
        "transformed": ps.from_hf(stored.select(range(9)).with_format("numpy")),
        "stream": ps.from_hf(rows().to_iterable_dataset()),
        "in memory": ps.from_hf(rows()),
    }
    for name, dataset in made.items():
        pickled = pickle.dumps(dataset.batch(1000))
        assert len(pickled) < 20_000, name
        found = [repr(batch) for batch in pickle.loads(pickled)]
        assert found == [repr(batch) for batch in dataset.batch(1000)] != [], name
