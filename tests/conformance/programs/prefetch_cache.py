"""prefetch, cache, ignore_errors: same elements, other time."""

import numpy as np

from .data import structures
from .program import Family

FAMILY = Family("prefetch/cache")
add = FAMILY.add

for size in (0, 1, 2, 10, -1):
    add(f"prefetch({size})", lambda L, s=size: L.Dataset.range(7).prefetch(s), threads=True, spec=True)
add("prefetch(AUTOTUNE)", lambda L: L.Dataset.range(7).prefetch(L.AUTOTUNE), threads=True, spec=True)
add("prefetch(None)", lambda L: L.Dataset.range(7).prefetch(None), threads=True, spec=True)
add("prefetch, no rows", lambda L: L.Dataset.range(0).prefetch(2), threads=True, spec=True)
add("prefetch, endless, take", lambda L: L.Dataset.range(3).repeat().prefetch(2).take(7), threads=True, spec=True)
add(
    "prefetch in the middle",
    lambda L: L.Dataset.range(9).map(lambda x: x + 1).prefetch(2).batch(2).prefetch(1),
    threads=True,
)
add("prefetch, twice", lambda L: L.Dataset.range(4).prefetch(2), threads=True, passes=2)
add(
    "parallel map, prefetch",
    lambda L: L.Dataset.range(9).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2),
    threads=True,
)
add("prefetch, skip, shard", lambda L: L.Dataset.range(20).prefetch(3).skip(3).shard(4, 1), threads=True, spec=True)
for name, value in structures(3).items():
    add(f"prefetch {name}", lambda L, v=value: L.Dataset.from_tensor_slices(v).prefetch(2), threads=True, spec=True)
    add(f"cache {name}", lambda L, v=value: L.Dataset.from_tensor_slices(v).cache(), passes=2, spec=True)

add("cache", lambda L: L.Dataset.range(5).cache(), passes=3, spec=True)
add("cache, no rows", lambda L: L.Dataset.range(0).cache(), passes=2, spec=True)
add("cache, repeat", lambda L: L.Dataset.range(4).cache().repeat(3), passes=2, spec=True)
add("cache, take less", lambda L: L.Dataset.range(6).cache().take(3), passes=2, spec=True)
add("cache, take less, repeat", lambda L: L.Dataset.range(6).cache().take(3).repeat(2), spec=True)
add("cache, skip", lambda L: L.Dataset.range(6).cache().skip(4), passes=2, spec=True)
add("map, cache, map", lambda L: L.Dataset.range(4).map(lambda x: x * 2).cache().map(lambda x: x + 1), passes=2)
add("cache, batch", lambda L: L.Dataset.range(5).cache().batch(2), passes=2, spec=True)
add("batch, cache, unbatch", lambda L: L.Dataset.range(5).batch(2).cache().unbatch(), passes=2, spec=True)
add("cache of endless, take", lambda L: L.Dataset.range(3).repeat().cache().take(5), passes=2, spec=True)
add("cache of filter", lambda L: L.Dataset.range(9).filter(lambda x: x % 2 == 1).cache(), passes=2, spec=True)
add("cache of unequal shapes", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, x)).cache(), passes=2)
add("cache, used twice", lambda L: (lambda d: d.concatenate(d))(L.Dataset.range(3).cache()), spec=True)
add("cache, zipped with itself", lambda L: (lambda d: L.Dataset.zip((d, d)))(L.Dataset.range(3).cache()), spec=True)
add("cache twice", lambda L: L.Dataset.range(3).cache().map(lambda x: x + 1).cache(), passes=2)
add("cache, prefetch", lambda L: L.Dataset.range(5).cache().prefetch(2), threads=True, passes=2, spec=True)
add("cache of bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"bb"]).cache().repeat(2), spec=True)

add("ignore_errors, no error", lambda L: L.Dataset.range(4).ignore_errors(), spec=True)
add("ignore_errors of map", lambda L: L.Dataset.range(6).map(lambda x: L.fail_on(x, 2, 3)).ignore_errors())
add("ignore_errors at the ends", lambda L: L.Dataset.range(6).map(lambda x: L.fail_on(x, 0, 5)).ignore_errors())
add("ignore_errors of all", lambda L: L.Dataset.range(3).map(lambda x: L.fail_on(x, 0, 1, 2)).ignore_errors())
add("ignore_errors, batch", lambda L: L.Dataset.range(9).map(lambda x: L.fail_on(x, 4)).ignore_errors().batch(3))
add(
    "ignore_errors of parallel map",
    lambda L: L.Dataset.range(9).map(lambda x: L.fail_on(x, 4, 5), num_parallel_calls=2).ignore_errors(),
    threads=True,
)
add("ignore_errors, repeat", lambda L: L.Dataset.range(4).map(lambda x: L.fail_on(x, 1)).ignore_errors().repeat(2))
add("ignore_errors, take", lambda L: L.Dataset.range(9).map(lambda x: L.fail_on(x, 1)).ignore_errors().take(3))
add("ignore_errors, skip", lambda L: L.Dataset.range(9).map(lambda x: L.fail_on(x, 1)).ignore_errors().skip(3))
add("ignore_errors, shard", lambda L: L.Dataset.range(12).map(lambda x: L.fail_on(x, 1, 6)).ignore_errors().shard(3, 1))
add("ignore_errors, enumerate", lambda L: L.Dataset.range(5).map(lambda x: L.fail_on(x, 1)).ignore_errors().enumerate())
add("ignore_errors, window", lambda L: L.Dataset.range(7).map(lambda x: L.fail_on(x, 1)).ignore_errors().window(2))
add(
    "ignore_errors, log_warning",
    lambda L: L.Dataset.range(4).map(lambda x: L.fail_on(x, 1)).ignore_errors(log_warning=False),
)
add(
    "ignore_errors of bad shapes",
    lambda L: (
        L.Dataset.from_tensor_slices(np.array([1, 1, 2, 1, 1, 1])).map(lambda n: L.fill(n, n)).batch(2).ignore_errors()
    ),
)
