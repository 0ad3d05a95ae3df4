"""The smallest budget that `explain` names is not far above the smallest with which a pipeline really goes on.

For each operator that holds something: with what is named all elements come, and with so many times less they do not,
even if nobody refuses to begin.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.divide import Division, divide
from penstock.runtime import run as runs

D = ps.Dataset
COUNT = 60
SIZE = 2500  # float64: 20 kB
ALL = 10_000

LENGTHS = {
    "equal": np.full(COUNT, SIZE),
    "lognormal": (SIZE * np.exp(np.random.default_rng(5).normal(0, 1, COUNT))).astype(int) + 1,
    "one large": np.where(np.arange(COUNT) == COUNT // 2, 50 * SIZE, SIZE),
}


def source(lengths: str) -> Any:
    def elements() -> Iterator[np.ndarray]:
        for i, length in enumerate(LENGTHS[lengths]):
            yield np.full(length, float(i))

    return D.from_generator(elements)


def plus_one(x: Any) -> Any:
    return x + 1


def threes(x: Any) -> Any:
    return D.range(3).map(lambda i: x * i)


def grouped(d: Any) -> Any:
    return d.group_by_window(lambda x: int(x[0]) % 3, lambda key, window: window.padded_batch(4), 4)


# How many times as much may be named as is needed. Sizes that were seen count for a quarter more, and slots for up to
# an eighth, which makes 1.4 of nothing but elements. Twice as much and more is named where stages can take turns: who
# was seen to need much early on gives it up before another is refused, which no plan may count on.
OPERATORS: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "map": (1.5, lambda d: d.map(plus_one)),
    "map in threads": (1.6, lambda d: d.map(plus_one, num_parallel_calls=4)),
    "filter": (1.5, lambda d: d.filter(lambda x: x[0] % 3 != 0)),
    "scan": (1.5, lambda d: d.scan(np.float64(0), lambda state, x: (state + 1, x * 2))),
    "flat_map": (1.5, lambda d: d.flat_map(threes)),
    "interleave": (1.6, lambda d: d.interleave(threes, cycle_length=4)),
    "zip": (1.5, lambda d: D.zip((d, d.map(plus_one)))),
    "concatenate": (2.1, lambda d: d.map(plus_one).concatenate(d)),
    "sample_from_datasets": (1.6, lambda d: D.sample_from_datasets([d, d.map(plus_one)], seed=3)),
    "repeat": (1.5, lambda d: d.repeat(2)),
    "padded_batch": (1.5, lambda d: d.padded_batch(8)),
    "ragged_batch": (1.6, lambda d: d.ragged_batch(8)),
    "window": (1.8, lambda d: d.window(8).flat_map(lambda window: window)),
    "windows that overlap": (1.8, lambda d: d.window(8, 2).flat_map(lambda window: window)),
    "group_by_window": (1.7, grouped),
    "bucket_by_sequence_length": (2.6, lambda d: d.bucket_by_sequence_length(len, [200, 9000], [16, 8, 4])),
    # With less, elements are made when they are asked for.
    "prefetch": (2.8, lambda d: d.prefetch(4)),
    # A batch that was made ready lies in the slot that was its maker's.
    "batches made ready": (3.0, lambda d: d.ragged_batch(4).prefetch(2)),
    "map in threads, batches made ready": (3.0, lambda d: d.map(plus_one, 4).padded_batch(4).prefetch(2)),
    "shuffle": (1.9, lambda d: d.shuffle(20, seed=1)),
    # What is named has draws ahead for a part of the buffer; no more are held than there are elements.
    "shuffle with a buffer for more than there are": (2.1, lambda d: d.shuffle(10_000, seed=1)),
    "shuffle of all": (1.9, lambda d: d.shuffle(seed=1)),
    # While elements are read from disk the input has none on its way. What is known of each of them on disk is half of
    # the number where they are small: with less the cache goes on, and forgets.
    "cache": (4.5, lambda d: d.cache().repeat(2)),
    # Another epoch may have the largest elements in one batch.
    # With some budgets that are smaller it is enough that others give up what they have only reserved.
    "cache, shuffle, ragged_batch": (3.2, lambda d: d.cache().shuffle(10_000, seed=1).ragged_batch(8)),
}
OF_EQUAL: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "batch": (1.7, lambda d: d.batch(8)),
    "map, batch": (1.7, lambda d: d.map(plus_one).batch(8)),
    "rebatch": (2.0, lambda d: d.batch(5).rebatch(8)),
}
CASES = [(name, *case, lengths) for name, case in OPERATORS.items() for lengths in LENGTHS]
CASES += [(name, *case, "equal") for name, case in OF_EQUAL.items()]


def ends(dataset: Any, memory: int) -> bool:
    """Whether all elements come with this budget."""
    try:
        with dataset.run(memory=memory, epoch=0) as run:
            for _ in run:
                pass
        return True
    except ps.errors.OverBudget:
        return False


def with_floors_of(part: float) -> Callable[..., Division]:
    """Divides a budget as always, but into so much less."""

    def divided(*args: Any) -> Division:
        needs = []
        for need in divide(*args).needs:
            floor = need.footprint.floor_bytes
            less = dataclasses.replace(need.footprint, floor_bytes=None if floor is None else int(part * floor))
            needs.append(dataclasses.replace(need, footprint=less))
        return Division(tuple(needs))

    return divided


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "bound, build, lengths", [case[1:] for case in CASES], ids=[f"{case[0]}-{case[3]}" for case in CASES]
)
def test_no_more_is_named_than_so_many_times_what_is_needed(
    bound: float, build: Callable[[Any], Any], lengths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = build(source(lengths))
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    assert ends(dataset, minimum)
    less = int(minimum / bound)
    for part in (0, 0.99 / bound):
        monkeypatch.setattr(runs, "divide", with_floors_of(part))
        assert not ends(build(source(lengths)), less)


def test_a_buffer_for_more_than_there_are_needs_no_more_than_one_for_all() -> None:
    dataset = source("equal").shuffle(1_000_000, seed=1)
    assert dataset.explain(sample=1).to_dict()["minimum_bytes"] < 700_000


@pytest.mark.parametrize("size, count, buffer_size", [(13, 3000, 2000), (125, 3000, 2000), (600, 1500, 1000)])
def test_what_a_shuffle_needs_of_small_elements_is_enough(size: int, count: int, buffer_size: int) -> None:
    spec = ps.TensorSpec((size,), np.float64)
    stream = D.from_generator(lambda: (np.full(size, float(i)) for i in range(count)), output_signature=spec)
    dataset = stream.shuffle(buffer_size, seed=1, reshuffle_each_iteration=False)
    minimum = dataset.explain(sample=1).to_dict()["minimum_bytes"]
    with dataset.run(memory=minimum) as run:
        assert sorted(int(x[0]) for x in run) == list(range(count))
        assert run.ledger.peak_bytes <= minimum
