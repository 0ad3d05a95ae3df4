"""cache(filename), save, load and snapshot: the same elements, by way of the disk."""

import atexit
import os
import shutil
import tempfile
from typing import Any

import numpy as np

from .data import arrays, structures
from .program import Build, Family

FAMILY = Family("saved")
add = FAMILY.add

_ROOT = tempfile.mkdtemp(prefix="penstock-conformance-")
atexit.register(shutil.rmtree, _ROOT, ignore_errors=True)


def fresh(L: Any) -> str:
    """A name that no other build has."""
    return os.path.join(tempfile.mkdtemp(prefix=L.name, dir=_ROOT), "file")


def fixed(L: Any, name: str) -> str:
    """A directory that is the same each time a program is built, as it is when a training job starts again."""
    return os.path.join(_ROOT, L.name, name.replace("/", " "))


def loaded(name: str, make: Build, load: Build = lambda L: {}, **save: Any) -> Build:
    def build(L: Any) -> Any:
        path = fixed(L, name)
        if not os.path.exists(path):
            make(L).save(path, **save)
        return L.Dataset.load(path, **load(L))

    return build


for name, value in structures(3).items():
    add(
        f"cache(filename) {name}",
        lambda L, v=value: L.Dataset.from_tensor_slices(v).cache(fresh(L)),
        passes=2,
        spec=True,
    )
    name = f"load {name}"
    add(name, loaded(name, lambda L, v=value: L.Dataset.from_tensor_slices(v)), passes=2, spec=True)
for name, value in arrays(4).items():
    name = f"load {name}"
    add(name, loaded(name, lambda L, v=value: L.Dataset.from_tensor_slices(v)), spec=True)

add("cache(filename)", lambda L: L.Dataset.range(5).cache(fresh(L)), passes=3, spec=True)
add("cache(bytes)", lambda L: L.Dataset.range(5).cache(os.fsencode(fresh(L))), passes=2, spec=True)
add("cache(filename), no rows", lambda L: L.Dataset.range(0).cache(fresh(L)), passes=2, spec=True)
add("cache(filename), repeat", lambda L: L.Dataset.range(4).cache(fresh(L)).repeat(3), passes=2, spec=True)
add("cache(filename), take less", lambda L: L.Dataset.range(6).cache(fresh(L)).take(3), passes=2, spec=True)
add("cache(filename), take less, repeat", lambda L: L.Dataset.range(6).cache(fresh(L)).take(3).repeat(2), spec=True)
add("cache(filename), skip", lambda L: L.Dataset.range(6).cache(fresh(L)).skip(4), passes=2, spec=True)
add("cache(filename), batch", lambda L: L.Dataset.range(5).cache(fresh(L)).batch(2), passes=2, spec=True)
add("cache(filename), shuffle", lambda L: L.Dataset.range(9).cache(fresh(L)).shuffle(4, seed=1), passes=2, exact=False)
add("cache(filename), unequal", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, x)).cache(fresh(L)), passes=2)
add(
    "cache(filename) twice", lambda L: L.Dataset.range(3).cache(fresh(L)).map(lambda x: x + 1).cache(fresh(L)), passes=2
)
add("cache(filename), concatenated", lambda L: (lambda d: d.concatenate(d))(L.Dataset.range(3).cache(fresh(L))))
add(
    "cache(filename), zipped with itself",
    lambda L: (lambda d: L.Dataset.zip((d, d)))(L.Dataset.range(3).cache(fresh(L))),
    oracle=False,
)
for place in ((2,), (0,), (4,), (0, 1, 2, 3, 4)):
    add(
        f"cache(filename), failures {place}",
        lambda L, p=place: L.Dataset.range(5).map(lambda x: L.fail_on(x, *p)).cache(fresh(L)),
        passes=2,
    )

add("load of nothing", loaded("load of nothing", lambda L: L.Dataset.range(0)), spec=True)
add("load, repeat", loaded("load, repeat", lambda L: L.Dataset.range(4).repeat(2)), passes=2, spec=True)
add("load, last batch", loaded("load, last batch", lambda L: L.Dataset.range(5).batch(2)), spec=True)
add("load, batch", lambda L: loaded("load, batch", lambda L: L.Dataset.range(9))(L).batch(2), spec=True)
add("load, skip", lambda L: loaded("load, skip", lambda L: L.Dataset.range(9))(L).skip(3).take(4), spec=True)
add("load, shard", lambda L: loaded("load, shard", lambda L: L.Dataset.range(9))(L).shard(3, 1), spec=True)
add("load, shuffle", lambda L: loaded("load, shuffle", lambda L: L.Dataset.range(9))(L).shuffle(4, seed=1), exact=False)
add("load, unequal", loaded("load, unequal", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, x))))
add("load, ragged", loaded("load, ragged", lambda L: L.Dataset.range(4).map(lambda x: L.arange(x)).ragged_batch(2)))
for compression in (None, "GZIP", "SNAPPY"):
    name = f"load, compression {compression}"
    how = {"compression": compression}
    add(name, loaded(name, lambda L: L.Dataset.range(5), lambda L, h=how: h, **how), spec=True)
add(
    "load, spec given",
    loaded("load, spec", lambda L: L.Dataset.range(5), lambda L: {"element_spec": L.spec((), np.int64)}),
    spec=True,
)

for name, shard in {"one": lambda x: np.int64(0), "three": lambda x: x % 3, "below zero": lambda x: x - 5}.items():
    files = f"load, shards, {name}"
    add(files, loaded(files, lambda L: L.Dataset.range(10), shard_func=shard), exact=False, spec=True)
    for how, reader in {
        "flat_map": lambda shards: shards.flat_map(lambda x: x),
        "interleave": lambda shards: shards.interleave(lambda x: x, cycle_length=2, block_length=2),
    }.items():
        add(
            f"{files}, {how}",
            loaded(files, lambda L: L.Dataset.range(10), lambda L, r=reader: {"reader_func": r}, shard_func=shard),
            spec=True,
            cardinality=False,  # tf.data has the number of what was saved, whatever the function makes of it
        )

add("snapshot", lambda L: L.Dataset.range(5).snapshot(fixed(L, "snapshot")), passes=3, spec=True)
add("snapshot, no rows", lambda L: L.Dataset.range(0).snapshot(fixed(L, "empty snapshot")), passes=2, spec=True)
add("snapshot, repeat", lambda L: L.Dataset.range(4).snapshot(fixed(L, "repeated")).repeat(3), passes=2, spec=True)
add("snapshot, take less", lambda L: L.Dataset.range(6).snapshot(fixed(L, "taken")).take(3), passes=2, spec=True)
add(
    "snapshot of map", lambda L: L.Dataset.range(6).map(lambda x: x * 2).snapshot(fixed(L, "mapped")).batch(4), passes=2
)
add(
    "snapshot, one file, read by a function",
    lambda L: (
        L.Dataset.range(7)
        .snapshot(fixed(L, "one file"), shard_func=lambda x: np.int64(0), reader_func=lambda d: d.flat_map(lambda x: x))
        .batch(2)
    ),
    passes=2,
)
add(
    "snapshot, shards",
    lambda L: L.Dataset.range(9).snapshot(fixed(L, "shards"), None, None, lambda x: x % 3),
    passes=2,
    exact=False,
    ordered=False,  # first as they come, then file by file
    seeded=False,
)
