"""rebatch: batches of another size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, PlanError, SpecMismatch
from ..plan.footprint import ElementSize, Footprint, Sizes, times
from ..plan.op import Context, Op, argument
from ..plan.traits import TAKES_ROWS, Traits
from ..spec import UNKNOWN, UNSEEN, RaggedSpec, SparseSpec, Spec, TensorSpec, map_specs, spec_leaves, structure_of_spec
from .batches import Batches, Piece
from .stacking import batched_spec, join, leading_dimension, unbatched_spec

__all__ = ["Rebatch"]


@dataclasses.dataclass(frozen=True)
class Rebatch(Op):
    """Cuts and joins batches to batches of another size, as `unbatch().batch(batch_size)` would.

    Rows are copied only where a new batch spans several old ones; else it is a view.

    Args:
        batch_size: Rows per batch, or several sizes that are used in turn, over and over. A size of 0 among several
            gives an empty batch.
        drop_remainder: Whether a last batch with fewer rows is left out.

    Memory: the batches of its input that one new batch spans.
    State: two integers and its input's.

    >>> import penstock as ps
    >>> [batch.tolist() for batch in ps.Dataset.range(8).batch(4).rebatch([3, 1])]
    [[0, 1, 2], [3], [4, 5, 6], [7]]
    """

    batch_size: int | Sequence[int]
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", _sizes(self.batch_size))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes used in turn."""
        return (self.batch_size,) if isinstance(self.batch_size, int) else tuple(self.batch_size)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        size = self._static_size(leading_dimension(spec.element))
        element = map_specs(lambda leaf: _resized(leaf, size), spec.element)
        return Spec(element, UNKNOWN)

    def _static_size(self, before: int | None) -> int | None:
        """The size that all batches are known to have, as tf.data tells it."""
        sizes = self.sizes
        if any(size != sizes[0] for size in sizes):
            return None
        divides = before is not None and before % sizes[0] == 0
        return sizes[0] if self.drop_remainder or divides else None

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        return inputs[0].stacked(max(self.sizes))  # of batches with one row, at worst

    def footprint(self, sizes: Sizes) -> Footprint | None:
        batch, known = sizes.input, leading_dimension(sizes.specs[0]) or _num_rows(sizes)
        batches = None if batch is None or not known else (max(self.sizes) + 2 * known - 2) // known
        if batches is not None and sizes.count >= 0:
            batches = min(batches, sizes.count)
        if batches is None or batch is None:
            held = sizes.at_least_as_seen(None)
            if held is not None:  # the last batch may have fewer rows than all before, and waits with the one before it
                held += times(1, batch) or 0
        else:
            held = (times(batches, batch) or 0) + batch.slots(batches)
        return Footprint(held, f"the batches that {max(self.sizes):,} rows span, and those rows", held)

    @property
    def traits(self) -> Traits:
        return TAKES_ROWS

    @property
    def regrouping(self) -> tuple[int, bool] | None:
        return (self.sizes[0], self.drop_remainder) if len(self.sizes) == 1 else None

    def open(self, context: Context) -> Cursor:
        return _RebatchCursor(context, self.sizes, self.drop_remainder)


def _sizes(given: Any) -> int | tuple[int, ...]:
    if isinstance(given, np.ndarray) and given.ndim > 1:
        raise BadArgument(f"batch_size: expected an integer or a list of them, got an array of shape {given.shape}")
    if not isinstance(given, (list, tuple)) and not (isinstance(given, np.ndarray) and given.ndim):
        return argument("batch_size", given, at_least=1)
    sizes = tuple(argument(f"batch_size[{i}]", size, at_least=0) for i, size in enumerate(given))
    if not any(sizes):
        raise BadArgument(f"batch_size: expected at least one size above 0, got {list(sizes)}")
    return sizes


def _num_rows(sizes: Sizes) -> int | None:
    """Rows of the largest batch, where its size is known and that of a row."""
    if sizes.input is None or sizes.specs[0] is UNSEEN:
        return None
    leaves = spec_leaves(sizes.specs[0])
    if len(leaves) != len(sizes.input.leaves):
        return None
    for leaf, nbytes in zip(leaves, sizes.input.leaves, strict=True):
        if type(leaf) is TensorSpec and leaf.shape and None not in leaf.shape[1:] and not leaf.dtype.hasobject:
            row_bytes = leaf.dtype.itemsize * math.prod(n or 0 for n in leaf.shape[1:])
            if row_bytes:
                return nbytes // row_bytes
    return None


