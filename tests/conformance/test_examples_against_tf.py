"""Examples and SequenceExamples: what ps.io parses and refuses is what tf.io parses and refuses."""

from __future__ import annotations

import functools
import inspect
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from tests.conformance.examples import outcome, same
from tests.native import wire

DTYPES = {"float32": [9.0, 9.0], "int64": [9, 9], "string": ["x", "y"]}
IOS = (tf.io, ps.io)
CORPUS = sorted((Path(__file__).parents[1] / "native" / "corpus").iterdir())
# On these TensorFlow sets aside what the bytes claim, and may end the process.
FATAL = {"length_2_32", "length_2_63", "string_too_long"}


def example_features(dtype: str) -> dict[str, Any]:
    default = DTYPES[dtype]
    return {
        "fixed": tf.io.FixedLenFeature([2], dtype, default),
        "required": tf.io.FixedLenFeature([2], dtype),
        "scalar": tf.io.FixedLenFeature([], dtype, default[0]),
        "sparse": tf.io.VarLenFeature(getattr(tf, dtype)),
        "ragged": tf.io.RaggedFeature(getattr(tf, dtype)),
        "padded": tf.io.FixedLenSequenceFeature([2], dtype, True, default[0]),
    }


def list_features(dtype: str) -> dict[str, Any]:
    return {
        "padded": tf.io.FixedLenSequenceFeature([2], dtype, True),
        "required": tf.io.FixedLenSequenceFeature([2], dtype),
        "scalars": tf.io.FixedLenSequenceFeature([], dtype, True),
        "sparse": tf.io.VarLenFeature(getattr(tf, dtype)),
        "ragged": tf.io.RaggedFeature(getattr(tf, dtype), row_splits_dtype=tf.int64),
    }


def compare_example(dtype: str, records: list[bytes]) -> None:
    one = records[-1]
    for name, feature in example_features(dtype).items():
        what = (name, dtype, records)
        features = {"a": feature}
        same(
            lambda f=features: tf.io.parse_example(records, f), lambda f=features: ps.io.parse_example(records, f), what
        )
        same(
            lambda f=features: tf.io.parse_single_example(one, f),
            lambda f=features: ps.io.parse_single_example(one, f),
            what,
        )


def compare_sequence(dtype: str, records: list[bytes]) -> None:
    context = {name: feature for name, feature in example_features(dtype).items() if name != "padded"}
    for name, feature in [*context.items(), *list_features(dtype).items()]:
        is_list = name in ("padded", "scalars") or isinstance(feature, tf.io.FixedLenSequenceFeature)
        for arguments in ((None, {"a": feature}), ({"a": feature}, None)):
            if (is_list and arguments[0]) or (isinstance(feature, tf.io.FixedLenFeature) and arguments[1]):
                continue
            for ours, theirs, given in (
                (ps.io.parse_sequence_example, tf.io.parse_sequence_example, records),
                (ps.io.parse_single_sequence_example, tf.io.parse_single_sequence_example, records[-1]),
            ):
                ask_us = functools.partial(ours, given, *arguments)
                # TensorFlow skips strings without looking where they end, and may end the process.
                if dtype != "string" or outcome(ask_us) != "refused":
                    same(functools.partial(theirs, given, *arguments), ask_us, (name, dtype, arguments, records))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_corpus(dtype: str) -> None:
    for path in CORPUS:
        if path.name not in FATAL:
            compare_example(dtype, [b"", path.read_bytes()])
            compare_sequence(dtype, [b"", path.read_bytes()])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_examples(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        records = [wire.random_example(rng), wire.damaged(rng, wire.random_example(rng))]
        if not wire.claims_much(records[1]):
            compare_example(rng.choice(list(DTYPES)), records)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_sequence_examples(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        records = [wire.random_sequence_example(rng), wire.damaged(rng, wire.random_sequence_example(rng))]
        if not wire.claims_much(records[1]):
            compare_sequence(rng.choice(list(DTYPES)), records)


# --- both directions, every kind of value ---


def tf_feature(value: Any) -> Any:
    if isinstance(value, list) and not value:
        return tf.train.Feature()
    array = np.asarray(value, dtype=object if isinstance(value, (bytes, str)) else None)
    flat = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat))
    if array.dtype.kind in "iub":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(number) for number in flat]))
    texts = [text.encode() if isinstance(text, str) else text for text in flat]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


