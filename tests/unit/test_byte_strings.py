"""Text becomes byte strings wherever it comes in, of NumPy's variable-width dtype too, and what it holds is counted."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.byte_strings import encode_strings
from penstock.element import nbytes_of
from penstock.leaf import as_leaf

D = ps.Dataset
VARIABLE = np.dtypes.StringDType()
WORDS = ["", "a", "é", "日本", "x" * 70_000]


def text(words: Any, dtype: Any = VARIABLE) -> np.ndarray:
    return np.array(words, dtype=dtype)


def missing(na_object: Any = None) -> np.ndarray:
    return text(["a", na_object, "c"], np.dtypes.StringDType(na_object=na_object))


@pytest.mark.parametrize("dtype", [VARIABLE, "U", object, np.dtypes.StringDType(na_object=None)], ids=str)
@pytest.mark.parametrize("lay_out", [
    lambda a: a,
    lambda a: a[::-1],
    lambda a: np.stack([a, a]).T,
    lambda a: a[:0],
    lambda a: a[1:2].reshape(()),
], ids=["flat", "backwards", "transposed", "empty", "one"])  # fmt: skip
def test_any_array_of_text(dtype: Any, lay_out: Callable[[Any], Any]) -> None:
    found = encode_strings(lay_out(text(WORDS, dtype)))
    expected = lay_out(np.array([word.encode() for word in WORDS], object))
    assert (found.dtype, found.shape) == (object, expected.shape)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("made", [
    lambda i: text(WORDS),
    lambda i: (text(WORDS), i),
    lambda i: {"a": text(WORDS)},
    lambda i: text([WORDS, WORDS]),
    lambda i: text(WORDS)[2:],
    lambda i: text("é"),
    lambda i: text(WORDS)[2],
])  # fmt: skip
def test_what_functions_return(made: Callable[[Any], Any]) -> None:
    def as_bytes(value: Any) -> Any:
        leaves = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
        return [np.asarray(as_leaf(leaf)).tolist() for leaf in leaves]

    (found,) = D.range(1).map(made)
    assert as_bytes(found) == as_bytes(made(np.int64(0)))
    leaves = found if isinstance(found, tuple) else found.values() if isinstance(found, dict) else (found,)
    assert all(getattr(leaf, "dtype", np.dtype(object)).kind in "Oi" for leaf in leaves)


@pytest.mark.parametrize("make", [
    lambda array: D.range(1).map(lambda i: array),
    lambda array: D.range(1).map(lambda i: array).batch(1).unbatch(),
    lambda array: D.from_generator(lambda: iter([array])),
    lambda array: D.from_generator(lambda: iter([array]), output_signature=ps.TensorSpec((None,), str)),
    lambda array: D.from_tensors(array),
    lambda array: D.from_tensor_slices(array).batch(3),
    lambda array: D.from_tensor_slices(np.stack([array, array])).take(1),
    lambda array: D.range(1).scan(np.int64(0), lambda state, i: (state, array)),
    lambda array: D.range(1).interleave(lambda i: D.from_tensors(array)),
])  # fmt: skip
def test_all_ways_in(make: Callable[[np.ndarray], ps.Dataset]) -> None:
    (found,) = make(text(["a", "é", "日本"]))
    assert (found.dtype, found.tolist()) == (object, [b"a", "é".encode(), "日本".encode()])
    with pytest.raises(ps.errors.BadType, match=r"expected text, got a missing value at \[.*1\] of an array of String"):
        list(make(missing()))


@pytest.mark.parametrize("na_object", [None, np.nan])
def test_a_source_with_a_missing_text_is_refused_where_it_is_written(na_object: Any) -> None:
    with pytest.raises(ps.errors.BadType, match=r"from_tensor_slices at .*missing value at \[1\]"):
        D.from_tensor_slices({"name": missing(na_object), "n": np.arange(3)})


def test_a_text_that_is_missing_later() -> None:
    array = text(["a", "b"], np.dtypes.StringDType(na_object=None))
    dataset = D.from_tensor_slices(array)
    array[1] = None
    with pytest.raises(ps.errors.BadType, match="missing value"):
        list(dataset)


def test_a_text_for_those_that_are_missing_is_that_text() -> None:
    assert list(D.from_tensor_slices(missing("none"))) == [b"a", b"none", b"c"]


@pytest.mark.parametrize("dtype", [VARIABLE, "U", object], ids=str)
def test_values_of_ragged_and_sparse_leaves(dtype: Any) -> None:
    ragged = ps.Ragged(text(["a", "é"], dtype), np.array([0, 1, 2]))
    nested = ps.Ragged(ragged, np.array([0, 2]))
    sparse = ps.Sparse(np.array([[0], [2]]), text(["a", "é"], dtype), np.array([3]))
    for leaf in (ragged, nested, sparse):
        (found,) = D.range(1).map(lambda i, leaf=leaf: leaf)
        while isinstance(found, (ps.Ragged, ps.Sparse)):
            found = found.values
        assert found.tolist() == [b"a", "é".encode()]
    rows = list(D.from_tensor_slices(ragged))
    assert [row.tolist() for row in rows] == [[b"a"], ["é".encode()]]


def test_leaves_without_text_stay_what_they_are() -> None:
    ragged = ps.Ragged(np.arange(2), np.array([0, 1, 2]))
    assert as_leaf(ragged) is ragged
    of_bytes = ps.Ragged(np.array([b"a"], object), np.array([0, 1]))
    assert as_leaf(of_bytes) is of_bytes


def long_words(i: Any) -> np.ndarray:
    return text([f"{int(i)}-{k}-{'-' * 90}" for k in range(100)])


@pytest.mark.parametrize("hold", [
    lambda ds: ds.filter(lambda x: True).shuffle(60, seed=1),
    lambda ds: ds.cache(),
], ids=["shuffle", "cache"])  # fmt: skip
def test_text_that_waits_is_counted_and_goes_to_disk(hold: Callable[[ps.Dataset], ps.Dataset]) -> None:
    dataset = D.range(80).map(long_words)
    each = nbytes_of(next(iter(dataset)))
    assert each > 100 * 90
    with hold(dataset).run(memory=300_000) as run:
        found = sorted(x[0] for x in run)
        assert run.memory()["spilled_bytes"] > 40 * each
        assert run.ledger.peak_bytes <= 300_000
    assert found == sorted(f"{i}-0-{'-' * 90}".encode() for i in range(80))


@pytest.mark.parametrize("dtype", ["U8", "S8", object, np.dtypes.StringDType()])
def test_few_strings_are_in_a_list_at_a_time(dtype: Any) -> None:
    """Beside the text and what becomes of it there is next to nothing."""
    words = np.array([f"w{i:07}" for i in range(100_000)]).astype(dtype)
    tracemalloc.start()
    try:
        strings = encode_strings(words)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert strings[-1] == b"w0099999"
    assert peak - left < 400_000


LONG = ["a" * 100_000 + "\U0001f600", "\U0001f600" * 40_000, "é日" * 50_000, "é" * 16_384, "é" * 16_385]


@pytest.mark.parametrize("words", LONG, ids=len)
def test_long_text_is_encoded_in_pieces_as_it_is_in_one(words: str) -> None:
    assert as_leaf(words) == encode_strings(np.array([words], object))[0] == words.encode()


def test_one_wide_character_does_not_make_room_for_as_many_as_there_are_others() -> None:
    """What is given back of it is a gap in the heap, which the next text does not fit into."""
    words = LONG[0]
    tracemalloc.start()
    try:
        size = len(as_leaf(words))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * size


def test_an_error_in_long_text_names_the_place_in_all_of_it() -> None:
    with pytest.raises(UnicodeEncodeError) as found:
        as_leaf("é" * 40_000 + "\ud800")
    assert (found.value.start, len(found.value.object)) == (40_000, 40_001)
