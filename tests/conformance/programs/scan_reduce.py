"""scan, reduce, unique, get_single_element, apply."""

import numpy as np

from .data import Point, matrix
from .program import Family

FAMILY = Family("scan/reduce")
add = FAMILY.add

add("scan sum", lambda L: L.Dataset.range(5).scan(np.int64(0), lambda s, x: (s + x, s + x)))
add("scan emits the state before", lambda L: L.Dataset.range(5).scan(np.int64(7), lambda s, x: (s * 2, s)))
add(
    "scan, state of a tuple",
    lambda L: L.Dataset.range(6).scan((np.int64(0), np.int64(1)), lambda s, x: ((s[1], s[0] + s[1]), s[0])),
)
add(
    "scan, state of a dict",
    lambda L: L.Dataset.range(4).scan({"n": np.int64(0)}, lambda s, x: ({"n": s["n"] + 1}, s["n"] * x)),
)
add(
    "scan over tuples",
    lambda L: L.Dataset.from_tensor_slices((np.arange(4), np.arange(4) * 2)).scan(
        np.int64(0), lambda s, x: (s + x[0], s + x[1])
    ),
)
add(
    "scan emits a structure",
    lambda L: L.Dataset.range(4).scan(np.int64(0), lambda s, x: (s + 1, {"s": s, "x": (x, x)})),
)
add("scan, vector state", lambda L: L.Dataset.range(3).scan(np.zeros(2, np.float32), lambda s, x: (s + 1, s)))
add(
    "scan, growing state",
    lambda L: L.Dataset.range(4).scan(
        np.zeros((0,), np.int64), lambda s, x: (L.concat([s, L.fill(1, x)]), L.length(s))
    ),
)
add("scan, state changes its shape", lambda L: L.Dataset.range(3).scan(np.int64(0), lambda s, x: (L.fill(2, x), x)))
add("scan, no rows", lambda L: L.Dataset.range(0).scan(np.int64(0), lambda s, x: (s, x)))
add("scan, batch", lambda L: L.Dataset.range(5).scan(np.int64(0), lambda s, x: (s + x, s)).batch(2))
add("scan, repeat starts again", lambda L: L.Dataset.range(3).scan(np.int64(0), lambda s, x: (s + 1, s)).repeat(2))
add("repeat, scan goes on", lambda L: L.Dataset.range(3).repeat(2).scan(np.int64(0), lambda s, x: (s + 1, s)))
add("scan, endless, take", lambda L: L.Dataset.range(3).repeat().scan(np.int64(0), lambda s, x: (s + 1, s)).take(5))
add("scan, twice", lambda L: L.Dataset.range(3).scan(np.int64(0), lambda s, x: (s + 1, s)), passes=2)
add("skip after scan", lambda L: L.Dataset.range(6).scan(np.int64(0), lambda s, x: (s + x, s + x)).skip(2))

for name, build in {
    "reduce sum": lambda L: L.Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x),
    "reduce count": lambda L: L.Dataset.range(5).filter(lambda x: x > 1).reduce(np.int64(0), lambda s, _: s + 1),
    "reduce, no rows": lambda L: L.Dataset.range(0).reduce(np.int64(9), lambda s, x: s + x),
    "reduce, state of a tuple": lambda L: L.Dataset.range(5).reduce(
        (np.int64(0), np.int64(1)), lambda s, x: (s[0] + x, s[1] + 1)
    ),
    "reduce, state of a dict": lambda L: L.Dataset.range(5).reduce({"n": np.int64(0)}, lambda s, x: {"n": s["n"] + x}),
    "reduce over tuples": lambda L: L.Dataset.from_tensor_slices((np.arange(4), np.arange(4))).reduce(
        np.int64(0), lambda s, x: s + x[0] * x[1]
    ),
    "reduce float32": lambda L: L.Dataset.from_tensor_slices(matrix(3, 2)).reduce(
        np.zeros(2, np.float32), lambda s, x: s + x
    ),
    "reduce, growing state": lambda L: L.Dataset.range(4).reduce(
        np.zeros((0,), np.int64), lambda s, x: L.concat([s, L.fill(1, x)])
    ),
    "reduce, state changes its shape": lambda L: L.Dataset.range(3).reduce(np.int64(0), lambda s, x: L.fill(2, x)),
    "reduce bytes": lambda L: L.Dataset.from_tensor_slices([b"a", b"b"]).reduce(b"", lambda s, x: L.join(s, x)),
    "get_single_element": lambda L: L.Dataset.from_tensors((np.int64(1), b"x")).get_single_element(),
    "get_single_element of a batch": lambda L: L.Dataset.range(5).batch(9).get_single_element(),
    "get_single_element of a dict": lambda L: L.Dataset.from_tensors(
        {"a": Point(np.int32(1), np.float16(2))}
    ).get_single_element(),
    "get_single_element after filter": lambda L: L.Dataset.range(5).filter(lambda x: x == 3).get_single_element(),
}.items():
    add(name, build, value=True)

for dtype in (np.int32, np.int64):
    add(
        f"unique {np.dtype(dtype)}",
        lambda L, d=dtype: L.Dataset.from_tensor_slices(np.array([3, 1, 3, 2, 1, 3, 9], d)).unique(),
        spec=True,
    )
add("unique bytes", lambda L: L.Dataset.from_tensor_slices([b"b", b"a", b"b", b"", b""]).unique(), spec=True)
add("unique, all the same", lambda L: L.Dataset.from_tensors(np.int64(4)).repeat(5).unique(), spec=True)
add("unique, no rows", lambda L: L.Dataset.range(0).unique(), spec=True)
add(
    "unique, repeat starts again",
    lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 2])).unique().repeat(2),
    spec=True,
)
add("repeat, unique", lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 2])).repeat(2).unique(), spec=True)
add("endless, unique, take", lambda L: L.Dataset.range(3).repeat().unique().take(3), spec=True)
add("map, unique, batch", lambda L: L.Dataset.range(9).map(lambda x: x % 4).unique().batch(3))
add("unique, twice", lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 2])).unique(), passes=2)

add("apply", lambda L: L.Dataset.range(5).apply(lambda d: d.skip(1).batch(2)), spec=True)
add("apply, two datasets in one", lambda L: L.Dataset.range(3).apply(lambda d: d.concatenate(d)), spec=True)
