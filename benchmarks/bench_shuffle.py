"""How fast do batches of a fully shuffled array arrive?

The limit is `np.take` into one reused slot, with a permutation made anew in every epoch. The small batch
shows what a pipeline adds per batch, the large one what it adds per byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

ROWS, WIDTH = 100_000, 500


def make_data(rows: int) -> Batch:
    return np.random.default_rng(0).random((rows, WIDTH))


def build_penstock(array: Batch, size: int) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.from_tensor_slices(array).shuffle(len(array), seed=1).batch(size)
    return lambda: iter(dataset)


def build_tf_data(array: Batch, size: int) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(array).shuffle(len(array)).batch(size)
    return lambda: dataset.as_numpy_iterator()


def build_torch(array: Batch, size: int, num_workers: int = 0) -> Epoch:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.from_numpy(array))
    loader: Any = DataLoader(data, batch_size=size, shuffle=True, num_workers=num_workers)
    return lambda: (batch.numpy() for (batch,) in loader)


def build_grain(array: Batch, size: int) -> Epoch:
    import grain

    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # faster here than its threads
    dataset = grain.MapDataset.source(array).shuffle(seed=1).batch(size).to_iter_dataset(options)
    return lambda: iter(dataset)


def build_take_loop(array: Batch, size: int) -> Epoch:
    generator = np.random.default_rng(1)

    def epoch() -> Iterator[Batch]:
        order = generator.permutation(len(array))
        slot = np.empty((size, WIDTH), array.dtype)
        for start in range(0, len(array), size):
            np.take(array, order[start : start + size], 0, out=slot, mode="clip")
            yield slot

    return epoch


def contenders(size: int, *, with_workers: bool) -> tuple[Contender, ...]:
    def sized(build: Callable[..., Epoch], **more: int) -> Callable[[Any], Epoch]:
        return partial(build, size=size, **more)

    two_workers = Contender(
        "torch, 2 workers",
        "torch",
        sized(build_torch, num_workers=2),
        ("torch",),
        has_workers=True,
        in_quick=False,
    )
    return (
        Contender("penstock", "penstock", sized(build_penstock), ("penstock",)),
        Contender("tf.data", "tf.data", sized(build_tf_data), ("tensorflow",)),
        Contender("torch", "torch", sized(build_torch), ("torch",)),
        *((two_workers,) if with_workers else ()),
        Contender("grain", "grain", sized(build_grain), ("grain",)),
        Contender("hand: take", "hand", sized(build_take_loop)),
    )


def shuffled(size: int, *, with_workers: bool, in_quick: bool) -> Workload:
    return Workload(
        f"shuffle-{size}",
        f"100k x 500 float64, full shuffle, batch {size:,}",
        contenders(size, with_workers=with_workers),
        (
            Target("penstock", 0.7, over="hand: take"),
            Target("penstock", 5.0, over="torch"),
            Target("penstock", 10.0, over="tf.data"),
            Target("penstock", 3 * size * WIDTH * 8 + 10e6, of="extra_bytes"),
        ),
        limit="hand: take",
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((size, WIDTH), "float64"),
        in_quick=in_quick,
    )


# A worker that sends batches of 32 spends its time on sending: seconds per epoch, and nothing new to learn.
WORKLOADS = (
    shuffled(1_000, with_workers=True, in_quick=True),
    shuffled(32, with_workers=False, in_quick=False),
)
