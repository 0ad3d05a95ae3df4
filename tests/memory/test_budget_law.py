"""The law of the budget: pipelines, elements and their sizes, budgets and consumers drawn at random.

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


def source(kind: str, nested: bool) -> Any:
    """Arrays; or dicts in which they stand beside byte strings of all lengths."""
    sizes = sizes_of(kind)

    def elements() -> Iterator[Any]:
        for i, size in enumerate(sizes):
            x = np.full(size, float(i))
            yield {"x": x, "name": b"n" * (1 + i * 37 % 900), "label": np.int64(i)} if nested else x

    made = D.from_generator(elements)
    grow = on_array(lambda x: np.repeat(x, 1000)) if nested else lambda x: np.repeat(x, 1000)
    return made.map(grow) if kind == "grows" else made


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


def on_array(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function of the array in a dict."""
    return lambda e: {**e, "x": function(e["x"])}


def one_of_each(e: Any) -> Any:
    """An element whose name and label are single ones again, where batches made arrays of them."""
    name = e["name"] if isinstance(e["name"], bytes) else e["name"].reshape(-1)[0]
    return {"x": e["x"].reshape(-1), "name": name, "label": np.asarray(e["label"]).reshape(-1)[0]}


def dicts_of(window: Any) -> Any:
    columns = D.zip((window["x"], window["name"], window["label"]))
    return columns.map(lambda x, name, label: {"x": x, "name": name, "label": label})


def twice_nested(e: Any) -> Any:
    return D.range(2).map(lambda i: {**e, "x": e["x"] + i})


# Steps that do not look into elements are the same for dicts.
NESTED_STEPS: dict[str, Callable[[Any], Any]] = {
    **STEPS,
    "map": lambda d: d.map(on_array(lambda x: x * 2)),
    "parallel map": lambda d: d.map(on_array(lambda x: x + 1), num_parallel_calls=4),
    "unordered": lambda d: d.map(on_array(lambda x: x - 1), num_parallel_calls=ps.AUTOTUNE),
    "random_map": lambda d: d.random_map(lambda e, g: {**e, "x": e["x"] + g.integers(9)}, seed=3),
    "filter": lambda d: d.filter(lambda e: e["x"].size % 7 != 3),
    "batch": lambda d: d.map(one_of_each).map(on_array(head)).batch(3),
    "padded_batch": lambda d: d.map(one_of_each).padded_batch(2),
    "rebatch": lambda d: d.map(one_of_each).map(on_array(head)).batch(2).rebatch(3),
    "unbatch": lambda d: d.map(one_of_each).map(on_array(head)).batch(2).unbatch(),
    "window": lambda d: d.window(3, 2).flat_map(dicts_of),
    "flat_map": lambda d: d.flat_map(twice_nested),
    "interleave": lambda d: d.interleave(twice_nested, cycle_length=3),
    "interleave in threads": lambda d: d.interleave(twice_nested, cycle_length=3, num_parallel_calls=3),
    "scan": lambda d: d.scan(np.float64(0), lambda state, e: (state + e["x"].size, {**e, "x": e["x"] + state})),
}


def built(kind: str, steps: list[str], nested: bool) -> Any:
    dataset = source(kind, nested)
    for step in steps:
        dataset = (NESTED_STEPS if nested else STEPS)[step](dataset)
    return dataset.take(60)


def comparable(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: comparable(value) for key, value in element.items()}
    if isinstance(element, bytes):
        return element
    return element.dtype.str, element.shape, element.tolist() if element.dtype.kind == "O" else element.tobytes()


def consumed(dataset: Any, consumer: str, memory: int | None = None) -> tuple[list[Any], Any]:
    """What a consumer gets, and the run."""
    found = []
    with dataset.run() if memory is None else dataset.run(memory=memory) as run:
        for x in run:
            found.append(comparable(x))
            if consumer == "slow":
                time.sleep(0.0005)
            if consumer == "stops early" and len(found) == 7:
                break
    return found, run


@pytest.mark.timeout(300)
@settings(max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["constant", "lognormal", "one large", "grows"]),
    steps=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=4),
    factor=st.sampled_from([1, 1.2, 2, 8]),
    consumer=st.sampled_from(["fast", "slow", "stops early"]),
    nested=st.booleans(),
)
@example(
    kind="grows", steps=["take", "padded_batch", "batch", "rebatch"], factor=1.2, consumer="stops early", nested=False
)
@example(kind="lognormal", steps=["rebatch", "cache", "concatenate"], factor=1, consumer="slow", nested=False)
@example(kind="constant", steps=["cache", "parallel map", "repeat"], factor=1, consumer="slow", nested=False)
@example(kind="lognormal", steps=["cache", "parallel map", "concatenate"], factor=1, consumer="fast", nested=False)
@example(kind="one large", steps=["cache", "padded_batch", "take"], factor=1, consumer="fast", nested=False)
@example(kind="constant", steps=["cache", "interleave"], factor=1, consumer="fast", nested=False)
@example(kind="constant", steps=["shuffle", "prefetch", "window"], factor=1, consumer="fast", nested=True)
@example(
    kind="grows", steps=["take", "parallel map", "concatenate", "shuffle"], factor=1.2, consumer="slow", nested=False
)
def test_the_law_of_the_budget(kind: str, steps: list[str], factor: float, consumer: str, nested: bool) -> None:
    plain = built(kind, steps, nested)
    expected = [consumed(plain, consumer)[0] for _ in range(EPOCHS)]
    with tempfile.TemporaryDirectory() as spill_dir:
        dataset = built(kind, steps, nested).with_options(ps.Options(spill_dir=spill_dir))
        memory = int(dataset.explain(sample=10_000).to_dict()["minimum_bytes"] * factor)
        measured = dataset._measured
        # Built anew: what the sample has cached is not there, and all must be made again.
        dataset = built(kind, steps, nested).with_options(ps.Options(spill_dir=spill_dir))
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
