"""repeat, take, skip, take_while, shard, enumerate: which elements, and how often."""

import numpy as np

from .data import Point, matrix
from .program import Family

FAMILY = Family("repeat/take/skip")
add = FAMILY.add

for count in (0, 1, 2, 3):
    add(f"repeat({count})", lambda L, c=count: L.Dataset.range(3).repeat(c), spec=True)
for count in (None, -1, -5):
    add(f"repeat({count})", lambda L, c=count: L.Dataset.range(3).repeat(c), spec=True, max_items=8)
    add(f"repeat({count}), take", lambda L, c=count: L.Dataset.range(3).repeat(c).take(7), spec=True)
    add(f"no rows, repeat({count})", lambda L, c=count: L.Dataset.range(0).repeat(c), spec=True)
add("repeat()", lambda L: L.Dataset.range(3).repeat(), spec=True, max_items=8)
add("repeat(2).repeat(3)", lambda L: L.Dataset.range(2).repeat(2).repeat(3), spec=True)
add("repeat().repeat(2)", lambda L: L.Dataset.range(2).repeat().repeat(2), max_items=6)
add("repeat(0).repeat()", lambda L: L.Dataset.range(2).repeat(0).repeat())
add("take, repeat", lambda L: L.Dataset.range(9).take(2).repeat(3), spec=True)
add("filter all out, repeat(3)", lambda L: L.Dataset.range(3).filter(lambda x: x > 5).repeat(3))
add("filter all out, repeat()", lambda L: L.Dataset.range(3).filter(lambda x: x > 5).repeat())
add("map, repeat", lambda L: L.Dataset.range(3).map(lambda x: x + 1).repeat(2))
add("NumPy integer", lambda L: L.Dataset.range(3).repeat(np.int64(2)).take(np.int64(5)).skip(np.int64(1)), spec=True)

for count in (-5, -1, 0, 1, 4, 5, 6, 1_000_000):
    add(f"take({count})", lambda L, c=count: L.Dataset.range(5).take(c), spec=True)
    add(f"skip({count})", lambda L, c=count: L.Dataset.range(5).skip(c), spec=True)
    add(f"map, take({count})", lambda L, c=count: L.Dataset.range(5).map(lambda x: x * 2).take(c))
    add(f"filter, skip({count})", lambda L, c=count: L.Dataset.range(5).filter(lambda x: x != 1).skip(c))
    add(
        f"rows, take({count}), batch",
        lambda L, c=count: L.Dataset.from_tensor_slices(matrix(5, 2)).take(c).batch(2),
        spec=True,
    )
for first, second in ((3, 2), (2, 3), (0, 2), (-1, 2), (2, -1), (9, 9)):
    add(f"take({first}).take({second})", lambda L, a=first, b=second: L.Dataset.range(5).take(a).take(b), spec=True)
    add(f"skip({first}).skip({second})", lambda L, a=first, b=second: L.Dataset.range(5).skip(a).skip(b), spec=True)
    add(f"take({first}).skip({second})", lambda L, a=first, b=second: L.Dataset.range(5).take(a).skip(b), spec=True)
    add(f"skip({first}).take({second})", lambda L, a=first, b=second: L.Dataset.range(5).skip(a).take(b), spec=True)
add("endless, skip, take", lambda L: L.Dataset.range(3).repeat().skip(5).take(4), spec=True)
add("endless, skip(-1)", lambda L: L.Dataset.range(3).repeat().skip(-1), spec=True)
add("endless, take(-1)", lambda L: L.Dataset.range(3).repeat().take(-1), spec=True, max_items=7)
add("skip, repeat", lambda L: L.Dataset.range(4).skip(2).repeat(2), spec=True)
add("batch, skip, take", lambda L: L.Dataset.range(20).batch(3).skip(2).take(3), spec=True)
add("unbatch, skip", lambda L: L.Dataset.range(9).batch(4).unbatch().skip(3), spec=True)
add(
    "structures, skip, take",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(6), {"m": matrix(6, 1)})).skip(1).take(3),
    spec=True,
)
add("take, twice", lambda L: L.Dataset.range(5).take(2), passes=2)

