"""Filling a batch: which functions are worth it, and their results side by side in its slot.

A function that decodes images makes large results, each in about the same time, and is busy all the while. So threads
that share a batch end at about the same time, and each writes what it has made to its place while the processor's cache
still has it. Who waits for something else (a server, a disk) does better if nobody waits for the end of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, nbytes_of
from ..errors import OverBudget
from ..options import AUTOTUNE
from ..plan.op import Context, Room
from .calling import Calls
from .stack import Likeness

__all__ = ["FillingCalls", "decodes_images", "is_worth_filling"]

# At the end of a batch threads wait for the last, on average for half an element: a 16th of their time at most.
_FEWEST_PER_THREAD = 8

_DECODERS = frozenset(("decode_jpeg", "decode_and_crop_jpeg", "decode_png", "decode_bmp", "decode_image"))
# How far functions are followed that a function calls.
_DEEPEST = 3


def decodes_images(function: Any, depth: int = 0) -> bool:
    """Whether a function, or one that it calls, names a decoder of images. A guess, on which only speed depends."""
    if hasattr(type(function), "decodes_images"):  # one of our own
        return bool(function.decodes_images)
    if type(function) is not FunctionType or depth == _DEEPEST:
        return False
    names = function.__code__.co_names
    if not _DECODERS.isdisjoint(names):
        return True
    captured = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    called = [*(function.__globals__.get(name) for name in names), *captured]
    return any(type(other) is FunctionType and decodes_images(other, depth + 1) for other in called)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable without a value as yet
        return False


def is_worth_filling(num_parallel_calls: int, size: int) -> bool:
    """Whether threads that share batches of so many hardly ever wait for each other."""
    num_threads = (os.cpu_count() or 1) if num_parallel_calls == AUTOTUNE else num_parallel_calls
    return size >= _FEWEST_PER_THREAD * num_threads


class FillingCalls:
    """A user's function as a function of blocks: called by a crew, each result written to its place in one slot.

    What it makes first is made alone, and tells how large the slot must be. Results that cannot be stacked stay as they
    are. One that is unlike the first, an error, or one that is larger ends the block: there is no room for more.

    Args:
        function: The function.
        context: Where the crew and slots come from.
        size: How many elements a batch has.
    """

    def __init__(self, function: Callable[..., Any], context: Context, size: int) -> None:
        assert context.crew is not None
        self._calls = Calls(function, context)
        self._crew = context.crew
        self._arena = context.arena
        self._size = size
        self._like: Likeness | None = None
        self._largest_bytes = 0

    def __call__(self, block: Block, place: int) -> Block:
        return self.until_full(block, place, None)

    def until_full(self, block: Block, place: int, room: Room | None) -> Block:
        """What it makes of the first elements of a block, as many as there is room for, one at least."""
        if block.size == 1 or not self._largest_bytes:
            return self._alone(block[:1], place, room)
        if self._like is None:
            return self._listed(block, place, room)
        size = max(block.size, self._size) if self._is_worth_a_whole(block.size, self._like) else block.size
        try:
            stack = self._like.stack(size, self._arena.empty)
        except OverBudget:
            if room is None:
                raise
            return self.until_full(block[: block.size // 2], place, room)
        rows, one, put = block.rows(), self._calls.one, stack.putter()
        unlike: dict[int, Any] = {}

        def make(i: int) -> bool:
            result = one(rows[i], place + i, place + i, block, i)
            if put(i, result):
                return True
            unlike[i] = result
            return False

        count = self._crew.each(make, block.size)
        positions = _first(block.positions, count)
        if not unlike:
            made = stack.block(size, None)[:count]
            made.positions = positions
            return made
        if room is not None:
            room.add(sum(map(nbytes_of, unlike.values())), len(unlike))
        results = stack.rows(count)
        for i, result in unlike.items():
            results[i] = result
        return Block.of_rows(results, positions)

    def _is_worth_a_whole(self, count: int, like: Likeness) -> bool:
        """Whether so many results go into the slot of a whole batch: the next one may use it again."""
        if 2 * count >= self._size:
            return True
        return all(self._arena.lies_free((self._size, *(shape or ())), dtype) for _, shape, dtype in like.leaves)

    def _alone(self, block: Block, place: int, room: Room | None) -> Block:
        made = self._calls.until_full(block, place, room)
        (row,) = made.rows()
        if type(row) is not Failed:
            self._like = Likeness.of(row)
            self._largest_bytes = max(self._largest_bytes, nbytes_of(row))
        return made

    def _listed(self, block: Block, place: int, room: Room | None) -> Block:
        """Results as rows, on the account before they are there."""
        rows, one, most_bytes = block.rows(), self._calls.one, self._largest_bytes
        results: list[Any] = [None] * block.size
        if room is not None:
            room.add(most_bytes * block.size, block.size)

        def make(i: int) -> bool:
            results[i] = result = one(rows[i], place + i, place + i, block, i)
            return nbytes_of(result) <= most_bytes

        count = self._crew.each(make, block.size)
        self._largest_bytes = max(most_bytes, *map(nbytes_of, results[:count]))
        if room is not None and self._largest_bytes > most_bytes:
            larger = [nbytes_of(result) - most_bytes for result in results[:count]]
            room.add(sum([nbytes for nbytes in larger if nbytes > 0]))
        return Block.of_rows(results[:count], _first(block.positions, count))


def _first(positions: np.ndarray | None, count: int) -> np.ndarray | None:
    return None if positions is None else positions[:count]
