"""Records whose features fit each other only in a batch as a whole: parsed together, they are what tf.io makes of them.

Parsed one by one and batched afterwards each is judged alone, though penstock parses whole blocks there too.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from tests.conformance.compare_examples import batches
from tests.conformance.dealt_records import dealt
from tests.conformance.examples import outcome, same

IOS = (tf.io, ps.io)
R = tf.io.RaggedFeature
# In each the first record takes from the second, or the second from the first.
PARTITIONS: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
    "lengths": ([R.RowLengths("p")], [{"v": [1, 2], "p": [1, 2]}, {"v": [3, 4], "p": [1]}]),
    "splits": ([R.RowSplits("p")], [{"v": [1, 2], "p": [0, 1, 3]}, {"v": [3, 4], "p": [0, 1, 2]}]),
    "limits": ([R.RowLimits("p")], [{"v": [1, 2], "p": [1, 3]}, {"v": [3, 4], "p": [1, 2]}]),
    "starts": ([R.RowStarts("p")], [{"v": [1, 2], "p": [0, 3]}, {"v": [3, 4], "p": [1]}]),
    "ids": ([R.ValueRowIds("p")], [{"v": [1, 2], "p": [0, 0, 1]}, {"v": [3, 4], "p": [0]}]),
    "uniform": ([R.UniformRowLength(2)], [{"v": [1]}, {"v": [2, 3, 4]}]),
    "outer lengths": (
        [R.RowLengths("q"), R.RowLengths("p")],
        [{"v": [1, 2], "p": [1, 1], "q": [3]}, {"v": [3], "p": [0, 1], "q": [1]}],
    ),
    "outer uniform": (
        [R.UniformRowLength(2), R.RowLengths("p")],
        [{"v": [1, 2], "p": [0, 1, 1]}, {"v": [3], "p": [1]}],
    ),
    "inner uniform": (
        [R.RowLengths("p"), R.UniformRowLength(2)],
        [{"v": [1, 2, 3], "p": [1]}, {"v": [4, 5, 6], "p": [2]}],
    ),
}
S = tf.io.SparseFeature
INDICES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "one index": (S("i", "v", tf.int64, 3), [{"i": [2, 1], "v": [5]}, {"i": [0], "v": [6, 7]}]),
    "sorted": (S("i", "v", tf.int64, 3, True), [{"i": [2, 1], "v": [5]}, {"i": [0], "v": [6, 7]}]),
    "one of two": (
        S(["i", "j"], "v", tf.int64, [3, 3]),
        [{"i": [2], "j": [0, 1], "v": [5]}, {"i": [0, 1], "j": [0], "v": [6, 7]}],
    ),
    "other of two": (
        S(["j", "i"], "v", tf.int64, [3, 3]),
        [{"i": [2], "j": [0, 1], "v": [5]}, {"i": [0, 1], "j": [0], "v": [6, 7]}],
    ),
    "values": (
        S(["i", "j"], "v", tf.int64, [3, 3]),
        [{"i": [2, 1], "j": [0, 1], "v": []}, {"i": [0], "j": [0], "v": [6, 7, 8]}],
    ),
}


def features_of(name: str, validate: bool) -> dict[str, Any]:
    if name in INDICES:
        return {"f": INDICES[name][0]}
    return {"f": R(tf.int64, "v", PARTITIONS[name][0], tf.int64, validate)}


def ints(record: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {key: np.array(numbers, np.int64) for key, numbers in record.items()}


def records_of(name: str) -> list[bytes]:
    _, values = INDICES.get(name) or PARTITIONS[name]
    return [ps.io.encode_example(ints(each)) for each in values]


CASES = [(name, validate) for name in PARTITIONS for validate in (False, True)] + [(name, False) for name in INDICES]


@pytest.mark.parametrize(("name", "validate"), CASES)
def test_a_batch_is_judged_as_a_whole(name: str, validate: bool) -> None:
    records, features = records_of(name), features_of(name, validate)
    for given in (records, [*records, b"", *records]):
        asked = [functools.partial(io.parse_example, given, features) for io in IOS]
        assert same(*asked) != "refused"
    asked = [functools.partial(io.parse_example, records[:1] * 3, features) for io in IOS]
    assert same(*asked) == "refused"


@pytest.mark.parametrize("part", range(2))
def test_random_batches_are_judged_as_a_whole(part: int) -> None:
    num_whole = 0
    for number in range(200 * part, 200 * part + 200):
        feature, values = dealt(number)
        features = {"f": feature}
        records = [ps.io.encode_example(ints(record)) for record in values]
        asked = [functools.partial(io.parse_example, records, features) for io in IOS]
        if same(*asked, (number, feature, values)) != "refused":
            alone = [outcome(functools.partial(ps.io.parse_single_example, record, features)) for record in records]
            num_whole += "refused" in alone
    assert num_whole > 100


def test_random_contexts_and_steps_are_judged_as_a_whole() -> None:
    for number in range(200):
        feature, values = dealt(number)
        if not isinstance(feature, R):
            continue
        features = {"f": feature}
        contexts = [ps.io.encode_sequence_example(ints(record), {}) for record in values]
        asked = [functools.partial(io.parse_sequence_example, contexts, features) for io in IOS]
        same(*asked, (number, feature, values))
        steps = list(map(ints, values))
        lists = ps.io.encode_sequence_example({}, {key: [step[key] for step in steps] for key in steps[0]})
        asked = [functools.partial(io.parse_sequence_example, [lists, lists], None, features) for io in IOS]
        same(*asked, (number, feature, values))


# Records without values, which fit: a run begins with blocks of one record, and only larger ones can be taken whole.
_FITS = {"splits": ps.io.encode_example({"p": [0]})}


@pytest.mark.parametrize(("name", "validate"), [case for case in CASES if case[0] != "sorted"])
def test_records_parsed_one_by_one_are_judged_alone(name: str, validate: bool, tmp_path: Path) -> None:
    features = features_of(name, validate)
    with ps.io.TFRecordWriter(tmp_path / "records") as writer:
        for record in [_FITS.get(name, b"")] * 4 + records_of(name) * 2:
            writer.write(record)
    ours, theirs = (batches(data, io, tmp_path / "records", features) for data, io in ((ps, ps.io), (tf.data, tf.io)))
    assert ours == theirs
    assert "record" in ours[2:]


def test_sparse_tensors_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    features = features_of("sorted", False)
    with ps.io.TFRecordWriter(tmp_path / "records") as writer:
        for record in records_of("sorted"):
            writer.write(record)
    assert batches(ps, ps.io, tmp_path / "records", features) == ["record", "record"]
    assert batches(tf.data, tf.io, tmp_path / "records", features) == ["record"]  # the batch finds it out


def test_numbers_of_rows_are_counted_in_pipelines_too(tmp_path: Path) -> None:
    features = features_of("ids", False)
    record = ps.io.encode_example({"v": [7, 8], "p": [1, 0, 0]})
    with ps.io.TFRecordWriter(tmp_path / "records") as writer:
        writer.write(record)
    asked = [functools.partial(io.parse_single_example, record, features) for io in IOS]
    assert same(*asked) == "refused"
    assert batches(ps, ps.io, tmp_path / "records", features) == ["record"]
    assert batches(tf.data, tf.io, tmp_path / "records", features) != ["record"]  # two zeros for two values