for limit in (0, 3, 99):
    add(f"take_while < {limit}", lambda L, n=limit: L.Dataset.range(6).take_while(lambda x: x < n), spec=True)
add("take_while stops at the first False", lambda L: L.Dataset.range(9).take_while(lambda x: x % 4 != 3), spec=True)
add(
    "take_while on tuples",
    lambda L: L.Dataset.from_tensor_slices((np.arange(5), np.arange(5) * 2)).take_while(lambda a, b: a + b < 7),
    spec=True,
)
add(
    "take_while on a dict",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(5)}).take_while(lambda d: d["a"] < 2),
    spec=True,
)
add("take_while, endless", lambda L: L.Dataset.counter().take_while(lambda x: x < 4), spec=True)
add("take_while, repeat", lambda L: L.Dataset.range(9).take_while(lambda x: x < 3).repeat(2), spec=True)
add("take_while, batch", lambda L: L.Dataset.range(9).take_while(lambda x: x < 5).batch(2), spec=True)
add("take_while, no rows", lambda L: L.Dataset.range(0).take_while(lambda x: x < 5), spec=True)
add("take_while, twice", lambda L: L.Dataset.range(9).take_while(lambda x: x < 3), passes=2)

for num_shards in (1, 2, 3, 7, 12):
    for index in sorted({0, num_shards // 2, num_shards - 1}):
        add(
            f"shard({num_shards}, {index})", lambda L, n=num_shards, i=index: L.Dataset.range(10).shard(n, i), spec=True
        )
        add(
            f"filter, shard({num_shards}, {index})",
            lambda L, n=num_shards, i=index: L.Dataset.range(14).filter(lambda x: x % 4 != 2).shard(n, i),
            spec=True,
        )
add("shard of a shard", lambda L: L.Dataset.range(30).shard(3, 1).shard(2, 1), spec=True)
add("shard, repeat", lambda L: L.Dataset.range(5).shard(2, 0).repeat(2), spec=True)
add("repeat, shard", lambda L: L.Dataset.range(5).repeat(3).shard(2, 1), spec=True)
add("endless, shard, take", lambda L: L.Dataset.range(5).repeat().shard(3, 2).take(6), spec=True)
add("shard, batch", lambda L: L.Dataset.from_tensor_slices(matrix(9, 2)).shard(2, 1).batch(3), spec=True)
add("skip, shard, take", lambda L: L.Dataset.range(30).skip(4).shard(3, 1).take(5), spec=True)
add("shard, no rows", lambda L: L.Dataset.range(0).shard(2, 1), spec=True)

for start in (0, 5, -2, 2**40):
    add(f"enumerate({start})", lambda L, s=start: L.Dataset.range(3).enumerate(s), spec=True)
add("enumerate()", lambda L: L.Dataset.from_tensor_slices([b"a", b"b"]).enumerate(), spec=True)
add("enumerate tuples", lambda L: L.Dataset.from_tensor_slices((np.arange(3), matrix(3, 2))).enumerate(), spec=True)
add("enumerate dicts", lambda L: L.Dataset.from_tensor_slices({"a": np.arange(3)}).enumerate(1), spec=True)
add("enumerate, map", lambda L: L.Dataset.range(10, 13).enumerate().map(lambda i, x: i * x))
add("enumerate, batch", lambda L: L.Dataset.range(5).enumerate().batch(2), spec=True)
add("enumerate, repeat", lambda L: L.Dataset.range(2).enumerate().repeat(2), spec=True)
add("repeat, enumerate", lambda L: L.Dataset.range(2).repeat(2).enumerate(), spec=True)
add("enumerate, filter", lambda L: L.Dataset.range(6).enumerate(100).filter(lambda i, x: i % 2 == 1), spec=True)
add("enumerate, skip, shard", lambda L: L.Dataset.range(20, 40).enumerate().skip(3).shard(2, 1), spec=True)
add("enumerate, endless, take", lambda L: L.Dataset.range(2).repeat().enumerate().take(5), spec=True)
add("enumerate, no rows", lambda L: L.Dataset.range(0).enumerate(), spec=True)
add("enumerate, twice", lambda L: L.Dataset.range(2).enumerate(), passes=2)
