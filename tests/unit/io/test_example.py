"""Examples to arrays: results, errors that name their place, and the parser for blocks."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
from tests.native import wire

encode = ps.io.encode_example


def test_one_record() -> None:
    record = encode({"x": [[1, 2], [3, 4]], "y": 1.5, "name": "é", "tags": ["a", "b"], "n": [1, 2, 3]})
    parsed = ps.io.parse_single_example(
        record,
        {
            "x": FixedLenFeature([2, 2], int),
            "y": FixedLenFeature([], float),
            "name": FixedLenFeature([], bytes),
            "tags": VarLenFeature(bytes),
            "n": RaggedFeature(int),
            "none": FixedLenFeature([2], float, [7, 8]),
            "parts": FixedLenSequenceFeature([2], int, True),
        },
    )
    assert list(parsed) == ["x", "y", "name", "tags", "n", "none", "parts"]
    assert parsed["x"].tolist() == [[1, 2], [3, 4]]
    assert isinstance(parsed["y"], np.float32)
    assert parsed["name"] == "é".encode()
    assert parsed["tags"].values.tolist() == [b"a", b"b"]
    assert parsed["n"].tolist() == [1, 2, 3]
    assert parsed["none"].tolist() == [7, 8]
    assert parsed["parts"].shape == (0, 2)


def test_a_batch() -> None:
    records = [encode({"n": [1, 2, 3, 4]}), encode({}), encode({"n": [5, 6]})]
    parsed = ps.io.parse_example(np.array(records, dtype=object), {"n": FixedLenSequenceFeature([2], int, True, -1)})
    assert parsed["n"].tolist() == [[[1, 2], [3, 4]], [[-1, -1], [-1, -1]], [[5, 6], [-1, -1]]]
    sparse = ps.io.parse_example(records, {"n": VarLenFeature(int)})["n"]
    assert sparse.to_dense().tolist() == [[1, 2, 3, 4], [0, 0, 0, 0], [5, 6, 0, 0]]
    ragged = ps.io.parse_example(records, {"r": RaggedFeature(int, "n")})["r"]
    assert ragged.to_list() == [[1, 2, 3, 4], [], [5, 6]]
    assert ragged.row_splits.dtype == np.int32


GOOD = encode({"a": [1.0, 2.0]})
FLAWS: dict[str, tuple[bytes, Any, str]] = {
    "not an Example": (b"\x0a", FixedLenFeature([2], float), r"record 2 is not a serialized tf.train.Example"),
    "missing": (b"", FixedLenFeature([2], float), "feature 'a' of record 2 is missing, and there is no default_value"),
    "kind": (encode({"a": [1, 2]}), FixedLenFeature([2], float), "'a' of record 2: expected float32, got int64"),
    "kind, any number": (encode({"a": "x"}), VarLenFeature(float), "'a' of record 2: expected float32, got bytes"),
    "count": (encode({"a": 1.0}), FixedLenFeature([2], float), "of record 2: expected 2 values of float32, got 1"),
    "parts": (
        encode({"a": [1.0, 2.0, 3.0]}),
        FixedLenSequenceFeature([2], float, True),
        r"of record 2: expected parts of 2 values \(shape \(2,\)\), got 3 values in all",
    ),
    "list": (
        b"\x0a\x08\x0a\x06\x0a\x01a\x12\x01\x12",
        FixedLenFeature([2], float),
        "of record 2: expected a list of float32, got bytes that are none",
    ),
}


@pytest.mark.parametrize("name", FLAWS)
def test_errors_name_feature_and_record(name: str) -> None:
    record, feature, text = FLAWS[name]
    with pytest.raises(ps.errors.FormatError, match=text) as caught:
        ps.io.parse_example([GOOD, GOOD, record, GOOD], {"a": feature})
    assert isinstance(caught.value, ps.errors.RecordError)
    assert caught.value.record == 2
    assert caught.value.feature == (None if name == "not an Example" else "a")
    with pytest.raises(ps.errors.RecordError):
        ps.io.parse_single_example(record, {"a": feature})


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (lambda: ps.io.parse_example([b""], {}), "at least one feature"),
    "list": (lambda: ps.io.parse_example([b""], [1]), "expected a dict of features, got list"),
    "name": (lambda: ps.io.parse_example([b""], {1: VarLenFeature(int)}), "expected names as keys, got 1"),
    "feature": (lambda: ps.io.parse_example([b""], {"a": "int"}), "feature 'a': expected one of FixedLenFeature"),
    "text": (lambda: ps.io.parse_example("text", {"a": VarLenFeature(int)}), "expected bytes or a list of them"),
    "texts": (lambda: ps.io.parse_example([b"", "x"], {"a": VarLenFeature(int)}), "got str as record 1"),
    "fixed width": (lambda: ps.io.parse_example(np.array([b"a"]), {"a": VarLenFeature(int)}), "array of |S1"),
    "two axes": (
        lambda: ps.io.parse_example(np.full((2, 2), b"", object), {"a": VarLenFeature(int)}),
        r"shape \(2, 2\)",
    ),
    "many for one": (lambda: ps.io.parse_single_example([b""], {"a": VarLenFeature(int)}), "the bytes of one record"),
    "two kinds": (
        lambda: ps.io.parse_example([b""], {"a": VarLenFeature(int), "b": RaggedFeature(float, "a")}),
        "features 'a' and 'b' both read the key 'a'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, text = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        call()
    assert isinstance(caught.value, ps.errors.PlanError)


# --- blocks ---


def test_blocks_of_a_buffer() -> None:
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    data, lengths = ps.io.encode_examples({"x": x})
    parser = ps.io.ExampleParser({"x": FixedLenFeature([3], float)})
    offsets = np.cumsum(lengths) - lengths
    assert parser.is_dense
    assert np.array_equal(parser.parse_block((data, offsets, lengths))["x"], x)
    assert np.array_equal(parser.parse_block((data, offsets[::-1].copy(), lengths))["x"], x[::-1])
    assert parser.parse_block([])["x"].shape == (0, 3)
    three = tuple(data[at : at + size] for at, size in zip(offsets[:3], lengths[:3], strict=True))
    assert np.array_equal(parser.parse_block(three)["x"], x[:3])


def test_blocks_into_arrays_of_the_caller() -> None:
    records = [encode({"x": [float(n), 2.0], "n": list(range(n))}) for n in range(3)]
    parser = ps.io.ExampleParser({"x": FixedLenFeature([2], float), "n": VarLenFeature(int)})
    slot = np.zeros((3, 2), np.float32)
    parsed = parser.parse_block(records, {"x": slot})
    assert parsed["x"] is slot
    assert slot[:, 0].tolist() == [0, 1, 2]
    assert not parser.is_dense
    with pytest.raises(ValueError, match="output 0 has 4 items, for 3 records"):
        parser.parse_block(records, {"x": np.zeros((2, 2), np.float32)})


def test_threads_share_a_parser() -> None:
    x = np.random.default_rng(0).random((4000, 3)).astype(np.float32)
    data, lengths = ps.io.encode_examples({"x": x, "n": np.arange(4000)})
    records = (data, np.cumsum(lengths) - lengths, lengths)
    parser = ps.io.ExampleParser({"x": FixedLenFeature([3], float), "n": RaggedFeature(int)})
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(lambda _: parser.parse_block(records), range(20)))
    assert all(np.array_equal(part["x"], x) and np.array_equal(part["n"].values, np.arange(4000)) for part in parsed)


def test_parsers_go_to_other_processes() -> None:
    features = {"a": FixedLenFeature([2], float, [3, 4]), "n": RaggedFeature(int, "k", [RaggedFeature.RowLengths("l")])}
    parser = pickle.loads(pickle.dumps(ps.io.ExampleParser(features)))
    assert parser.parse_one(b"")["a"].tolist() == [3, 4]
    sequences = ps.io.SequenceExampleParser({"a": features["a"]}, {"n": VarLenFeature(bytes)})
    assert pickle.loads(pickle.dumps(sequences)).parse_one(b"")[0]["a"].tolist() == [3, 4]


def test_a_dict_of_features_that_changes_is_seen() -> None:
    features: dict[str, Any] = {"a": FixedLenFeature([2], float)}
    assert ps.io.parse_single_example(GOOD, features)["a"].tolist() == [1, 2]
    features["a"] = VarLenFeature(float)
    assert ps.io.parse_single_example(GOOD, features)["a"].values.tolist() == [1, 2]
    for size in range(40):  # more than are remembered
        if size != 2:
            with pytest.raises(ps.errors.RecordError):
                ps.io.parse_single_example(GOOD, {"a": FixedLenFeature([size], float)})


def test_floats_beyond_a_shape_are_counted_and_not_written() -> None:
    given = [wire.unpacked_floats(1), wire.unpacked_floats(*range(5000))]
    records = [wire.example(wire.entry(b"x", floats)) for floats in given]
    memory = np.full(1000, -1, np.float32)
    with pytest.raises(ps.errors.RecordError, match="'x' of record 1: expected 1 values of float32, got 5000"):
        ps.io.ExampleParser({"x": FixedLenFeature([1], float)}).parse_block(records, {"x": memory[:2].reshape(2, 1)})
    assert (memory[2:] == -1).all()


WRONG_PARTITIONS = {
    "RowSplits": [[], [0, 3], [1, 2], [0, 2, 1, 2], [0, 1]],
    "RowLengths": [[], [3], [1], [3, -1]],
    "RowLimits": [[], [1], [3], [2, 1]],
    "RowStarts": [[], [1], [0, 3], [0, 2, 1]],
    "ValueRowIds": [[], [0], [0, 0, 0], [-1, 0], [1, 0]],
}
RIGHT_PARTITION = {"RowSplits": [0, 2], "RowStarts": [0], "ValueRowIds": [0, 0]}


@pytest.mark.parametrize("kind", WRONG_PARTITIONS)
def test_partitions_that_do_not_fit_are_refused(kind: str) -> None:
    partitions = [getattr(RaggedFeature, kind)("p")]
    feature = {"r": RaggedFeature(float, "a", partitions, validate=True)}
    right = encode({"a": [1.0, 2.0], "p": RIGHT_PARTITION.get(kind, [2])})
    assert ps.io.parse_single_example(right, feature)["r"].to_list() == [[1, 2]]
    for numbers in WRONG_PARTITIONS[kind]:
        bad = encode({"a": [1.0, 2.0], "p": np.array(numbers, np.int64)})
        for validate in (False, True):
            alone = {"r": RaggedFeature(float, "a", partitions, validate=validate)}
            with pytest.raises(ps.errors.RecordError, match=re.escape(f"'r': its 2 items cannot be cut as {kind}(")):
                ps.io.parse_single_example(bad, alone)
        if (kind, numbers) != ("RowSplits", [1, 2]):  # of which a batch takes only the 2
            with pytest.raises(ps.errors.RecordError, match=re.escape("'r' of record 0: its 2 items cannot be cut as")):
                ps.io.parse_example([bad], feature)
    if kind == "RowSplits":  # there is no 0 to begin with
        with pytest.raises(ps.errors.RecordError, match="its 0 items cannot be cut as RowSplits"):
            ps.io.parse_single_example(b"", feature)
    elif kind == "RowStarts":
        assert ps.io.parse_single_example(b"", feature)["r"].to_list() == []


@pytest.mark.parametrize("validate", [False, True])
def test_partitions_must_fit_a_batch_as_a_whole(validate: bool) -> None:
    right = encode({"a": [0.0], "p": [1]})
    lengths = [encode({"a": [1.0, 2.0], "p": [1, 2]}), encode({"a": [3.0, 4.0], "p": [1]})]
    features = {"a": RaggedFeature(float, partitions=[RaggedFeature.RowLengths("p")], validate=validate)}
    found = ps.io.parse_example([right, *lengths], features)["a"]
    assert found.to_list() == [[[0]], [[1], [2, 3]], [[4]]]
    with pytest.raises(ps.errors.RecordError, match=r"'a' of record 1: its 2 items .* says: \[1, 2\]") as caught:
        ps.io.parse_example([right, lengths[0]], features)
    assert caught.value.record == 1


def test_with_validate_numbers_of_rows_do_not_go_back() -> None:
    records = [encode({"a": [0.0], "p": [0]}), encode({"a": [1.0, 2.0, 3.0], "p": [1, 0, 1]})]
    partitions = [RaggedFeature.ValueRowIds("p")]
    found = ps.io.parse_example(records, {"a": RaggedFeature(float, partitions=partitions)})["a"]
    assert found.to_list() == [[[0]], [[1], [2, 3]]]
    with pytest.raises(ps.errors.RecordError, match=r"'a' of record 1: its 3 items .* says: \[1, 0, 1\]"):
        ps.io.parse_example(records, {"a": RaggedFeature(float, partitions=partitions, validate=True)})


def test_uniform_rows() -> None:
    uniform = {"a": RaggedFeature(float, partitions=[RaggedFeature.UniformRowLength(3)])}
    with pytest.raises(ps.errors.RecordError, match=r"'a': its 2 items cannot be cut as UniformRowLength\(length=3\)"):
        ps.io.parse_single_example(GOOD, uniform)


def test_numbers_of_rows_set_no_memory_aside() -> None:
    feature = {"a": RaggedFeature(float, partitions=[RaggedFeature.ValueRowIds("p")], row_splits_dtype=np.int64)}
    assert len(ps.io.parse_single_example(encode({"a": [1.0, 2.0], "p": [0, 2000]}), feature)["a"]) == 2001
    for most in (2048, 2**40, 2**63 - 1):
        claims = encode({"a": [1.0, 2.0], "p": [0, most]})
        for parse in (lambda r: ps.io.parse_single_example(r, feature), lambda r: ps.io.parse_example([r, r], feature)):
            with pytest.raises(ps.errors.RecordError, match="cannot be cut as ValueRowIds"):
                parse(claims)


def test_sparse_features() -> None:
    features = {
        "s": SparseFeature(["row", "column"], "value", float, [4, 5]),
        "v": SparseFeature("row", "value", float, 4, already_sorted=True),
    }
    one = encode({"row": [3, 0], "column": [1, 4], "value": [1.5, 2.5]})
    parsed = ps.io.parse_single_example(one, features)
    assert parsed["s"].indices.tolist() == [[0, 4], [3, 1]]
    assert parsed["s"].values.tolist() == [2.5, 1.5]
    assert parsed["s"].shape == (4, 5)
    assert parsed["v"].indices.tolist() == [[3], [0]]
    batch = ps.io.parse_example([one, b"", one], features)["s"]
    assert batch.indices.tolist() == [[0, 0, 4], [0, 3, 1], [2, 0, 4], [2, 3, 1]]
    assert batch.shape == (3, 4, 5)
    uneven = encode({"row": [3, 0], "column": [1], "value": [1.5, 2.5]})
    with pytest.raises(ps.errors.RecordError, match="'s' of record 1: expected as many indices as values, got 1 of 'c"):
        ps.io.parse_example([one, uneven], features)
    with pytest.raises(ps.errors.RecordError, match="'s': expected as many indices as values, got 1 of 'column' for 2"):
        ps.io.parse_single_example(uneven, features)
    with pytest.raises(ValueError, match="SparseFeature cannot be used here"):
        ps.io.parse_sequence_example([one], features)


def test_indices_must_be_as_many_as_values_in_a_batch_as_a_whole() -> None:
    features = {"s": SparseFeature(["i", "j"], "v", int, [4, 4])}
    records = [
        encode({"i": [3, 1], "j": [0], "v": [5]}),
        b"",
        encode({"i": [2], "j": [1, 2], "v": [6, 7]}),
    ]
    found = ps.io.parse_example(records, features)["s"]
    assert found.indices.tolist() == [[0, 1, 1], [0, 3, 0], [2, 2, 2]]  # by the first index
    assert found.values.tolist() == [6, 5, 7]
    assert found.shape == (3, 4, 4)
    with pytest.raises(ps.errors.RecordError, match=r"'s' of record 1: .* got 1 of 'i' for 2 of 'v'") as caught:
        ps.io.parse_example(records[1:], features)
    assert caught.value.record == 1


# --- sequences ---


def test_sequences_name_the_step() -> None:
    record = ps.io.encode_sequence_example({}, {"x": [[1.0, 2.0], [3.0]]})
    with pytest.raises(ps.errors.RecordError, match=r"feature 'x' of record 1, step 1: expected 2 values .* got 1"):
        ps.io.parse_sequence_example([b"", record], None, {"x": FixedLenSequenceFeature([2], float, True)})
    with pytest.raises(ps.errors.RecordError, match="'x' of record 0 is missing, and there is no allow_missing"):
        ps.io.parse_sequence_example([b"", record], None, {"x": FixedLenSequenceFeature([2], float)})
    with pytest.raises(ps.errors.RecordError, match=r"record 0 is not a serialized tf.train.SequenceExample"):
        ps.io.parse_sequence_example([b"\x12"], None, {"x": VarLenFeature(float)})
    with pytest.raises(ValueError, match="at least one feature"):
        ps.io.parse_sequence_example([b""])
    with pytest.raises(ValueError, match="'x': FixedLenFeature cannot be used here"):
        ps.io.parse_sequence_example([b""], None, {"x": FixedLenFeature([], float)})
    with pytest.raises(ValueError, match="a feature list has no default_value"):
        ps.io.parse_sequence_example([b""], None, {"x": FixedLenSequenceFeature([], float, True, 1)})
    ragged = {"x": RaggedFeature(float, partitions=[RaggedFeature.RowLengths("p")])}
    uneven = ps.io.encode_sequence_example({}, {"x": [[1.0], [2.0]], "p": [[1]]})
    with pytest.raises(ps.errors.RecordError, match="'x' of record 0: 'x' has 2 steps, and 'p' 1"):
        ps.io.parse_sequence_example([uneven], None, ragged)
    wrong = ps.io.encode_sequence_example({}, {"x": [[1.0], [2.0]], "p": [[1], [3]]})
    with pytest.raises(ps.errors.RecordError, match=r"'x' of record 1, step 1: its 1 items cannot be cut as .*: \[3\]"):
        ps.io.parse_sequence_example([b"", wrong], None, ragged)
    with pytest.raises(ps.errors.RecordError, match="'x', step 1: its 1 items cannot be cut as RowLengths"):
        ps.io.parse_single_sequence_example(wrong, None, ragged)
    with pytest.raises(ps.errors.RecordError, match="'y': expected a record that has it, got no records"):
        ps.io.parse_sequence_example([], {"y": FixedLenFeature([], float)})


# --- the namespace ---


def test_names_come_when_asked_for() -> None:
    assert set(dir(ps.io)) == set(ps.io.__all__)
    for name in ps.io.__all__:
        # As in tf.io the functions that decode images are here too.
        assert getattr(ps.io, name).__module__.startswith("penstock.image." if "decode_" in name else "penstock.io.")
    with pytest.raises(AttributeError, match="has no attribute 'parse_json'"):
        _ = ps.io.parse_json  # type: ignore[attr-defined]  # wrong on purpose


def test_errors_say_the_names_of_records() -> None:
    spec = {"x": ps.io.FixedLenFeature([1], "int64")}
    good, bad = ps.io.encode_example({"x": [1]}), ps.io.encode_example({"x": [1, 2]})
    with pytest.raises(
        ps.errors.RecordError, match=r"^example 'b': feature 'x' of record 1: expected 1 value"
    ) as caught:
        ps.io.parse_example([good, bad], spec, example_names=["a", b"b"])
    assert caught.value.record == 1
    with pytest.raises(ps.errors.RecordError, match=r"^example 'b': feature 'x': expected 1 value"):
        ps.io.parse_single_example(bad, spec, "b")
    with pytest.raises(ps.errors.RecordError, match=r"^example 'b': feature 'x' of record 0"):
        ps.io.parse_sequence_example([bad], spec, example_names=np.array([b"b"], object))
    with pytest.raises(ps.errors.RecordError, match=r"^example 'b': feature 'x': expected 1 value"):
        ps.io.parse_single_sequence_example(bad, spec, example_name="b", name="n")
    with pytest.raises(ps.errors.RecordError, match=r"^feature 'x' of record 1"):
        ps.io.parse_example([good, bad], spec, [], name="n")
    assert ps.io.parse_example([good, good], spec, ["a", "b"])["x"].tolist() == [[1], [1]]
    records = ps.Dataset.from_tensor_slices([good, bad])
    with pytest.raises(ps.errors.RecordError, match=r"example 'b': feature 'x': expected 1 value"):
        list(records.map(lambda record: ps.io.parse_single_example(record, spec, example_names="b")))


@pytest.mark.parametrize("names", ["a", ["a"], ["a", "b", "c"], [1, 2], 3])
def test_names_are_as_many_as_records(names: Any) -> None:
    spec = {"x": ps.io.FixedLenFeature([1], "int64")}
    with pytest.raises((ValueError, TypeError), match="example_names: expected"):
        ps.io.parse_example([ps.io.encode_example({"x": [1]})] * 2, spec, names)
    with pytest.raises((ValueError, TypeError), match="example_name: expected one name"):
        ps.io.parse_single_sequence_example(b"", spec, example_name=["a"])
