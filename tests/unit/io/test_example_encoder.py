"""Arrays to Examples: kinds, mistakes, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock._native import encode_plain_example
from penstock.io.example_encoder import _encode_any
from tests.native import wire
from tests.native.wire import entry, example


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        (3, wire.ints(3)),
        (-1, wire.ints(-1)),
        (True, wire.ints(1)),
        (np.uint8(200), wire.ints(200)),
        ([True, False], wire.ints(1, 0)),
        (np.arange(4).reshape(2, 2), wire.ints(0, 1, 2, 3)),
        (np.arange(6)[::2], wire.ints(0, 2, 4)),
        (np.asfortranarray(np.arange(4).reshape(2, 2)), wire.ints(0, 1, 2, 3)),
        (np.arange(2, dtype=">i4"), wire.ints(0, 1)),
        (1.5, wire.floats(1.5)),
        ([1, 2.5], wire.floats(1, 2.5)),
        (np.float64([1, 2]), wire.floats(1, 2)),
        ([], b""),
        (np.empty(0), b"\x12\x00"),
        (np.empty(0, int), b"\x1a\x00"),
        (b"a\0", wire.strings(b"a\0")),
        ("é", wire.strings("é".encode())),
        ([b"a\0", b""], wire.strings(b"a\0", b"")),
        (["a", b"b"], wire.strings(b"a", b"b")),
        (np.array(["x", "yy"]), wire.strings(b"x", b"yy")),
        (np.array([b"x"], dtype=object), wire.strings(b"x")),
        (np.bytes_(b"x"), wire.strings(b"x")),
        (np.str_("x"), wire.strings(b"x")),
    ],
)
def test_kinds(value: Any, feature: bytes) -> None:
    expected = example(entry(b"a", feature))
    assert ps.io.encode_example({"a": value}) == _encode_any({"a": value}) == expected
    assert encode_plain_example({"a": value}) in (expected, None)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i8", ">f4"])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_arrays_of_any_dtype_anywhere(dtype: str, offset: int) -> None:
    memory = bytearray(offset) + np.array([0, 1, 100]).astype(dtype).tobytes()
    array = np.frombuffer(memory, dtype, 3, offset)
    make = wire.floats if array.dtype.kind == "f" else wire.ints
    expected = example(entry(b"a", make(*array.tolist())))
    assert ps.io.encode_example({"a": array}) == _encode_any({"a": array}) == expected
    assert ps.io.encode_example({"a": array[1]}) == example(entry(b"a", make(array[1].item())))


def test_values_that_are_not_plain_go_the_long_way() -> None:
    for value in (None, {}, [1, 2.5], [[1]], "\ud800", 2**63, np.arange(4)[::2], np.float16(1), bytearray(b"a"), 1j):
        assert encode_plain_example({"a": value}) is None
    assert encode_plain_example({1: 2}) is None  # type: ignore[dict-item]  # wrong on purpose
    assert encode_plain_example({"\ud800": 2}) is None


def test_keys_are_sorted() -> None:
    one, other = ps.io.encode_example({"b": 1, "a": 2}), ps.io.encode_example({"a": 2, "b": 1})
    assert one == other == example(entry(b"a", wire.ints(2)), entry(b"b", wire.ints(1)))


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (lambda: ps.io.encode_example({"a": None}), "feature 'a': expected numbers or strings, got NoneType"),
    "dict": (lambda: ps.io.encode_example({"a": {}}), "feature 'a': expected numbers or strings, got dict"),
    "mixed": (lambda: ps.io.encode_example({"a": [1, "x"]}), "feature 'a': expected numbers or strings, got int"),
    "uneven": (lambda: ps.io.encode_example({"a": [[1], [2, 3]]}), "feature 'a': .* of a regular shape"),
    "large": (lambda: ps.io.encode_example({"a": 2**63}), f"cannot hold {2**63}"),
    "larger": (lambda: ps.io.encode_example({"a": 2**64}), "feature 'a'"),
    "complex": (lambda: ps.io.encode_example({"a": 1j}), "not complex128"),
    "dates": (lambda: ps.io.encode_example({"a": np.datetime64("2020-01-01")}), "not datetime64"),
    "key": (lambda: ps.io.encode_example({1: 2}), "expected names as keys, got 1"),
    "list": (lambda: ps.io.encode_example([1]), "expected a dict of values by name, got list"),
    "counts": (lambda: ps.io.encode_examples({"a": [1, 2], "b": [1]}), "'b': expected 2 records .* got 1"),
    "scalar": (lambda: ps.io.encode_examples({"a": 1}), "a leading axis"),
    "no columns": (lambda: ps.io.encode_examples({}), "at least one feature"),
    "steps": (lambda: ps.io.encode_sequence_example({}, {"a": [[1], ["x"]]}), "steps of one kind"),
    "no steps": (lambda: ps.io.encode_sequence_example({}, {"a": 3}), "expected a list of steps, got int"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, text = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        call()
    assert isinstance(caught.value, ps.errors.PlanError)


def test_blocks_are_the_records_one_by_one() -> None:
    columns = {
        "x": np.random.default_rng(0).random((20, 2, 3)),
        "n": np.arange(20),
        "words": [[b"a", b"b"]] * 20,
        "some": ps.Ragged(np.arange(30.0), np.minimum(np.arange(21) * 2, 30)),
    }
    data, lengths = ps.io.encode_examples(columns)
    ends = np.cumsum(lengths)
    for row, (end, size) in enumerate(zip(ends, lengths, strict=True)):
        values = {name: column[row] for name, column in columns.items()}
        assert data[end - size : end] == ps.io.encode_example(values)
    assert ps.io.encode_examples({"x": np.empty((0, 3))})[0] == b""
    with pytest.raises(TypeError, match="flat lists, got rows of rows"):
        ps.io.encode_examples({"r": ps.Ragged(columns["some"], np.array([0, 20]))})


def test_sparse_vectors_without_gaps_are_lists() -> None:
    wide = ps.Sparse(np.array([[0], [1]]), np.array([5, 6]), np.array([7]))
    assert ps.io.encode_example({"n": wide}) == ps.io.encode_example({"n": [5, 6]})
    none = ps.Sparse(np.empty((0, 1), np.int64), np.empty(0, np.float32), np.array([0]))
    parsed = ps.io.parse_single_example(ps.io.encode_example({"x": none}), {"x": ps.io.VarLenFeature("float32")})
    assert parsed["x"].shape == (0,)


@pytest.mark.parametrize("given, text", [
    (ps.Sparse(np.array([[0], [2]]), np.array([5, 6]), np.array([3])), "with gaps between its 2 values; write"),
    (ps.Sparse(np.array([[0, 0]]), np.array([5]), np.array([1, 1])), "of 2 dimensions; unbatch.. batches first"),
    (ps.Ragged(np.array([5, 6]), np.array([0, 1, 2])), "unbatch.. batches first, or store `values` and `row_splits`"),
])  # fmt: skip
def test_what_is_no_list_says_what_to_do(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"feature 'n': .*{text}"):
        ps.io.encode_example({"n": given})
