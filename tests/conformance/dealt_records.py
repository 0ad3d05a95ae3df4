"""Random batches whose partitions and indices were made for all values together, then dealt to the records.

Most of them are right as a whole, and hardly any record is right alone.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import tensorflow as tf

__all__ = ["dealt"]

_R = tf.io.RaggedFeature
_Records = list[dict[str, list[int]]]


def dealt(number: int) -> tuple[Any, _Records]:
    """A feature that reads values from "v", and the values of each record by key."""
    rng = random.Random(number)
    records: _Records = [{} for _ in range(rng.choice([2, 2, 3, 4]))]
    _deal(rng, "v", list(range(rng.randrange(10))), records)
    make = _sparse if rng.random() < 0.3 else _ragged
    return make(rng, records), records


def _deal(rng: random.Random, key: str, items: list[int], records: _Records) -> None:
    """Some items to each record, in order."""
    cuts = sorted(rng.randrange(len(items) + 1) for _ in records[1:])
    for record, (start, stop) in zip(records, itertools.pairwise([0, *cuts, len(items)]), strict=True):
        record[key] = items[start:stop]


def _sparse(rng: random.Random, records: _Records) -> Any:
    num_values = sum(len(record["v"]) for record in records)
    keys = rng.choice([["i"], ["i", "j"]])
    for key in keys:
        _deal(rng, key, [rng.randrange(4) for _ in range(num_values - (rng.random() < 0.1))], records)
    return tf.io.SparseFeature(keys, "v", tf.int64, [4] * len(keys), rng.random() < 0.4)


def _ragged(rng: random.Random, records: _Records) -> Any:
    sizes = [len(record["v"]) for record in records]
    partitions: list[Any] = []
    for key in rng.choice(["p", "p", "pq", "pqs"]):
        partition, sizes = _partition(rng, key, sizes, records)
        partitions.insert(0, partition)
    return _R(tf.int64, "v", partitions, rng.choice([tf.int32, tf.int64]), rng.random() < 0.6)


def _partition(rng: random.Random, key: str, sizes: list[int], records: _Records) -> tuple[Any, list[int]]:
    """A partition of as many items as each record has, and how many rows each has then."""
    kind = rng.choice(["RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds", "UniformRowLength"])
    starts = [0, *itertools.accumulate(sizes)]
    total = starts[-1]
    if kind == "UniformRowLength":
        length = rng.choice([length for length in (1, 2, 3) if total % length == 0 or rng.random() < 0.1])
        return _R.UniformRowLength(length), [b // length - a // length for a, b in itertools.pairwise(starts)]
    splits = [0, *sorted(rng.randrange(total + 1) for _ in range(rng.randrange(4))), total]
    if rng.random() < 0.08:
        splits[rng.randrange(len(splits))] += rng.choice([-1, 1])
    lengths = [b - a for a, b in itertools.pairwise(splits)]
    if kind == "ValueRowIds":
        row_ids = [row for row, length in enumerate(lengths) for _ in range(length)]
        if rng.random() < 0.1:
            rng.shuffle(row_ids)
        _deal(rng, key, row_ids, records)
        num_rows: list[int] = []
        for record in records:
            record[key] = [row - sum(num_rows) for row in record[key]]
            num_rows.append(max([0, *(row + 1 for row in record[key])]))
        return _R.ValueRowIds(key), num_rows
    of_rows = {"RowLengths": lengths, "RowStarts": splits[:-1]}.get(kind, splits[1:])
    _deal(rng, key, of_rows, records)
    num_rows = [len(record[key]) for record in records]
    for record, start in zip(records, starts, strict=False):
        if kind != "RowLengths":
            record[key] = [number - start for number in record[key]]
        if kind == "RowSplits" and (record[key] or rng.random() < 0.5):
            record[key].insert(0, rng.choice([0, 0, 7]))  # of which a batch takes no notice
    return getattr(_R, kind)(key), num_rows