def tf_example(values: dict[str, Any]) -> Any:
    features = {name: tf_feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=features))


def assert_same_message(record: bytes, message: Any) -> None:
    """The same fields; the order of keys in a map is nobody's business."""
    expected = message.SerializeToString(deterministic=True)
    assert len(record) == len(expected)
    assert type(message).FromString(record).SerializeToString(deterministic=True) == expected


RNG = np.random.default_rng(0)
VALUES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "scalars": {"f": 1.5, "i": -3, "b": b"\x00\xff", "s": "é", "t": True},
    "float32": {"x": RNG.random(5).astype(np.float32)},
    "float64": {"x": RNG.random((2, 3))},
    "float16": {"x": np.float16([1, 2])},
    **{name: {"x": np.array([0, 1, 100]).astype(name)} for name in ("int8", "uint8", "int16", "uint16", "int32")},
    "int64": {"x": np.array([0, -1, 2**63 - 1, -(2**63), 127, 128])},
    "uint64": {"x": np.array([0, 2**63 - 1], np.uint64)},
    "bool": {"x": np.array([True, False])},
    "special floats": {"x": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)},
    "too large for float32": {"x": np.array([1e300, -1e300])},
    "empty floats": {"x": np.empty(0, np.float32)},
    "empty ints": {"x": np.empty((3, 0), np.int64)},
    "empty strings": {"x": np.empty(0, object)},
    "no values of no kind": {"x": []},
    "strings": {"x": np.array([b"", b"a", b"a\0", "ü".encode()], dtype=object)},
    "unicode keys": {"é": 1, "日本": 2, "\U0001f600": 3, "": 4, "z": 5},
    "10 MB": {"b": bytes(10_000_000), "f": np.zeros(2_500_000, np.float32)},
    "many keys": {f"key {number}": number for number in range(200)},
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", VALUES)
def test_encoded_examples_are_tensorflows(name: str) -> None:
    assert_same_message(ps.io.encode_example(VALUES[name]), tf_example(VALUES[name]))


# A cast that warns; and two of which nothing can be asked.
NOT_READ = {"too large for float32", "nothing", "no values of no kind"}


@pytest.mark.parametrize("name", [name for name in VALUES if name not in NOT_READ])
def test_what_either_writes_the_other_reads(name: str) -> None:
    values = VALUES[name]
    for record in (ps.io.encode_example(values), tf_example(values).SerializeToString()):
        features = {}
        for key, value in values.items():
            array = np.asarray(value, dtype=object if isinstance(value, (bytes, str)) else None)
            dtype = {"f": tf.float32, "O": tf.string}.get(array.dtype.kind, tf.int64)
            features[key] = tf.io.FixedLenFeature(array.shape, dtype)
        # An empty feature of no kind cannot be told from others, so that shapes with a zero are as any.
        parsed = same(
            lambda r=record, f=features: tf.io.parse_single_example(r, f),
            lambda r=record, f=features: ps.io.parse_single_example(r, f),
            name,
        )
        assert parsed != "refused"


