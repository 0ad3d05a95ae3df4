"""Values of a block of records as arrays: sparse, padded, or ragged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import RecordError
from ..leaf import Ragged, Sparse
from .features import Partition, RaggedFeature, RowLengths, RowSplits, RowStarts, UniformRowLength

__all__ = ["Lists", "check_splits", "parsed_alone", "ragged_of", "record_error", "sparse_of", "sparse_of_lists"]


@dataclasses.dataclass(frozen=True)
class Lists:
    """One feature of a block: record r has `values[splits[r]:splits[r + 1]]`."""

    values: np.ndarray
    splits: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.splits)


def record_error(text: str, record: int, feature: str | None = None) -> RecordError:
    """An error that says which record of the block it is about."""
    error = RecordError(text)
    error.record = record
    error.feature = feature
    return error


def parsed_alone(error: RecordError) -> RecordError:
    """An error of a record that is no part of a block, without its number: 0, whichever record it is."""
    text = str(error).replace(" of record 0", "", 1).replace("record 0 is", "the record is", 1)
    error.args, error.record = (text,), None
    return error


def _places(splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every value: which row it is in, and its place there."""
    lengths = np.diff(splits)
    rows = np.repeat(np.arange(lengths.size), lengths)
    return rows, np.arange(rows.size) - np.repeat(splits[:-1], lengths)


def sparse_of(lists: Lists) -> Sparse:
    """A sparse matrix, a row for each record, as wide as the longest."""
    rows, places = _places(lists.splits)
    width = lists.lengths.max(initial=0)
    shape = np.array([lists.splits.size - 1, width], dtype=np.int64)
    return Sparse(np.stack([rows, places], axis=1), lists.values, shape)


def sparse_of_lists(lists: Lists, step_splits: np.ndarray) -> Sparse:
    """The same with three dimensions: record, step, place; `lists` has a row for each step."""
    steps, places = _places(lists.splits)
    records, step_of_record = _places(step_splits)
    sizes = [step_splits.size - 1, np.diff(step_splits).max(initial=0), lists.lengths.max(initial=0)]
    indices = np.stack([records[steps], step_of_record[steps], places], axis=1)
    return Sparse(indices, lists.values, np.array(sizes, dtype=np.int64))


def ragged_of(name: str, feature: RaggedFeature, lists: Lists, partitions: Mapping[str, Lists]) -> Ragged:
    """Rows of each record, cut further by the feature's partitions, from the innermost outwards."""
    dtype = feature.row_splits_dtype
    values: Any = lists.values
    splits = lists.splits  # how many items of `values` each record has
    for partition in reversed(feature.partitions):
        if isinstance(partition, UniformRowLength):
            values, splits = _uniform(name, partition.length, values, splits, dtype)
        else:
            inner, splits = _row_splits(name, partition, partitions[partition.key], splits)
            values = Ragged(values, inner.astype(dtype))
    return Ragged(values, splits.astype(dtype))


def check_splits(name: str, feature: RaggedFeature, partitions: Mapping[str, Lists]) -> None:
    """Refuses records parsed alone that have no row splits, not even the 0 at the beginning, if `validate` says so."""
    for partition in feature.partitions:
        if feature.validate and isinstance(partition, RowSplits):
            has_splits = partitions[partition.key].lengths > 0
            _check(name, has_splits, np.arange(has_splits.size), partition)


def _uniform(name: str, length: int, values: Any, splits: np.ndarray, dtype: np.dtype[Any]) -> tuple[Any, np.ndarray]:
    uneven = np.flatnonzero(np.diff(splits) % length)
    if uneven.size:
        record = int(uneven[0])
        count = int(splits[record + 1] - splits[record])
        raise record_error(
            f"feature {name!r} of record {record}: expected rows of {length}, got {count} in all", record, name
        )
    if isinstance(values, Ragged):
        return Ragged(values, np.arange(0, splits[-1] + 1, length, dtype=dtype)), splits // length
    return values.reshape(-1, length, *values.shape[1:]), splits // length


def _row_splits(name: str, partition: Partition, given: Lists, splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a partition makes of the items of all records, and how many rows each record has."""
    rows, starts = given, np.repeat(splits[:-1], given.lengths)
    limits = given.values + starts
    if isinstance(partition, RowLengths):
        limits = np.cumsum(given.values)
    elif isinstance(partition, RowStarts):
        # A row ends where the next begins; the last of a record where the record does.
        ends = np.roll(limits, -1)
        filled = given.lengths > 0
        ends[given.splits[1:][filled] - 1] = splits[1:][filled]
        _check(name, limits[given.splits[:-1][filled]] == splits[:-1][filled], np.flatnonzero(filled), partition)
        limits = ends
    elif isinstance(partition, RowSplits):
        first = given.splits[:-1][given.lengths > 0]
        _check(name, given.values[first] == 0, np.flatnonzero(given.lengths > 0), partition)
        limits = np.delete(limits, first)
        rows = Lists(limits, np.concatenate([[0], np.cumsum(np.maximum(given.lengths - 1, 0))]))
    inner = np.concatenate([[0], limits])
    record_of_row = np.repeat(np.arange(rows.lengths.size), rows.lengths)
    _check(name, np.diff(inner) >= 0, record_of_row, partition)
    # What the rows of the records so far hold is what the records have.
    _check(name, inner[rows.splits[1:]] == splits[1:], np.arange(rows.lengths.size), partition)
    return inner, rows.splits


def _check(name: str, is_right: np.ndarray, records: np.ndarray, partition: Partition) -> None:
    if not is_right.all():
        record = int(records[np.flatnonzero(~is_right)[0]])
        raise record_error(
            f"feature {name!r} of record {record}: its values cannot be cut as {partition} says", record, name
        )
