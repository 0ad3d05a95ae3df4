"""The order of one of several equal parts of a dataset: what each process of a training gets."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from .order import Index, Length, Order, ShardOrder, as_array

__all__ = ["PartOrder", "Remainder", "part_size"]


#: What becomes of elements that are too few to give one to each part.
Remainder = Literal["drop", "drop_remainder", "pad", "keep"]


def part_size(
    length: Length, num_parts: int, index: int, batch_size: int, drops_batch: bool, remainder: Remainder
) -> Length:
    """How many elements this one of some parts gets, so that all have equally many batches.

    The part with the fewest elements decides how many batches there are, or the one with the most if others are padded.
    With `"keep"` each has what falls to it.
    """
    if length == math.inf:
        return length
    length = int(length)

    def num_batches(size: int) -> int:
        return size // batch_size if drops_batch else -(-size // batch_size)

    own = max(0, (length - index + num_parts - 1) // num_parts)
    pads = remainder == "pad"
    wanted = num_batches(-(-length // num_parts) if pads else length // num_parts)
    if num_batches(own) == wanted or remainder == "keep":
        return own
    if not pads or drops_batch:
        return wanted * batch_size
    return (wanted - 1) * batch_size + 1


class PartOrder(ShardOrder):
    """Like a shard, but so long that all parts have equally many batches: cut at its end, or the last place twice."""

    __slots__ = ("_size",)

    def __init__(
        self, inner: Order, num_parts: int, index: int, batch_size: int, drops_batch: bool, remainder: Remainder
    ) -> None:
        super().__init__(inner, num_parts, index)
        self._size = part_size(inner.length, num_parts, index, batch_size, drops_batch, remainder)

    @property
    def length(self) -> Length:
        return self._size

    def slice(self, start: int, stop: int) -> Index:
        stop = int(min(stop, self._size))
        own = int(min(stop, super().length))
        index = super().slice(start, own)
        if own == stop or start >= stop:
            return index
        return np.concatenate([as_array(index), self._last(stop - max(start, own))])

    def _last(self, count: int) -> np.ndarray:
        """The last place of this part, or of all where it has none."""
        own = int(super().length)
        place = (own - 1) * self.num_shards + self.index if own else int(self.inner.length) - 1
        return np.repeat(as_array(self.inner.slice(place, place + 1)), count)

    def at(self, places: np.ndarray) -> np.ndarray:
        own = super().length
        if self._size <= own or not (places >= own).any():
            return super().at(places)
        found = np.empty(len(places), np.int64)
        beyond = places >= own
        found[~beyond] = super().at(places[~beyond])
        found[beyond] = self._last(int(beyond.sum()))
        return found
