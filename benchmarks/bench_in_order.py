"""How fast do batches of an array arrive in order, and what do they cost in memory?

penstock answers with read-only views of the array. A view that nobody reads costs nothing, so the same job
runs twice: `in-order` reads one number per batch, `in-order-sum` reads all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload, add_up, touch

ROWS, WIDTH, BATCH = 100_000, 500, 1_000
BATCH_BYTES = BATCH * WIDTH * 8


def make_data(rows: int) -> Batch:
    return np.random.default_rng(0).random((rows, WIDTH))


def build_penstock(array: Batch) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.from_tensor_slices(array).batch(BATCH)
    return lambda: iter(dataset)


def build_tf_data(array: Batch) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(array).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_torch(array: Batch, num_workers: int = 0) -> Epoch:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.from_numpy(array))
    loader: Any = DataLoader(data, batch_size=BATCH, num_workers=num_workers)
    return lambda: (batch.numpy() for (batch,) in loader)


def build_grain(array: Batch) -> Epoch:
    import grain

    # Without threads: on two cores the default (16 threads, 500 batches ahead) is slower and holds 2 GB.
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    dataset = grain.MapDataset.source(array).batch(BATCH).to_iter_dataset(options)
    return lambda: iter(dataset)


def build_copying_loop(array: Batch) -> Epoch:
    return lambda: (array[start : start + BATCH].copy() for start in range(0, len(array), BATCH))


def build_view_loop(array: Batch) -> Epoch:
    return lambda: (array[start : start + BATCH] for start in range(0, len(array), BATCH))


CONTENDERS = (
    Contender("penstock", "penstock", build_penstock, ("penstock",)),
    Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",)),
    Contender("torch", "torch", build_torch, ("torch",)),
    Contender(
        "torch, 2 workers",
        "torch",
        lambda array: build_torch(array, 2),
        ("torch",),
        has_workers=True,
        in_quick=False,
    ),
    Contender("grain", "grain", build_grain, ("grain",)),
    Contender("hand: copy", "hand", build_copying_loop),
    Contender("hand: view", "hand", build_view_loop),
)

TARGETS = (
    Target("penstock", 1.0, over="hand: copy"),
    Target("penstock", 20.0, over="tf.data"),
)

WORKLOADS = (
    Workload(
        "in-order",
        "100k x 500 float64, in order, batch 1,000",
        CONTENDERS,
        (*TARGETS, Target("penstock", 3 * BATCH_BYTES + 10e6, of="extra_bytes")),
        limit="hand: copy",
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((BATCH, WIDTH), "float64"),
        consume=touch,
    ),
    Workload(
        "in-order-sum",
        "100k x 500 float64, in order, batch 1,000, each batch summed",
        CONTENDERS,
        (Target("penstock", 1.0, over="hand: copy"),),
        limit="hand: copy",
        make_data=make_data,
        rows=ROWS,
        batch=((BATCH, WIDTH), "float64"),
        consume=add_up,
        in_quick=False,
    ),
)
