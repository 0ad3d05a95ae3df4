"""map: how arguments are unpacked, what a result means, parallel calls keep order."""

import numpy as np

from .data import Point, arrays, matrix
from .program import Family

FAMILY = Family("map")
add = FAMILY.add

add("x + 1", lambda L: L.Dataset.range(5).map(lambda x: x + 1))
add("no rows", lambda L: L.Dataset.range(0).map(lambda x: x + 1))
add("two maps", lambda L: L.Dataset.range(5).map(lambda x: x * 3).map(lambda x: x - 1))
for dtype, array in arrays(4).items():
    add(f"identity {dtype}", lambda L, a=array: L.Dataset.from_tensor_slices(a).map(lambda x: x))
for dtype in (np.uint8, np.float16, np.float32, np.int32, np.bool_):
    add(f"cast to {np.dtype(dtype)}", lambda L, d=dtype: L.Dataset.range(4).map(lambda x: L.cast(x, d)))
add(
    "uint8 wraps",
    lambda L: L.Dataset.from_tensor_slices(np.array([[254, 255], [3, 0]], np.uint8)).map(lambda x: x + np.uint8(1)),
)
add("float16 arithmetic", lambda L: L.Dataset.from_tensor_slices(np.array([0.1, 200], np.float16)).map(lambda x: x * x))
add("division of ints", lambda L: L.Dataset.range(4).map(lambda x: x / 4))
add("float32 stays", lambda L: L.Dataset.from_tensor_slices(matrix(3, 2)).map(lambda x: x * 2.5 + 1))
add("bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"bc"]).map(lambda s: L.join(s, b"!")))
add("length of bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"", b"bcd"]).map(L.num_bytes))

add("tuple is unpacked", lambda L: L.Dataset.from_tensor_slices((np.arange(3), matrix(3, 2))).map(lambda a, b: b[0]))
add("one-tuple is unpacked", lambda L: L.Dataset.from_tensor_slices((np.arange(3),)).map(lambda a: a + 1))
add("*args", lambda L: L.Dataset.from_tensor_slices((np.arange(3), np.arange(3) * 2)).map(lambda *a: a[0] + a[1]))
add(
    "inner tuple is not unpacked",
    lambda L: L.Dataset.from_tensor_slices(((np.arange(3), np.arange(3)), np.arange(3))).map(
        lambda p, c: p[0] + p[1] + c
    ),
)
add(
    "dict is one argument",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(3), "b": np.arange(3)}).map(lambda d: d["a"] + d["b"]),
)
add(
    "dict in tuple",
    lambda L: L.Dataset.from_tensor_slices(({"a": np.arange(3)}, np.arange(3))).map(lambda d, x: (x, d)),
)
add(
    "namedtuple is one argument",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(3), np.arange(3))).map(lambda p: p.x + p.y),
)

add("returns a tuple", lambda L: L.Dataset.range(3).map(lambda x: (x, x * x)))
add("returns a one-tuple", lambda L: L.Dataset.range(3).map(lambda x: (x,)))
add("returns a list: a tuple of components", lambda L: L.Dataset.range(3).map(lambda x: [x, x * 2]))
add("returns a list of one", lambda L: L.Dataset.range(3).map(lambda x: [x]))
add("a list in a tuple is an array", lambda L: L.Dataset.range(3).map(lambda x: (x, [x, x])))
add("a list in a dict is an array", lambda L: L.Dataset.range(3).map(lambda x: {"a": [x, x + 1]}))
add("returns a dict", lambda L: L.Dataset.range(3).map(lambda x: {"b": x, "a": L.cast(x, np.float32)}))
add("returns a namedtuple", lambda L: L.Dataset.range(3).map(lambda x: Point(x, -x)))
add("returns nested", lambda L: L.Dataset.range(3).map(lambda x: {"k": (x, {"m": Point(x, x)}), "z": x}))
add("None among the parts", lambda L: L.Dataset.range(3).map(lambda x: (x, None)))
add("returns a constant", lambda L: L.Dataset.range(3).map(lambda x: np.float32(7)))
add("returns bytes", lambda L: L.Dataset.range(2).map(lambda x: b"const"))
add("returns text", lambda L: L.Dataset.range(2).map(lambda x: "é"))
add("returns a bool", lambda L: L.Dataset.range(3).map(lambda x: x > 1))
add("returns an array constant", lambda L: L.Dataset.range(2).map(lambda x: np.arange(3, dtype=np.int16)))
add("lengths differ", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, x)))
add("returns a window's dataset", lambda L: L.Dataset.range(5).window(2).map(lambda w: w.batch(2)))
add(
    "element reordered",
    lambda L: L.Dataset.from_tensor_slices((np.arange(3), np.arange(3) + 5)).map(lambda a, b: (b, a)),
)

for calls in (1, 2, 3, "AUTOTUNE"):
    for deterministic in (None, True):
        add(
            f"parallel {calls}, deterministic={deterministic}",
            lambda L, c=calls, d=deterministic: L.Dataset.range(17).map(
                lambda x: x * x, num_parallel_calls=L.AUTOTUNE if c == "AUTOTUNE" else c, deterministic=d
            ),
            threads=True,
        )
add(
    "parallel, any order",
    lambda L: L.Dataset.range(17).map(lambda x: x * x, num_parallel_calls=3, deterministic=False),
    threads=True,
    exact=False,
    seeded=False,
    ordered=False,
)
add("parallel, no rows", lambda L: L.Dataset.range(0).map(lambda x: x, num_parallel_calls=2), threads=True)
add(
    "parallel, fewer rows than calls",
    lambda L: L.Dataset.range(2).map(lambda x: x + 1, num_parallel_calls=8),
    threads=True,
)
add(
    "parallel, repeat, take",
    lambda L: L.Dataset.range(5).repeat().map(lambda x: x + 1, num_parallel_calls=2).take(12),
    threads=True,
)
add(
    "parallel, tuples",
    lambda L: L.Dataset.from_tensor_slices((np.arange(6), matrix(6, 2))).map(
        lambda a, b: (b + 1, a), num_parallel_calls=2
    ),
    threads=True,
)
add(
    "parallel twice",
    lambda L: L.Dataset.range(6).map(lambda x: x + 1, num_parallel_calls=2).map(lambda x: x * 2, num_parallel_calls=2),
    threads=True,
    passes=2,
)
add("captures an array", lambda L: (lambda table: L.Dataset.range(4).map(lambda x: x + table[0]))(np.array([10, 20])))
add("a dataset in an element", lambda L: L.Dataset.range(3).map(lambda x: L.Dataset.range(x)), cardinality=True)
