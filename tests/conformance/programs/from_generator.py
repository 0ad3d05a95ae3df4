"""from_generator with output_signature: dtypes and shapes come from the signature."""

import numpy as np

from .data import Point
from .program import Family

FAMILY = Family("from_generator")
add = FAMILY.add


def numbers():
    yield from (np.int64(i) for i in range(5))


def vectors():
    for n in (1, 3, 0, 2):
        yield np.full(n, n, np.float32)


def pairs():
    for i in range(4):
        yield np.int64(i), np.full(2, i, np.float32)


def records():
    for i in range(3):
        yield {"a": np.int32(i), "b": b"v%d" % i}


def points():
    for i in range(3):
        yield Point(np.int64(i), np.float32(i))


def nothing():
    return iter(())


def up_to(n):
    yield from (np.int64(i) for i in range(n))


def raises():
    yield np.int64(0)
    yield np.int64(1)
    raise ValueError("the source broke")


def wrong_shape_once():
    yield np.int64(0)
    yield np.array([1, 2], np.int64)
    yield np.int64(2)


def wrong_dtype_once():
    yield np.int64(0)
    yield b"one"
    yield np.int64(2)


def wrong_structure_once():
    yield np.int64(0), np.int64(0)
    yield np.int64(1)
    yield np.int64(2), np.int64(2)


add("scalars", lambda L: L.Dataset.from_generator(numbers, output_signature=L.spec((), np.int64)), spec=True, passes=2)
add(
    "a list as source",
    lambda L: L.Dataset.from_generator(lambda: [np.int64(4), np.int64(2)], output_signature=L.spec((), np.int64)),
    spec=True,
)
add(
    "vectors of unknown length",
    lambda L: L.Dataset.from_generator(vectors, output_signature=L.spec((None,), np.float32)),
    spec=True,
)
add(
    "tuples",
    lambda L: L.Dataset.from_generator(pairs, output_signature=(L.spec((), np.int64), L.spec((2,), np.float32))),
    spec=True,
)
add(
    "dicts",
    lambda L: L.Dataset.from_generator(
        records, output_signature={"a": L.spec((), np.int32), "b": L.spec((), L.string)}
    ),
    spec=True,
)
add(
    "namedtuples",
    lambda L: L.Dataset.from_generator(points, output_signature=Point(L.spec((), np.int64), L.spec((), np.float32))),
    spec=True,
)
add("nothing", lambda L: L.Dataset.from_generator(nothing, output_signature=L.spec((), np.int64)), spec=True)
add(
    "args",
    lambda L: L.Dataset.from_generator(up_to, output_signature=L.spec((), np.int64), args=(np.int64(3),)),
    spec=True,
)
add(
    "Python ints take the signature's dtype",
    lambda L: L.Dataset.from_generator(lambda: iter([1, 2]), output_signature=L.spec((), np.int16)),
)
add(
    "Python floats take the signature's dtype",
    lambda L: L.Dataset.from_generator(lambda: iter([1.5, 2]), output_signature=L.spec((), np.float16)),
)
add(
    "Python lists take the signature's dtype",
    lambda L: L.Dataset.from_generator(lambda: iter([[1, 2], [3]]), output_signature=L.spec((None,), np.uint8)),
)
add("bools", lambda L: L.Dataset.from_generator(lambda: iter([True, False]), output_signature=L.spec((), np.bool_)))
add("text", lambda L: L.Dataset.from_generator(lambda: iter(["a", "é"]), output_signature=L.spec((), L.string)))
add(
    "repeat calls it again",
    lambda L: L.Dataset.from_generator(numbers, output_signature=L.spec((), np.int64)).repeat(2),
)
add(
    "endless, take",
    lambda L: L.Dataset.from_generator(lambda: iter(int, 1), output_signature=L.spec((), np.int64)).take(3),
)
add(
    "batch",
    lambda L: L.Dataset.from_generator(pairs, output_signature=(L.spec((), np.int64), L.spec((2,), np.float32))).batch(
        3
    ),
    spec=True,
)
add("raises", lambda L: L.Dataset.from_generator(raises, output_signature=L.spec((), np.int64)))
add("raises, repeat", lambda L: L.Dataset.from_generator(raises, output_signature=L.spec((), np.int64)).repeat(2))
add("wrong shape once", lambda L: L.Dataset.from_generator(wrong_shape_once, output_signature=L.spec((), np.int64)))
add("wrong dtype once", lambda L: L.Dataset.from_generator(wrong_dtype_once, output_signature=L.spec((), np.int64)))
add(
    "wrong structure once",
    lambda L: L.Dataset.from_generator(
        wrong_structure_once, output_signature=(L.spec((), np.int64), L.spec((), np.int64))
    ),
)
