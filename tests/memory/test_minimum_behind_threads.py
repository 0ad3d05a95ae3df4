"""The smallest budget that `explain` names is enough above a map in threads, whatever reads its elements.

All elements are of one size and were all seen, so that nothing is left to chance but the threads. A run that was not
sampled learns what its stages need from the first element that it delivers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.threads import our_threads

D = ps.Dataset
COUNT = 120
ALL = 10**9


def twice(x: Any) -> Any:
    return D.from_tensors(x).repeat(2)


def cached(x: Any) -> Any:
    return D.range(2).map(lambda i: {**x, "x": x["x"] + i}).cache().repeat(2)


def by_remainder(x: Any) -> Any:
    return x[0].astype(np.int64) % 3


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda d: d,
    "batch": lambda d: d.batch(9),
    "padded_batch": lambda d: d.padded_batch(9),
    "ragged_batch": lambda d: d.ragged_batch(9),
    "group_by_window": lambda d: d.group_by_window(by_remainder, lambda key, window: window.batch(4), 4),
    "bucket_by_sequence_length": lambda d: d.bucket_by_sequence_length(len, [1], [5, 5]),
    "window": lambda d: d.window(6).flat_map(lambda window: window.batch(6)),
    "windows that overlap": lambda d: d.window(6, 3).flat_map(lambda window: window),
    "zip": lambda d: D.zip((d, d)),
    "zip, batch": lambda d: D.zip((d, d)).batch(5),
    "zip of four": lambda d: D.zip((d, d, d, d)),
    "sample_from_datasets": lambda d: D.sample_from_datasets([d, d], seed=1).batch(9),
    "concatenate": lambda d: d.concatenate(d).batch(9),
    "unbatch": lambda d: d.unbatch().batch(1000),
    "batch, unbatch": lambda d: d.batch(9).unbatch(),
    "flat_map": lambda d: d.flat_map(twice),
    "interleave": lambda d: d.interleave(twice, cycle_length=3),
    "interleave in threads": lambda d: d.interleave(twice, cycle_length=3, num_parallel_calls=2),
    "filter": lambda d: d.filter(lambda x: x[0] % 2 == 0).batch(4),
    "map": lambda d: d.map(lambda x: x + 1).batch(4),
    "rebatch": lambda d: d.batch(4).rebatch(6),
    "prefetch": lambda d: d.batch(4).prefetch(2),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [20_000, 160_000])
@pytest.mark.parametrize("num_parallel_calls", [4, ps.AUTOTUNE], ids=["4", "AUTOTUNE"])
@pytest.mark.parametrize("build", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("is_made_anew", [False, True], ids=["sampled", "made anew"])
def test_the_minimum_is_enough(
    build: Callable[[Any], Any], num_parallel_calls: int, size: int, is_made_anew: bool
) -> None:
    def make() -> Any:
        return build(D.range(COUNT).map(lambda i: np.full(size, i, np.uint8), num_parallel_calls=num_parallel_calls))

    dataset = make()
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    expected = sum(1 for _ in dataset.run(epoch=0))
    if is_made_anew:  # another program, which knows the number and nothing else
        dataset = make()
    for _ in range(2):
        with dataset.run(memory=minimum, epoch=0) as run:
            assert sum(1 for _ in run) == expected
            assert run.ledger.peak_bytes <= minimum
    assert our_threads() == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "build",
    [
        lambda d: D.sample_from_datasets([d, d.take(9)], seed=3),
        lambda d: D.choose_from_datasets([d, d.take(9)], D.range(2).repeat(9)),
        lambda d: d.take(30).concatenate(d),
    ],
    ids=["sample", "choose", "concatenate"],
)
@pytest.mark.parametrize("num_parallel_calls", [2, 4])
def test_threads_leave_room_for_branches_that_have_still_to_begin(
    build: Callable[[Any], Any], num_parallel_calls: int
) -> None:
    """The first element tells nothing of them, and what was made next would be in their way."""

    def make() -> Any:
        stream = D.from_generator(lambda: (np.full(2500, float(i)) for i in range(COUNT)))
        return build(stream.map(lambda x: x + 1, num_parallel_calls=num_parallel_calls))

    minimum = make().explain(sample=ALL).to_dict()["minimum_bytes"]
    expected = [x.tobytes() for x in make()]
    with make().run(memory=minimum) as run:
        assert [x.tobytes() for x in run] == expected
        assert run.ledger.peak_bytes <= minimum
    assert our_threads() == []


@pytest.mark.timeout(60)
def test_threads_leave_room_for_datasets_that_have_still_to_be_opened() -> None:
    """Nor does the first of several datasets that are read in turn tell what all of them need."""

    def failing(x: Any) -> Any:
        if x["x"][0] % 5 == 2:
            raise ValueError("no")
        return {**x, "x": x["x"] + 1}

    def make() -> Any:
        stream = D.from_generator(lambda: ({"x": np.full(10_000, float(i)), "name": b"n" * 300} for i in range(20)))
        mapped = stream.map(failing, num_parallel_calls=2).shuffle(6, seed=5)
        mapped = mapped.map(lambda x: {**x, "x": x["x"] + 1}, num_parallel_calls=3)
        return mapped.interleave(cached, 2, 1, 2).with_options(ps.Options(optimize=False))

    def read(memory: int) -> list[Any]:
        found: list[Any] = []
        with make().run(memory=memory) as run:
            while not run.is_over:
                try:
                    found.append(next(run, {"x": np.zeros(0)})["x"].tobytes())
                except ValueError:
                    found.append(None)
        return found

    assert read(make().explain(sample=ALL).to_dict()["minimum_bytes"]) == read(10**8)


def test_what_a_cache_keeps_counts_once_where_it_is_read_in_two_places() -> None:
    cached = D.range(10).map(lambda i: np.full(10_000, i, np.uint8)).cache()
    assert sum(1 for _ in cached.run(memory="2MB")) == 10
    with D.zip((cached, cached)).run(memory="2MB") as run:
        next(run)
        held = [stage["held_bytes"] for stage in run.stats()["stages"] if stage["name"].startswith("cache")]
    assert len(held) == 2
    assert min(held) < 100_000 <= max(held)


def test_samples_agree_however_many_elements_threads_give_at_once() -> None:
    def batches() -> Any:
        columns = {"x": np.arange(1500.0).reshape(3, 500), "t": [b"five", b"sixsix", b"sevenes"]}
        made = ps.Dataset.from_tensor_slices(columns).map(
            lambda e: {**e, "x": np.repeat(e["x"], 2)}, num_parallel_calls=2
        )
        return made.concatenate(made).batch(3)

    datasets = [batches() for _ in range(8)]
    minima = {dataset.explain(sample=8).to_dict()["minimum_bytes"] for dataset in datasets}
    assert len(minima) == 1
    for dataset in datasets:
        assert len(list(dataset.run(memory=min(minima)))) == 2


@pytest.mark.parametrize("calls", [1, 4])
def test_two_readings_of_one_map_leave_room_for_each_other(calls: int) -> None:
    """`rejection_resample` reads its input twice at a time; each had a result in the consumer's hands and one more."""
    pairs = D.range(COUNT).map(lambda i: (i, np.full(500, float(i))), num_parallel_calls=calls)
    dataset = pairs.rejection_resample(lambda i, x: i % 2, [0.5, 0.5], [0.4, 0.6], seed=1)
    expected = [int(i) for _, (i, _) in dataset.run(epoch=0)]
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    for _ in range(3):
        with dataset.run(memory=minimum, epoch=0) as run:
            assert [int(i) for _, (i, _) in run] == expected
