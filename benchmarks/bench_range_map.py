"""What does a pipeline add to a function that costs nothing? `range(1M).map(lambda x: x + 1).batch(1024)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

ROWS, BATCH = 1_000_000, 1_024
TF_ROWS = 50_000  # at its rate a million would take half a minute per repetition
SLOW_ROWS = 200_000


def build_penstock(rows: int) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.range(rows).map(lambda x: x + 1).batch(BATCH)
    return lambda: iter(dataset)


def build_penstock_vectorized(rows: int) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.range(rows).map(lambda x: x + 1, vectorized=True).batch(BATCH)
    return lambda: iter(dataset)


def build_tf_data(rows: int) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(rows).map(lambda x: x + 1).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_torch(rows: int) -> Epoch:
    from torch.utils.data import DataLoader, Dataset

    class PlusOne(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
        def __len__(self) -> int:
            return rows

        def __getitem__(self, index: int) -> int:
            return index + 1

    loader: Any = DataLoader(PlusOne(), batch_size=BATCH)
    return lambda: (batch.numpy() for batch in loader)


def build_grain(rows: int) -> Epoch:
    import grain

    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # faster here than its threads
    dataset = grain.MapDataset.range(rows).map(lambda x: x + 1).batch(BATCH).to_iter_dataset(options)
    return lambda: iter(dataset)


def build_python_loop(rows: int) -> Epoch:
    def plus_one(x: int) -> int:
        return x + 1

    def epoch() -> Iterator[Batch]:
        for start in range(0, rows, BATCH):
            yield np.array([plus_one(x) for x in range(start, min(start + BATCH, rows))])

    return epoch


def build_vectorised_loop(rows: int) -> Epoch:
    return lambda: (np.arange(start, min(start + BATCH, rows)) + 1 for start in range(0, rows, BATCH))


WORKLOADS = (
    Workload(
        "range-map",
        "range(1M), map(x + 1), batch 1,024",
        (
            Contender("penstock", "penstock", build_penstock, ("penstock",)),
            Contender("penstock, vectorized", "penstock", build_penstock_vectorized, ("penstock",)),
            Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",), rows=TF_ROWS),
            Contender("torch", "torch", build_torch, ("torch",), rows=SLOW_ROWS),
            Contender("grain", "grain", build_grain, ("grain",), rows=SLOW_ROWS),
            Contender("hand: Python loop", "hand", build_python_loop),
            Contender("hand: vectorised", "hand", build_vectorised_loop),
        ),
        (
            Target("penstock", 20.0, over="tf.data"),
            Target("penstock", 5.0, over="grain"),
        ),
        limit="hand: Python loop",
        rows=ROWS,
        batch=((BATCH,), "int64"),
    ),
)
