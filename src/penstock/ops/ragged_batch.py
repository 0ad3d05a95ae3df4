"""ragged_batch: consecutive elements of unequal shape as one Ragged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..cursor import Cursor
from ..element import Structure
from ..errors import BadArgument, BadType
from ..leaf import shape_of
from ..plan.footprint import ElementSize, Footprint, Sizes, held_singly, laid_in_one, times
from ..plan.op import Context, Op, argument
from ..spec import UNSEEN, RaggedSpec, SparseSpec, Spec, TensorSpec, map_specs, spec_leaves
from .batching import batched_cardinality
from .collating import CollatingCursor
from .stacking import batched_spec, ragged_of, ragged_rank, stack

__all__ = ["RaggedBatch"]


@dataclasses.dataclass(frozen=True)
class RaggedBatch(Op):
    """Puts `batch_size` consecutive elements of unequal shape into one `Ragged`.

    As in tf.data a component whose shape is fully known is stacked as by `batch`; one with dimensions that may vary
    becomes a `Ragged`, nested up to the last such dimension. After a user's function nothing is known of shapes before
    the run: scalars are stacked, arrays become a `Ragged` in which every dimension may vary, whatever the batch at
    hand looks like.

    Args:
        batch_size: Elements per batch.
        drop_remainder: Whether a last batch with fewer elements is left out.
        row_splits_dtype: int64 or int32.

    Memory: 2 × batch_size × the bytes of an element, and row_splits.
    State: its input's.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.range(4).map(lambda n: np.full(n, n))
    >>> [batch.to_list() for batch in ds.ragged_batch(2)]
    [[[], [1]], [[2, 2], [3, 3, 3]]]
    """

    batch_size: int
    drop_remainder: bool = False
    row_splits_dtype: Any = np.int64

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", argument("batch_size", self.batch_size, at_least=1))
        given = self.row_splits_dtype
        try:
            dtype = np.dtype(getattr(given, "as_numpy_dtype", given))
        except TypeError:
            raise BadType(f"row_splits_dtype: expected int64 or int32, got {given!r}") from None
        if given is None or dtype not in (np.int64, np.int32):
            raise BadArgument(f"row_splits_dtype: expected int64 or int32, got {given!r}")
        object.__setattr__(self, "row_splits_dtype", dtype)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        size = self.batch_size if self.drop_remainder else None
        element = map_specs(lambda leaf: _batched(leaf, size), spec.element)
        return Spec(element, batched_cardinality(spec.cardinality, self.batch_size, self.drop_remainder))

    def spec_of_seen(self, inputs: Sequence[Spec]) -> Spec:
        # Shapes that nobody stated are ragged, whatever that of the first element is.
        (spec,) = inputs
        return self.spec([Spec(map_specs(_of_any_shape, spec.element), spec.cardinality)])

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        values = sum(inputs[0].gathered(self.batch_size).leaves)
        return ElementSize((values + 8 * (self.batch_size + 1),), exact=False)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        each = (times if sizes.is_stacked else held_singly)(self.batch_size, sizes.input)
        out = laid_in_one(self.batch_size, sizes.input)
        splits = 16 * (self.batch_size + 1)
        held = sizes.at_least_as_sampled(None if each is None or out is None else each + out + splits)
        return Footprint(held, f"{self.batch_size:,} elements, and as many in one batch", held)

    @property
    def batches_of(self) -> tuple[int, bool] | None:
        return self.batch_size, self.drop_remainder

    def open(self, context: Context) -> Cursor:
        known = context.node.input.spec.element
        ranks = None if known is UNSEEN else [_rank(leaf) for leaf in spec_leaves(known)]
        splits_dtype, allocate = self.row_splits_dtype, context.arena.empty

        def leaf_of(leaves: Sequence[Any], rank: int | None) -> Any:
            if rank is None:
                rank = len(shape_of(leaves[0])) if isinstance(leaves[0], np.ndarray) else 0
            return ragged_of(leaves, rank, splits_dtype, allocate) if rank else stack(leaves, allocate)

        def collate(blocks: list[Block]) -> Any:
            if ranks is not None and not any(ranks) and all(block.columns is not None for block in blocks):
                joined = concat_blocks(blocks, allocate)
                if joined is not None:
                    return joined.as_element()
            rows = [row for block in blocks for row in block.rows()]
            structure = Structure.of(rows[0])
            by_leaf = list(zip(*[structure.flatten(row) for row in rows], strict=True))
            of_leaf = ranks if ranks is not None else [None] * len(by_leaf)
            return structure.unflatten([leaf_of(*pair) for pair in zip(by_leaf, of_leaf, strict=True)])

        return CollatingCursor(context, self.batch_size, self.drop_remainder, collate)


def _rank(leaf: Any) -> int:
    """How many dimensions of a component become ragged."""
    if not isinstance(leaf, TensorSpec) or isinstance(leaf, (RaggedSpec, SparseSpec)) or leaf.shape is None:
        return 0
    return ragged_rank((None, *leaf.shape))


def _of_any_shape(leaf: Any) -> Any:
    return leaf if type(leaf) is not TensorSpec or leaf.shape is None else leaf.with_shape((None,) * len(leaf.shape))


def _batched(leaf: Any, size: int | None) -> Any:
    if _rank(leaf):
        return RaggedSpec((size, *leaf.shape), leaf.dtype)
    return batched_spec(leaf, size)
