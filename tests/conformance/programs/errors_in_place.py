"""An element that fails, under each operator: where the error comes out and what comes after it."""

import numpy as np

from .program import Family

FAMILY = Family("errors")
add = FAMILY.add

# skip and shard differ from tf.data on purpose: see test_differences.py.
BY_PLACE = {"oracle": False}


def bad(L, n, *values):
    """range(n) with a failure in the place of each value."""
    return L.Dataset.range(n).map(lambda x: L.fail_on(x, *values))


def bad_batches(L):
    """[0 1 2] error [6 7 8] [9]"""
    return L.Dataset.range(10).batch(3).map(lambda b: b + 0 * L.fail_on(b[0], 3))


def inner(L, x, *values):
    return L.Dataset.range(10 * x, 10 * x + 3).map(lambda y: L.fail_on(y, *values))


for place in ((3,), (0,), (5,), (2, 3), (0, 1, 2, 3, 4, 5)):
    add(f"map {place}", lambda L, p=place: bad(L, 6, *p))
    add(
        f"parallel map {place}",
        lambda L, p=place: L.Dataset.range(6).map(lambda x: L.fail_on(x, *p), num_parallel_calls=2),
        threads=True,
    )
    add(f"prefetch {place}", lambda L, p=place: bad(L, 6, *p).prefetch(2), threads=True)
    add(f"shuffle(1) {place}", lambda L, p=place: bad(L, 6, *p).shuffle(1))
    add(f"shuffle(3) {place}", lambda L, p=place: bad(L, 6, *p).shuffle(3, seed=1), exact=False)
    add(f"enumerate {place}", lambda L, p=place: bad(L, 6, *p).enumerate())
    add(f"repeat(2) {place}", lambda L, p=place: bad(L, 6, *p).repeat(2), max_items=20)
    add(f"cache, repeat {place}", lambda L, p=place: bad(L, 6, *p).cache().repeat(2))
    add(f"scan {place}", lambda L, p=place: bad(L, 6, *p).scan(np.int64(0), lambda s, x: (s + x, s + x)))
    add(
        f"scan function {place}",
        lambda L, p=place: L.Dataset.range(6).scan(np.int64(0), lambda s, x: (s + x, s + L.fail_on(x, *p))),
    )
    add(f"filter {place}", lambda L, p=place: bad(L, 6, *p).filter(lambda x: x % 2 == 0))
    add(f"filter predicate {place}", lambda L, p=place: L.Dataset.range(6).filter(lambda x: L.fail_on(x, *p) % 2 == 0))
    add(f"take_while {place}", lambda L, p=place: bad(L, 6, *p).take_while(lambda x: x < 5))
    add(
        f"take_while predicate {place}",
        lambda L, p=place: L.Dataset.range(6).take_while(lambda x: L.fail_on(x, *p) < 5),
    )
    add(
        f"unbatch {place}",
        lambda L, p=place: bad(L, 6, *p).map(lambda x: [L.fill(2, x)]).unbatch(),
        cardinality=False,  # tf.data traces the function and so knows the length of its results
    )
    add(f"twice mapped {place}", lambda L, p=place: bad(L, 6, *p).map(lambda x: x * 2))
    add(f"ignore_errors {place}", lambda L, p=place: bad(L, 6, *p).ignore_errors())

