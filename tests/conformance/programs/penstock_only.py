"""Programs without a counterpart in tf.data: they join the resume, rewrite and leak suites."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .data import matrix
from .program import Family

FAMILY = Family("penstock")


def add(name: str, build: Any, **flags: Any) -> None:
    FAMILY.add(name, build, oracle=False, **flags)


@dataclass(frozen=True)
class Sample:
    image: Any
    label: Any


def rows(L):
    return L.Dataset.from_tensor_slices((matrix(9, 2), np.arange(9)))


def jitter(x, rng):
    return x + rng.integers(1000)


add("shuffle()", lambda L: L.Dataset.range(12).shuffle(seed=5))
add("shuffle(), batch", lambda L: rows(L).shuffle(seed=5).batch(4))
add("shuffle(), repeat", lambda L: L.Dataset.range(7).shuffle(seed=5).repeat(3))
add(
    "shuffle(), no reshuffle, repeat",
    lambda L: L.Dataset.range(7).shuffle(seed=5, reshuffle_each_iteration=False).repeat(2),
)
add("map, shuffle(), take", lambda L: L.Dataset.range(12).map(lambda x: x * x).shuffle(seed=5).take(7))
add("shuffle(), shard", lambda L: L.Dataset.range(12).shuffle(seed=5).shard(3, 1))
add("filter, shuffle()", lambda L: L.Dataset.range(12).filter(lambda x: x % 2 == 0).shuffle(seed=5))
for size in (2, 4, 100):
    add(
        f"shuffle({size}), map, batch",
        lambda L, s=size: rows(L).shuffle(s, seed=2).map(lambda x, y: (x + 1, y)).batch(4),
    )
    add(
        f"map, shuffle({size}), repeat, batch",
        lambda L, s=size: rows(L).map(lambda x, y: (x + 1, y)).shuffle(s, seed=2).repeat(2).batch(5),
    )
    add(f"shuffle({size}), shuffle(3)", lambda L, s=size: L.Dataset.range(11).shuffle(s, seed=2).shuffle(3, seed=4))
    add(
        f"flat_map, shuffle({size})",
        lambda L, s=size: L.Dataset.range(5).flat_map(lambda x: L.Dataset.range(x)).shuffle(s, seed=2),
    )
add("enumerate, shuffle()", lambda L: L.Dataset.range(9).enumerate().shuffle(seed=5))
add("enumerate, shuffle, shuffle()", lambda L: L.Dataset.range(9).enumerate().shuffle(2, seed=2).shuffle(seed=5))
add("shuffle, enumerate, shuffle", lambda L: L.Dataset.range(9).shuffle(4, seed=2).enumerate().shuffle(3, seed=5))
add("enumerate, shuffle, shard", lambda L: L.Dataset.range(9).enumerate().shuffle(4, seed=2).shard(2, 1))
add("random_map", lambda L: L.Dataset.range(8).random_map(jitter, seed=3))
add("random_map, tuples", lambda L: rows(L).random_map(lambda x, y, rng: (x * rng.random(), y), seed=3))
add("random_map, shuffle", lambda L: L.Dataset.range(8).random_map(jitter, seed=3).shuffle(4, seed=1))
add("shuffle, random_map", lambda L: L.Dataset.range(8).shuffle(4, seed=1).random_map(jitter, seed=3))
add("random_map, take, repeat", lambda L: L.Dataset.range(8).random_map(jitter, seed=3).take(3).repeat(3))
add("repeat, random_map", lambda L: L.Dataset.range(3).repeat(3).random_map(jitter, seed=3))
add("filter, random_map", lambda L: L.Dataset.range(8).filter(lambda x: x % 2 == 1).random_map(jitter, seed=3))
add("random_map, skip, shard", lambda L: L.Dataset.range(20).random_map(jitter, seed=3).skip(3).shard(2, 1))
add(
    "random_map, filter, batch",
    lambda L: L.Dataset.range(20).random_map(jitter, seed=3).filter(lambda x: x % 2 == 0).batch(3),
)
add("random_map, cache, repeat", lambda L: L.Dataset.range(5).random_map(jitter, seed=3).cache().repeat(2))
add("parallel random_map", lambda L: L.Dataset.range(12).random_map(jitter, seed=3, num_parallel_calls=3), threads=True)
add(
    "parallel random_map, shuffle, batch",
    lambda L: L.Dataset.range(12).random_map(jitter, seed=3, num_parallel_calls=2).shuffle(5, seed=1).batch(4),
    threads=True,
)
add("random_map, random_map", lambda L: L.Dataset.range(6).random_map(jitter, seed=3).random_map(jitter, seed=4))
add(
    "concatenate of random_maps",
    lambda L: L.Dataset.range(3).random_map(jitter, seed=3).concatenate(L.Dataset.range(3).random_map(jitter, seed=3)),
)
add(
    "random_map inside flat_map",
    lambda L: L.Dataset.range(4).flat_map(lambda x: L.Dataset.range(x).random_map(jitter, seed=3)),
)
add("vectorized map", lambda L: L.Dataset.range(11).map(lambda x: x * 2, vectorized=True))
add("vectorized map, tuples, batch", lambda L: rows(L).map(lambda x, y: (x.sum(axis=1), y), vectorized=True).batch(4))
add(
    "vectorized map, shuffle",
    lambda L: rows(L).map(lambda x, y: (x * 2, y + 1), vectorized=True).shuffle(4, seed=1).batch(2),
)
add("stateful map", lambda L: L.Dataset.range(6).map(lambda x: x + 1, stateful=True).skip(2).batch(2))
add(
    "dataclasses",
    lambda L: (
        L.Dataset.from_tensor_slices(Sample(matrix(5, 2), np.arange(5)))
        .map(lambda s: Sample(s.image + 1, s.label))
        .batch(2)
    ),
)
add("random", lambda L: L.Dataset.random(seed=9).take(5))
add("random, rerandomized", lambda L: L.Dataset.random(seed=9, rerandomize_each_iteration=True).take(3).repeat(2))
add("sample", lambda L: L.Dataset.sample_from_datasets([L.Dataset.range(5), L.Dataset.range(10, 15)], seed=7))
add(
    "sample, weights",
    lambda L: L.Dataset.sample_from_datasets([L.Dataset.range(5), L.Dataset.range(10, 15)], weights=[0.2, 0.8], seed=7),
)
add(
    "sample, stop on empty",
    lambda L: L.Dataset.sample_from_datasets(
        [L.Dataset.range(5), L.Dataset.range(10, 15)], seed=7, stop_on_empty_dataset=True
    ),
)
add(
    "rejection_resample",
    lambda L: L.Dataset.range(30).rejection_resample(
        lambda x: np.int64(x % 2), [0.5, 0.5], initial_dist=[0.5, 0.5], seed=7
    ),
)
add(
    "rejection_resample, distribution unknown",
    lambda L: L.Dataset.range(30).rejection_resample(lambda x: np.int64(x % 3 == 0), [0.5, 0.5], seed=7),
)
add("unique of floats", lambda L: L.Dataset.from_tensor_slices(np.array([1.5, 1.5, 2.0])).unique())
add("unique of rows", lambda L: L.Dataset.from_tensor_slices(np.array([[1, 2], [1, 2], [2, 1]])).unique())
add("unique of tuples", lambda L: L.Dataset.from_tensor_slices((np.array([1, 1, 1]), np.array([1, 2, 1]))).unique())

for cycle, block, calls in ((1, 2, 1), (2, 1, 2), (3, 2, 2), (3, 1, 3)):
    grid = {"cycle_length": cycle, "block_length": block, "num_parallel_calls": calls}
    add(
        f"parallel interleave {cycle} {block} {calls}, an inner error",
        lambda L, g=grid: L.Dataset.range(4).interleave(
            lambda i: L.Dataset.range(10 * i, 10 * i + 3).map(lambda y: L.fail_on(y, 11)), **g
        ),
        threads=True,
    )
