"""What a few elements tell of the smallest budget is true of all, where all are of one size."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_budget_law import STEPS
from tests.memory.test_minimum import comparable

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset
SAMPLED = 8

MORE_STEPS: dict[str, Callable[[Any], Any]] = {
    "rows that are batched again": lambda d: d.map(lambda x: x[:20]).batch(2).map(lambda x: x + 0).rebatch(3),
    "inner shuffle": lambda d: d.interleave(lambda x: twice(x).shuffle(2, seed=1), cycle_length=3),
    "inner cache": lambda d: d.interleave(lambda x: twice(x).cache().repeat(2), cycle_length=3),
    "inner prefetch": lambda d: d.interleave(lambda x: twice(x).prefetch(2), cycle_length=3, block_length=2),
    "inner threads": lambda d: d.interleave(
        lambda x: twice(x).map(lambda y: y + 1, num_parallel_calls=2), cycle_length=3, num_parallel_calls=3
    ),
    "interleave of interleaves": lambda d: d.interleave(
        lambda x: D.range(4).map(lambda i: x + i).interleave(twice, cycle_length=4, block_length=2), cycle_length=2
    ),
    "windows with gaps, of such windows": lambda d: with_gaps(with_gaps(d)),
    "windows in threads": lambda d: d.interleave(
        lambda x: twice(x).window(2, 1).flat_map(lambda window: window), cycle_length=3, num_parallel_calls=3
    ),
}


def with_gaps(d: Any) -> Any:
    return d.window(2, 3).flat_map(lambda window: window)


def twice(x: Any) -> Any:
    return D.range(2).map(lambda i: x + i)


def elements(count: int, size: int) -> Any:
    def generate() -> Iterator[Any]:
        for i in range(count):
            yield np.full(size, float(i))

    return D.from_generator(generate)


@pytest.mark.parametrize("step", [*STEPS, *MORE_STEPS])
@pytest.mark.parametrize(("count", "size"), [(17, 50), (41, 3000)])
def test_the_minimum_is_enough(step: str, count: int, size: int) -> None:
    def made() -> Any:
        return {**STEPS, **MORE_STEPS}[step](elements(count, size))

    expected = [comparable(x) for x in made()]
    sampled = made()
    plan = sampled.explain(sample=SAMPLED).to_dict()
    if not plan["complete"]:
        pytest.skip("what is read last is still to be seen")
    for _ in range(2):
        with sampled.run(memory=plan["minimum_bytes"], epoch=0) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= plan["minimum_bytes"]
        assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize(
    "pick", [lambda d: d.skip(2), lambda d: d.take(4), lambda d: d.shard(2, 0), lambda d: d.skip(1).take(3)]
)
@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_what_one_order_has_passed_over_another_may_bring(pick: Any, num_parallel_calls: int | None) -> None:
    def generate() -> Iterator[Any]:
        for i in range(6):
            yield np.full(2000 if i == 3 else 30, float(i))

    shuffled = D.from_generator(generate).shuffle(None, seed=5)
    dataset = pick(shuffled).map(lambda x: x + 1, num_parallel_calls=num_parallel_calls)
    minimum = dataset.explain(sample=100).to_dict()["minimum_bytes"]
    largest = {max(x.size for x in dataset.run(memory=minimum, epoch=epoch)) for epoch in range(8)}
    assert largest == {30, 2000}
