"""padded_batch: consecutive elements padded to one shape and stacked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor
from ..plan.footprint import ElementSize, Footprint, Sizes, held_singly, times
from ..plan.op import Context, Op, argument
from ..spec import UNSEEN, Spec
from .batching import batched_cardinality
from .collating import CollatingCursor
from .padding import Padder

__all__ = ["PaddedBatch"]


@dataclasses.dataclass(frozen=True)
class PaddedBatch(Op):
    """Pads `batch_size` consecutive elements to one shape and stacks them along a new first axis.

    Args:
        batch_size: Elements per batch.
        padded_shapes: The shape to pad to, nested like the elements: sizes, with None (or -1) for the largest of the
            batch. None pads every dimension to the largest of the batch.
        padding_values: The value to pad with, nested like the elements, or one for all. None pads numbers with 0,
            booleans with False and strings with the empty string. A value must be of its component's dtype; Python's
            own numbers take any dtype of their kind.
        drop_remainder: Whether a last batch with fewer elements is left out.

    Memory: batch_size × (the bytes of an element + those of a padded one).
    State: its input's.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.range(1, 4).map(lambda n: np.full(n, n))
    >>> for batch in ds.padded_batch(2):
    ...     print(batch.tolist())
    [[1, 0], [2, 2]]
    [[3, 3, 3]]
    """

    batch_size: int
    padded_shapes: Any = None
    padding_values: Any = None
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", argument("batch_size", self.batch_size, at_least=1))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        element = self._padder().spec(spec.element, self.batch_size if self.drop_remainder else None)
        return Spec(element, batched_cardinality(spec.cardinality, self.batch_size, self.drop_remainder))

    def _padder(self) -> Padder:
        return Padder(self.padded_shapes, self.padding_values)

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        return inputs[0].stacked(self.batch_size)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        each = (times if sizes.is_stacked else held_singly)(self.batch_size, sizes.input)
        known = None if sizes.specs[0] is UNSEEN else self._padder().spec(sizes.specs[0], self.batch_size)
        padded = None if known is None else ElementSize.of_spec(known)
        out = times(self.batch_size, sizes.input, slots=True) if padded is None else padded.slots(1)
        held = sizes.at_least_as_sampled(None if each is None or out is None else each + out)
        return Footprint(held, f"{self.batch_size:,} elements, and as many padded in one batch", held)

    @property
    def batches_of(self) -> tuple[int, bool] | None:
        return self.batch_size, self.drop_remainder

    def open(self, context: Context) -> Cursor:
        padder, allocate = self._padder(), context.arena.empty

        def collate(blocks: list[Block]) -> Any:
            return padder.collate(blocks, allocate)

        return CollatingCursor(context, self.batch_size, self.drop_remainder, collate)
