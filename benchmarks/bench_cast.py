"""What does a user's function on each element cost, written as users write it and written for arrays?

Rows of 3,072 bytes (a 32 x 32 colour image) become float32 between 0 and 1: shuffle, map, batch(256).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

ROWS, WIDTH, BATCH = 50_000, 3_072, 256
BATCH_BYTES = BATCH * WIDTH * 4


def make_data(rows: int) -> Batch:
    return np.random.default_rng(0).integers(0, 256, (rows, WIDTH), np.uint8)


def build_penstock(array: Batch) -> Epoch:
    import penstock as ps

    shuffled = ps.Dataset.from_tensor_slices(array).shuffle(len(array), seed=1)
    dataset = shuffled.map(lambda x: x.astype(np.float32) / 255).batch(BATCH)
    return lambda: iter(dataset)


def build_penstock_vectorized(array: Batch) -> Epoch:
    import penstock as ps

    shuffled = ps.Dataset.from_tensor_slices(array).shuffle(len(array), seed=1)
    dataset = shuffled.map(lambda x: x.astype(np.float32) / 255, vectorized=True).batch(BATCH)
    return lambda: iter(dataset)


def build_tf_data(array: Batch) -> Epoch:
    import tensorflow as tf

    shuffled = tf.data.Dataset.from_tensor_slices(array).shuffle(len(array))
    dataset = shuffled.map(lambda x: tf.cast(x, tf.float32) / 255).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_tf_data_batched_first(array: Batch) -> Epoch:
    import tensorflow as tf

    shuffled = tf.data.Dataset.from_tensor_slices(array).shuffle(len(array))
    dataset = shuffled.batch(BATCH).map(lambda x: tf.cast(x, tf.float32) / 255)
    return lambda: dataset.as_numpy_iterator()


def build_torch(array: Batch) -> Epoch:
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Scaled(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
        def __init__(self) -> None:
            self.data = torch.from_numpy(array)

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, index: int) -> Any:
            return self.data[index].to(torch.float32) / 255

    loader: Any = DataLoader(Scaled(), batch_size=BATCH, shuffle=True)
    return lambda: (batch.numpy() for batch in loader)


def build_grain(array: Batch) -> Epoch:
    import grain

    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # faster here than its threads
    shuffled = grain.MapDataset.source(array).shuffle(seed=1)
    mapped = shuffled.map(lambda x: x.astype(np.float32) / 255)
    dataset = mapped.batch(BATCH).to_iter_dataset(options)
    return lambda: iter(dataset)


def build_vectorised_loop(array: Batch) -> Epoch:
    """The user's own function on whole batches: the same arithmetic, one call per batch."""
    generator = np.random.default_rng(1)

    def epoch() -> Iterator[Batch]:
        order = generator.permutation(len(array))
        for start in range(0, len(array), BATCH):
            yield array[order[start : start + BATCH]].astype(np.float32) / 255

    return epoch


def build_slot_loop(array: Batch) -> Epoch:
    """What an expert would do: gather and scale into reused slots (last bits may differ from a division)."""
    generator = np.random.default_rng(1)
    scale = np.float32(1 / 255)

    def epoch() -> Iterator[Batch]:
        order = generator.permutation(len(array))
        pixels = np.empty((BATCH, WIDTH), np.uint8)
        slot = np.empty((BATCH, WIDTH), np.float32)
        for start in range(0, len(array), BATCH):
            rows = min(BATCH, len(array) - start)
            np.take(array, order[start : start + rows], 0, out=pixels[:rows], mode="clip")
            yield np.multiply(pixels[:rows], scale, out=slot[:rows], dtype=np.float32)

    return epoch


WORKLOADS = (
    Workload(
        "cast",
        "50k x 3,072 uint8, full shuffle, map to float32 / 255, batch 256",
        (
            Contender("penstock", "penstock", build_penstock, ("penstock",)),
            Contender("penstock, vectorized", "penstock", build_penstock_vectorized, ("penstock",)),
            Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",)),
            Contender(
                "tf.data, batched first",
                "tf.data",
                build_tf_data_batched_first,
                ("tensorflow",),
                in_quick=False,
            ),
            Contender("torch", "torch", build_torch, ("torch",)),
            Contender("grain", "grain", build_grain, ("grain",)),
            Contender("hand: vectorised", "hand", build_vectorised_loop),
            Contender("hand: into slots", "hand", build_slot_loop),
        ),
        (
            Target("penstock", 4.0, over="tf.data"),
            Target("penstock, vectorized", 0.5, over="hand: vectorised"),
            Target("penstock, vectorized", 0.5, over="hand: into slots"),
            Target("penstock", 3 * BATCH_BYTES + 10e6, of="extra_bytes"),
            Target("penstock, vectorized", 3 * BATCH_BYTES + 10e6, of="extra_bytes"),
        ),
        limit="hand: into slots",
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((BATCH, WIDTH), "float32"),
    ),
)
