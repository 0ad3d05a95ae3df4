"""Runs that share a pool of exactly what they need together open, come to their end, and open again."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_budget_law import built, comparable

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset
EPOCHS = 3


@pytest.fixture(autouse=True)
def pool_as_it_was() -> Iterator[None]:
    yield
    ps.set_memory(None)


def sampled(kind: str, steps: list[str], nested: bool) -> tuple[Any, int]:
    """A dataset with an empty cache that knows what a sample of it has told, and what it needs."""
    told = built(kind, steps, nested)
    minimum = told.explain(sample=10_000).to_dict()["minimum_bytes"]
    dataset = built(kind, steps, nested)
    dataset._measured = told._measured
    return dataset, minimum


def read_in_turn(runs: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in runs]
    left = list(zip(runs, found, strict=True))
    while left:
        for one in list(left):
            try:
                one[1].append(comparable(next(one[0])))
            except StopIteration:
                left.remove(one)
    return found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("lognormal", ["shuffle", "unordered"], False), ("lognormal", ["window", "cache", "unbatch", "scan"], False)),
        (("lognormal", ["unbatch", "repeat", "shuffle"], False), ("lognormal", ["cache", "unbatch"], False)),
        (("lognormal", ["unbatch", "cache"], True), ("constant", ["concatenate", "map", "cache"], True)),
        (("constant", ["cache", "cache", "unbatch"], True), ("lognormal", ["flat_map", "interleave", "cache"], False)),
        (("one large", ["shuffle", "cache", "cache"], False), ("one large", ["cache", "concatenate"], False)),
        (
            ("one large", ["interleave in threads", "shuffle", "take"], False),
            ("one large", ["shuffle", "cache"], False),
        ),
        (("constant", ["cache", "interleave in threads", "shuffle"], False), ("one large", ["shuffle", "map"], False)),
        (
            ("lognormal", ["flat_map", "filter", "cache", "cache"], True),
            ("one large", ["shuffle", "concatenate"], False),
        ),
        (
            ("constant", ["window", "window", "cache", "cache"], False),
            ("one large", ["cache", "cache", "padded_batch"], False),
        ),
        (("grows", ["cache", "cache"], False), ("lognormal", ["cache", "cache", "padded_batch"], True)),
        (("lognormal", ["shuffle", "cache", "padded_batch"], False), ("one large", ["shuffle", "prefetch"], False)),
        (
            ("grows", ["shuffle", "map"], True),
            ("constant", ["cache", "cache", "concatenate", "padded_batch"], True),
        ),
    ],
)
def test_two_runs_have_enough_with_what_both_need(first: Any, second: Any) -> None:
    expected = [[[comparable(x) for x in plain] for _ in range(EPOCHS)] for plain in [built(*first), built(*second)]]
    datasets, minima = zip(*[sampled(*first), sampled(*second)], strict=True)
    ps.set_memory(sum(minima))  # all of which the first one may have until the second one opens
    for epoch in range(EPOCHS):
        runs = [dataset.run() for dataset in datasets]
        assert read_in_turn(runs) == [of_one[epoch] for of_one in expected]
        for run in runs:
            run.close()


def cached(calls: list[int], count: int = 40, size: int = 500) -> Any:
    return D.range(count).map(lambda i: calls.append(int(i)) or np.full(size, float(i))).cache()


def test_what_lies_on_disk_is_not_made_again_by_the_runs_that_need_it() -> None:
    """Where it lies is on their floors as they open, and has room in the pool when they are over."""
    made: tuple[list[int], list[int]] = [], []
    minimum = cached([]).explain(sample=10_000).to_dict()["minimum_bytes"]
    ps.set_memory(2 * minimum)
    datasets = [cached(calls) for calls in made]
    for _ in range(EPOCHS):
        runs = [dataset.run() for dataset in datasets]
        assert [len(found) for found in read_in_turn(runs)] == [40, 40]
        for run in runs:
            run.close()
    assert [len(calls) for calls in made] == [40, 40]


def test_a_cache_that_nobody_reads_is_forgotten_before_a_run_is_refused() -> None:
    calls: list[int] = []
    idle, large = cached(calls), D.range(20).map(lambda i: np.full(9000, float(i))).batch(2)
    minimum = large.explain(sample=10_000).to_dict()["minimum_bytes"]
    ps.set_memory(minimum + 4000)
    assert len(list(idle)) == 40
    assert len(list(large)) == 10
    assert len(list(idle)) == 40
    assert 40 < len(calls) < 80  # no more of it than was in the way


def test_an_open_run_has_what_a_cache_that_nobody_reads_would_keep() -> None:
    """Nobody could tell what it needs when it was opened."""
    idle, grows = cached([]), D.range(20).map(lambda i: np.full(1000 * (1 + i), float(i)))
    ps.set_memory(grows.explain(sample=10_000).to_dict()["minimum_bytes"])
    assert len(list(idle)) == 40
    unsampled = D.range(20).map(lambda i: np.full(1000 * (1 + i), float(i)))
    assert len(list(unsampled)) == 20
