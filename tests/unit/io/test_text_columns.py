"""Columns of text: what is made of them is on the ledger, and no more of it is made than there is room for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_source
from tests.unit.io.test_arrays import Lazy

D = ps.Dataset
VARIABLE = np.dtypes.StringDType()
# Words of very different lengths: the largest seen so far says little.
WORDS = [f"{i}:" + "x" * (i * 7919 % 3000) for i in range(200)]

COLUMNS: dict[str, Callable[[np.ndarray], Any]] = {
    "text": lambda words: words,
    "two of text": lambda words: (words, words[::-1]),
    "text and numbers": lambda words: {"x": np.arange(10 * len(words)).reshape(-1, 10), "name": words},
    "rows of text": lambda words: np.stack([words, words[::-1]], axis=1),
    "ragged text": lambda words: ps.Ragged(words, np.arange(len(words) + 1)),
    "text and ragged numbers": lambda words: (words, ps.Ragged(np.arange(len(words)), np.arange(len(words) + 1))),
    "text in a store": Lazy,
    "text beside a store": lambda words: (Lazy(np.arange(len(words))), words),
}


def strings_of(element: Any) -> list[bytes]:
    if isinstance(element, bytes):
        return [element]
    if isinstance(element, np.ndarray):
        return element.reshape(-1).tolist() if element.dtype == object else []
    parts = element.values() if isinstance(element, dict) else element if isinstance(element, tuple) else ()
    return [text for part in parts for text in strings_of(part)]


@pytest.mark.parametrize("dtype", [VARIABLE, "U"], ids=str)
@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_the_same_elements_in_any_order_under_any_budget(make: Callable[[Any], Any], dtype: Any) -> None:
    dataset = D.from_tensor_slices(make(np.array(WORDS, dtype)))
    per_row = len(strings_of(next(iter(dataset))))
    expected = sorted(per_row * [word.encode() for word in WORDS])
    for memory in ("1GB", "100kB"):
        for ordered in (dataset, dataset.shuffle(50, seed=1), dataset.repeat(2).take(200)):
            with ordered.run(memory=memory) as run:
                assert sorted(text for x in run for text in strings_of(x)) == expected
                assert run.ledger.peak_bytes <= run.ledger.budget_bytes


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_laws(make: Callable[[Any], Any]) -> None:
    check_source(D.from_tensor_slices(make(np.array(WORDS[:16], VARIABLE))))


@pytest.mark.parametrize("dtype", [VARIABLE, "U", "S"], ids=str)
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_batch_of_text_is_on_the_ledger(dtype: Any, shuffled: bool) -> None:
    words = np.array([b"x" * 1000] * 100 if dtype == "S" else ["x" * 1000] * 100, dtype)
    dataset = D.from_tensor_slices(words)
    dataset = (dataset.shuffle(100, seed=1) if shuffled else dataset).batch(50)
    with dataset.run(memory="1MB") as run:
        assert [len(batch) for batch in run] == [50, 50]
        assert run.ledger.peak_bytes > 50_000
    with pytest.raises(ps.errors.OverBudget):
        list(dataset.run(memory=40_000))


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("inner", [lambda ds: ds, lambda ds: ds.take(30), lambda ds: ds.batch(30)])
def test_small_datasets_of_text_within_others_are_whole(
    make: Callable[[Any], Any], inner: Callable[[ps.Dataset], ps.Dataset]
) -> None:
    made = inner(D.from_tensor_slices(make(np.array(WORDS, VARIABLE))))
    num_strings = sum(len(strings_of(x)) for x in made)
    flat = D.range(4).flat_map(lambda i: made).map(lambda *parts: len(strings_of(parts))).batch(64)
    with flat.run(memory="700kB") as run:
        assert sum(batch.sum() for batch in run) == 4 * num_strings
