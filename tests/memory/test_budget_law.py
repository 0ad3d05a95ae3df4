"""The law of the budget: pipelines, sizes of elements, budgets and consumers drawn at random.

Under any budget from the smallest that works on, a pipeline gives what it gives without one, never holds more than the
budget, comes to an end, and leaves nothing behind: no bytes on the ledger, no threads, no files.
"""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.threads import our_threads

D = ps.Dataset
COUNT = 20
EPOCHS = 2  # in the second one caches are read


def sizes_of(kind: str) -> list[int]:
    """How many numbers each element of the source has."""
    if kind == "constant":
        return [500] * COUNT
    if kind == "lognormal":
        return np.random.default_rng(1).lognormal(5.5, 1.2, COUNT).astype(int).clip(4, 20_000).tolist()
    if kind == "one large":
        return [100 if i != 13 else 10_000 for i in range(COUNT)]
    assert kind == "grows"  # 1000 times as large in the first map
    return [10] * COUNT


def source(kind: str) -> Any:
    sizes = sizes_of(kind)

    def elements() -> Iterator[np.ndarray]:
        for i, size in enumerate(sizes):
            yield np.full(size, float(i))

    made = D.from_generator(elements)
    return made.map(lambda x: np.repeat(x, 1000)) if kind == "grows" else made


def twice(x: Any) -> Any:
    return D.range(2).map(lambda i: x + i)


def head(x: Any) -> Any:
    return np.resize(x.reshape(-1), 50)


STEPS: dict[str, Callable[[Any], Any]] = {
    "map": lambda d: d.map(lambda x: x * 2),
    "parallel map": lambda d: d.map(lambda x: x + 1, num_parallel_calls=4),
    "unordered": lambda d: d.map(lambda x: x - 1, num_parallel_calls=ps.AUTOTUNE),
    "random_map": lambda d: d.random_map(lambda x, g: x + g.integers(9), seed=3),
    "filter": lambda d: d.filter(lambda x: x.size % 7 != 3),
    "batch": lambda d: d.map(head).batch(3),
    "padded_batch": lambda d: d.map(lambda x: x.reshape(-1)).padded_batch(2),
    "rebatch": lambda d: d.map(head).batch(2).rebatch(3),
    "unbatch": lambda d: d.map(lambda x: head(x).reshape(5, 10)).unbatch(),
    "window": lambda d: d.window(3, 2).flat_map(lambda w: w),
    "flat_map": lambda d: d.flat_map(twice),
    "interleave": lambda d: d.interleave(twice, cycle_length=3),
    "interleave in threads": lambda d: d.interleave(twice, cycle_length=3, num_parallel_calls=3),
    "shuffle": lambda d: d.shuffle(6, seed=5),
    "prefetch": lambda d: d.prefetch(3),
    "cache": lambda d: d.cache(),
    "repeat": lambda d: d.repeat(2),
    "take": lambda d: d.take(15),
    "concatenate": lambda d: d.concatenate(d.take(3)),
    "scan": lambda d: d.scan(np.float64(0), lambda state, x: (state + x.size, x + state)),
}


def built(kind: str, steps: list[str]) -> Any:
    dataset = source(kind)
    for step in steps:
        dataset = STEPS[step](dataset)
    return dataset.take(60)


def consumed(dataset: Any, consumer: str, memory: int | None = None) -> tuple[list[Any], Any]:
    """What a consumer gets, and the run."""
    found = []
    with dataset.run() if memory is None else dataset.run(memory=memory) as run:
        for x in run:
            found.append((x.dtype.str, x.shape, x.tobytes()))
            if consumer == "slow":
                time.sleep(0.0005)
            if consumer == "stops early" and len(found) == 7:
                break
    return found, run


@pytest.mark.timeout(90)
@settings(max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["constant", "lognormal", "one large", "grows"]),
    steps=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=4),
    factor=st.sampled_from([1, 1.2, 2, 8]),
    consumer=st.sampled_from(["fast", "slow", "stops early"]),
)
@example(kind="grows", steps=["take", "padded_batch", "batch", "rebatch"], factor=1.2, consumer="stops early")
@example(kind="lognormal", steps=["rebatch", "cache", "concatenate"], factor=1, consumer="slow")
@example(kind="constant", steps=["cache", "parallel map", "repeat"], factor=1, consumer="slow")
@example(kind="lognormal", steps=["cache", "parallel map", "concatenate"], factor=1, consumer="fast")
@example(kind="one large", steps=["cache", "padded_batch", "take"], factor=1, consumer="fast")
@example(kind="constant", steps=["cache", "interleave"], factor=1, consumer="fast")
def test_the_law_of_the_budget(kind: str, steps: list[str], factor: float, consumer: str) -> None:
    plain = built(kind, steps)
    expected = [consumed(plain, consumer)[0] for _ in range(EPOCHS)]
    with tempfile.TemporaryDirectory() as spill_dir:
        dataset = built(kind, steps).with_options(ps.Options(spill_dir=spill_dir))
        memory = int(dataset.explain(sample=10_000).to_dict()["minimum_bytes"] * factor)
        measured = dataset._measured
        # Built anew: what the sample has cached is not there, and all must be made again.
        dataset = built(kind, steps).with_options(ps.Options(spill_dir=spill_dir))
        dataset._measured = measured
        for epoch in range(EPOCHS):
            found, run = consumed(dataset, consumer, memory)
            assert found == expected[epoch]
            assert run.ledger.peak_bytes <= memory
            assert run.ledger.charged_bytes == 0
        del dataset, run
        gc.collect()
        assert not list(Path(spill_dir).glob("*/*.arrow"))
    assert our_threads() == []
