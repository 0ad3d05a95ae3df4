"""Values of a block of records as sparse arrays, and errors about one of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..errors import RecordError
from ..leaf import Sparse
from .features import SparseFeature

__all__ = ["Lists", "parsed_alone", "placed", "record_error", "sparse_of", "sparse_of_lists"]


@dataclasses.dataclass(frozen=True)
class Lists:
    """One feature of a block: record r has `values[splits[r]:splits[r + 1]]`."""

    values: np.ndarray
    splits: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.splits)

    def __getitem__(self, record: int) -> np.ndarray:
        return self.values[self.splits[record] : self.splits[record + 1]]

    def only(self, record: int) -> Lists:
        values = self[record]
        return Lists(values, np.array([0, values.size]))


def record_error(text: str, record: int | None, feature: str | None = None) -> RecordError:
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


def placed(name: str, feature: SparseFeature, lists: Lists, indices: list[Lists], *, alone: bool = False) -> Sparse:
    """Values in the places that other features say: record, and an index for each of the feature's dimensions.

    As in TensorFlow, a value belongs to the record that has its first index, and nothing but the whole must be right: a
    record that has too many indices gets values of its neighbours.

    Args:
        name: What errors call the feature.
        feature: Where values and indices are.
        lists: What is under its `value_key`.
        indices: What is under each of its index keys.
        alone: Whether each record must be what it is when parsed by itself.

    Raises:
        RecordError: There are not as many indices as values.
    """
    for key, given in zip(feature.index_keys, indices, strict=True):
        uneven = np.flatnonzero(given.splits != lists.splits)
        if uneven.size and (alone or given.splits[-1] != lists.splits[-1]):
            record = int(uneven[0]) - 1
            raise record_error(
                f"feature {name!r} of record {record}: expected as many indices as values, got {given[record].size} of "
                f"{key!r} for {lists[record].size} of {feature.value_key!r}",
                record,
                name,
            )
    columns = [_places(indices[0].splits)[0], *[given.values for given in indices]]
    values = lists.values
    if not feature.already_sorted:
        order = np.lexsort(columns[::-1])
        columns, values = [column[order] for column in columns], values[order]
    shape = np.array([lists.splits.size - 1, *feature.sizes], dtype=np.int64)
    return Sparse(np.stack(columns, axis=1), values, shape)
