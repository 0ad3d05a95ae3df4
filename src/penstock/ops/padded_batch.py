"""padded_batch: consecutive elements padded to one shape and stacked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor
from ..plan.op import Context, Footprint, Op, argument
from ..spec import Spec, element_bytes
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

    Memory: batch_size × the bytes of a padded element.
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

    def footprint(self, inputs: Sequence[Spec]) -> Footprint | None:
        batch = self._padder().spec(inputs[0].element, self.batch_size)
        return Footprint(element_bytes(batch), f"{self.batch_size:,} padded elements in one batch")

    def open(self, context: Context) -> Cursor:
        padder, allocate = self._padder(), context.arena.empty

        def collate(blocks: list[Block]) -> Any:
            return padder.collate(blocks, allocate)

        return CollatingCursor(context, self.batch_size, self.drop_remainder, collate)
