"""The number of parallel calls changes nothing but time: order and errors come out as they do from one thread.

tf.data itself is not the measure here: its parallel interleave counts an error as an element of the block, its
sequential one does not.
"""

from typing import Any

import pytest

from . import on_penstock
from .on_penstock import L

pytestmark = pytest.mark.timeout(60)

PLACES = [(), (11,), (0,), (10, 12), (0, 1, 2), (20, 21, 31)]


def interleaved(places: tuple[int, ...], outer: tuple[int, ...], **how: Any) -> Any:
    def inner(x: Any) -> Any:
        return L.Dataset.range(10 * x, 10 * x + x + 1).map(lambda y: L.fail_on(y, *places))

    return L.Dataset.range(5).map(lambda x: L.fail_on(x, *outer)).interleave(inner, **how)


@pytest.mark.parametrize("cycle, block", [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (5, 3)])
@pytest.mark.parametrize("outer", [(), (1,), (0, 4)])
@pytest.mark.parametrize("places", PLACES)
def test_interleave(places: tuple[int, ...], outer: tuple[int, ...], cycle: int, block: int) -> None:
    shape = {"cycle_length": cycle, "block_length": block}
    expected = on_penstock.run(interleaved(places, outer, **shape))
    for calls in {1, cycle, (cycle + 1) // 2, L.AUTOTUNE}:
        assert on_penstock.run(interleaved(places, outer, num_parallel_calls=calls, **shape)) == expected, calls


@pytest.mark.parametrize("calls", [1, 2, 5, L.AUTOTUNE])
@pytest.mark.parametrize("places", [(), (3,), (0, 1), (4, 19), tuple(range(7))])
def test_map(places: tuple[int, ...], calls: int) -> None:
    dataset = L.Dataset.range(20)
    expected = on_penstock.run(dataset.map(lambda x: L.fail_on(x, *places)))
    assert on_penstock.run(dataset.map(lambda x: L.fail_on(x, *places), num_parallel_calls=calls)) == expected


@pytest.mark.parametrize("calls", [1, 2, 5, L.AUTOTUNE])
@pytest.mark.parametrize("places", [(), (3,), (0, 1), (4, 19), tuple(range(7))])
def test_batch(places: tuple[int, ...], calls: int) -> None:
    dataset = L.Dataset.range(20).map(lambda x: L.fail_on(x, *places))
    expected = on_penstock.run(dataset.batch(3))
    assert on_penstock.run(dataset.batch(3, num_parallel_calls=calls)) == expected


@pytest.mark.parametrize("calls", [1, 2, 5, L.AUTOTUNE])
def test_random_map(calls: int) -> None:
    dataset = L.Dataset.range(20).shuffle(5, seed=1)
    expected = on_penstock.run(dataset.random_map(lambda x, rng: x + rng.integers(1000), seed=2), epoch=0)
    parallel = dataset.random_map(lambda x, rng: x + rng.integers(1000), seed=2, num_parallel_calls=calls)
    assert on_penstock.run(parallel, epoch=0) == expected
