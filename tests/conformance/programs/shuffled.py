"""shuffle as a multiset; its laws are in test_random_order.py."""

import numpy as np

from .data import structures
from .program import Family

FAMILY = Family("shuffle")
add = FAMILY.add

for size in (2, 5, 9, 10, 100):
    add(f"shuffle({size})", lambda L, s=size: L.Dataset.range(10).shuffle(s, seed=3), exact=False, spec=True)
    add(
        f"map, shuffle({size})",
        lambda L, s=size: L.Dataset.range(10).map(lambda x: x * x).shuffle(s, seed=3),
        exact=False,
    )
    add(
        f"filter, shuffle({size})",
        lambda L, s=size: L.Dataset.range(10).filter(lambda x: x % 3 > 0).shuffle(s, seed=3),
        exact=False,
        spec=True,
    )
for seed in (None, 0, 7):
    for again in (None, True, False):
        add(
            f"seed {seed}, reshuffle {again}",
            lambda L, s=seed, r=again: L.Dataset.range(8).shuffle(4, seed=s, reshuffle_each_iteration=r),
            exact=False,
            passes=2,
            seeded=seed is not None,
        )
for name, value in structures(5).items():
    add(name, lambda L, v=value: L.Dataset.from_tensor_slices(v).shuffle(3, seed=1), exact=False, spec=True)
add("shuffle(1)", lambda L: L.Dataset.range(6).shuffle(1, seed=1), spec=True, passes=2)
add("shuffle(1), repeat", lambda L: L.Dataset.range(4).shuffle(1).repeat(2), spec=True)
add("shuffle(UNKNOWN)", lambda L: L.Dataset.range(10).shuffle(-2, seed=1), exact=False, spec=True)
add("no rows", lambda L: L.Dataset.range(0).shuffle(4), spec=True)
add("one row", lambda L: L.Dataset.range(1).shuffle(4), spec=True)
add("shuffle, repeat", lambda L: L.Dataset.range(5).shuffle(3, seed=1).repeat(3), exact=False, spec=True)
add("repeat, shuffle", lambda L: L.Dataset.range(5).repeat(3).shuffle(4, seed=1), exact=False, spec=True)
add("shuffle, shuffle", lambda L: L.Dataset.range(9).shuffle(3, seed=1).shuffle(4, seed=2), exact=False, spec=True)
add(
    "shuffle, batch, unbatch",
    lambda L: L.Dataset.range(9).shuffle(9, seed=1).batch(4).unbatch(),
    exact=False,
    spec=True,
)
add("batch, shuffle", lambda L: L.Dataset.range(9).batch(2).shuffle(3, seed=1), exact=False, spec=True)
add(
    "shuffle, map parallel",
    lambda L: L.Dataset.range(9).shuffle(4, seed=1).map(lambda x: x + 1, num_parallel_calls=2),
    exact=False,
    threads=True,
)
add("cache, shuffle, repeat", lambda L: L.Dataset.range(6).cache().shuffle(3, seed=1).repeat(2), exact=False, spec=True)
add(
    "shuffle, prefetch",
    lambda L: L.Dataset.range(9).shuffle(4, seed=1).prefetch(2),
    exact=False,
    threads=True,
    spec=True,
)
add(
    "concatenate of shuffles",
    lambda L: L.Dataset.range(4).shuffle(4, seed=1).concatenate(L.Dataset.range(5, 9).shuffle(2, seed=2)),
    exact=False,
    spec=True,
)
add("NumPy integer", lambda L: L.Dataset.range(6).shuffle(np.int64(3), seed=np.int64(4)), exact=False, spec=True)
add("random, take", lambda L: L.Dataset.random(seed=4).take(0), spec=True)
