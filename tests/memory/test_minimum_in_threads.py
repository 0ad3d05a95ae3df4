"""Datasets that threads read ahead, of elements that grow: without room fewer are made, in the end one at a time.

Nobody has sampled the pipelines that run here: what they need at least a twin of theirs has told.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable
from tests.threads import our_threads

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset


def growing(size: int, slow_s: float = 0) -> Callable[[Any], Any]:
    """A function that makes a dataset of larger and larger elements."""

    def made(i: Any) -> Any:
        def element(j: Any) -> Any:
            if slow_s:
                time.sleep(slow_s)  # as one that waits for a file: only then threads are ahead
            return np.full(size * (1 + int(j)), float(i + j))

        return D.range(30).map(element)

    return made


def jumping(i: Any) -> Any:
    """Few of these are far larger than the others."""
    return D.range(12).map(lambda j: np.full(2000 if (int(i) + int(j)) % 7 == 6 else 100, float(j)))


def in_threads(made: Callable[[Any], Any], cycle_length: int = 3) -> Any:
    return D.range(8).interleave(made, cycle_length=cycle_length, num_parallel_calls=cycle_length)


CASES: dict[str, Callable[[], Any]] = {
    "alone": lambda: in_threads(growing(50)),
    "map": lambda: in_threads(growing(50)).map(lambda x: x + 1, num_parallel_calls=2),
    "map of slow ones": lambda: in_threads(growing(50, 0.0005)).map(lambda x: x + 1, num_parallel_calls=2),
    "padded_batch": lambda: in_threads(growing(5)).padded_batch(4),
    "shuffle": lambda: in_threads(growing(50), 4).shuffle(10, seed=1),
    "window": lambda: in_threads(growing(1), 4).window(3, 2).flat_map(lambda window: window),
    "cache": lambda: in_threads(growing(50)).cache(),
    "inner shuffle": lambda: in_threads(lambda i: growing(5)(i).repeat(2).shuffle(5, seed=1), 2).padded_batch(3),
    "inner cache": lambda: in_threads(lambda i: growing(50)(i).cache()).map(lambda x: x * 2, num_parallel_calls=2),
    "inner prefetch": lambda: in_threads(lambda i: growing(10)(i).prefetch(2), 1).flat_map(
        lambda x: D.range(2).map(lambda _: x)
    ),
    "inner map": lambda: in_threads(lambda i: jumping(i).map(lambda x: x, num_parallel_calls=2), 2).interleave(
        lambda x: D.range(2).map(lambda _: x + 1), cycle_length=2, num_parallel_calls=2
    ),
    "jumping": lambda: in_threads(jumping, 2).map(lambda x: x + 1, num_parallel_calls=2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_minimum_is_enough(case: str) -> None:
    expected = [comparable(x) for x in CASES[case]()]
    minimum = CASES[case]().explain(sample=10_000).to_dict()["minimum_bytes"]
    dataset = CASES[case]()
    for _ in range(2):
        with dataset.run(memory=minimum, epoch=0) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0
    assert our_threads() == []


def test_one_that_does_not_fit_alone_is_refused_with_a_number_that_is_enough() -> None:
    dataset = in_threads(growing(2000))
    with pytest.raises(ps.errors.ElementTooLarge) as error:
        list(dataset.run(memory=300_000))
    enough = int(str(error.value).split("use memory=")[1].split()[0])
    assert len(list(dataset.run(memory=enough))) == 240


def test_calls_ahead_leave_room_for_the_keys_of_unique() -> None:
    def distinct() -> Any:
        return D.range(30).map(lambda i: np.full(120, i % 5), num_parallel_calls=4).unique()

    minimum = distinct().explain(sample=10**9).to_dict()["minimum_bytes"]
    for _ in range(20):  # a matter of chance
        with distinct().run(memory=minimum + 100) as run:
            found = []
            for x in run:
                found.append(int(x[0]))
                time.sleep(0.005)  # for the threads to be ahead
        assert found == [0, 1, 2, 3, 4]
