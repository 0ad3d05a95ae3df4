"""The Example kernels against a plain-Python twin, on right and on damaged records."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import ExampleFeatures, FoundFeatures, encode_examples
from tests.native import example_twin as twin
from tests.native import wire

EXAMPLES, SINGLE, CONTEXTS, LISTS = range(4)
DTYPES = {twin.BYTES: object, twin.FLOATS: np.float32, twin.INTS: np.int64}
CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


def any_number(kind: int, layout: int, empty_replaces: bool, records: list[bytes]) -> list[list[Any]] | str:
    """What the kernel gives for the key `a`, any number of values in each record."""
    features = ExampleFeatures([b"a"], [kind], [None], [None], [empty_replaces])
    splits = np.full(len(records) + 1, -1)
    found = features.parse(records, layout, [splits])
    if not isinstance(found, FoundFeatures):
        return "refused"
    if layout == LISTS:
        step_splits, splits = splits, np.zeros(splits[-1] + 1, np.int64)
        found.count_steps(0, splits[1:])
        splits = np.cumsum(splits)
    values = np.empty(splits[-1], DTYPES[kind])
    found.fill(0, values, 0)
    rows = [values[a:b].tolist() for a, b in itertools.pairwise(splits)]
    return rows if layout != LISTS else [rows[a:b] for a, b in itertools.pairwise(step_splits)]


def by_twin(read: Callable[[bytes], Any], records: list[bytes]) -> list[Any] | str:
    try:
        return [read(record) or [] for record in records]
    except twin.Bad:
        return "refused"


def compare(records: list[bytes]) -> None:
    for kind in DTYPES:
        for layout, empty_replaces in ((EXAMPLES, True), (EXAMPLES, False), (SINGLE, True)):
            expected = by_twin(
                lambda r, kind=kind, replaces=empty_replaces and layout == EXAMPLES: twin.feature_of_example(
                    r, b"a", kind, replaces
                ),
                records,
            )
            assert repr(any_number(kind, layout, empty_replaces, records)) == repr(expected)
        expected = by_twin(lambda r, kind=kind: twin.feature_of_context(r, b"a", kind), records)
        assert repr(any_number(kind, CONTEXTS, True, records)) == repr(expected)
        expected = by_twin(lambda r, kind=kind: twin.feature_list(r, b"a", kind), records)
        assert repr(any_number(kind, LISTS, True, records)) == repr(expected)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_and_what_is_near_it(path: Path) -> None:
    record = path.read_bytes()
    rng = random.Random(path.name)
    compare([record])
    for _ in range(60):
        compare([wire.damaged(rng, record)])


@pytest.mark.parametrize("make", [wire.random_example, wire.random_sequence_example])
@pytest.mark.parametrize("seed", range(5))
def test_damaged_records(make: Callable[[random.Random], bytes], seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        compare([make(rng), wire.damaged(rng, make(rng)), make(rng)])


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.binary(max_size=40), max_size=3))
def test_any_bytes(records: list[bytes]) -> None:
    compare(records)
    compare([wire.field(1, record) for record in records])
    compare([wire.example(wire.entry(b"a", record)) for record in records])
    compare([wire.sequence_example(lists=wire.entry(b"a", record)) for record in records])


@pytest.mark.parametrize("size", [2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
def test_lengths_that_claim_much_set_nothing_aside(size: int) -> None:
    claim = wire.varint(size)
    for data in (
        b"\x0a" + claim,
        wire.example(b"\x0a" + claim),
        wire.example(wire.field(1, b"\x0a" + claim + b"a")),
        *[wire.example(wire.entry(b"a", bytes([tag]) + claim)) for tag in (10, 18, 26)],
        *[wire.example(wire.entry(b"a", wire.field(kind, b"\x0a" + claim + b"1234"))) for kind in (1, 2, 3)],
        wire.sequence_example(lists=wire.entry(b"a", b"\x0a" + claim + wire.floats(1))),
        *[wire.sequence_example(lists=wire.entry(b"a", wire.steps(bytes([tag]) + claim))) for tag in (10, 18, 26)],
    ):
        compare([data])


def test_deep_nesting_is_only_bytes() -> None:
    data = b""
    for _ in range(2000):
        data = wire.field(1, data)
    compare([data])


# --- fixed numbers of values ---


def fixed(records: Any, count: int, default: Any = None, kind: int = twin.FLOATS, **more: Any) -> Any:
    features = ExampleFeatures([b"a"], [kind], [count], [default], [False])
    out = np.zeros((more.get("rows", len(records)), count), DTYPES[kind])
    found = features.parse(records, EXAMPLES, [out])
    return out if isinstance(found, FoundFeatures) else found


def test_fixed_numbers_of_values() -> None:
    records = [wire.example(wire.entry(b"a", make(1, 2))) for make in (wire.floats, wire.unpacked_floats)]
    assert fixed(records, 2).tolist() == [[1, 2], [1, 2]]
    assert fixed([*records, b""], 2) == (4, 2, 0, 0, -1)
    assert fixed([*records, b""], 2, np.float32([8, 9]).tobytes()).tolist() == [[1, 2], [1, 2], [8, 9]]
    assert fixed(records, 3) == (5, 0, 0, 2, -1)
    assert fixed([records[0], wire.example(wire.entry(b"a", wire.ints(1)))], 2) == (3, 1, 0, 3, -1)
    assert fixed([records[0], b"\x0a"], 2) == (1, 1, 0, 0, -1)
    texts = [wire.example(wire.entry(b"a", wire.strings(b"x", b""))), b""]
    assert fixed(texts, 2, (b"p", b"q"), twin.BYTES).tolist() == [[b"x", b""], [b"p", b"q"]]


def test_too_many_values_are_not_written() -> None:
    features = ExampleFeatures([b"a"], [twin.INTS], [1], [None], [False])
    around = np.full(4, 7)
    record = wire.example(wire.entry(b"a", wire.ints(1, 2, 3)))
    assert features.parse([record], EXAMPLES, [around[1:2]]) == (5, 0, 0, 3, -1)
    assert around[[0, 2, 3]].tolist() == [7, 7, 7]


def test_records_in_a_buffer() -> None:
    record = wire.example(wire.entry(b"a", wire.floats(1, 2)))
    buffer = b"??" + record + b"!" + record
    offsets, lengths = np.array([2, 3 + len(record)]), np.full(2, len(record))
    assert fixed((buffer, offsets, lengths), 2, rows=2).tolist() == [[1, 2], [1, 2]]
    assert fixed((np.frombuffer(buffer, np.uint8), offsets, lengths), 2, rows=2).tolist() == [[1, 2], [1, 2]]
    for bad in (-1, len(buffer), 2**63 - 1):
        with pytest.raises(IndexError, match="record 1 is at"):
            fixed((buffer, np.array([2, bad]), lengths), 2, rows=2)
        with pytest.raises(IndexError, match="record 1 is at"):
            fixed((buffer, offsets, np.array([1, bad])), 2, rows=2)
    with pytest.raises(TypeError, match="int64"):
        fixed((buffer, offsets.astype(np.int32), lengths), 2, rows=2)
    with pytest.raises(ValueError, match="of one length"):
        fixed((buffer, offsets[:1], lengths), 2, rows=2)


def test_outputs_must_fit() -> None:
    features = ExampleFeatures([b"a"], [twin.FLOATS], [2], [None], [False])
    record = wire.example(wire.entry(b"a", wire.floats(1, 2)))
    for wrong, error in (
        ([np.zeros(3, np.float32)], ValueError),
        ([np.zeros(2)], TypeError),
        ([np.zeros((2, 2), np.float32)[:, 0]], ValueError),
        ([np.zeros(4, np.float32)[::2]], ValueError),
        ([], ValueError),
        ([np.frombuffer(bytearray(9), np.float32, 2, 1)], ValueError),
    ):
        with pytest.raises(error):
            features.parse([record], EXAMPLES, wrong)
    with pytest.raises(TypeError, match="record 1 must be bytes, got str"):
        features.parse([record, "a"], EXAMPLES, [np.zeros(4, np.float32)])  # type: ignore[list-item]  # wrong on purpose


def test_fill_writes_only_where_it_may() -> None:
    records = [wire.example(wire.entry(b"a", wire.ints(*range(count)))) for count in (3, 0, 1)]
    features = ExampleFeatures([b"a"], [twin.INTS], [None], [None], [True])
    found = features.parse(records, EXAMPLES, [np.empty(4, np.int64)])
    assert isinstance(found, FoundFeatures)
    padded = np.full((3, 3), -1)
    found.fill(0, padded, 3)
    assert padded.tolist() == [[0, 1, 2], [-1, -1, -1], [0, -1, -1]]
    for out, stride in ((np.empty(3, np.int64), 0), (np.empty(6, np.int64), 2), (np.empty(6, np.int64), 3)):
        with pytest.raises(ValueError, match="out has room for"):
            found.fill(0, out, stride)
    with pytest.raises(IndexError):
        found.fill(1, padded, 3)
    with pytest.raises(ValueError, match="only feature lists"):
        found.count_steps(0, np.empty(3, np.int64))


def test_features_must_be_right() -> None:
    for keys, kinds, counts, defaults in (
        ([b"a", b"a"], [1, 1], [1, 1], [None, None]),
        ([b"a"], [4], [1], [None]),
        ([b"a"], [2], [-1], [None]),
        ([b"a"], [2], [2], [b"1234"]),
        ([b"a"], [1], [2], [(b"",)]),
        ([b"a"], [2, 2], [2], [None]),
    ):
        with pytest.raises(ValueError):
            ExampleFeatures(keys, kinds, counts, defaults, [True] * len(keys))  # type: ignore[arg-type]  # wrong on purpose


def test_many_keys_in_any_order() -> None:
    rng = random.Random(0)
    keys = [bytes(rng.choices(range(256), k=rng.randrange(1, 40))) for _ in range(300)]
    keys = sorted(set(keys))
    features = ExampleFeatures(keys, [3] * len(keys), [1] * len(keys), [None] * len(keys), [False] * len(keys))
    outputs = [np.empty(3, np.int64) for _ in keys]
    orders = [rng.sample(range(len(keys)), len(keys)) for _ in range(3)]
    records = [wire.example(*[wire.entry(keys[i], wire.ints(i)) for i in order]) for order in orders]
    assert isinstance(features.parse(records, EXAMPLES, outputs), FoundFeatures)
    assert [out.tolist() for out in outputs] == [[i] * 3 for i in range(len(keys))]


# --- encoding ---


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False), max_size=5), min_size=1, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6),
    st.lists(st.binary(max_size=200), max_size=5),
)
def test_what_is_encoded_is_parsed(rows: list[list[float]], numbers: list[int], texts: list[bytes]) -> None:
    splits = np.cumsum([0, *map(len, rows)])
    values = np.array([value for row in rows for value in row], np.float32)
    lengths = np.empty(len(rows), np.int64)
    columns = [
        (b"a", 2, values, splits, 0),
        (b"n", 3, np.tile(np.array(numbers, np.int64), len(rows)), None, len(numbers)),
        (b"t", 1, texts * len(rows), None, len(texts)),
    ]
    data = encode_examples(columns, False, lengths)
    assert lengths.sum() == len(data)
    ends = np.cumsum(lengths)
    records = [data[end - size : end] for end, size in zip(ends, lengths, strict=True)]
    for record, row in zip(records, rows, strict=True):
        assert record == wire.example(
            wire.entry(b"a", wire.floats(*row) if row else b"\x12\x00"),
            wire.entry(b"n", wire.ints(*numbers) if numbers else b"\x1a\x00"),
            wire.entry(b"t", wire.strings(*texts)),
        )
    assert any_number(twin.FLOATS, EXAMPLES, True, records) == rows


def test_columns_must_fit() -> None:
    values, lengths = np.zeros(4, np.float32), np.empty(2, np.int64)
    for column in (
        (b"a", 2, values, None, 3),
        (b"a", 2, values, np.array([0, 2]), 0),
        (b"a", 2, values, np.array([0, 3, 2]), 0),
        (b"a", 2, values, np.array([0, 3, 5]), 0),
        (b"a", 2, values, np.array([-1, 3, 4]), 0),
        (b"a", 5, values, None, 2),
    ):
        with pytest.raises(ValueError):
            encode_examples([column], False, lengths)
    for column in ((b"a", 3, values, None, 2), (b"a", 2, values[::2], None, 1), (b"a", 1, [1, 2], None, 1)):
        with pytest.raises(TypeError):
            encode_examples([column], False, lengths)  # type: ignore[list-item]  # wrong on purpose
