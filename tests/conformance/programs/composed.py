"""Longer pipelines, as people write them, and nested structures carried through many operators."""

import numpy as np

from .data import Point, matrix, structures
from .program import Family

FAMILY = Family("composed")
add = FAMILY.add


def training(L):
    return L.Dataset.from_tensor_slices((matrix(13, 4, np.uint8), np.arange(13) % 3))


add(
    "cast, batch, prefetch",
    lambda L: training(L).map(lambda x, y: (L.cast(x, np.float32) / 255, y), num_parallel_calls=2).batch(4).prefetch(2),
    threads=True,
    passes=2,
)
add(
    "cache, repeat, batch, take",
    lambda L: training(L).cache().repeat().batch(5, drop_remainder=True).take(6),
    spec=True,
)
add("split: take and skip", lambda L: L.Dataset.zip((training(L).take(10), training(L).skip(10).repeat())), spec=True)
add("sharded, mapped, batched", lambda L: training(L).shard(3, 1).map(lambda x, y: {"x": x, "y": y}).batch(2))
add(
    "sequence windows",
    lambda L: (
        L.Dataset.range(20)
        .window(5, shift=5, drop_remainder=True)
        .flat_map(lambda w: w.batch(5))
        .map(lambda s: (s[:-1], s[1:]))
        .batch(2)
    ),
)
add(
    "text: filter, pad",
    lambda L: (
        L.Dataset.range(9)
        .map(lambda x: L.fill(x % 4, x))
        .filter(lambda r: L.length(r) > 0)
        .padded_batch(3, padding_values=np.int64(-1))
    ),
)
add(
    "enumerate, filter, map",
    lambda L: training(L).enumerate().filter(lambda i, e: i % 2 == 0).map(lambda i, e: (e[1], i)),
)
add(
    "interleave of shards",
    lambda L: L.Dataset.range(3).interleave(
        lambda i: L.Dataset.range(12).shard(4, 1).map(lambda x: x * 10 + i), cycle_length=3
    ),
)
add(
    "concatenate, zip, batch, unbatch",
    lambda L: (
        L.Dataset.zip((L.Dataset.range(4).concatenate(L.Dataset.range(4)), L.Dataset.range(9))).batch(3).unbatch()
    ),
    spec=True,
)
add(
    "batch, map, unbatch, filter, batch",
    lambda L: L.Dataset.range(12).batch(4).map(lambda b: b * 2).unbatch().filter(lambda x: x % 3 == 0).batch(2),
)
add("rebatch after flat_map", lambda L: L.Dataset.range(5).flat_map(lambda x: L.Dataset.range(x).batch(2)).rebatch(3))
add(
    "scan over windows",
    lambda L: (
        L.Dataset.range(9).window(3).flat_map(lambda w: w.batch(3)).scan(np.int64(0), lambda s, b: (s + L.sum(b), s))
    ),
)
add(
    "groups, then repeat",
    lambda L: L.Dataset.range(6).group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), window_size=2).repeat(2),
)
add("unique, enumerate, batch", lambda L: L.Dataset.range(9).map(lambda x: x % 5).unique().enumerate().batch(2))
add(
    "datasets of datasets, zipped",
    lambda L: L.Dataset.zip((L.Dataset.range(6).window(2), L.Dataset.range(3))).flat_map(
        lambda w, i: w.map(lambda x: (x, i))
    ),
)
add(
    "skip, repeat, shard, take, batch",
    lambda L: L.Dataset.range(10).skip(3).repeat(3).shard(2, 1).take(7).batch(3),
    spec=True,
)
add("repeat of a partial batch", lambda L: L.Dataset.range(5).batch(2).repeat().take(7).unbatch(), spec=True)
add("take_while over batches", lambda L: L.Dataset.range(20).batch(3).take_while(lambda b: L.sum(b) < 30).unbatch())
add(
    "choose between pipelines",
    lambda L: L.Dataset.choose_from_datasets(
        [L.Dataset.range(9).map(lambda x: x * 2), L.Dataset.range(9).filter(lambda x: x % 2 == 1)],
        L.Dataset.range(2).repeat(),
    ),
)
add(
    "prefetch between parallel maps",
    lambda L: (
        L.Dataset.range(12)
        .map(lambda x: x + 1, num_parallel_calls=2)
        .prefetch(1)
        .map(lambda x: x * 2, num_parallel_calls=2)
        .batch(5)
    ),
    threads=True,
)
add(
    "a dict through everything",
    lambda L: (
        L.Dataset.from_tensor_slices({"x": matrix(9, 2), "y": np.arange(9)})
        .skip(1)
        .shard(2, 0)
        .cache()
        .repeat(2)
        .enumerate()
        .batch(3)
        .prefetch(1)
    ),
    threads=True,
    spec=True,
)

for name, value in structures(6).items():
    add(
        f"{name}: skip, shard, repeat, batch",
        lambda L, v=value: L.Dataset.from_tensor_slices(v).skip(1).shard(2, 0).repeat(2).batch(4),
        spec=True,
    )
    add(
        f"{name}: concatenate, take, cache",
        lambda L, v=value: (lambda d: d.concatenate(d).take(8).cache())(L.Dataset.from_tensor_slices(v)),
        spec=True,
    )
    add(
        f"{name}: zip, enumerate, unbatch",
        lambda L, v=value: (
            L.Dataset.zip((L.Dataset.from_tensor_slices(v), L.Dataset.range(9))).enumerate().batch(2).unbatch()
        ),
        spec=True,
    )
    add(f"{name}: padded_batch", lambda L, v=value: L.Dataset.from_tensor_slices(v).padded_batch(4), spec=True)
    add(
        f"{name}: take_while, filter",
        lambda L, v=value: L.Dataset.from_tensor_slices(v).take_while(lambda *e: True).filter(lambda *e: True),
        spec=True,
    )
    add(f"{name}: map of all parts", lambda L, v=value: L.Dataset.from_tensor_slices(v).map(lambda *e: e))
    add(
        f"{name}: group_by_window",
        lambda L, v=value: L.Dataset.from_tensor_slices(v).group_by_window(
            lambda *e: np.int64(1), lambda k, w: w.batch(3), window_size=3
        ),
    )
    add(
        f"{name}: interleave",
        lambda L, v=value: L.Dataset.range(2).interleave(lambda _: L.Dataset.from_tensor_slices(v), cycle_length=2),
    )
    add(f"{name}: rebatch", lambda L, v=value: L.Dataset.from_tensor_slices(v).batch(4).rebatch(3), spec=True)
add(
    "map from namedtuple to dict",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(3), matrix(3, 2))).map(lambda p: p._asdict()).batch(2),
)
