"""filter."""

import numpy as np

from .data import Point, matrix
from .program import Family

FAMILY = Family("filter")
add = FAMILY.add

add("even", lambda L: L.Dataset.range(9).filter(lambda x: x % 2 == 0), spec=True)
add("all", lambda L: L.Dataset.range(4).filter(lambda x: x >= 0), spec=True)
add("none", lambda L: L.Dataset.range(4).filter(lambda x: x < 0), spec=True)
add("no rows", lambda L: L.Dataset.range(0).filter(lambda x: x < 0), spec=True)
add("constant True", lambda L: L.Dataset.range(3).filter(lambda x: True))
add("constant np.bool_", lambda L: L.Dataset.range(3).filter(lambda x: np.bool_(False)))
add(
    "tuple is unpacked",
    lambda L: L.Dataset.from_tensor_slices((np.arange(5), matrix(5, 2))).filter(lambda a, b: b[0] > 3),
    spec=True,
)
add("dict", lambda L: L.Dataset.from_tensor_slices({"a": np.arange(5)}).filter(lambda d: d["a"] != 2), spec=True)
add(
    "namedtuple",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(5), np.arange(5) % 2)).filter(lambda p: p.y == 1),
    spec=True,
)
add("bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"b", b"a"]).filter(lambda s: s == b"a"), spec=True)
add("on a bool", lambda L: L.Dataset.from_tensor_slices([True, False, True]).filter(lambda b: b))
add("two filters", lambda L: L.Dataset.range(30).filter(lambda x: x % 2 == 0).filter(lambda x: x % 3 == 0))
add("filter, batch", lambda L: L.Dataset.range(10).filter(lambda x: x % 3 != 0).batch(4), spec=True)
add("batch, filter", lambda L: L.Dataset.range(10).batch(4).filter(lambda b: L.sum(b) > 10), spec=True)
add("filter, take", lambda L: L.Dataset.range(100).filter(lambda x: x % 7 == 0).take(3), spec=True)
add("filter, repeat, take", lambda L: L.Dataset.range(5).filter(lambda x: x > 2).repeat().take(5), spec=True)
add("filter, shard", lambda L: L.Dataset.range(20).filter(lambda x: x % 2 == 1).shard(3, 1), spec=True)
add("filter, enumerate", lambda L: L.Dataset.range(9).filter(lambda x: x % 2 == 1).enumerate(), spec=True)
add("map, filter", lambda L: L.Dataset.range(9).map(lambda x: (x, x % 3)).filter(lambda x, m: m == 0))
add("twice", lambda L: L.Dataset.range(6).filter(lambda x: x > 3), passes=2)