def _resized(leaf: Any, size: int | None) -> Any:
    if isinstance(leaf, RaggedSpec):
        unbatched_spec(leaf)
        return leaf if leaf.shape is None else leaf.with_shape((size, *leaf.shape[1:]))
    return batched_spec(unbatched_spec(leaf), size)


class _RebatchCursor(Cursor):
    def __init__(self, context: Context, sizes: tuple[int, ...], drop_remainder: bool) -> None:
        self._context = context
        self._batches = Batches(context)
        self._sizes = sizes
        self._drop_remainder = drop_remainder
        self._turn = 0
        self._ended = False
        self._empty = _empty_batch(context.node.input.spec.element) if 0 in sizes else None

    def pull(self, n: int) -> Block | None:
        batches: list[Any] = []
        while len(batches) < n:
            pieces = self._next(n - len(batches))
            if pieces is None:
                break
            batches.append(pieces if isinstance(pieces, Failed) else self._joined(pieces))
            self._batches.release()
        return Block.of_rows(batches) if batches else None

    def _next(self, demand: int = 1) -> list[Piece] | Failed | None:
        """The pieces of the next batch; `demand` is how many batches will be made from here on."""
        if self._ended:
            return None
        size = self._sizes[self._turn]
        if size == 0 and self._empty is None:
            return self._next_empty()
        pieces: list[Piece] = []
        count = 0
        while count < size:
            piece = self._batches.next(size - count, size * demand - count)
            if isinstance(piece, Failed):
                return piece  # what was gathered is lost, as in tf.data; the same size is tried again
            if piece is None:
                self._ended = True
                break
            pieces.append(piece)
            count += piece.size
            if count < size:
                self._batches.hold(piece)
        self._turn = (self._turn + 1) % len(self._sizes)
        if (size and not count) or (self._drop_remainder and count < size):
            self._ended = True
            return None
        return pieces

    def _next_empty(self) -> list[Piece] | Failed | None:
        """An empty batch like the one to come, where the spec does not say what batches look like."""
        piece = self._batches.no_rows()
        if isinstance(piece, Failed):
            return piece
        if piece is None:
            self._ended = True
            return None
        self._turn = (self._turn + 1) % len(self._sizes)
        return [piece]

    def _joined(self, pieces: list[Piece]) -> Any:
        if not pieces:
            return self._empty
        structure = pieces[0].structure
        try:
            if any(piece.structure != structure for piece in pieces):
                seen = " and ".join(dict.fromkeys(str(piece.structure) for piece in pieces))
                raise SpecMismatch(f"expected batches of equal structure, got {seen}")
            # Equal dicts may have their keys in another order: leaves are matched by the first one's.
            cuts = [structure.flatten(piece.structure.unflatten(piece.cut())) for piece in pieces]
            by_leaf = zip(*cuts, strict=True)
            return structure.unflatten([join(parts, self._context.arena.empty) for parts in by_leaf])
        except PlanError as error:
            return Failed(self._context.located(error))

    def skip(self, n: int) -> int:
        for skipped in range(n):
            if self._next() is None:
                return skipped
            self._batches.release()
        return n

    def state(self) -> State:
        return [self._turn, int(self._ended), self._batches.state()]

    def restore(self, state: State) -> None:
        self._turn, ended, below = expect_list(state, 3)
        self._ended = bool(ended)
        self._batches.restore(below)

    def close(self) -> None:
        self._batches.close()


def _empty_batch(element: Any) -> Any:
    """A batch without rows, as far as the spec says how it looks; dimensions of unknown size are 0, as in tf.data."""
    if element is UNSEEN:
        return None
    columns = []
    for leaf in spec_leaves(element):
        if not isinstance(leaf, TensorSpec) or isinstance(leaf, (RaggedSpec, SparseSpec)) or leaf.shape is None:
            return None
        columns.append(np.empty((0, *(n or 0 for n in leaf.shape[1:])), leaf.dtype))
    return structure_of_spec(element).unflatten(columns)
