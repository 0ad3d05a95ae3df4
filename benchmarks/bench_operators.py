"""What does each operator add? The same small pipelines, element by element, in penstock and in tf.data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

ROWS, QUICK_ROWS, BATCH = 192_000, 64_000, 64
TF_ROWS = 19_200  # at its rates more would take seconds per repetition
WIDTH = 32
ROW_BYTES = 6_000

Pipeline = Callable[[Any, int], Any]
"""Makes a pipeline of so many rows from a library's Dataset class: both have the same verbs."""


def contenders(penstock: Pipeline, tf_data: Pipeline | None = None) -> tuple[Contender, Contender]:
    """The two libraries on one pipeline; `tf_data` where it must be written differently."""

    def build_penstock(rows: int) -> Epoch:
        import penstock as ps

        dataset = penstock(ps.Dataset, rows)
        return lambda: map(first_array, dataset)

    def build_tf_data(rows: int) -> Epoch:
        import tensorflow as tf

        dataset = (tf_data or penstock)(tf.data.Dataset, rows)
        return lambda: map(first_array, dataset.as_numpy_iterator())

    return (
        Contender("penstock", "penstock", build_penstock, ("penstock",)),
        Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",), rows=TF_ROWS),
    )


def first_array(element: Any) -> Batch:
    """The first component, where there are several."""
    array: Batch = element[0] if type(element) is tuple else element
    return array


def count(elements: Iterable[Batch]) -> int:
    """Reads elements that are no batches: each is one row."""
    rows = 0
    for element in elements:
        element.item(0)
        rows += 1
    return rows


def parallel_map(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).map(lambda x: x + 1, num_parallel_calls=2).batch(BATCH)


def parallel_map_singly(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).map(lambda x: x + 1, num_parallel_calls=2)


def parallel_rows_singly(dataset: Any, rows: int) -> Any:
    return byte_rows(dataset, rows).map(lambda x: x.astype(np.float32), num_parallel_calls=2)


def parallel_rows_singly_tf(dataset: Any, rows: int) -> Any:
    import tensorflow as tf

    return byte_rows(dataset, rows).map(lambda x: tf.cast(x, tf.float32), num_parallel_calls=2)


def byte_rows(dataset: Any, rows: int) -> Any:
    """Of 6 kB each, 100 of them over and over."""
    return dataset.from_tensor_slices(np.zeros((100, ROW_BYTES), np.uint8)).repeat(rows // 100)


def unbatch(dataset: Any, rows: int) -> Any:
    return dataset.from_tensor_slices(np.arange(rows).reshape(-1, WIDTH)).unbatch().batch(BATCH)


def unbatch_singly(dataset: Any, rows: int) -> Any:
    return dataset.from_tensor_slices(np.arange(rows).reshape(-1, WIDTH)).unbatch()


def filter_half(dataset: Any, rows: int) -> Any:
    return dataset.range(2 * rows).filter(lambda x: x % 2 == 0)


def filter_batch(dataset: Any, rows: int) -> Any:
    return filter_half(dataset, rows).batch(BATCH)


def shuffle_stream(dataset: Any, rows: int) -> Any:
    return filter_half(dataset, rows).shuffle(1_000, seed=1).batch(BATCH)


def scan(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).scan(np.int64(0), lambda total, x: (total + x, total + x)).batch(BATCH)


def zip_two(dataset: Any, rows: int) -> Any:
    return dataset.zip((dataset.range(rows), dataset.range(rows).map(lambda x: x + 1))).batch(BATCH)


def padded_batch(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).map(lambda x: np.full(x % 8 + 1, x)).padded_batch(BATCH, padded_shapes=[8])


def padded_batch_tf(dataset: Any, rows: int) -> Any:
    import tensorflow as tf

    return dataset.range(rows).map(lambda x: tf.fill([x % 8 + 1], x)).padded_batch(BATCH, padded_shapes=[8])


def cache(dataset: Any, rows: int) -> Any:
    """The warm-up is the first pass, which fills the cache; what is measured are later ones."""
    return dataset.range(rows).map(lambda x: x + 1).cache().batch(BATCH)


def prefetch_singly(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).map(lambda x: x + 1).prefetch(2)


def workload(name: str, title: str, *built: Pipeline, batch: tuple[int, ...] = (BATCH,)) -> Workload:
    return Workload(
        name,
        title,
        contenders(*built),
        (Target("penstock", 5.0, over="tf.data"),),
        rows=ROWS,
        quick_rows=QUICK_ROWS,
        batch=(batch, "int64"),
        in_quick=False,
    )


def singly(
    name: str,
    title: str,
    *built: Pipeline,
    element: tuple[tuple[int, ...], str] = ((), "int64"),
    least: float = 5.0,
) -> Workload:
    return Workload(
        name,
        title,
        contenders(*built),
        (Target("penstock", least, over="tf.data"),),
        rows=ROWS,
        quick_rows=QUICK_ROWS,
        batch=element,
        consume=count,
        in_quick=False,
    )


WORKLOADS = (
    workload("parallel-map", "range, map(x + 1, num_parallel_calls=2), batch 64", parallel_map),
    singly("parallel-map-singly", "range, map(x + 1, num_parallel_calls=2)", parallel_map_singly),
    singly(
        "parallel-rows-singly",
        "rows of 6 kB, map(astype(float32), num_parallel_calls=2)",
        parallel_rows_singly,
        parallel_rows_singly_tf,
        element=((ROW_BYTES,), "float32"),
        least=3.0,
    ),
    workload("unbatch", "rows of 32, unbatch, batch 64", unbatch),
    singly("unbatch-singly", "rows of 32, unbatch", unbatch_singly),
    workload("shuffle-stream", "range, filter(half), shuffle(1,000), batch 64", shuffle_stream),
    workload("filter", "range, filter(half), batch 64", filter_batch),
    workload("scan", "range, scan(running total), batch 64", scan),
    workload("zip", "zip of range and range.map(x + 1), batch 64", zip_two),
    workload("padded-batch", "1 to 8 numbers each, padded_batch 64", padded_batch, padded_batch_tf, batch=(BATCH, 8)),
    workload("cache", "range, map(x + 1), cache, batch 64: second pass", cache),
    singly("prefetch-singly", "range, map(x + 1), prefetch(2)", prefetch_singly),
)
