"""flat_map."""

import numpy as np

from .data import matrix
from .program import Family

FAMILY = Family("flat_map")
add = FAMILY.add

add("growing", lambda L: L.Dataset.range(5).flat_map(lambda x: L.Dataset.range(x)))
add("slices", lambda L: L.Dataset.from_tensor_slices(matrix(3, 2)).flat_map(lambda r: L.Dataset.from_tensor_slices(r)))
add(
    "slices of tuples",
    lambda L: L.Dataset.from_tensor_slices((matrix(3, 2), np.arange(3))).flat_map(
        lambda r, i: L.Dataset.from_tensor_slices((r, r + 1))
    ),
)
add("all empty", lambda L: L.Dataset.range(3).flat_map(lambda x: L.Dataset.range(0)))
add("no rows", lambda L: L.Dataset.range(0).flat_map(lambda x: L.Dataset.range(3)))
add("some empty", lambda L: L.Dataset.range(6).flat_map(lambda x: L.Dataset.range(x % 3)))
add("from_tensors", lambda L: L.Dataset.range(3).flat_map(lambda x: L.Dataset.from_tensors(x)))
add("repeat inside", lambda L: L.Dataset.range(4).flat_map(lambda x: L.Dataset.from_tensors(x).repeat(x)))
add("endless inside, take", lambda L: L.Dataset.range(3).flat_map(lambda x: L.Dataset.from_tensors(x).repeat()).take(4))
add("endless outside, take", lambda L: L.Dataset.range(3).repeat().flat_map(lambda x: L.Dataset.range(x)).take(8))
add(
    "map and batch inside",
    lambda L: L.Dataset.range(4).flat_map(lambda x: L.Dataset.range(x).map(lambda y: x * 10 + y).batch(2)),
)
add(
    "nested twice",
    lambda L: L.Dataset.range(4).flat_map(lambda x: L.Dataset.range(x).flat_map(lambda y: L.Dataset.range(y + 1))),
)
add("windows flattened", lambda L: L.Dataset.range(7).window(3).flat_map(lambda w: w))
add(
    "windows batched",
    lambda L: L.Dataset.range(7).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3)),
)
add(
    "windows of tuples zipped",
    lambda L: (
        L.Dataset.from_tensor_slices((np.arange(5), matrix(5, 2)))
        .window(2)
        .flat_map(lambda a, b: L.Dataset.zip((a, b)))
    ),
)
add(
    "windows of dicts",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(5)}).window(2).flat_map(lambda d: d["a"].batch(2)),
)
add(
    "a dataset from outside", lambda L: (lambda inner: L.Dataset.range(2).flat_map(lambda x: inner))(L.Dataset.range(3))
)
add("then batch", lambda L: L.Dataset.range(5).flat_map(lambda x: L.Dataset.range(x)).batch(4))
add("then shard", lambda L: L.Dataset.range(5).flat_map(lambda x: L.Dataset.range(x)).shard(2, 1))
add("then skip and take", lambda L: L.Dataset.range(6).flat_map(lambda x: L.Dataset.range(x)).skip(4).take(5))
add(
    "tensor slices of a structure",
    lambda L: L.Dataset.range(3).flat_map(
        lambda x: L.Dataset.from_tensor_slices({"a": L.fill(x, x), "b": L.fill(x, L.cast(x, np.float32))})
    ),
)
add("twice", lambda L: L.Dataset.range(4).flat_map(lambda x: L.Dataset.range(x)), passes=2)
