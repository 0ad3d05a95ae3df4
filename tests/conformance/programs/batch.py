"""batch: remainders, dtypes, structures, batches of batches."""

import numpy as np

from .data import arrays, matrix, structures
from .program import Family

FAMILY = Family("batch")
add = FAMILY.add

for size in (1, 2, 3, 5, 6, 7, 100):
    for drop in (False, True):
        add(
            f"batch({size}, drop_remainder={drop})",
            lambda L, s=size, d=drop: L.Dataset.range(6).batch(s, drop_remainder=d),
            spec=True,
        )
        add(
            f"rows of 2, batch({size}, drop_remainder={drop})",
            lambda L, s=size, d=drop: L.Dataset.from_tensor_slices(matrix(6, 2)).batch(s, drop_remainder=d),
            spec=True,
        )
for drop in (False, True):
    add(f"no rows, drop_remainder={drop}", lambda L, d=drop: L.Dataset.range(0).batch(2, drop_remainder=d), spec=True)
for name, value in structures(5).items():
    add(name, lambda L, v=value: L.Dataset.from_tensor_slices(v).batch(2), spec=True)
for dtype, array in arrays(5).items():
    add(f"{dtype} after map", lambda L, a=array: L.Dataset.from_tensor_slices(a).map(lambda x: x).batch(3))
add("twice batched, a short one among them", lambda L: L.Dataset.range(11).batch(3).batch(2, drop_remainder=True))
add("twice batched, both dropped", lambda L: L.Dataset.range(14).batch(3, drop_remainder=True).batch(2), spec=True)
add("map, batch", lambda L: L.Dataset.range(7).map(lambda x: x * 2).batch(3))
add("batch, map", lambda L: L.Dataset.range(7).batch(3).map(lambda b: b * 2))
add(
    "map to structure, batch",
    lambda L: L.Dataset.range(5).map(lambda x: {"a": x, "b": (L.cast(x, np.float32), [x, x])}).batch(2),
)
add(
    "bytes made longer by map",
    lambda L: L.Dataset.from_tensor_slices([b"a", b"bb", b"c"]).map(lambda s: L.join(s, s)).batch(2),
)
add("bools after map", lambda L: L.Dataset.range(5).map(lambda x: x > 2).batch(2))
add("repeat, batch crosses passes", lambda L: L.Dataset.range(5).repeat(2).batch(3), spec=True)
add("batch, repeat", lambda L: L.Dataset.range(5).batch(3).repeat(2), spec=True)
add("endless, batch, take", lambda L: L.Dataset.range(3).repeat().batch(4).take(3), spec=True)
add("empty rows", lambda L: L.Dataset.from_tensor_slices(np.zeros((3, 0), np.float32)).batch(2), spec=True)
add(
    "unequal shapes",
    lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 2, 1, 1, 1])).map(lambda n: L.fill(n, n)).batch(2),
)
add(
    "unequal shapes first",
    lambda L: L.Dataset.from_tensor_slices(np.array([2, 1, 1, 1, 1, 1, 1])).map(lambda n: L.fill(n, n)).batch(3),
)
add(
    "shapes change between batches",
    lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 2, 2, 0])).map(lambda n: L.fill(n, n)).batch(2),
)
for calls in (1, 2, "AUTOTUNE"):
    for drop in (False, True):
        add(
            f"parallel {calls}, drop_remainder={drop}",
            lambda L, c=calls, d=drop: L.Dataset.range(10).batch(
                3, drop_remainder=d, num_parallel_calls=L.AUTOTUNE if c == "AUTOTUNE" else c
            ),
            threads=True,
            spec=True,
        )
add(
    "parallel, deterministic=True",
    lambda L: L.Dataset.range(10).batch(3, num_parallel_calls=2, deterministic=True),
    threads=True,
)
add(
    "after parallel map",
    lambda L: L.Dataset.range(10).map(lambda x: x + 1, num_parallel_calls=2).batch(4),
    threads=True,
)
add("twice", lambda L: L.Dataset.range(5).batch(2), passes=2)
add("a NumPy integer as size", lambda L: L.Dataset.range(4).batch(np.int64(2)), spec=True)
add("zip of batches", lambda L: L.Dataset.zip((L.Dataset.range(5).batch(2), L.Dataset.range(5).batch(3))), spec=True)
