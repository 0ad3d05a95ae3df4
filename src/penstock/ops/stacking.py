"""Batches of every kind of leaf: stacked from rows, joined, counted and cut into rows again.

`block.stack_leaves` knows arrays, scalars and strings, which is all that flows in columns. What stands in a batch may
also be `Ragged`, `Sparse` or None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..block import Allocate, stack_leaves
from ..element import Structure
from ..errors import BadType, SpecMismatch
from ..leaf import Ragged, Sparse, is_dataset
from ..spec import UNSEEN, DatasetSpec, NoneSpec, RaggedSpec, TensorSpec, describe, merge, spec_leaves, spec_of

__all__ = [
    "batched_spec",
    "collate",
    "flattened",
    "join",
    "leading_dimension",
    "num_rows",
    "ragged_of",
    "ragged_rank",
    "slice_rows",
    "split_rows",
    "stack",
    "unbatched_spec",
    "unlike",
]


def collate(rows: Sequence[Any], allocate: Allocate) -> Any:
    """Elements of equal structure, dtypes and shapes stacked into one batch."""
    structure = Structure.of(rows[0])
    by_leaf = zip(*[structure.flatten(row) for row in rows], strict=True)
    return structure.unflatten([stack(leaves, allocate) for leaves in by_leaf])


def stack(leaves: Sequence[Any], allocate: Allocate) -> Any:
    """Leaves of equal kind, dtype and shape stacked on a new first axis."""
    first = leaves[0]
    if first is None and all(leaf is None for leaf in leaves):
        return None
    if is_dataset(first):
        raise BadType("cannot batch datasets; use flat_map to take the elements out of them first")
    if isinstance(first, Ragged) and all(isinstance(leaf, Ragged) for leaf in leaves):
        splits = _splits_of([len(leaf) for leaf in leaves], first.row_splits.dtype)
        return Ragged(join(leaves, allocate), splits)
    if isinstance(first, Sparse) and all(isinstance(leaf, Sparse) for leaf in leaves):
        return _stack_sparse(leaves, allocate)
    stacked = stack_leaves(leaves, allocate)
    if stacked is None:
        raise _unequal(leaves)
    return stacked


def _unequal(leaves: Sequence[Any]) -> SpecMismatch:
    first = spec_of(leaves[0])
    for i, leaf in enumerate(leaves):
        if spec_of(leaf) != first:
            return SpecMismatch(
                f"expected elements of equal shape and dtype, got {describe(first)} for element 0 of the batch and "
                f"{describe(spec_of(leaf))} for element {i}"
            )
    return SpecMismatch(f"elements of {describe(first)} cannot be stacked")


def unlike(rows: Sequence[Any]) -> SpecMismatch:
    """What is wrong with elements that cannot be in one dataset: structures or dtypes that differ."""
    first = spec_of(rows[0])
    for i, row in enumerate(rows):
        try:
            merge(first, spec_of(row))
        except SpecMismatch as error:
            return SpecMismatch(f"elements 0 and {i} of one window differ: {error}")
    return SpecMismatch("the elements of one window differ")


def _stack_sparse(leaves: Sequence[Sparse], allocate: Allocate) -> Sparse:
    dense_shape = _joined_shape([np.array([1, *leaf.dense_shape], np.int64) for leaf in leaves])
    counts = [len(leaf.indices) for leaf in leaves]
    first = leaves[0].indices
    indices = allocate((sum(counts), 1 + first.shape[1]), np.dtype(np.int64))
    start = 0
    for i, leaf in enumerate(leaves):
        if leaf.indices.shape[1:] != first.shape[1:]:
            raise _unlike_parts(spec_of(first), spec_of(leaf.indices), i)
        part = indices[start : start + counts[i]]
        part[:, 0] = i
        part[:, 1:] = leaf.indices
        start += counts[i]
    return Sparse(indices, join([leaf.values for leaf in leaves], allocate), dense_shape)


# --- ragged ------------------------------------------------------------------------------------------------------


def ragged_of(leaves: Sequence[np.ndarray], rank: int, splits_dtype: np.dtype[Any], allocate: Allocate) -> Ragged:
    """Arrays of unequal shape as one batch whose first `rank` inner dimensions are ragged."""
    shapes = [leaf.shape for leaf in leaves]
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        other = next(i for i, shape in enumerate(shapes) if len(shape) != len(shapes[0]))
        raise SpecMismatch(
            f"expected elements of equal rank, got shape {shapes[0]} for element 0 of the batch and {shapes[other]} "
            f"for element {other}"
        )
    result: Any = flattened(leaves, rank, allocate)
    for level in reversed(range(rank)):
        counts = np.repeat([shape[level] for shape in shapes], [math.prod(shape[:level]) for shape in shapes])
        result = Ragged(result, _splits_of(counts, splits_dtype))
    assert isinstance(result, Ragged)
    return result


def _splits_of(counts: Any, dtype: np.dtype[Any]) -> np.ndarray:
    splits = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=splits[1:])
    if splits[-1] > np.iinfo(dtype).max:
        raise SpecMismatch(f"row_splits_dtype: {dtype} cannot count the {splits[-1]:,} values of one batch; use int64")
    return splits.astype(dtype, copy=False)


def ragged_rank(shape: tuple[int | None, ...]) -> int:
    """How many dimensions of a batch of this shape are partitioned by row splits: up to the last that varies."""
    return max((axis for axis, n in enumerate(shape) if n is None and axis), default=0)


# --- batches joined and cut --------------------------------------------------------------------------------------


def join(pieces: Sequence[Any], allocate: Allocate) -> Any:
    """Batches joined along their first axis."""
    first = pieces[0]
    if len(pieces) == 1 or first is None:
        return first
    if isinstance(first, Ragged):
        ends = np.cumsum([piece.row_splits[-1] for piece in pieces])
        moved = [piece.row_splits[1:] + end for piece, end in zip(pieces[1:], ends, strict=False)]
        splits = np.concatenate([first.row_splits, *moved]).astype(first.row_splits.dtype, copy=False)
        return Ragged(join([piece.values for piece in pieces], allocate), splits)
    if isinstance(first, Sparse):
        return _join_sparse(pieces, allocate)
    for i, piece in enumerate(pieces):
        if not isinstance(piece, np.ndarray) or piece.shape[1:] != first.shape[1:] or piece.dtype != first.dtype:
            raise _unlike_parts(spec_of(first), spec_of(piece), i)
    out = allocate((sum(map(len, pieces)), *first.shape[1:]), first.dtype)
    np.concatenate(pieces, axis=0, out=out)
    return out


def flattened(leaves: Sequence[np.ndarray], rank: int, allocate: Allocate) -> np.ndarray:
    """Arrays joined along their first `rank` axes as one; each is copied once, whatever order its values lie in."""
    counts = [math.prod(leaf.shape[:rank]) for leaf in leaves]
    first = leaves[0]
    if all(leaf.flags.c_contiguous for leaf in leaves):
        flat = [leaf.reshape(n, *leaf.shape[rank:]) for leaf, n in zip(leaves, counts, strict=True)]
        return np.asarray(join(flat, allocate))
    for i, leaf in enumerate(leaves):
        if leaf.shape[rank:] != first.shape[rank:] or leaf.dtype != first.dtype:
            specs = [TensorSpec((counts[k], *leaves[k].shape[rank:]), leaves[k].dtype) for k in (0, i)]
            raise _unlike_parts(specs[0], specs[1], i)
    out = allocate((sum(counts), *first.shape[rank:]), first.dtype)
    start = 0
    for leaf, count in zip(leaves, counts, strict=True):
        out[start : start + count].reshape(leaf.shape)[...] = leaf
        start += count
    return out


def _unlike_parts(first: Any, other: Any, i: int) -> SpecMismatch:
    return SpecMismatch(
        f"expected parts of equal inner shape and dtype, got {describe(first)} for part 0 and {describe(other)} for "
        f"part {i}"
    )


def _join_sparse(pieces: Sequence[Sparse], allocate: Allocate) -> Sparse:
    dense_shape = _joined_shape([piece.dense_shape for piece in pieces])
    indices = join([piece.indices for piece in pieces], allocate)
    start = 0
    before = 0
    for piece in pieces:
        indices[start : start + len(piece.indices), 0] += before
        start += len(piece.indices)
        before += int(piece.dense_shape[0])
    return Sparse(indices, join([piece.values for piece in pieces], allocate), dense_shape)


def _joined_shape(shapes: Sequence[np.ndarray]) -> np.ndarray:
    """The dense shape of sparse arrays joined along their first axis."""
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise SpecMismatch(f"expected sparse parts of equal rank, got ranks {sorted(ranks)}")
    table = np.stack(shapes)
    return np.concatenate([[table[:, 0].sum()], table[:, 1:].max(axis=0)]).astype(np.int64)


def num_rows(leaves: Sequence[Any]) -> int:
    """The leading dimension that the leaves of one batch share."""
    counts = [_leading(leaf) for leaf in leaves if leaf is not None]
    if not counts:
        raise SpecMismatch("expected a batch, got an element without components that have a leading dimension")
    if counts.count(counts[0]) != len(counts):
        raise SpecMismatch(f"expected components with equal leading dimensions, got {', '.join(map(str, counts))}")
    return counts[0]


def _leading(leaf: Any) -> int:
    if isinstance(leaf, Ragged):
        return len(leaf)
    if isinstance(leaf, Sparse) and len(leaf.dense_shape):
        return int(leaf.dense_shape[0])
    if isinstance(leaf, np.ndarray) and leaf.ndim:
        return len(leaf)
    raise SpecMismatch(f"expected a batch, got a component without a leading dimension: {describe(spec_of(leaf))}")


def slice_rows(leaf: Any, start: int, stop: int) -> Any:
    """The rows from `start` to `stop` of a batch, as a view wherever it can be one."""
    if leaf is None:
        return None
    if isinstance(leaf, Ragged):
        splits = leaf.row_splits[start : stop + 1]
        return Ragged(slice_rows(leaf.values, int(splits[0]), int(splits[-1])), splits - splits[0])
    if isinstance(leaf, Sparse):
        first, last = np.searchsorted(leaf.indices[:, 0], [start, stop])
        indices = leaf.indices[first:last].copy()
        indices[:, 0] -= start
        dense_shape = leaf.dense_shape.copy()
        dense_shape[0] = stop - start
        return Sparse(indices, leaf.values[first:last], dense_shape)
    return leaf[start:stop]


def split_rows(leaf: Any, start: int, stop: int) -> list[Any]:
    """The rows from `start` to `stop`, each a leaf of its own."""
    if leaf is None:
        return [None] * (stop - start)
    if isinstance(leaf, Ragged):
        splits = leaf.row_splits[start : stop + 1].tolist()
        return [slice_rows(leaf.values, a, b) for a, b in pairwise(splits)]
    if isinstance(leaf, Sparse):
        bounds = np.searchsorted(leaf.indices[:, 0], np.arange(start, stop + 1)).tolist()
        return [
            Sparse(leaf.indices[a:b, 1:].copy(), leaf.values[a:b], leaf.dense_shape[1:]) for a, b in pairwise(bounds)
        ]
    return list(leaf[start:stop])


# --- specs -------------------------------------------------------------------------------------------------------


def batched_spec(leaf: Any, size: int | None) -> Any:
    """The spec of `size` leaves stacked (None: any number)."""
    if isinstance(leaf, DatasetSpec):
        raise BadType("cannot batch datasets; use flat_map to take the elements out of them first")
    if not isinstance(leaf, TensorSpec):
        return leaf
    return leaf.with_shape(None if leaf.shape is None else (size, *leaf.shape))


def unbatched_spec(leaf: Any) -> Any:
    """The spec of one row of a batch."""
    if isinstance(leaf, NoneSpec):
        return leaf
    if not isinstance(leaf, TensorSpec):
        raise BadType(f"expected batches, got {leaf}; use flat_map to take the elements out of datasets")
    if leaf.shape is None:
        return leaf
    if not leaf.shape:
        raise SpecMismatch(f"expected batches, got a scalar component {leaf}; use batch first")
    if isinstance(leaf, RaggedSpec) and ragged_rank(leaf.shape) <= 1:
        return TensorSpec(leaf.shape[1:], leaf.dtype)
    return leaf.with_shape(leaf.shape[1:])


def leading_dimension(element: Any) -> int | None:
    """The leading dimension that all components are known to have, or None; refuses two different ones."""
    if element is UNSEEN:
        return None
    shapes = [leaf.shape for leaf in spec_leaves(element) if isinstance(leaf, TensorSpec)]
    known = [shape[0] for shape in shapes if shape and shape[0] is not None]
    if any(n != known[0] for n in known):
        raise SpecMismatch(f"expected components with equal leading dimensions, got {', '.join(map(str, known))}")
    return known[0] if known else None
