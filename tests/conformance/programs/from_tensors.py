"""from_tensors: one element, whole."""

import numpy as np

from .data import arrays, matrix, structures
from .program import Family

FAMILY = Family("from_tensors")
add = FAMILY.add

for dtype, array in arrays(3).items():
    add(dtype, lambda L, a=array: L.Dataset.from_tensors(a), spec=True)
    if dtype != "fixed_bytes" and dtype != "text":
        add(f"{dtype} scalar", lambda L, a=array: L.Dataset.from_tensors(a[1]), spec=True)
for name, value in structures(2).items():
    add(name, lambda L, v=value: L.Dataset.from_tensors(v), spec=True)
add("empty array", lambda L: L.Dataset.from_tensors(np.zeros((0, 2), np.float16)), spec=True)
add("one bytes", lambda L: L.Dataset.from_tensors(b"abc"), spec=True)
add("one text", lambda L: L.Dataset.from_tensors("aé"), spec=True)
add("one bool", lambda L: L.Dataset.from_tensors(True), spec=True)
add("a list is an array", lambda L: L.Dataset.from_tensors([np.float32(1), np.float32(2)]), spec=True)
add("repeat, batch", lambda L: L.Dataset.from_tensors((np.int64(3), matrix(2, 2))).repeat(3).batch(2), spec=True)
add("twice", lambda L: L.Dataset.from_tensors(np.int32(7)), passes=2)
