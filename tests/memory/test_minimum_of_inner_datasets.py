"""Datasets that a function makes: what they could do without, such as what a cache keeps, is not in the minimum."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset
COUNT = 30
ELEMENT = 40_000


def made(i: Any, num_parallel_calls: int | None = None) -> Any:
    return D.range(COUNT).map(lambda j: np.full(ELEMENT // 8, float(i * COUNT + j)), num_parallel_calls)


# What a function makes, and how many elements of it are held at a time with four such datasets open.
INNER: dict[str, tuple[Callable[[Any], Any], int]] = {
    "cache": (lambda i: made(i).cache(), 3),
    "cache, twice": (lambda i: made(i).cache().repeat(2), 5),
    "prefetch": (lambda i: made(i).prefetch(20), 8),
    "prefetch of AUTOTUNE": (lambda i: made(i).prefetch(-1), 8),
    "threads": (lambda i: made(i, 16), 8),
    "threads, cache, prefetch": (lambda i: made(i, 8).cache().prefetch(10), 16),
    "inner interleave": (lambda i: D.range(2).interleave(lambda j: made(j).cache(), cycle_length=2), 6),
}
OUTER: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "flat_map": lambda function: D.range(4).flat_map(function),
    "interleave": lambda function: D.range(4).interleave(function, cycle_length=4),
    "interleave in threads": lambda function: D.range(4).interleave(function, cycle_length=4, num_parallel_calls=4),
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_the_minimum_is_near_what_is_needed_and_enough(outer: str, inner: str) -> None:
    function, num_held = INNER[inner]
    expected = [comparable(x) for x in OUTER[outer](function)]
    sampled = OUTER[outer](function)
    minimum = sampled.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 1.3 * num_held * ELEMENT
    for dataset in (sampled, sampled, OUTER[outer](function)):
        with dataset.run(memory=minimum) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0


def test_what_a_sample_has_put_in_a_cache_is_not_made_again() -> None:
    calls: list[int] = []
    cached = D.range(COUNT).map(lambda j: calls.append(int(j)) or np.full(ELEMENT // 8, float(j))).cache()
    dataset = D.range(3).flat_map(lambda i: cached)
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 7 * ELEMENT
    for memory in ("100MB", minimum):
        assert [int(x[0]) for x in dataset.run(memory=memory)] == 3 * list(range(COUNT))
    assert calls == list(range(COUNT))


def test_what_a_run_has_kept_is_not_taken_for_a_need() -> None:
    cached = made(0).cache()
    dataset = D.range(3).flat_map(lambda i: cached)
    list(dataset.run(memory="100MB"))
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 7 * ELEMENT
    assert len(list(dataset.run(memory=minimum))) == 3 * COUNT


def test_a_cache_of_small_elements_needs_next_to_nothing() -> None:
    """Their places on disk are remembered together."""
    dataset = D.range(2).flat_map(lambda i: D.range(5000).map(lambda j: j * 2).cache().repeat(2))
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 40_000
    assert [int(x) for x in dataset.run(memory=minimum)] == 4 * list(range(0, 10_000, 2))


def test_a_cache_of_the_plan_itself_stays_in_memory_in_a_sample() -> None:
    dataset = made(0).cache()
    dataset.explain(sample=10**9)
    with dataset.run(memory="100MB") as run:
        assert len(list(run)) == COUNT
        assert run.stats()["spilled_bytes"] == 0
