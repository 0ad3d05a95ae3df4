"""How long until the first batch of a shuffled billion, and what does the order hold?

Some peers cannot do this job and are shown on a smaller one, which their names say. tf.data fills its buffer
before the first element leaves, and a buffer of 10**9 elements would not fit. torch's sampler makes the
permutation as a tensor and then as a list of Python ints: 48 GB for 10**9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Contender, Epoch, Target, Workload

ROWS, BATCH = 10**9, 1_024


def build_penstock(rows: int) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.range(rows).shuffle().batch(BATCH)
    return lambda: iter(dataset)


def build_tf_data(rows: int) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(rows).shuffle(10**6).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_torch(rows: int) -> Epoch:
    from torch.utils.data import DataLoader

    numbers: Any = range(rows)
    loader: Any = DataLoader(numbers, batch_size=BATCH, shuffle=True)
    return lambda: (batch.numpy() for batch in loader)


def build_grain(rows: int) -> Epoch:
    import grain

    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    dataset = grain.MapDataset.range(rows).shuffle(seed=1).batch(BATCH).to_iter_dataset(options)
    return lambda: iter(dataset)


def build_permutation(rows: int) -> Epoch:
    generator = np.random.default_rng(1)

    def epoch() -> Any:
        order = generator.permutation(rows)
        return (order[start : start + BATCH] for start in range(0, rows, BATCH))

    return epoch


WORKLOADS = (
    Workload(
        "first-batch",
        "range(10**9), full shuffle, batch 1,024: the first batch",
        (
            Contender("penstock", "penstock", build_penstock, ("penstock",)),
            Contender("tf.data, buffer 10**6", "tf.data", build_tf_data, ("tensorflow",)),
            Contender("torch, only 10**7", "torch", build_torch, ("torch",), rows=10**7),
            Contender("grain", "grain", build_grain, ("grain",)),
            Contender("hand: permutation, only 10**7", "hand", build_permutation, rows=10**7),
        ),
        (
            Target("penstock", 0.05),
            Target("penstock", 10e6, of="extra_bytes"),
        ),
        rows=ROWS,
        batch=((BATCH,), "int64"),
        metric="first batch",
    ),
)
