"""What does a dataset inside a dataset cost? `flat_map`, `interleave`, `window` and `group_by_window` on small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload, touch

ROWS, QUICK_ROWS, BATCH = 96_000, 19_200, 64
TF_ROWS = 19_200  # at its rates more would take seconds per repetition
WINDOW, GROUP, INNER = 5, 8, 100

Pipeline = Callable[[Any, int], Any]
"""Makes a pipeline of so many rows from a library's Dataset class: both have the same verbs."""


def windows(dataset: Any, rows: int) -> Any:
    numbers = dataset.range(rows // WINDOW + WINDOW - 1)
    return numbers.window(WINDOW, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(WINDOW))


def windows_by_hand(rows: int) -> Iterator[Batch]:
    for start in range(rows // WINDOW):
        yield np.array(range(start, start + WINDOW))


def interleave(dataset: Any, rows: int) -> Any:
    numbers = dataset.range(rows // INNER)
    return numbers.interleave(lambda x: dataset.range(INNER), cycle_length=4, block_length=4).batch(BATCH)


def groups(dataset: Any, rows: int) -> Any:
    return dataset.range(rows).group_by_window(lambda x: x % 4, lambda key, window: window.batch(GROUP), GROUP)


def groups_by_hand(rows: int) -> Iterator[Batch]:
    held: dict[int, list[int]] = {}
    for x in range(rows):
        members = held.setdefault(x % 4, [])
        members.append(x)
        if len(members) == GROUP:
            yield np.array(held.pop(x % 4))


def slices(dataset: Any, rows: int) -> Any:
    table = np.arange(rows).reshape(-1, GROUP)
    return dataset.from_tensor_slices(table).flat_map(lambda row: dataset.from_tensor_slices(row))


def ranges(dataset: Any, rows: int) -> Any:
    return dataset.range(rows // 4).flat_map(lambda x: dataset.range(4))


def count(elements: Iterable[Batch]) -> int:
    """Reads elements that are no batches: each is one row."""
    rows = 0
    for element in elements:
        element.item()
        rows += 1
    return rows


def batched(pipeline: Pipeline) -> Pipeline:
    return lambda dataset, rows: pipeline(dataset, rows).batch(BATCH)


def workload(
    name: str,
    title: str,
    pipeline: Pipeline,
    batch: int | None,
    by_hand: Callable[[int], Iterator[Batch]] | None = None,
) -> Workload:
    """Both libraries on one pipeline, and a loop where one says what the job is worth."""

    def build_penstock(rows: int) -> Epoch:
        import penstock as ps

        dataset = pipeline(ps.Dataset, rows)
        return lambda: iter(dataset)

    def build_tf_data(rows: int) -> Epoch:
        import tensorflow as tf

        dataset = pipeline(tf.data.Dataset, rows)
        return lambda: dataset.as_numpy_iterator()

    def build_by_hand(rows: int) -> Epoch:
        assert by_hand is not None
        return lambda: by_hand(rows)

    hand = (Contender("hand: Python loop", "hand", build_by_hand),) if by_hand else ()
    return Workload(
        name,
        title,
        (
            Contender("penstock", "penstock", build_penstock, ("penstock",)),
            Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",), rows=TF_ROWS),
            *hand,
        ),
        (Target("penstock", 5.0, over="tf.data"),),
        limit="hand: Python loop" if by_hand else None,
        rows=ROWS,
        quick_rows=QUICK_ROWS,
        batch=((), "int64") if batch is None else ((batch,), "int64"),
        consume=count if batch is None else touch,
    )


WORKLOADS = (
    workload("windows", "range, window(5, shift=1), flat_map(w.batch(5))", windows, WINDOW, windows_by_hand),
    workload("interleave", "range, interleave(range(100), 4, 4), batch 64", interleave, BATCH),
    workload("groups", "range, group_by_window(x % 4, w.batch(8), 8)", groups, GROUP, groups_by_hand),
    workload("flat-map-slices", "rows of 8, flat_map(from_tensor_slices), singly", slices, None),
    workload("flat-map-slices-batched", "rows of 8, flat_map(from_tensor_slices), batch 64", batched(slices), BATCH),
    workload("flat-map-ranges", "range, flat_map(range(4)), singly", ranges, None),
    workload("flat-map-ranges-batched", "range, flat_map(range(4)), batch 64", batched(ranges), BATCH),
)
