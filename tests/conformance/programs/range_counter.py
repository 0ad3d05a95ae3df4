"""range and counter."""

import numpy as np

from .program import Family

FAMILY = Family("range")
add = FAMILY.add

for args in (
    (5,),
    (0,),
    (-3,),
    (2, 7),
    (7, 2),
    (3, 3),
    (0, 10, 3),
    (1, 11, 5),
    (10, 0, -3),
    (0, 10, -1),
    (-5, 6, 4),
    (5, -6, -5),
):
    add(f"range{args}", lambda L, a=args: L.Dataset.range(*a), spec=True)
for dtype in (np.int32, np.int64, np.uint8, np.int16, np.float32, np.float64, np.float16):
    add(f"output_type {np.dtype(dtype)}", lambda L, d=dtype: L.Dataset.range(2, 9, 3, output_type=d), spec=True)
    add(
        f"output_type {np.dtype(dtype)}, batched",
        lambda L, d=dtype: L.Dataset.range(7, output_type=d).batch(3),
        spec=True,
    )
add("far from zero", lambda L: L.Dataset.range(2**62, 2**62 + 3), spec=True)
add("as long as can be", lambda L: L.Dataset.range(2**63 - 1).take(2), spec=True)
add("twice", lambda L: L.Dataset.range(3), passes=2)
for name, kwargs in {
    "default": {},
    "start": {"start": 7},
    "step": {"start": 5, "step": -2},
    "step zero": {"step": 0},
    "dtype": {"dtype": np.int32},
}.items():
    add(f"counter {name}", lambda L, k=kwargs: L.Dataset.counter(**k), max_items=6, spec=True)
add("counter, take, batch", lambda L: L.Dataset.counter(10, 10).take(5).batch(2), spec=True)