def test_sequence_examples_are_written_as_tensorflow_writes_them() -> None:
    context = {"label": 3, "name": "é"}
    lists: dict[str, Any] = {
        "words": [[b"a", b"bb"], [], [b"c"]],
        "x": np.arange(6, dtype=np.float32).reshape(3, 2),
        "n": [1, 2, 3],
        "no kind": [[], []],
        "none": [],
        "ragged": ps.Ragged(np.arange(4), np.array([0, 1, 1, 4])),
    }
    steps = {
        "words": [tf_feature(np.array(step, dtype=object)) for step in lists["words"]],
        "no kind": [tf.train.Feature(), tf.train.Feature()],
        "x": [tf_feature(step) for step in lists["x"]],
        "n": [tf_feature(step) for step in lists["n"]],
        "none": [],
        "ragged": [tf_feature(np.array(step, np.int64)) for step in ([0], [], [1, 2, 3])],
    }
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={name: tf_feature(value) for name, value in context.items()}),
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=features) for name, features in steps.items()}
        ),
    )
    record = ps.io.encode_sequence_example(context, lists)
    assert_same_message(record, message)
    assert_same_message(ps.io.encode_sequence_example({}, {}), tf.train.SequenceExample())
    context_features = {"label": tf.io.FixedLenFeature([], tf.int64), "name": tf.io.FixedLenFeature([], tf.string)}
    sequence_features = {
        "words": tf.io.VarLenFeature(tf.string),
        "x": tf.io.FixedLenSequenceFeature([2], tf.float32),
        "n": tf.io.FixedLenSequenceFeature([], tf.int64),
        "none": tf.io.FixedLenSequenceFeature([7], tf.float32),
        "ragged": tf.io.RaggedFeature(tf.int64),
    }
    for records in ([record, record], record):
        parsed = same(
            lambda r=records: tf.io.parse_sequence_example(r, context_features, sequence_features),
            lambda r=records: ps.io.parse_sequence_example(r, context_features, sequence_features),
        )
        assert parsed != "refused"


# --- ragged features with partitions ---

RAGGED = tf.io.RaggedFeature
V = {"v": [3, 1, 4, 1, 5, 9]}
W = {"v": [2, 7, 1, 8, 2, 8, 1]}
PARTITIONS: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
    "none": ([], [V, W]),
    "splits": ([RAGGED.RowSplits("p")], [{**V, "p": [0, 2, 3, 3, 6]}, {**W, "p": [0, 3, 4, 5, 7]}]),
    "lengths": ([RAGGED.RowLengths("p")], [{**V, "p": [2, 0, 4]}, {**W, "p": [7]}]),
    "starts": ([RAGGED.RowStarts("p")], [{**V, "p": [0, 2, 2]}, {**W, "p": [0, 6]}]),
    "limits": ([RAGGED.RowLimits("p")], [{**V, "p": [2, 2, 6]}, {**W, "p": [1, 7]}]),
    "ids": ([RAGGED.ValueRowIds("p")], [{**V, "p": [0, 0, 2, 2, 2, 5]}, {**W, "p": [1] * 7}]),
    "uniform": ([RAGGED.UniformRowLength(3)], [V, {"v": [1, 2, 3]}]),
    "uniform twice": ([RAGGED.UniformRowLength(1), RAGGED.UniformRowLength(2)], [V, {"v": [1, 2]}]),
    "two splits": (
        [RAGGED.RowSplits("q"), RAGGED.RowSplits("p")],
        [{**V, "p": [0, 2, 3, 3, 6], "q": [0, 2, 3, 4]}, {**W, "p": [0, 3, 4, 5, 7], "q": [0, 1, 1, 4]}],
    ),
    "uniform outside": (
        [RAGGED.UniformRowLength(2), RAGGED.RowLengths("p")],
        [{**V, "p": [2, 0, 4, 0]}, {**W, "p": [7, 0]}],
    ),
    "uniform inside": (
        [RAGGED.RowLengths("p"), RAGGED.UniformRowLength(2)],
        [{**V, "p": [2, 0, 1]}, {"v": [1, 2], "p": [0, 1]}],
    ),
}


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_partitions(name: str, dtype: Any) -> None:
    partitions, values = PARTITIONS[name]
    features = {"r": RAGGED(tf.int64, "v", partitions, dtype), "v": RAGGED(tf.int64, row_splits_dtype=dtype)}
    records = [ps.io.encode_example(value) for value in values]
    for given in (records, records[:1], records[1], [b""], [records[0], b"", records[1]]):
        parsed = same(
            lambda r=given: tf.io.parse_example(r, features), lambda r=given: ps.io.parse_example(r, features), name
        )
        assert parsed != "refused"


