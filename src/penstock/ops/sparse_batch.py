"""sparse_batch: consecutive arrays of unequal shape as one Sparse."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Allocate, Block
from ..cursor import Cursor, Feed, FeedCursor
from ..element import Failed, nbytes_of
from ..errors import BadType, PlanError, SpecMismatch
from ..leaf import Sparse, shape_of
from ..memory.singly import objects_bytes
from ..plan.footprint import ElementSize, Footprint, Sizes, held_singly, times
from ..plan.op import Context, Op, argument
from ..spec import (
    UNSEEN,
    DatasetSpec,
    RaggedSpec,
    Shape,
    SparseSpec,
    Spec,
    TensorSpec,
    describe,
    spec_of,
)
from .batching import batched_cardinality
from .padding import parse_shape
from .stacking import flattened

__all__ = ["SparseBatch"]


@dataclasses.dataclass(frozen=True)
class SparseBatch(Op):
    """Puts `batch_size` consecutive arrays into one `Sparse`, each in a row of shape `row_shape`.

    Elements must be arrays or scalars, of one component, and may differ in shape. Every value is kept, zeros too.

    Args:
        batch_size: Elements per batch.
        row_shape: The dense shape of a row; None stands for the largest size in the batch.

    Memory: batch_size × (twice the bytes of an element + 8 × (rank + 1) for each of its values).
    State: its input's.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.range(1, 4).map(lambda n: np.full(n, n))
    >>> [batch.to_dense().tolist() for batch in ds.sparse_batch(2, [3])]
    [[[1, 0, 0], [2, 2, 0]], [[3, 3, 3]]]
    """

    batch_size: int
    row_shape: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", argument("batch_size", self.batch_size, at_least=1))
        object.__setattr__(self, "row_shape", parse_shape("row_shape", self.row_shape, any_size=(None,)))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        cardinality = batched_cardinality(spec.cardinality, self.batch_size, False)
        if spec.element is UNSEEN:
            return Spec(UNSEEN, cardinality)
        leaf = spec.element
        if not isinstance(leaf, TensorSpec) or isinstance(leaf, (RaggedSpec, SparseSpec, DatasetSpec)):
            raise BadType(f"expected elements of one component, an array or a scalar, got {describe(leaf)}")
        if leaf.shape is not None:
            _check(self.row_shape, leaf.shape)
        return Spec(SparseSpec((None, *self.row_shape), leaf.dtype), cardinality)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        spec = sizes.specs[0]
        if isinstance(spec, TensorSpec) and spec.nbytes is not None:
            # At worst every value is there, with an index for each dimension and the element's own.
            assert spec.shape is not None
            indices = self.batch_size * math.prod(n or 0 for n in spec.shape) * 8 * (len(spec.shape) + 1)
            out: int | None = ElementSize((indices, self.batch_size * spec.nbytes), exact=True).slots(1)
        else:
            out = times(1, sizes.output, slots=True)
        each = held_singly(self.batch_size, sizes.input and sizes.input.as_copy())
        held = sizes.at_least_as_sampled(None if each is None or out is None else each + out)
        return Footprint(held, f"{self.batch_size:,} elements and the indices of their values in one batch", held)

    @property
    def batches_of(self) -> tuple[int, bool] | None:
        return self.batch_size, False

    def open(self, context: Context) -> Cursor:
        return _SparseBatchCursor(context, self.batch_size, self.row_shape)


def _check(row_shape: Shape, shape: Shape) -> None:
    """Refuses an element that does not fit into a row."""
    fits = len(row_shape) == len(shape) and all(
        m is None or n is None or n <= m for m, n in zip(row_shape, shape, strict=True)
    )
    if not fits:
        raise SpecMismatch(f"expected elements that fit into row_shape {list(row_shape)}, got shape {shape}")


class _SparseBatchCursor(FeedCursor):
    """Unlike other batches, an element that does not fit ends the batch at once: the next begins behind it."""

    __slots__ = ("_context", "_lease", "_row_shape", "_size")

    def __init__(self, context: Context, size: int, row_shape: Shape) -> None:
        super().__init__(context.input())
        self._context = context
        self._size = size
        self._row_shape = row_shape
        self._lease = context.share.acquire(0)

    def pull(self, n: int) -> Block | None:
        batches: list[Any] = []
        while len(batches) < n:
            rows = self._take()
            if not rows:
                break
            batches.append(rows if isinstance(rows, Failed) else self._collated(rows))
            del rows
            if n > 1 and nbytes_of(batches[-1]) > self._context.share.spare_bytes:
                break  # there may be no room for another one
        return Block.of_rows(batches) if batches else None

    def _take(self) -> list[Any] | Failed:
        rows: list[Any] = []
        self._lease.settle(0)
        while len(rows) < self._size:
            row = self.feed.next(self._size - len(rows))
            if row is Feed.END:
                break
            if type(row) is Failed:
                return row
            try:
                self._admit(row)
            except PlanError as error:
                return Failed(self._context.located(error))
            rows.append(row)
            # While it waits for the rest of its batch it is ours: its maker will be asked again.
            self._lease.settle(self._lease.nbytes + nbytes_of(row) + objects_bytes(row), single=True)
        return rows

    def _admit(self, row: Any) -> None:
        if not isinstance(row, (np.ndarray, np.generic, bytes)):
            raise BadType(f"expected elements of one component, an array or a scalar, got {describe(spec_of(row))}")
        _check(self._row_shape, shape_of(row))

    def _collated(self, rows: list[Any]) -> Any:
        try:
            return _sparse_of(rows, self._row_shape, self._context.arena.empty)
        except PlanError as error:
            return Failed(self._context.located(error))

    def skip(self, n: int) -> int:
        for skipped in range(n):
            if not self._take():
                return skipped
        return n

    def close(self) -> None:
        self._lease.release()
        super().close()


def _sparse_of(rows: list[Any], row_shape: Shape, allocate: Allocate) -> Sparse:
    arrays = [_as_array(row) for row in rows]
    sizes = [array.size for array in arrays]
    indices = allocate((sum(sizes), len(row_shape) + 1), np.dtype(np.int64))
    start = 0
    for i, array in enumerate(arrays):
        part = indices[start : start + array.size].reshape(*array.shape, array.ndim + 1)
        part[..., 0] = i
        for axis, size in enumerate(array.shape):
            part[..., axis + 1] = np.arange(size).reshape(-1, *[1] * (array.ndim - axis - 1))
        start += array.size
    values = flattened(arrays, len(row_shape), allocate)
    largest = np.max([array.shape for array in arrays], axis=0).tolist()
    inner = [n if m is None else m for m, n in zip(row_shape, largest, strict=True)]
    return Sparse(indices, values, np.array([len(rows), *inner], np.int64))


def _as_array(row: Any) -> np.ndarray:
    if type(row) is bytes:
        array = np.empty((), object)
        array[()] = row
        return array
    return np.asarray(row)
