"""Shuffles in datasets that a function makes: the smallest budget has room for what they put on disk, if need be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset

# How many elements a dataset has, of how many numbers, and how many of them it shuffles; how many are open at a time.
CASES = {
    "arrays": (10, 5, 2, 1),
    "arrays, a buffer for all": (4, 1, 5, 1),
    "arrays in turn": (4, 1, 3, 3),
    "arrays by threads": (10, 1, 2, 4),
    "strings": (20, 0, 5, 1),
    "strings in turn": (40, 0, 2, 4),
}


def check_minimum_is_enough(build: Callable[[], Any]) -> None:
    """With a sample to its end, for the dataset that was sampled and for another."""
    expected = [comparable(x) for x in build()]
    sampled = build()
    minimum = sampled.explain(sample=10_000).to_dict()["minimum_bytes"]
    for dataset in (sampled, sampled, build()):
        with dataset.run(memory=minimum, epoch=0) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("inline", [False, True])
def test_the_minimum_is_enough(case: str, repeats: int, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the thread that works ahead leaves it to the consumer, who asks for many at once."""
    if inline:
        monkeypatch.setattr("penstock.runtime.backends.ahead._CHEAP_NS", 10**12)
        monkeypatch.setattr("penstock.runtime.backends.ahead._TRIAL_ELEMENTS", 8)
    count, size, buffer_size, cycle_length = CASES[case]

    def inner(i: Any) -> Any:
        made = D.range(count).map(lambda j: np.full(size, float(i + j)) if size else b"x" * (1 + int(j)))
        return made.filter(lambda x: True).repeat(repeats).shuffle(buffer_size, seed=7)

    def outer() -> Any:
        num_parallel_calls = 2 if case == "arrays by threads" else None
        made = D.range(8).interleave(inner, cycle_length=cycle_length, num_parallel_calls=num_parallel_calls)
        return made.padded_batch(3) if case == "arrays" else made.prefetch(2)

    check_minimum_is_enough(outer)


@pytest.mark.parametrize("cycle_length", [1, 2, 3])
@pytest.mark.parametrize("buffer_size", [2, 5, 30])
@pytest.mark.parametrize("is_text", [True, False])
def test_the_minimum_is_enough_for_caches_below_them(cycle_length: int, buffer_size: int, is_text: bool) -> None:
    """What there is to know of small elements on disk takes more than they do, unless it is known of many together."""

    def inner(i: Any) -> Any:
        made = D.range(40).map(lambda j: b"x" * (1 + int(j)) if is_text else np.full(3, float(i + j)))
        return made.filter(lambda x: True).cache().shuffle(buffer_size, seed=2)

    def outer() -> Any:
        return D.range(8).interleave(inner, cycle_length=cycle_length).prefetch(3)

    check_minimum_is_enough(outer)


@pytest.mark.parametrize("buffer_size", [30, 200, 2000])
@pytest.mark.parametrize("cycle_length", [1, 3])
def test_a_shuffle_of_what_functions_nest_counts_the_objects_of_elements(buffer_size: int, cycle_length: int) -> None:
    """Tuples of eight small arrays, of which no spec tells: nine tenths of what they take are objects."""

    def of(i: Any) -> Any:
        return D.range(700).map(lambda j: tuple(np.full(2, 700 * i + j) for _ in range(8)))

    dataset = D.range(3).interleave(of, cycle_length=cycle_length).shuffle(buffer_size, seed=5)
    expected = [int(row[7][1]) for row in dataset.run(epoch=0)]
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    for factor in (1, 1.3, 2):
        with dataset.run(memory=int(minimum * factor), epoch=0) as run:
            assert [int(row[7][1]) for row in run] == expected
