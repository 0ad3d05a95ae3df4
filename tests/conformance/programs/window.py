"""window: the grid of size, shift, stride and drop_remainder; structures become structures of datasets."""

import numpy as np

from .data import matrix, structures
from .program import Family

FAMILY = Family("window")
add = FAMILY.add

for size in (1, 2, 3, 9):
    for shift in (None, 1, 2, 4):
        for stride in (1, 2, 3):
            for drop in (False, True):
                add(
                    f"window({size}, shift={shift}, stride={stride}, drop_remainder={drop})",
                    lambda L, s=size, h=shift, t=stride, d=drop: L.Dataset.range(7).window(
                        s, shift=h, stride=t, drop_remainder=d
                    ),
                    spec=True,
                )
for name, value in structures(5).items():
    add(name, lambda L, v=value: L.Dataset.from_tensor_slices(v).window(2))
    add(
        f"{name}, overlapping",
        lambda L, v=value: L.Dataset.from_tensor_slices(v).window(3, shift=2, drop_remainder=True),
    )
for drop in (False, True):
    add(f"no rows, drop_remainder={drop}", lambda L, d=drop: L.Dataset.range(0).window(2, drop_remainder=d))
    add(
        f"fewer rows than size, drop_remainder={drop}", lambda L, d=drop: L.Dataset.range(2).window(5, drop_remainder=d)
    )
add("rows", lambda L: L.Dataset.from_tensor_slices(matrix(5, 2)).window(2))
add("batches", lambda L: L.Dataset.range(9).batch(2).window(2))
add("windows of windows", lambda L: L.Dataset.range(7).window(2).window(2))
add("reduce each", lambda L: L.Dataset.range(7).window(3).map(lambda w: w.reduce(np.int64(0), lambda s, x: s + x)))
add("cardinality of each", lambda L: L.Dataset.range(7).window(3).map(lambda w: w.cardinality()))
add("flatten and back", lambda L: L.Dataset.range(7).window(3).flat_map(lambda w: w).batch(3))
add(
    "sequences",
    lambda L: (
        L.Dataset.range(8)
        .window(4, shift=1, drop_remainder=True)
        .flat_map(lambda w: w.batch(4))
        .map(lambda s: (s[:-1], s[-1]))
    ),
)
add(
    "pairs zipped",
    lambda L: (
        L.Dataset.from_tensor_slices((np.arange(6), matrix(6, 2)))
        .window(3)
        .flat_map(lambda a, b: L.Dataset.zip((a.batch(3), b.batch(3))))
    ),
)
add("after filter", lambda L: L.Dataset.range(12).filter(lambda x: x % 3 != 0).window(3, shift=2))
add("repeat, window", lambda L: L.Dataset.range(3).repeat(2).window(4))
add("endless, window, take", lambda L: L.Dataset.range(3).repeat().window(2, shift=1).take(4))
add("window, take, skip", lambda L: L.Dataset.range(20).window(2).skip(3).take(2))
add("window, map inside", lambda L: L.Dataset.range(5).window(2).map(lambda w: w.map(lambda x: x * 10)))
add("window, filter inside", lambda L: L.Dataset.range(6).window(3).map(lambda w: w.filter(lambda x: x % 2 == 0)))
add("zip with windows", lambda L: L.Dataset.zip((L.Dataset.range(5).window(2), L.Dataset.range(5))))
add("unequal shapes", lambda L: L.Dataset.range(5).map(lambda x: L.fill(x, x)).window(2))
add("twice", lambda L: L.Dataset.range(5).window(2), passes=2)
