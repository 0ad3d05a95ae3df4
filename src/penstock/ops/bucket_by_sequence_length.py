"""bucket_by_sequence_length: batches of elements of similar length."""

from __future__ import annotations

import dataclasses
import functools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..block import Block
from ..cursor import Cursor, State
from ..element import Failed, nbytes_of
from ..errors import BadArgument, BadType, PlanError, SpecMismatch
from ..plan.footprint import Footprint, Sizes, laid_in_one
from ..plan.op import Context, Op, argument
from ..spec import INFINITE, UNKNOWN, UNSEEN, Spec, TensorSpec, map_specs
from .calling import call, check_callable
from .grouping import Group, Grouping, as_integer, least_held
from .padding import Padder
from .stacking import batched_spec, collate

__all__ = ["BucketBySequenceLength"]

Collator = Callable[[list[Any]], Any]


@dataclasses.dataclass(frozen=True)
class BucketBySequenceLength(Op):
    """Batches elements of similar length together, so that little is padded.

    Element lengths are divided into buckets at `bucket_boundaries`; a bucket that has as many elements as its batch
    size gives a batch. At the end of the input what is left in the buckets comes too, shortest first.

    Args:
        element_length_func: The length of an element, one integer.
        bucket_boundaries: Lengths that divide the buckets: the first holds those below the first boundary, the last
            those from the last boundary on.
        bucket_batch_sizes: Elements per batch, one number for each bucket: one more than there are boundaries.
        padded_shapes: As for `padded_batch`.
        padding_values: As for `padded_batch`.
        pad_to_bucket_boundary: Pads dimensions of unknown size to the longest length of the bucket (its boundary less
            1) instead of the largest in the batch; lengths from the last boundary on are then refused. Which dimensions
            those are tell `padded_shapes`, or else the spec; after a user's function, where there is none, it is the
            first dimension of each component.
        no_padding: Stacks elements as they are, which must have equal shapes.
        drop_remainder: Whether smaller batches at the end are left out.

    Memory: up to the sum of bucket_batch_sizes elements, and one padded batch.
    State: integers for each element held, and a position of its input from which they are read again.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.from_tensor_slices(np.array([1, 4, 2, 5])).map(lambda n: np.full(n, n))
    >>> for batch in ds.bucket_by_sequence_length(len, bucket_boundaries=[3], bucket_batch_sizes=[2, 2]):
    ...     print(batch.tolist())
    [[1, 0], [2, 2]]
    [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]]
    """

    element_length_func: Callable[..., Any]
    bucket_boundaries: Sequence[int]
    bucket_batch_sizes: Sequence[int]
    padded_shapes: Any = None
    padding_values: Any = None
    pad_to_bucket_boundary: bool = False
    no_padding: bool = False
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        check_callable("element_length_func", self.element_length_func)
        boundaries = _integers("bucket_boundaries", self.bucket_boundaries, None)
        sizes = _integers("bucket_batch_sizes", self.bucket_batch_sizes, 1)
        if len(sizes) != len(boundaries) + 1:
            raise BadArgument(
                f"bucket_batch_sizes: expected {len(boundaries) + 1} sizes for {len(boundaries)} boundaries, "
                f"got {len(sizes)}"
            )
        object.__setattr__(self, "bucket_boundaries", boundaries)
        object.__setattr__(self, "bucket_batch_sizes", sizes)
        if isinstance(self.padded_shapes, (list, tuple)) and not self.padded_shapes:
            object.__setattr__(self, "padded_shapes", None)  # as in tf.data, which takes both for "not given"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if self.no_padding:
            element = map_specs(lambda leaf: batched_spec(leaf, None), spec.element)
        else:
            element = Padder(self.padded_shapes, self.padding_values).spec(spec.element, None)
        return Spec(element, INFINITE if spec.cardinality == INFINITE else UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        count = sum(self.bucket_batch_sizes)
        each = least_held(len(self.bucket_batch_sizes), count, sizes.input)
        out = laid_in_one(max(self.bucket_batch_sizes), sizes.input and sizes.input.as_copy())
        held = sizes.at_least_as_sampled(None if each is None or out is None else each + out)
        return Footprint(held, f"up to {count:,} elements in the buckets, and one batch of them", held)

    def open(self, context: Context) -> Cursor:
        return _BucketCursor(context, self, self._collators(context))

    def bucket_of(self, row: Any) -> int:
        """The bucket that an element belongs to."""
        length = as_integer(call(self.element_length_func, row), "element_length_func")
        if self._ascending:
            return bisect_right(self.bucket_boundaries, length)
        lower: float = -float("inf")
        for bucket, upper in enumerate((*self.bucket_boundaries, float("inf"))):
            if lower <= length < upper:
                return bucket
            lower = upper
        raise AssertionError("the last bucket has no upper boundary")

    @functools.cached_property
    def _ascending(self) -> bool:
        return all(a < b for a, b in pairwise(self.bucket_boundaries))

    def size_of(self, bucket: int) -> int:
        """Elements per batch of a bucket."""
        return self.bucket_batch_sizes[bucket]

    def _collators(self, context: Context) -> list[Collator]:
        """What makes a batch of elements, for each bucket."""
        allocate = context.arena.empty
        if self.no_padding:
            return [lambda rows: collate(rows, allocate)] * len(self.bucket_batch_sizes)
        shapes = self.padded_shapes
        known = context.node.input.spec.element
        if shapes is None and known is not UNSEEN:
            shapes = map_specs(_shape, known)
        if not self.pad_to_bucket_boundary:
            padder = Padder(shapes, self.padding_values)
            return [lambda rows: padder.collate_rows(rows, allocate)] * len(self.bucket_batch_sizes)
        padders = [Padder(shapes, self.padding_values, boundary - 1) for boundary in self.bucket_boundaries]
        return [*[lambda rows, p=p: p.collate_rows(rows, allocate) for p in padders], self._refuse]

    def _refuse(self, rows: list[Any]) -> Any:
        last = f"below {self.bucket_boundaries[-1]}" if self.bucket_boundaries else "below a boundary"
        raise SpecMismatch(f"pad_to_bucket_boundary: expected elements of length {last}, got longer ones")


def _integers(name: str, values: Any, at_least: int | None) -> tuple[int, ...]:
    try:
        items = list(values)
    except TypeError:
        raise BadType(f"{name}: expected a list of integers, got {type(values).__name__} {values!r}") from None
    return tuple(argument(f"{name}[{i}]", item, at_least=at_least) for i, item in enumerate(items))


def _shape(leaf: Any) -> Any:
    return leaf.shape if isinstance(leaf, TensorSpec) else None


class _BucketCursor(Cursor):
    def __init__(self, context: Context, op: BucketBySequenceLength, collators: list[Collator]) -> None:
        self._context = context
        self._collators = collators
        self._sizes = op.bucket_batch_sizes if op.drop_remainder else None
        self._grouping = Grouping(context, op.bucket_of, op.size_of, min(op.bucket_batch_sizes))

    def pull(self, n: int) -> Block | None:
        batches: list[Any] = []
        while len(batches) < n:
            group = self._next()
            if group is None:
                break
            batches.append(group if isinstance(group, Failed) else self._collated(group))
            del group
            if n > 1 and nbytes_of(batches[-1]) > self._context.share.spare_bytes:
                break  # there may be no room for another one
        return Block.of_rows(batches) if batches else None

    def _next(self) -> Group | Failed | None:
        """The next bucket that gives a batch."""
        while True:
            group = self._grouping.next()
            if not isinstance(group, Group) or self._sizes is None or len(group.members) == self._sizes[group.key]:
                return group
            self._grouping.release(group)

    def _collated(self, group: Group) -> Any:
        try:
            return self._collators[group.key](group.rows)
        except PlanError as error:
            return Failed(self._context.located(error))
        finally:
            self._grouping.release(group)

    def skip(self, n: int) -> int:
        for skipped in range(n):
            group = self._next()
            if group is None:
                return skipped
            if isinstance(group, Group):
                self._grouping.release(group)
        return n

    def state(self) -> State:
        return self._grouping.state()

    def restore(self, state: State) -> None:
        self._grouping.restore(state)

    def close(self) -> None:
        self._grouping.close()
