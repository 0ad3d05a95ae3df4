"""Records with features of any length, parsed a block at a time and cut into the values of each record."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..element import Structure
from ..leaf import Ragged, Sparse
from ..memory.arena import Arena
from .example_columns import Lists, placed, record_error
from .feature_table import DTYPES, Feature, FeatureTable, Layout, Records
from .features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
from .partitions import cut_batch

__all__ = ["RowParser"]


class RowParser:
    """Parses blocks to lists of elements: views of arrays that have the values of all, in slots where they are large.

    Args:
        table: What is parsed.
        structure: The nest of an element.
        names: The features in that nest, leaf by leaf.
        arena: Where arrays are made.
    """

    def __init__(self, table: FeatureTable, structure: Structure, names: tuple[str, ...], arena: Arena) -> None:
        self._table = table
        self._structure = structure
        self._names = names
        self._arena = arena
        self._makers: list[Callable[[int], np.ndarray] | None] = [
            arena.maker(feature.shape, feature.dtype) if isinstance(feature, FixedLenFeature) else None
            for feature in map(table.features.get, table.keys)
        ]

    def rows(self, records: Records, count: int) -> tuple[list[Any], int]:
        """The elements of a block, and how many bytes of them lie in no slot.

        Raises:
            RecordError: One of the records is not what was asked for.
            OverBudget: There is no room for the values of all.
        """
        table = self._table
        outputs = [np.empty(count + 1, np.int64) if make is None else make(count) for make in self._makers]
        found = table.parse(records, Layout.SINGLE_EXAMPLE, outputs)
        self._check_parts(outputs)
        values: dict[int, np.ndarray] = {}
        for number, (key, splits) in enumerate(zip(table.keys, outputs, strict=True)):
            if self._makers[number] is None:
                values[number] = self._arena.empty((int(splits[-1]),), DTYPES[table.columns[key].kind])
                found.fill(number, values[number], 0)
        lists = {table.keys[number]: Lists(array, outputs[number]) for number, array in values.items()}
        composed = self._composed(lists)
        leaves: list[list[Any]] = []
        nbytes = 0
        for name in self._names:
            feature = table.features[name]
            if isinstance(feature, FixedLenFeature):
                output = outputs[table.keys.index(name)]
                leaves.append(list(output))
                nbytes += self._arena.unaccounted_leaf_bytes(output)
                continue
            found_lists = lists[_value_key(name, feature)]
            made = composed.get(name)
            if isinstance(made, Sparse):
                leaves.append(list(_cut_sparse(made, found_lists.splits)))
                nbytes += self._arena.unaccounted_leaf_bytes(made.values)
                nbytes += made.indices.nbytes + count * made.dense_shape.nbytes
                continue
            nbytes += self._arena.unaccounted_leaf_bytes(found_lists.values)
            if isinstance(made, Ragged):
                leaves.append([made[i] for i in range(count)])
                nbytes += _splits_bytes(made.values, count)
                continue
            leaves.append(list(_cut(feature, found_lists)))
            if isinstance(feature, VarLenFeature):
                nbytes += 8 * (found_lists.values.size + count)  # indices and shapes
        return [self._structure.unflatten(parts) for parts in zip(*leaves, strict=True)], nbytes

    def _composed(self, lists: dict[str, Lists]) -> dict[str, Ragged | Sparse]:
        """What the block has of features made of several keys, also of those that nobody picks: they may not fit.

        A `Sparse` is without the dimension of records: elements keep no more of the indices than they have.
        """
        made: dict[str, Ragged | Sparse] = {}
        for name, feature in self._table.features.items():
            if isinstance(feature, RaggedFeature) and feature.partitions:
                made[name] = cut_batch(name, feature, lists[feature.value_key or name], lists, alone=True)
            elif isinstance(feature, SparseFeature):
                indices = [lists[key] for key in feature.index_keys]
                sparse = placed(name, feature, lists[feature.value_key], indices, alone=True)
                own = np.ascontiguousarray(sparse.indices[:, 1:])
                made[name] = Sparse(own, sparse.values, sparse.dense_shape[1:])
        return made

    def _check_parts(self, outputs: list[np.ndarray]) -> None:
        """Refuses sequences that have no whole number of parts, those too that nobody picks."""
        for name, feature in self._table.features.items():
            if isinstance(feature, FixedLenSequenceFeature):
                splits = outputs[self._table.keys.index(name)]
                if (splits % feature.num_values).any():  # which record it is, its own parsing tells
                    raise record_error(f"feature {name!r}: expected parts of {feature.num_values} values", 0, name)


def _value_key(name: str, feature: Feature) -> str:
    return (feature.value_key or name) if isinstance(feature, RaggedFeature | SparseFeature) else name


def _splits_bytes(values: Any, count: int) -> int:
    """What records take to know where their rows begin: each has arrays of its own, one for every level of rows."""
    nbytes = 0
    while isinstance(values, Ragged):
        nbytes += values.row_splits.nbytes + count * values.row_splits.itemsize
        values = values.values
    return nbytes


def _cut_sparse(sparse: Sparse, splits: np.ndarray) -> Iterator[Sparse]:
    """The values of each record, which are in the order of records."""
    for start, stop in itertools.pairwise(splits.tolist()):
        yield Sparse(sparse.indices[start:stop], sparse.values[start:stop], sparse.dense_shape.copy())


def _cut(feature: Feature, lists: Lists) -> Iterator[Any]:
    """The values of each record, as `parse_single_example` gives them."""
    values, places = lists.values, itertools.pairwise(lists.splits.tolist())
    if isinstance(feature, RaggedFeature):
        return (values[start:stop] for start, stop in places)
    if isinstance(feature, FixedLenSequenceFeature):
        size, shape = feature.num_values, feature.shape
        return (values[start:stop].reshape((stop - start) // size, *shape) for start, stop in places)
    return (
        Sparse(np.arange(stop - start).reshape(-1, 1), values[start:stop], np.array([stop - start]))
        for start, stop in places
    )
