"""padded_batch: shapes, values, structures."""

import numpy as np

from .program import Family

FAMILY = Family("padded_batch")
add = FAMILY.add


def rows(L, n=6):
    """Vectors of lengths 0, 1, 2, 0, 1, 2 …"""
    return L.Dataset.range(n).map(lambda x: L.fill(x % 3, x))


def grids(L, n=4):
    return L.Dataset.range(n).map(lambda x: L.fill2(x % 2 + 1, x % 3, L.cast(x, np.float32)))


for size in (1, 2, 4, 9):
    for drop in (False, True):
        add(f"size {size}, drop_remainder={drop}", lambda L, s=size, d=drop: rows(L).padded_batch(s, drop_remainder=d))
        add(
            f"scalars, size {size}, drop_remainder={drop}",
            lambda L, s=size, d=drop: L.Dataset.range(5).padded_batch(s, drop_remainder=d),
            spec=True,
        )
for shape in ([None], [2], [5], (3,), [-1]):
    add(f"padded_shapes {shape}", lambda L, s=shape: rows(L).padded_batch(2, padded_shapes=s))
for shape in ([None, None], [2, None], [None, 4], [3, 2]):
    add(f"two axes, padded_shapes {shape}", lambda L, s=shape: grids(L).padded_batch(3, padded_shapes=s))
add("two axes, default", lambda L: grids(L).padded_batch(3))
for value in (np.int64(0), np.int64(-1), np.int64(2**40)):
    add(f"padding_values {value}", lambda L, v=value: rows(L).padded_batch(2, padded_shapes=[None], padding_values=v))
add("padding_values alone", lambda L: rows(L).padded_batch(3, padding_values=np.int64(9)))
for dtype, value in (
    (np.float32, np.float32(-1.5)),
    (np.uint8, np.uint8(255)),
    (np.float16, np.float16(0.5)),
    (np.bool_, np.bool_(True)),
):
    add(
        f"{np.dtype(dtype)} padded with {value}",
        lambda L, d=dtype, v=value: (
            rows(L).map(lambda x: L.cast(x, d)).padded_batch(2, padded_shapes=[4], padding_values=v)
        ),
    )
    add(
        f"{np.dtype(dtype)} padded by default",
        lambda L, d=dtype: rows(L).map(lambda x: L.cast(x, d)).padded_batch(2, padded_shapes=[4]),
    )
add("bytes padded by default", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, b"ab")).padded_batch(2))
add(
    "bytes padded with a value",
    lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, b"ab")).padded_batch(3, padding_values=b"<pad>"),
)
add(
    "static shapes padded further",
    lambda L: L.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2)).padded_batch(2, padded_shapes=[4]),
    spec=True,
)
add(
    "static shapes, default",
    lambda L: L.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2)).padded_batch(2),
    spec=True,
)
add(
    "static shapes, drop_remainder",
    lambda L: L.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2)).padded_batch(2, drop_remainder=True),
    spec=True,
)
add("tuple", lambda L: L.Dataset.range(5).map(lambda x: (L.fill(x, x), x)).padded_batch(2))
add(
    "tuple, shapes",
    lambda L: L.Dataset.range(5).map(lambda x: (L.fill(x, x), x)).padded_batch(2, padded_shapes=([6], [])),
)
add(
    "tuple, shapes and values",
    lambda L: (
        L.Dataset.range(5)
        .map(lambda x: (L.fill(x, x), L.fill(x, L.cast(x, np.float32))))
        .padded_batch(2, padded_shapes=([None], [7]), padding_values=(np.int64(-1), np.float32(0.5)))
    ),
)
add(
    "one value for all of one dtype",
    lambda L: (
        L.Dataset.range(5).map(lambda x: (L.fill(x, x), L.fill(x + 1, x))).padded_batch(2, padding_values=np.int64(-7))
    ),
)
add(
    "None in padding_values is the default",
    lambda L: (
        L.Dataset.range(4)
        .map(lambda x: (L.fill(x, x), L.fill(x, L.cast(x, np.float32))))
        .padded_batch(2, padding_values=(None, np.float32(2)))
    ),
)
add("dict", lambda L: L.Dataset.range(5).map(lambda x: {"a": L.fill(x, x), "b": x}).padded_batch(3))
add(
    "dict, shapes and values",
    lambda L: (
        L.Dataset.range(5)
        .map(lambda x: {"a": L.fill(x, x), "b": x})
        .padded_batch(3, padded_shapes={"a": [5], "b": []}, padding_values={"a": np.int64(1), "b": np.int64(0)})
    ),
)
add(
    "nested",
    lambda L: (
        L.Dataset.range(4)
        .map(lambda x: ({"a": L.fill(x, x)}, (x, L.fill2(x, 2, b"z"))))
        .padded_batch(2, padded_shapes=({"a": [None]}, ([], [None, 3])))
    ),
)
add(
    "too small for one row",
    lambda L: (
        L.Dataset.from_tensor_slices(np.array([1, 3, 1, 1, 2]))
        .map(lambda n: L.fill(n, n))
        .padded_batch(2, padded_shapes=[2])
    ),
)
add("no rows", lambda L: L.Dataset.range(0).map(lambda x: L.fill(x, x)).padded_batch(2))
add("repeat, padded_batch", lambda L: rows(L, 4).repeat(2).padded_batch(3))
add("endless, take", lambda L: rows(L, 4).repeat().padded_batch(3).take(4))
add("twice", lambda L: rows(L).padded_batch(4), passes=2)
add(
    "filter, padded_batch, map",
    lambda L: rows(L, 8).filter(lambda r: L.length(r) > 0).padded_batch(3).map(lambda b: b + 1),
)
