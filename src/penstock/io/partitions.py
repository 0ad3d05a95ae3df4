"""Values cut into rows, as the partitions of a `RaggedFeature` say.

The arithmetic is TensorFlow's, in the dtype of the row splits. Alone, a record's numbers are row splits at once; in a
batch they are moved to where the record begins, and nothing but the whole must be right, `validate=True` or not: a
record whose numbers do not fit its values can take some from its neighbours. Where a block is cut into records
afterwards, that is refused. What would be no ragged array at all is always refused, as it is by tf.data when a function
returns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import RecordError
from ..leaf import Ragged
from .example_columns import Lists, record_error
from .features import Partition, RaggedFeature, RowLengths, RowSplits, RowStarts, UniformRowLength, ValueRowIds

__all__ = ["cut_alone", "cut_batch", "partition_keys"]

# The number of a row tells how many rows there are, and most may be empty: a record of a few bytes must not set aside
# gigabytes.
_MOST_ROWS_PER_VALUE = 1024


def partition_keys(feature: RaggedFeature) -> list[str]:
    """Where the numbers of its partitions are."""
    return [partition.key for partition in feature.partitions if not isinstance(partition, UniformRowLength)]


def cut_alone(name: str, feature: RaggedFeature, values: np.ndarray, numbers: Mapping[str, np.ndarray]) -> Any:
    """The values of one record: an array, or a `Ragged`.

    Args:
        name: What errors call the feature.
        feature: How to cut them.
        values: What is under its `value_key`.
        numbers: What is under the keys of its partitions.

    Raises:
        RecordError: They cannot be cut so.
    """
    try:
        return _alone(feature, values, numbers)
    except _Unfit as unfit:
        raise record_error(f"feature {name!r}: {unfit}", None, name) from None


def cut_batch(
    name: str,
    feature: RaggedFeature,
    lists: Lists,
    numbers: Mapping[str, Lists],
    *,
    step_splits: np.ndarray | None = None,
    alone: bool = False,
) -> Ragged:
    """The values of many records: a row for each, cut further.

    Args:
        name: What errors call the feature.
        feature: How to cut them.
        lists: What is under its `value_key`.
        numbers: What is under the keys of its partitions.
        step_splits: Which lists each record has, where they are steps.
        alone: Whether each record must be what it is by `cut_alone`.

    Raises:
        RecordError: They cannot be cut so.
    """
    try:
        return _batch(feature, lists, numbers, alone)
    except _Unfit as unfit:
        raise _error_of(name, unfit, feature, lists, numbers, step_splits) from None


class _Unfit(Exception):
    """Values that cannot be cut as a partition says."""


def _require(is_right: Any) -> None:
    if not is_right:
        raise _Unfit


def _unfit(partition: Partition, numbers: np.ndarray | None, num_items: int) -> _Unfit:
    given = "" if numbers is None else f": {numbers[:10].tolist()}" + (" and so on" if numbers.size > 10 else "")
    return _Unfit(f"its {num_items} items cannot be cut as {partition} says{given}")


# --- one record ---


def _alone(feature: RaggedFeature, values: Any, numbers: Mapping[str, np.ndarray]) -> Any:
    for partition in reversed(feature.partitions):
        given = None
        try:
            if isinstance(partition, UniformRowLength):
                values = _uniform(partition, values, feature.row_splits_dtype)
                continue
            given = numbers[partition.key].astype(feature.row_splits_dtype)
            if feature.validate:
                _check_order(partition, given)
            values = _rows(values, _splits(partition, given, len(values)))
        except _Unfit:
            raise _unfit(partition, given, len(values)) from None
    return values


def _splits(partition: Partition, numbers: np.ndarray, num_items: int) -> np.ndarray:
    """Row splits by the numbers of a partition."""
    if isinstance(partition, RowSplits):
        return numbers
    if isinstance(partition, RowStarts):
        return np.append(numbers, numbers.dtype.type(num_items))
    if isinstance(partition, RowLengths):
        return _after_zero(np.cumsum(numbers, dtype=numbers.dtype))
    if isinstance(partition, ValueRowIds):
        return _after_zero(np.cumsum(_row_lengths(numbers, num_items), dtype=numbers.dtype))
    return _after_zero(numbers)


def _after_zero(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, numbers.dtype), numbers])


def _row_lengths(row_ids: np.ndarray, num_items: int) -> np.ndarray:
    """How often each number of a row comes; there are as many rows as the last one says."""
    num_rows = int(row_ids[-1]) + 1 if row_ids.size else 0
    _require(row_ids.size == num_items and row_ids.min(initial=0) >= 0 and num_rows <= _MOST_ROWS_PER_VALUE * num_items)
    return np.bincount(row_ids[row_ids < num_rows], minlength=num_rows)


def _check_order(partition: Partition, numbers: np.ndarray) -> None:
    """Refuses numbers of rows that go back; without `validate` they only must come as often as rows have values."""
    _require(not isinstance(partition, ValueRowIds) or (np.diff(numbers) >= 0).all())


def _rows(values: Any, splits: np.ndarray) -> Ragged:
    _require(splits.size and splits[0] == 0 and splits[-1] == len(values) and (np.diff(splits) >= 0).all())
    return Ragged(values, splits)


def _uniform(partition: UniformRowLength, values: Any, dtype: np.dtype[Any]) -> Any:
    _require(len(values) % partition.length == 0)
    if isinstance(values, Ragged):
        return Ragged(values, np.arange(0, len(values) + 1, partition.length, dtype=dtype))
    return values.reshape(-1, partition.length, *values.shape[1:])


# --- many records ---


def _batch(feature: RaggedFeature, lists: Lists, numbers: Mapping[str, Lists], alone: bool) -> Ragged:
    dtype = feature.row_splits_dtype
    values: Any = lists.values
    splits = lists.splits.astype(dtype)  # which items of `values` each record has
    for partition in reversed(feature.partitions):
        given = None
        try:
            if isinstance(partition, UniformRowLength):
                _require(not alone or not (splits % partition.length).any())
                values, splits = _uniform(partition, values, dtype), splits // partition.length
                continue
            given = numbers[partition.key]
            if alone and isinstance(partition, RowSplits):
                _require(given.lengths.all() and not given.values[given.splits[:-1]].any())
            moved, outer = _moved(partition, Lists(given.values.astype(dtype), given.splits), splits)
            if alone or feature.validate:
                _check_order(partition, moved)
            is_splits = isinstance(partition, RowSplits)
            inner = _after_zero(moved) if is_splits else _splits(partition, moved, len(values))
            rows = _rows(values, inner)
            _require(outer[-1] == len(rows))
            # What the rows of the records so far hold is what the records have.
            _require(not alone or np.array_equal(inner[outer], splits))
            values, splits = rows, outer.astype(dtype)
        except _Unfit:
            raise _unfit(partition, None if given is None else given.values, len(values)) from None
    return Ragged(values, splits)


def _moved(partition: Partition, given: Lists, splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all records, counted from the beginning of the batch, and which rows each record has.

    Of row splits those that each record has first say nothing: the others are the limits of rows.
    """
    if isinstance(partition, RowLengths):
        return given.values, given.splits
    lengths = given.lengths
    filled = lengths > 0
    firsts = given.splits[:-1][filled]
    if isinstance(partition, ValueRowIds):
        num_rows = np.zeros(lengths.size, given.values.dtype)
        if firsts.size:
            num_rows[filled] = np.maximum(np.maximum.reduceat(given.values, firsts) + 1, 0)
        ends = np.concatenate([[0], np.cumsum(num_rows)])
        return given.values + np.repeat(ends[:-1], lengths).astype(given.values.dtype), ends
    if isinstance(partition, RowSplits):
        lengths = lengths - filled
        given = Lists(np.delete(given.values, firsts), np.concatenate([[0], np.cumsum(lengths)]))
    # The steps of a SequenceExample need not be as many; TensorFlow takes one without numbers for any number of them.
    _require(splits.size - 1 == lengths.size or lengths.tolist() == [0])
    return given.values + np.repeat(splits[:-1], lengths), given.splits


def _error_of(
    name: str,
    unfit: _Unfit,
    feature: RaggedFeature,
    lists: Lists,
    numbers: Mapping[str, Lists],
    step_splits: np.ndarray | None,
) -> RecordError:
    """Says which record it is: the first that cannot be cut as a batch of one."""
    keys = partition_keys(feature)
    for row in range(min(each.lengths.size for each in (lists, *(numbers[key] for key in keys)))):
        try:
            _batch(feature, lists.only(row), {key: numbers[key].only(row) for key in keys}, False)
        except _Unfit as own:
            record, step = row, ""
            if step_splits is not None:
                record = int(np.searchsorted(step_splits, row, "right")) - 1
                step = f", step {row - step_splits[record]}"
            return record_error(f"feature {name!r} of record {record}{step}: {own}", record, name)
    return record_error(f"feature {name!r}: {unfit}", None, name)
