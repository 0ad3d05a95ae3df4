"""Caches of small elements: what there is to know of them on disk has room in the smallest budget, also in a pool."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable
from tests.memory.test_minimum_of_two import pool_as_it_was, read_in_turn

__all__ = ["pool_as_it_was"]  # for all tests in here

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset
EPOCHS = 3


def generated(make: Callable[[int], Any], count: int, spec: Any = None) -> Any:
    """Of an unknown number of elements."""

    def elements() -> Iterator[Any]:
        for i in range(count):
            yield make(i)

    return D.from_generator(elements, output_signature=spec)


def small_dict(i: int) -> dict[str, Any]:
    return {"x": np.full(3, float(i)), "t": b"t" * (5 + i % 3), "n": np.int64(i)}


def text(i: int) -> bytes:
    return bytes([i % 256]) * (1 + i * 7 % 9)


def uneven(i: int) -> Any:
    return np.full([34, 43, 12][i % 3], float(i))


ALONE: dict[str, Callable[[], Any]] = {
    "read twice in one batch": lambda: generated(uneven, 3).cache().repeat(2).padded_batch(5),
    "read twice in one ragged batch": lambda: generated(uneven, 3).cache().repeat(2).ragged_batch(5),
    "in two branches": lambda: (lambda d: d.concatenate(d).padded_batch(5))(generated(uneven, 3).cache()),
    "of small arrays, before threads": lambda: (
        generated(lambda i: np.full(1 + i * 7 % 9, float(i)), 60)
        .cache()
        .map(lambda x: np.repeat(x, 2), num_parallel_calls=2)
    ),
    "of one string each, then grouped": lambda: generated(text, 25).interleave(
        lambda x: D.from_tensors(x).cache().group_by_window(len, lambda key, w: w, window_size=5), cycle_length=3
    ),
    "of one string each, then in windows": lambda: generated(text, 25).flat_map(
        lambda x: D.from_tensors(x).cache().window(2, 2).flat_map(lambda w: w)
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_the_minimum_is_enough(case: str) -> None:
    expected = [comparable(x) for x in ALONE[case]()]
    sampled = ALONE[case]()
    minimum = sampled.explain(sample=10_000).to_dict()["minimum_bytes"]
    anew = ALONE[case]()
    anew._measured = sampled._measured
    for dataset in (sampled, anew):
        for _ in range(EPOCHS):
            with dataset.run(memory=minimum) as run:
                assert [comparable(x) for x in run] == expected
                assert run.ledger.peak_bytes <= minimum
            assert run.ledger.charged_bytes == 0


def test_what_a_sample_of_few_has_kept_is_read_with_its_minimum() -> None:
    dataset = D.from_tensor_slices(np.arange(25.0).reshape(25, 1)).cache().map(lambda x: x + 0)
    minimum = dataset.explain(sample=8).to_dict()["minimum_bytes"]
    for _ in range(EPOCHS):
        assert [x.tolist() for x in dataset.run(memory=minimum)] == [[float(i)] for i in range(25)]


def test_a_caller_may_hold_all_strings_that_a_cache_has_given() -> None:
    def strings() -> Any:
        sizes = generated(lambda i: [18_000, 7_400, 5_400][i % 3], 6)
        return sizes.map(lambda size: b"x" * int(size)).cache().batch(5).repeat(3)

    sampled = strings()
    minimum = sampled.explain(sample=10_000).to_dict()["minimum_bytes"]
    anew = strings()
    anew._measured = sampled._measured
    assert [len(batch) for batch in list(anew.run(memory=minimum))] == [5, 1] * 3


IN_A_POOL: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a few dicts": (
        lambda: D.range(12).map(lambda i: small_dict(int(i))).shuffle(2, seed=4).cache(),
        lambda: D.from_tensor_slices([b"a", b"b", b"c"]).batch(1).rebatch(4).shuffle(30, seed=0),
    ),
    "many dicts": (
        lambda: generated(small_dict, 60).cache(),
        lambda: generated(uneven, 6).group_by_window(lambda x: 0, lambda key, w: w, window_size=4),
    ),
    "an unknown number": (
        lambda: (
            generated(lambda i: np.full(3, float(i)), 3, ps.TensorSpec((3,), np.float64)).shuffle(5, seed=7).cache()
        ),
        lambda: D.from_tensor_slices(np.arange(18.0).reshape(6, 3)).filter(lambda x: True).cache().shuffle(2, seed=1),
    ),
    "strings": (
        lambda: D.range(60).map(lambda i: text(int(i))).shuffle(2, seed=9).cache(),
        lambda: generated(text, 60).map(lambda x: x + b"."),
    ),
}


@pytest.mark.parametrize("case", IN_A_POOL)
def test_two_runs_have_enough_with_what_both_need(case: str) -> None:
    builders = IN_A_POOL[case]
    expected = [
        [[comparable(x) for x in plain.run(epoch=k)] for k in range(EPOCHS)] for plain in [b() for b in builders]
    ]
    datasets, minima = [], []
    for build in builders:
        told = build()
        minima.append(told.explain(sample=10_000).to_dict()["minimum_bytes"])
        datasets.append(build())
        datasets[-1]._measured = told._measured
        del told
    ps.set_memory(sum(minima))
    for epoch in range(EPOCHS):
        runs = [dataset.run(epoch=epoch) for dataset in datasets]
        found = read_in_turn(runs)
        assert [len(some) for some in found] == [len(of_one[epoch]) for of_one in expected]
        for run in runs:
            run.close()