for place in ((4,), (0,), (9,), (4, 5), (3, 7), (2,)):
    for drop in (False, True):
        add(f"batch(3, {drop}) {place}", lambda L, p=place, d=drop: bad(L, 10, *p).batch(3, drop_remainder=d))
        add(
            f"padded_batch(3, {drop}) {place}",
            lambda L, p=place, d=drop: bad(L, 10, *p).padded_batch(3, drop_remainder=d),
        )
        add(f"window(3, {drop}) {place}", lambda L, p=place, d=drop: bad(L, 10, *p).window(3, drop_remainder=d))
    for shift, stride in ((1, 1), (2, 1), (4, 1), (1, 2), (2, 3)):
        add(
            f"window(3, {shift}, {stride}) {place}",
            lambda L, p=place, h=shift, t=stride: bad(L, 10, *p).window(3, shift=h, stride=t),
            max_items=25,
        )
    add(f"parallel batch {place}", lambda L, p=place: bad(L, 10, *p).batch(3, num_parallel_calls=2), threads=True)
    add(f"batch, batch {place}", lambda L, p=place: bad(L, 10, *p).batch(2).batch(2))
    add(f"batch, unbatch {place}", lambda L, p=place: bad(L, 10, *p).batch(3).unbatch())
    add(f"batch, ignore_errors {place}", lambda L, p=place: bad(L, 10, *p).batch(3).ignore_errors())
    add(f"ragged_batch {place}", lambda L, p=place: bad(L, 10, *p).map(lambda x: L.fill(x % 3, x)).ragged_batch(3))
    add(f"sparse_batch {place}", lambda L, p=place: bad(L, 10, *p).map(lambda x: L.fill(x % 3, x)).sparse_batch(3, [4]))
    add(f"take(4) {place}", lambda L, p=place: bad(L, 10, *p).take(4))
    add(f"skip(3) {place}", lambda L, p=place: bad(L, 10, *p).skip(3), **BY_PLACE)
    add(f"skip(2), take(3) {place}", lambda L, p=place: bad(L, 10, *p).skip(2).take(3), **BY_PLACE)
    add(f"take(6), then map {place}", lambda L, p=place: L.Dataset.range(10).take(6).map(lambda x: L.fail_on(x, *p)))
    add(f"skip(3), then map {place}", lambda L, p=place: L.Dataset.range(10).skip(3).map(lambda x: L.fail_on(x, *p)))
    add(f"shard, then map {place}", lambda L, p=place: L.Dataset.range(10).shard(2, 0).map(lambda x: L.fail_on(x, *p)))
    add(
        f"shuffle(1), take(6), map, map, take(3) {place}",
        lambda L, p=place: L.Dataset.range(10).shuffle(1).take(6).map(lambda x: L.fail_on(x, *p)).map(abs).take(3),
    )
    add(
        f"map, shuffle(1), take(6), map {place}",
        lambda L, p=place: bad(L, 10, -1).shuffle(1).take(6).map(lambda x: L.fail_on(x, *p)),
    )
    add(
        f"take(6), map, repeat, take(9) {place}",
        lambda L, p=place: L.Dataset.range(10).take(6).map(lambda x: L.fail_on(x, *p)).repeat(2).take(9),
    )
    for index in (0, 1, 2):
        add(f"shard(3, {index}) {place}", lambda L, p=place, i=index: bad(L, 10, *p).shard(3, i), **BY_PLACE)
    add(
        f"group_by_window {place}",
        lambda L, p=place: bad(L, 10, *p).group_by_window(lambda x: x % 2, lambda k, w: w.batch(4), window_size=2),
    )
    add(
        f"group_by_window key {place}",
        lambda L, p=place: L.Dataset.range(10).group_by_window(
            lambda x: L.fail_on(x, *p) % 2, lambda k, w: w.batch(4), window_size=2
        ),
    )
    add(
        f"bucket_by_sequence_length {place}",
        lambda L, p=place: (
            bad(L, 10, *p).map(lambda x: L.fill(x % 3 + 1, x)).bucket_by_sequence_length(L.short_length, [2], [2, 2])
        ),
    )
    add(f"repeat, batch {place}", lambda L, p=place: bad(L, 10, *p).repeat(2).batch(4))
    add(f"window, flat_map batch {place}", lambda L, p=place: bad(L, 10, *p).window(2).flat_map(lambda w: w.batch(2)))

for first, second in (((2,), ()), ((), (2,)), ((2,), (2,)), ((2,), (3,)), ((5,), ()), ((), (5,))):
    add(f"zip {first} {second}", lambda L, a=first, b=second: L.Dataset.zip((bad(L, 6, *a, -1), bad(L, 6, *b, -1))))
    add(
        f"zip unequal {first} {second}",
        lambda L, a=first, b=second: L.Dataset.zip((bad(L, 6, *a, -1), bad(L, 5, *b, -1))),
    )
    add(
        f"zip unequal, other way {first} {second}",
        lambda L, a=first, b=second: L.Dataset.zip((bad(L, 5, *a, -1), bad(L, 6, *b, -1))),
    )
    add(f"concatenate {first} {second}", lambda L, a=first, b=second: bad(L, 6, *a, -1).concatenate(bad(L, 6, *b, -1)))
    add(
        f"choose {first} {second}",
        lambda L, a=first, b=second: L.Dataset.choose_from_datasets(
            [bad(L, 6, *a, -1), bad(L, 6, *b, -1)], L.Dataset.range(2).repeat(5)
        ),
    )
