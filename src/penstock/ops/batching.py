"""What all operators that make batches share: how many elements to take, and how many batches that gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..block import Block
from ..cursor import Feed
from ..element import nbytes_of
from ..memory.arena import SMALLEST_SLOT_BYTES
from ..memory.singly import FEW, num_at_once

__all__ = ["batched_cardinality", "num_batches", "take_blocks"]


def batched_cardinality(cardinality: int, size: int, drop_remainder: bool) -> int:
    """How many batches of `size` there are in a dataset of this cardinality."""
    if cardinality < 0:
        return cardinality
    return cardinality // size if drop_remainder else -(-cardinality // size)


def num_batches(n: int, first: Any) -> int:
    """How many batches like the first to make at once, of n that were asked for: small ones are many objects."""
    return n if n <= FEW else min(n, num_at_once(first, min(nbytes_of(first), SMALLEST_SLOT_BYTES)))


def take_blocks(feed: Feed, size: int, keep: Callable[[Block], Block]) -> tuple[list[Block], int]:
    """Blocks with `size` elements in all, or what is left; each that must wait for another is what `keep` makes of it.

    A failure ends it, as the last element of the last block: what was gathered before it is lost with it, as in
    tf.data, and the next batch begins behind it.
    """
    blocks: list[Block] = []
    count = 0
    while count < size:
        block = feed.take(size - count)
        if block is None:
            break
        count += block.size
        is_last = block.has_failures or count == size
        blocks.append(block if is_last else keep(block))
        if is_last:
            break
    return blocks, count
