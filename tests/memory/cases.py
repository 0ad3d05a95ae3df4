"""Pipelines for each operator, whose elements are large enough to matter, and a source that counts what is read."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import penstock as ps

D = ps.Dataset
COUNT = 24
SIZE = 2500  # float64: 20 kB


class Source:
    """Makes sources, and counts the elements that were read of them."""

    def __init__(self) -> None:
        self.num_read = 0

    def even(self, count: int = COUNT) -> Any:
        """Elements of 20 kB, and that is known."""

        def elements() -> Iterator[np.ndarray]:
            for i in range(count):
                self.num_read += 1
                yield np.full(SIZE, float(i))

        return D.from_generator(elements, output_signature=ps.TensorSpec((SIZE,), np.float64))

    def uneven(self, count: int = COUNT) -> Any:
        """Elements of 3 kB to 100 kB, of which nothing is known."""

        def elements() -> Iterator[np.ndarray]:
            for i in range(count):
                self.num_read += 1
                yield np.full(400 + i * 7919 % 12100, float(i))

        return D.from_generator(elements)

    def mixed(self, count: int = COUNT) -> Any:
        """Arrays of 4 kB, strings of 30 B to 15 kB, and numbers, in nests of which nothing is known."""

        def elements() -> Iterator[dict[str, Any]]:
            for i in range(count):
                self.num_read += 1
                yield {"x": np.full(500, float(i)), "t": (b"text" * (8 + i * 7919 % 3700), np.int32(i))}

        return D.from_generator(elements)

    def indexed(self, count: int = COUNT) -> Any:
        """Elements of 20 kB that are made of the rows of an array."""
        return D.from_tensor_slices(np.arange(count * SIZE, dtype=np.float64).reshape(count, SIZE)).map(self._touched)

    def _touched(self, x: Any) -> Any:
        self.num_read += 1
        return x * 1.0


def failing(x: Any) -> Any:
    if x[0] % 5 == 2:
        raise ValueError("no")
    return x + 1


def decode_image(x: Any) -> Any:
    """By this name functions are known that threads call for one batch at a time."""
    return x[:300] + 1


def decoded(x: Any) -> Any:
    return decode_image(x)


def threes(x: Any) -> Any:
    """A dataset of three elements, each as large as that of which it is made."""
    return D.range(3).map(lambda i: x * i)


def few_values(x: Any) -> Any:
    return np.where(np.arange(len(x)) % 50 == 0, x, 0)


def plus_one(x: Any) -> Any:
    return x + 1


# Each on elements of a known size and on some of which nothing is known.
ON_BOTH: dict[str, Callable[[Any], Any]] = {
    "from_generator": lambda d: d,
    "map": lambda d: d.map(plus_one),
    "map to larger ones": lambda d: d.map(lambda x: np.repeat(x, 4)),
    "map to smaller ones": lambda d: d.map(lambda x: x[:10].copy()),
    "two maps": lambda d: d.map(plus_one, stateful=True).map(plus_one, stateful=True),
    "map in 1 thread": lambda d: d.map(plus_one, num_parallel_calls=1),
    "map in 4 threads": lambda d: d.map(lambda x: np.repeat(x, 3), num_parallel_calls=4),
    "map in 16 threads": lambda d: d.map(plus_one, num_parallel_calls=16),
    "map in some threads": lambda d: d.map(plus_one, num_parallel_calls=ps.AUTOTUNE),
    "map in threads, batch": lambda d: d.map(lambda x: x[:300] + 1, num_parallel_calls=4).batch(5),
    "decoded into batches": lambda d: d.map(decoded, num_parallel_calls=1).batch(8),
    "decoded into batches, prefetch": lambda d: d.map(decoded, num_parallel_calls=1).batch(8).prefetch(2),
    "map, batch": lambda d: d.map(lambda x: x[:300] + 1).batch(5),
    "random_map": lambda d: d.random_map(lambda x, g: x + g.integers(9), seed=1),
    "random_map in threads": lambda d: d.random_map(lambda x, g: x + g.integers(9), seed=1, num_parallel_calls=4),
    "filter": lambda d: d.filter(lambda x: x[0] % 3 != 0),
    "flat_map to rows": lambda d: d.flat_map(lambda x: D.from_tensor_slices(x[:30])),
    "flat_map": lambda d: d.flat_map(threes),
    "interleave": lambda d: d.interleave(threes, cycle_length=4, block_length=2),
    "interleave of views": lambda d: d.interleave(lambda x: D.from_tensors(x).repeat(3), cycle_length=4),
    "interleave in threads": lambda d: d.interleave(threes, cycle_length=4, num_parallel_calls=4),
    "zip with itself": lambda d: D.zip((d, d.map(plus_one))),
    "concatenate with itself": lambda d: d.map(plus_one).concatenate(d.map(plus_one)),
    "flat_map of pairs": lambda d: d.flat_map(lambda x: D.zip((D.from_tensors(x).map(plus_one), D.from_tensors(x)))),
    "padded_batch": lambda d: d.padded_batch(5),
    "padded_batch to a shape": lambda d: d.padded_batch(5, padded_shapes=[13_000]),
    "ragged_batch": lambda d: d.ragged_batch(5),
    "sparse_batch": lambda d: d.map(few_values).sparse_batch(4, [13_000]),
    "window": lambda d: d.window(4, 2).flat_map(lambda w: w),
    "window, padded_batch": lambda d: d.window(4, 2).flat_map(lambda w: w.padded_batch(4)),
    "group_by_window": lambda d: d.group_by_window(
        lambda x: int(x[0]) % 3, lambda key, w: w.padded_batch(4), window_size=4
    ),
    "bucket_by_sequence_length": lambda d: d.bucket_by_sequence_length(len, [2000, 6000], [4, 3, 2]),
    "shuffle": lambda d: d.shuffle(8, seed=1),
    "shuffle of all": lambda d: d.shuffle(seed=1),
    "repeat": lambda d: d.repeat(3),
    "take": lambda d: d.take(7),
    "skip": lambda d: d.skip(7),
    "shard": lambda d: d.shard(3, 1),
    "distribute": lambda d: d.distribute(3, 1, "pad"),
    "filter, distribute": lambda d: d.filter(lambda x: True).distribute(3, 1, "pad"),
    "take_while": lambda d: d.take_while(lambda x: x[0] < 20),
    "enumerate": lambda d: d.enumerate(),
    "scan": lambda d: d.scan(np.zeros(400), lambda state, x: (x[:400] + state, x * 2)),
    "unique": lambda d: d.map(lambda x: np.int64(x[0] % 5)).unique(),
    "prefetch 1": lambda d: d.prefetch(1),
    "prefetch 8": lambda d: d.prefetch(8),
    "map, prefetch": lambda d: d.map(plus_one).prefetch(4),
    "cache": lambda d: d.cache(),
    "cache, shuffle": lambda d: d.cache().shuffle(4, seed=2).repeat(2),
    "ignore_errors": lambda d: d.map(failing).ignore_errors(),
    "many": lambda d: d.map(plus_one, num_parallel_calls=4).shuffle(6, seed=1).padded_batch(3).prefetch(2),
    "many others": lambda d: (
        d.interleave(threes, cycle_length=3).cache().map(lambda x: x[:200], num_parallel_calls=2).batch(4).prefetch(2)
    ),
}

# On nests with strings in them, which wait one by one where arrays would be stacked.
ON_MIXED: dict[str, Callable[[Any], Any]] = {
    "from_generator": lambda d: d,
    "map": lambda d: d.map(lambda e: (e["t"], e["x"] + 1)),
    "map in 4 threads": lambda d: d.map(lambda e: (e["t"][0] * 2, e["x"]), num_parallel_calls=4),
    "batch": lambda d: d.batch(5),
    "map in threads, batch": lambda d: d.map(lambda e: (e["t"][0], e["x"]), num_parallel_calls=4).batch(5),
    "batch, prefetch": lambda d: d.batch(5).prefetch(2),
    "batch, unbatch": lambda d: d.batch(5).unbatch(),
    "batch, rebatch": lambda d: d.batch(5).rebatch(3),
    "batch of slices": lambda d: d.map(lambda e: (e["x"], e["t"][0])).batch(7).unbatch().shuffle(6, seed=1).batch(4),
    "strings alone, batch": lambda d: d.map(lambda e: e["t"][0]).batch(5),
    "padded_batch": lambda d: d.map(lambda e: (e["x"][: 100 + len(e["t"][0]) % 300], e["t"][0])).padded_batch(5),
    "window": lambda d: d.window(4, 2).flat_map(lambda w: w["x"]),
    "group_by_window": lambda d: d.group_by_window(lambda e: e["t"][1] % 3, lambda key, w: w.batch(4), window_size=4),
    "shuffle": lambda d: d.shuffle(8, seed=1),
    "cache": lambda d: d.cache(),
    "cache, shuffle, batch": lambda d: d.cache().shuffle(8, seed=1).batch(4),
    "interleave": lambda d: d.interleave(lambda e: D.from_tensors(e).repeat(3), cycle_length=4),
    "zip": lambda d: D.zip((d, d.map(lambda e: e["t"][0]))),
    "unique": lambda d: d.map(lambda e: e["t"][0]).unique(),
    "prefetch": lambda d: d.prefetch(4),
    "many": lambda d: d.map(lambda e: (e["x"], e["t"]), num_parallel_calls=4).shuffle(6, seed=1).batch(3).prefetch(2),
}

ON_ONE: dict[str, Callable[[Source], Any]] = {
    "map vectorized": lambda s: s.even().map(plus_one, vectorized=True),
    "map vectorized, batch": lambda s: s.even().map(plus_one, vectorized=True).batch(4),
    "batch": lambda s: s.even().batch(5),
    "batch in threads": lambda s: s.even().batch(5, num_parallel_calls=2),
    "batch of full ones": lambda s: s.even().batch(5, drop_remainder=True),
    "batch into the slot": lambda s: s.indexed().batch(5),
    "unbatch": lambda s: s.even().batch(5).unbatch(),
    "unbatch of a map": lambda s: s.even().map(lambda x: x.reshape(5, 500)).unbatch(),
    "rebatch to smaller ones": lambda s: s.even().batch(5).rebatch(3),
    "rebatch to larger ones": lambda s: s.even().batch(3).rebatch(7),
    "rebatch in turn": lambda s: s.even().batch(4).rebatch([1, 5]),
    "window, batch": lambda s: s.even().window(4, 1, 2, drop_remainder=True).flat_map(lambda w: w.batch(4)),
    "window of a source": lambda s: s.indexed().window(4, 2).flat_map(lambda w: w.batch(4)),
    "interleave of batches": lambda s: s.even().batch(3).interleave(D.from_tensor_slices, cycle_length=3),
    "shuffle of indices": lambda s: s.indexed().shuffle(8, seed=1),
    "shuffle of indices, batch": lambda s: s.indexed().shuffle(seed=1).batch(4),
    "zip": lambda s: D.zip((s.even(), s.uneven())),
    "concatenate": lambda s: s.uneven().concatenate(s.uneven(9)),
    "sample_from_datasets": lambda s: D.sample_from_datasets([s.uneven(), s.uneven(9)], seed=3),
    "choose_from_datasets": lambda s: D.choose_from_datasets([s.even(), s.uneven()], D.range(2).repeat(8)),
}

CASES: dict[str, Callable[[Source], Any]] = {
    **{f"{name} (known)": lambda s, build=build: build(s.even()) for name, build in ON_BOTH.items()},
    **{f"{name} (unknown)": lambda s, build=build: build(s.uneven()) for name, build in ON_BOTH.items()},
    **{f"{name} (mixed)": lambda s, build=build: build(s.mixed()) for name, build in ON_MIXED.items()},
    **ON_ONE,
    "slices with strings": lambda s: (
        D.from_tensor_slices((np.arange(24_000.0).reshape(24, 1000), [b"text" * (i % 7 * 90) for i in range(24)]))
        .shuffle(5, seed=1)
        .batch(4)
    ),
}
