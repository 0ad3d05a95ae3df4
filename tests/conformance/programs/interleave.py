"""interleave: the grid of cycle and block lengths over unequal lengths."""

import numpy as np

from .program import Family

FAMILY = Family("interleave")
add = FAMILY.add


def tens(L, x):
    """x inner elements: x*10, x*10+1, …"""
    return L.Dataset.range(x * 10, x * 10 + x)


for cycle in (1, 2, 3, 7):
    for block in (1, 2, 4):
        grid = {"cycle_length": cycle, "block_length": block}
        add(f"cycle {cycle}, block {block}", lambda L, g=grid: L.Dataset.range(6).interleave(lambda x: tens(L, x), **g))
        add(
            f"equal lengths, cycle {cycle}, block {block}",
            lambda L, g=grid: L.Dataset.range(4).interleave(lambda x: L.Dataset.from_tensors(x).repeat(3), **g),
        )
        add(
            f"falling lengths, cycle {cycle}, block {block}",
            lambda L, g=grid: L.Dataset.range(5, 0, -1).interleave(lambda x: tens(L, x), **g),
        )
for cycle, block, calls in ((1, 1, 1), (2, 1, 2), (2, 3, 2), (3, 1, 2), (3, 2, 3), (4, 2, 1), (7, 1, 4)):
    grid = {"cycle_length": cycle, "block_length": block, "num_parallel_calls": calls, "deterministic": True}
    add(
        f"parallel {calls}, cycle {cycle}, block {block}",
        lambda L, g=grid: L.Dataset.range(6).interleave(lambda x: tens(L, x), **g),
        threads=True,
    )
    add(
        f"parallel {calls}, falling, cycle {cycle}, block {block}",
        lambda L, g=grid: L.Dataset.range(5, 0, -1).interleave(lambda x: tens(L, x), **g),
        threads=True,
    )
add(
    "parallel AUTOTUNE",
    lambda L: L.Dataset.range(6).interleave(lambda x: tens(L, x), cycle_length=3, num_parallel_calls=L.AUTOTUNE),
    threads=True,
)
add(
    "parallel, any order",
    lambda L: L.Dataset.range(6).interleave(
        lambda x: tens(L, x), cycle_length=3, num_parallel_calls=2, deterministic=False
    ),
    threads=True,
    exact=False,
    seeded=False,
    ordered=False,
)
add("no rows", lambda L: L.Dataset.range(0).interleave(lambda x: tens(L, x), cycle_length=2))
add("all empty", lambda L: L.Dataset.range(5).interleave(lambda x: L.Dataset.range(0), cycle_length=2))
add(
    "empties among full",
    lambda L: L.Dataset.from_tensor_slices(np.array([0, 3, 0, 0, 2, 1, 0])).interleave(
        lambda x: tens(L, x), cycle_length=2, block_length=2
    ),
)
add(
    "endless outside",
    lambda L: L.Dataset.range(1, 4).repeat().interleave(lambda x: tens(L, x), cycle_length=2).take(15),
)
add(
    "endless inside",
    lambda L: L.Dataset.range(4).interleave(lambda x: L.Dataset.from_tensors(x).repeat(), cycle_length=3).take(10),
)
add(
    "tuples",
    lambda L: L.Dataset.from_tensor_slices((np.arange(3), np.arange(3) + 1)).interleave(
        lambda a, b: L.Dataset.range(a, a + b).map(lambda x: (x, b)), cycle_length=2
    ),
)
add("windows", lambda L: L.Dataset.range(8).window(3).interleave(lambda w: w, cycle_length=2))
add("then batch", lambda L: L.Dataset.range(5).interleave(lambda x: tens(L, x), cycle_length=2).batch(3))
add(
    "cycle of one is flat_map",
    lambda L: L.Dataset.range(5).interleave(lambda x: tens(L, x), cycle_length=1, block_length=3),
)
add("twice", lambda L: L.Dataset.range(4).interleave(lambda x: tens(L, x), cycle_length=2, block_length=2), passes=2)