@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_of_one_record_without_values(name: str, tmp_path: Path) -> None:
    partitions, values = PARTITIONS[name]
    features = {"r": RAGGED(tf.int64, "v", partitions, validate=True)}
    given = [b"", ps.io.encode_example({"v": []}), ps.io.encode_example({"p": [0], "q": [0]})]
    for number, record in enumerate([*given, ps.io.encode_example(values[0])]):
        expected = same(
            lambda r=record: tf.io.parse_single_example(r, features),
            lambda r=record: ps.io.parse_single_example(r, features),
            name,
        )
        path = tmp_path / str(number)
        with ps.io.TFRecordWriter(path) as writer:
            writer.write(record)
        mapped = ps.TFRecordDataset(path).map(lambda r: ps.io.parse_single_example(r, features))
        assert outcome(lambda ds=mapped: next(iter(ds))) == expected


@pytest.mark.parametrize("name", ["splits", "lengths", "ids", "uniform", "two splits"])
def test_partitions_of_feature_lists(name: str) -> None:
    partitions, values = PARTITIONS[name]
    features = {"r": RAGGED(tf.int64, "v", partitions)}
    lists = {key: [value[key] for value in values] for key in values[0]}
    records = [ps.io.encode_sequence_example({}, lists), ps.io.encode_sequence_example({}, {k: [] for k in lists})]
    for given in (records, records[0]):
        parsed = same(
            lambda r=given: tf.io.parse_sequence_example(r, None, features)[1],
            lambda r=given: ps.io.parse_sequence_example(r, None, features)[1],
            name,
        )
        assert parsed != "refused"


MISFITS: dict[str, tuple[Any, dict[str, Any]]] = {
    "no splits": (RAGGED.RowSplits("p"), V),
    "nothing": (RAGGED.RowSplits("p"), {}),
    "a value left": (RAGGED.RowSplits("p"), {**V, "p": [0, 5]}),
    "beyond": (RAGGED.RowLimits("p"), {**V, "p": [2, 7]}),
    "backwards": (RAGGED.RowStarts("p"), {**V, "p": [0, 4, 2]}),
    "uneven": (RAGGED.UniformRowLength(4), V),
}


@pytest.mark.parametrize("name", MISFITS)
def test_partitions_that_make_nothing_ragged_are_refused_by_both_in_datasets(name: str) -> None:
    partition, values = MISFITS[name]
    features = {"r": RAGGED(tf.int64, "v", [partition])}
    record = ps.io.encode_example(values)
    datasets = [
        data.from_tensors(record).map(lambda r, io=io: io.parse_single_example(r, features))
        for data, io in ((tf.data.Dataset, tf.io), (ps.Dataset, ps.io))
    ]
    theirs, ours = (lambda ds=ds: next(iter(ds)) for ds in datasets)
    assert same(theirs, ours, name) == "refused"


@pytest.mark.parametrize("validate", [False, True])
def test_steps_of_partitions_that_are_not_as_many(validate: bool) -> None:
    first = ps.io.encode_sequence_example({}, {"v": [[1, 2], [3]], "p": [[2]]})
    second = ps.io.encode_sequence_example({}, {"v": [[4]], "p": [[1], [1]]})
    features = {"v": RAGGED(tf.int64, None, [RAGGED.RowLengths("p")], validate=validate)}
    asked = [functools.partial(io.parse_sequence_example, [first, second], None, features) for io in IOS]
    assert (same(*asked) == "refused") == validate
    none = ps.io.encode_sequence_example({}, {"v": [], "p": [np.empty(0, np.int64)]})
    features = {"v": RAGGED(tf.int64, None, [RAGGED.RowStarts("p")])}
    asked = [functools.partial(io.parse_single_sequence_example, none, None, features) for io in IOS]
    assert same(*asked) != "refused"


def test_numbers_of_rows_are_as_many_as_values() -> None:
    features = {"v": RAGGED(tf.int64, None, [RAGGED.ValueRowIds("p")])}
    for rows, is_right in (([3, 0], False), ([0], True), ([1], True)):
        record = ps.io.encode_example({"v": [7], "p": rows})
        for given in (record, [record]):
            asked = [functools.partial(io.parse_example, given, features) for io in IOS]
            assert (same(*asked) != "refused") == is_right


# --- sparse features ---


