"""from_tensor_slices: dtypes, shapes, structures, lengths."""

import numpy as np

from .data import arrays, matrix, structures
from .program import Family

FAMILY = Family("from_tensor_slices")
add = FAMILY.add

for dtype, array in arrays(5).items():
    add(dtype, lambda L, a=array: L.Dataset.from_tensor_slices(a), spec=True)
    add(f"{dtype}, no rows", lambda L, a=array: L.Dataset.from_tensor_slices(a[:0]), spec=True)
    add(f"{dtype}, rows of one axis", lambda L, a=array: L.Dataset.from_tensor_slices(np.stack([a, a], 1)), spec=True)
    add(f"{dtype}, batched", lambda L, a=array: L.Dataset.from_tensor_slices(a).batch(2), spec=True)

for name, value in structures(4).items():
    add(name, lambda L, v=value: L.Dataset.from_tensor_slices(v), spec=True)

for shape in ((1,), (3, 2), (3, 2, 2), (3, 0), (0, 3), (2, 1, 0, 2)):
    add(
        f"shape {shape}",
        lambda L, s=shape: L.Dataset.from_tensor_slices(np.arange(np.prod(s), dtype=np.float32).reshape(s)),
        spec=True,
    )

add(
    "a list of arrays is one array", lambda L: L.Dataset.from_tensor_slices([matrix(2, 3), matrix(2, 3) + 1]), spec=True
)
add("a list of bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"", b"ccc"]), spec=True)
add("a list of text", lambda L: L.Dataset.from_tensor_slices(["a", "ü"]), spec=True)
add("a list of bools", lambda L: L.Dataset.from_tensor_slices([True, False]), spec=True)
add(
    "a list inside a tuple",
    lambda L: L.Dataset.from_tensor_slices(([matrix(1, 2), matrix(1, 2)], matrix(2, 1))),
    spec=True,
)
add("a strided view", lambda L: L.Dataset.from_tensor_slices(np.arange(20, dtype=np.int16)[::3]), spec=True)
add("a reversed view", lambda L: L.Dataset.from_tensor_slices(np.arange(5, dtype=np.int16)[::-1]), spec=True)
add("a transposed view", lambda L: L.Dataset.from_tensor_slices(matrix(2, 3).T), spec=True)
add("Fortran order", lambda L: L.Dataset.from_tensor_slices(np.asfortranarray(matrix(3, 2))).batch(2), spec=True)
add("bytes with NUL inside", lambda L: L.Dataset.from_tensor_slices(np.array([b"a\0b", b"\0", b""], dtype=object)))
add("NaN and negative zero", lambda L: L.Dataset.from_tensor_slices(np.array([np.nan, -0.0, np.inf], dtype=np.float32)))
add("twice", lambda L: L.Dataset.from_tensor_slices(np.arange(3)), passes=2)
add("one row", lambda L: L.Dataset.from_tensor_slices(matrix(1, 2)), spec=True)
add("the same array twice", lambda L: (lambda a: L.Dataset.from_tensor_slices((a, a)))(np.arange(3)), spec=True)
add(
    "bytes of two axes",
    lambda L: L.Dataset.from_tensor_slices(np.array([[b"a", b"b"], [b"c", b""]], dtype=object)),
    spec=True,
)
