"""ragged_batch and sparse_batch."""

import numpy as np

from .data import Point, matrix
from .program import Family

FAMILY = Family("ragged/sparse batch")
add = FAMILY.add


def rows(L, n=6):
    return L.Dataset.range(n).map(lambda x: L.fill(x % 3, x))


for size in (1, 2, 4, 9):
    for drop in (False, True):
        add(
            f"ragged {size}, drop_remainder={drop}", lambda L, s=size, d=drop: rows(L).ragged_batch(s, drop_remainder=d)
        )
add("ragged scalars are dense", lambda L: L.Dataset.range(5).ragged_batch(2))
add("ragged float rows", lambda L: rows(L).map(lambda r: L.cast(r, np.float32)).ragged_batch(3))
add("ragged bytes", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, b"s")).ragged_batch(2))
add("ragged tuple", lambda L: L.Dataset.range(4).map(lambda x: (x, L.fill(x, x))).ragged_batch(3))
add(
    "ragged dict",
    lambda L: L.Dataset.range(4).map(lambda x: {"a": L.fill(x, x), "b": L.cast(x, np.float32)}).ragged_batch(3),
)
add(
    "ragged namedtuple",
    lambda L: L.Dataset.range(4).map(lambda x: Point(L.fill(x, x), L.fill(3 - x, x))).ragged_batch(3),
)
add("ragged of two axes", lambda L: L.Dataset.range(4).map(lambda x: L.fill2(x, x % 2 + 1, x)).ragged_batch(3))
add("ragged, static shapes are dense", lambda L: L.Dataset.from_tensor_slices(matrix(5, 2)).ragged_batch(2))
add("ragged, all rows empty", lambda L: L.Dataset.range(3).map(lambda x: L.fill(x * 0, x)).ragged_batch(2))
add("ragged, no rows", lambda L: rows(L, 0).ragged_batch(2))
add("ragged, int32 splits", lambda L: rows(L).ragged_batch(2, row_splits_dtype=np.int32))
add("ragged, repeat, take", lambda L: rows(L, 4).repeat().ragged_batch(3).take(3))

for size in (1, 2, 4, 9):
    add(f"sparse {size}", lambda L, s=size: rows(L).sparse_batch(s, [3]))
add("sparse, None axis", lambda L: rows(L).sparse_batch(4, [None]))
add("sparse of two axes", lambda L: L.Dataset.range(4).map(lambda x: L.fill2(x, 2, x)).sparse_batch(3, [4, 2]))
add("sparse of two axes, None", lambda L: L.Dataset.range(4).map(lambda x: L.fill2(x, 2, x)).sparse_batch(3, [None, 3]))
add("sparse floats", lambda L: rows(L).map(lambda r: L.cast(r, np.float32)).sparse_batch(4, [5]))
add("sparse bytes", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, b"s")).sparse_batch(2, [3]))
add("sparse, no rows", lambda L: rows(L, 0).sparse_batch(2, [3]))
add(
    "sparse, a row too long",
    lambda L: (
        L.Dataset.from_tensor_slices(np.array([1, 2, 1, 5, 1, 1])).map(lambda n: L.fill(n, n)).sparse_batch(2, [3])
    ),
)
add("sparse, zeros are kept", lambda L: L.Dataset.from_tensor_slices(np.array([[0, 1], [2, 0]])).sparse_batch(2, [2]))