@pytest.mark.parametrize("already_sorted", [False, True])
@pytest.mark.parametrize("keys", ["i", ["i"], ["i", "j"]])
def test_sparse_features(keys: Any, already_sorted: bool) -> None:
    size = 5 if keys == "i" else [5] * len(keys)
    features = {"s": tf.io.SparseFeature(keys, "v", tf.float32, size, already_sorted)}
    values = {"i": [4, 0, 4, 7, -1], "j": [1, 2, 0, 3, 3], "v": [0.5, 1.5, 2.5, 3.5, 4.5]}
    record, uneven = ps.io.encode_example(values), ps.io.encode_example({**values, "i": [1]})
    for given in (record, b"", uneven, [record, b"", record], [record, uneven], [b""]):
        asked = [functools.partial(io.parse_example, given, features) for io in IOS]
        assert (same(*asked, keys) == "refused") == (given is uneven or given == [record, uneven])


def test_an_empty_batch_of_sequence_examples() -> None:
    for default in (None, 1.0):
        context = {"a": tf.io.FixedLenFeature([], tf.float32, default)}
        asked = [functools.partial(io.parse_sequence_example, np.empty(0, object), context) for io in IOS]
        assert (same(*asked) == "refused") == (default is None)


@pytest.mark.parametrize(("tag", "dtype"), [(b"\x0a", tf.string), (b"\x12", tf.float32), (b"\x1a", tf.int64)])
def test_a_list_may_just_end(tag: bytes, dtype: Any) -> None:
    features = {"a": tf.io.VarLenFeature(dtype)}
    for claimed in (b"\x01", b"\x11", b"\x80\x01"):
        entry = wire.entry(b"a", tag + claimed)
        asked = [functools.partial(io.parse_example, [wire.example(entry)], features) for io in IOS]
        assert same(*asked) != "refused"
        context = wire.sequence_example(entry)
        asked = [functools.partial(io.parse_sequence_example, [context], features) for io in IOS]
        assert (same(*asked) == "refused") == (dtype != tf.string)


# --- arguments that both refuse ---

MISTAKES: dict[str, dict[str, Any]] = {
    "no features": {},
    "float64": {"a": lambda io: io.FixedLenFeature([], np.float64)},
    "int32": {"a": lambda io: io.VarLenFeature(np.int32)},
    "unknown dimension": {"a": lambda io: io.FixedLenFeature([None], np.float32)},
    "default of another size": {"a": lambda io: io.FixedLenFeature([2], np.float32, 1.0)},
    "text for a number": {"a": lambda io: io.FixedLenFeature([], np.float32, "x")},
    "padding of two": {"a": lambda io: io.FixedLenSequenceFeature([], np.float32, True, [1, 2])},
    "sequence that may not be missing": {"a": lambda io: io.FixedLenSequenceFeature([], np.float32)},
    "no shape": {"a": lambda io: io.FixedLenFeature(None, np.float32)},
    "one key, two kinds": {
        "a": lambda io: io.RaggedFeature(np.float32),
        "b": lambda io: io.RaggedFeature(np.int64, "a"),
    },
    "one key, two ways": {"a": lambda io: io.VarLenFeature(np.int64), "b": lambda io: io.RaggedFeature(np.int64, "a")},
    "no feature": {"a": lambda io: 3},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_by_both(name: str) -> None:
    make = MISTAKES[name]
    refused = same(
        lambda: tf.io.parse_example([b""], {key: one(tf.io) for key, one in make.items()}),
        lambda: ps.io.parse_example([b""], {key: one(ps.io) for key, one in make.items()}),
        name,
    )
    assert refused == "refused"


def test_a_default_of_no_values_is_none() -> None:
    feature = {"a": tf.io.FixedLenFeature([0], tf.float32, [])}
    for record in (b"", ps.io.encode_example({"a": []})):
        same(lambda r=record: tf.io.parse_example([r], feature), lambda r=record: ps.io.parse_example([r], feature))


def test_an_empty_batch() -> None:
    features = example_features("float32")
    same(
        lambda: tf.io.parse_example(np.empty(0, object), features),
        lambda: ps.io.parse_example(np.empty(0, object), features),
    )


@pytest.mark.parametrize(
    "name",
    ["parse_example", "parse_single_example", "parse_sequence_example", "parse_single_sequence_example"],
)
def test_arguments_are_called_as_in_tensorflow(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(io, name)).parameters for io in (ps.io, tf.io))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
