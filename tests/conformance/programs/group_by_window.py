"""group_by_window and bucket_by_sequence_length."""

import numpy as np

from .program import Family

FAMILY = Family("group/bucket")
add = FAMILY.add

for size in (1, 2, 3, 4, 100):
    for groups in (1, 2, 3):
        add(
            f"window_size {size}, {groups} keys",
            lambda L, s=size, g=groups: L.Dataset.range(11).group_by_window(
                lambda x: x % g, lambda k, w: w.batch(s), window_size=s
            ),
        )
add(
    "leftovers come by ascending key",
    lambda L: L.Dataset.range(9).group_by_window(lambda x: 8 - x, lambda k, w: w.batch(2), window_size=2),
)
add(
    "negative keys",
    lambda L: L.Dataset.range(9).group_by_window(lambda x: 2 - x % 5, lambda k, w: w.batch(9), window_size=3),
)
add(
    "window_size_func",
    lambda L: L.Dataset.range(12).group_by_window(
        lambda x: x % 3, lambda k, w: w.batch(9), window_size_func=lambda k: k + 1
    ),
)
add(
    "the key is given",
    lambda L: L.Dataset.range(9).group_by_window(lambda x: x % 2, lambda k, w: w.map(lambda x: (k, x)), window_size=2),
)
add(
    "a window may give nothing",
    lambda L: L.Dataset.range(9).group_by_window(
        lambda x: x % 2, lambda k, w: w.filter(lambda x: x > 4), window_size=2
    ),
)
add(
    "smaller batches than windows",
    lambda L: L.Dataset.range(12).group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), window_size=4),
)
add(
    "tuples",
    lambda L: L.Dataset.from_tensor_slices((np.arange(7), np.arange(7) % 3)).group_by_window(
        lambda x, g: g, lambda k, w: w.batch(2), window_size=2
    ),
)
add(
    "dicts",
    lambda L: L.Dataset.from_tensor_slices({"g": np.arange(7) % 2}).group_by_window(
        lambda d: d["g"], lambda k, w: w.batch(3), window_size=3
    ),
)
add(
    "padded",
    lambda L: (
        L.Dataset.range(8)
        .map(lambda x: L.fill(x % 4, x))
        .group_by_window(lambda r: L.length(r) // 2, lambda k, w: w.padded_batch(3), window_size=3)
    ),
)
add("no rows", lambda L: L.Dataset.range(0).group_by_window(lambda x: x, lambda k, w: w.batch(2), window_size=2))
add(
    "endless, take",
    lambda L: (
        L.Dataset.range(5).repeat().group_by_window(lambda x: x % 2, lambda k, w: w.batch(3), window_size=3).take(5)
    ),
)
add(
    "twice",
    lambda L: L.Dataset.range(5).group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), window_size=2),
    passes=2,
)


def rows(L, n=12):
    """Vectors of lengths 0 … 5, over and over."""
    return L.Dataset.range(n).map(lambda x: L.fill(x % 6, x))


for boundaries, sizes in (([3], [2, 2]), ([2, 4], [2, 3, 1]), ([1, 2, 3, 4, 5], [1, 1, 2, 2, 1, 2]), ([10], [4, 4])):
    grid = {"bucket_boundaries": boundaries, "bucket_batch_sizes": sizes}
    for drop in (False, True):
        add(
            f"buckets {boundaries} {sizes}, drop_remainder={drop}",
            lambda L, g=grid, d=drop: rows(L).bucket_by_sequence_length(L.short_length, drop_remainder=d, **g),
        )
add(
    "pad_to_bucket_boundary",
    lambda L: rows(L).bucket_by_sequence_length(L.short_length, [3, 6], [2, 2, 2], pad_to_bucket_boundary=True),
)
add(
    "pad_to_bucket_boundary, element too long",
    lambda L: rows(L).bucket_by_sequence_length(L.short_length, [2, 4], [2, 2, 2], pad_to_bucket_boundary=True),
    oracle=False,  # tf.data comes back to a window that its function refused, without end
)
add(
    "padding_values",
    lambda L: rows(L).bucket_by_sequence_length(L.short_length, [3], [2, 3], padding_values=np.int64(-1)),
)
add("padded_shapes", lambda L: rows(L).bucket_by_sequence_length(L.short_length, [3], [2, 3], padded_shapes=[8]))
add(
    "padded_shapes None", lambda L: rows(L).bucket_by_sequence_length(L.short_length, [3], [2, 3], padded_shapes=[None])
)
add("no boundaries", lambda L: rows(L).bucket_by_sequence_length(L.short_length, [], [5]))
add(
    "no_padding",
    lambda L: (
        L.Dataset.range(10)
        .map(lambda x: L.fill(x % 2 * 3, x))
        .bucket_by_sequence_length(L.short_length, [2], [2, 3], no_padding=True)
    ),
)
add(
    "no_padding, unequal lengths",
    lambda L: rows(L).bucket_by_sequence_length(L.short_length, [3], [2, 2], no_padding=True),
)
add(
    "bucket tuples",
    lambda L: (
        L.Dataset.range(9)
        .map(lambda x: (L.fill(x % 4, x), x))
        .bucket_by_sequence_length(lambda r, x: L.short_length(r), [2], [2, 2])
    ),
)
add(
    "bucket dicts, values",
    lambda L: (
        L.Dataset.range(9)
        .map(lambda x: {"a": L.fill(x % 4, x), "b": L.fill(x % 3, L.cast(x, np.float32))})
        .bucket_by_sequence_length(
            lambda d: L.short_length(d["a"]), [2], [2, 2], padding_values={"a": np.int64(5), "b": np.float32(0.5)}
        )
    ),
)
add("buckets, no rows", lambda L: rows(L, 0).bucket_by_sequence_length(L.short_length, [3], [2, 2]))
add(
    "buckets, endless, take",
    lambda L: rows(L, 5).repeat().bucket_by_sequence_length(L.short_length, [3], [2, 2]).take(5),
)