add(
    "choice fails",
    lambda L: L.Dataset.choose_from_datasets([L.Dataset.range(3), L.Dataset.range(3)], bad(L, 2, 1).repeat(2)),
)
add(
    "sample, one input fails",
    lambda L: L.Dataset.sample_from_datasets([bad(L, 5, 2), L.Dataset.range(3)], weights=[1.0, 0.0], seed=1),
    cardinality=False,
)

for cycle, block in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (2, 3)):
    grid = {"cycle_length": cycle, "block_length": block}
    for place in ((11,), (10,), (12,), (1, 11), (0, 20)):
        add(
            f"interleave {cycle} {block} inner {place}",
            lambda L, g=grid, p=place: L.Dataset.range(4).interleave(lambda x: inner(L, x, *p), **g),
        )
    for place in ((1,), (0,), (3,)):
        add(
            f"interleave {cycle} {block} outer {place}",
            lambda L, g=grid, p=place: bad(L, 4, *p).interleave(lambda x: inner(L, x, -1), **g),
        )
        add(
            f"interleave {cycle} {block} function {place}",
            lambda L, g=grid, p=place: L.Dataset.range(4).interleave(lambda x: inner(L, L.fail_on(x, *p), -1), **g),
        )
for place in ((11,), (10, 12), (0,)):
    add(f"flat_map inner {place}", lambda L, p=place: L.Dataset.range(3).flat_map(lambda x: inner(L, x, *p)))
for place in ((0,), (1,), (2,)):
    add(f"flat_map outer {place}", lambda L, p=place: bad(L, 3, *p).flat_map(lambda x: inner(L, x, -1)))
    add(
        f"flat_map function {place}",
        lambda L, p=place: L.Dataset.range(3).flat_map(lambda x: inner(L, L.fail_on(x, *p), -1)),
    )

for size in (1, 2, 4, 5):
    add(f"rebatch({size})", lambda L, s=size: bad_batches(L).rebatch(s))
for sizes in ([1, 2], [2, 3], [3, 1, 1], [4, 2]):
    add(f"rebatch({sizes})", lambda L, s=sizes: bad_batches(L).rebatch(s))
add("unbatch of a failing batch", lambda L: bad_batches(L).unbatch())
add(
    "group_by_window reduced dataset",
    lambda L: L.Dataset.range(10).group_by_window(
        lambda x: x % 2, lambda k, w: w.map(lambda x: L.fail_on(x, 3, 4)), window_size=2
    ),
)
add(
    "group_by_window size",
    lambda L: L.Dataset.range(10).group_by_window(
        lambda x: x % 2, lambda k, w: w.batch(4), window_size_func=lambda k: L.fail_on(k, 1) * 0 + 2
    ),
)
add(
    "unique",
    lambda L: L.Dataset.from_tensor_slices(np.array([1, 1, 3, 2, 3, 1, 4])).map(lambda x: L.fail_on(x, 3)).unique(),
)
add("padded_batch of rows", lambda L: bad(L, 8, 3).map(lambda x: L.fill(x % 3 + 1, x)).padded_batch(2))
add("skip of repeat", lambda L: bad(L, 3, 1).repeat(4).skip(3), **BY_PLACE)
add("skip of skip", lambda L: bad(L, 8, 0).skip(1).skip(1), **BY_PLACE)
add("endless, first always fails", lambda L: bad(L, 2, 0).repeat(), max_items=8)
add("endless, take counts good ones", lambda L: bad(L, 2, 1).repeat().take(3))
add("cache, second pass", lambda L: bad(L, 5, 2).cache(), passes=2)
add("failing after batch", lambda L: bad_batches(L).map(lambda b: b + 1))
