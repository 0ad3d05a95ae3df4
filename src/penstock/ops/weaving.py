"""Parts of blocks put together: one after the other, or in turn."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from ..block import Allocate, Block, Origins, origin_at

__all__ = ["SMALL_BYTES", "interleaved", "joined", "unnumbered"]

# What is gathered is stacked as long as it has no more bytes than this: then a copy costs less than many small parts.
SMALL_BYTES = 1 << 16


def unnumbered(block: Block) -> Block:
    """Without positions: those count the elements of one inner dataset."""
    if block.positions is not None:
        block.positions = None
    return block


def joined(parts: list[Block], allocate: Allocate) -> Block:
    """Parts as one block, stacked where they are small and alike."""
    if len(parts) == 1:
        return unnumbered(parts[0])
    if _are_alike(parts):
        count = sum([part.size for part in parts])
        by_leaf = zip(*[part.columns or () for part in parts], strict=True)
        stacked = [_stacked_column(leaves, count, allocate) for leaves in by_leaf]
        columns = [column for column in stacked if column is not None]
        if len(columns) == len(stacked):
            return Block.of_columns(parts[0].structure, columns, count)
    rows: list[Any] = []
    for part in parts:
        rows += part.rows()
    block = Block.of_rows(rows, has_failures=any(part.has_failures for part in parts))
    block.origins = _joined_origins(parts)
    return block


def _joined_origins(parts: list[Block]) -> Origins | None:
    """Who names the records of parts one after the other; it keeps no part, only whom each knew."""
    origins = [part.origins for part in parts]
    if not any(origins):
        return None
    starts = [0, *accumulate([part.size for part in parts])]

    def name(place: int) -> tuple[str, int] | None:
        i = bisect_right(starts, place) - 1
        return origin_at(origins[i], place - starts[i])

    return name, 0


def _stacked_column(leaves: tuple[np.ndarray, ...], count: int, allocate: Allocate) -> np.ndarray | None:
    """One leaf of all parts; None where it is large, or differs in shape or dtype."""
    dtype, each = leaves[0].dtype, leaves[0].shape[1:]
    if count * dtype.itemsize * math.prod(each) > SMALL_BYTES:
        return None
    out = np.empty((count, *each), dtype) if dtype.hasobject else allocate((count, *each), dtype)
    try:
        return np.concatenate(leaves, out=out, casting="no")
    except (TypeError, ValueError):  # another dtype, another shape
        return None


def _are_alike(parts: list[Block]) -> bool:
    """Whether all are columns of one structure."""
    structure = parts[0].structure
    for part in parts:  # not `all`: a generator for a few small parts takes longer than stacking them
        if part.columns is None or not (part.structure is structure or part.structure.same_layout(structure)):
            return False
    return True


def interleaved(parts: list[Block], block_length: int, allocate: Allocate) -> Block:
    """Parts of equal size as one block: `block_length` elements of each in turn."""
    if _are_alike(parts):
        by_leaf = zip(*[part.columns or () for part in parts], strict=True)
        woven = [_interleaved_column(leaves, block_length, allocate) for leaves in by_leaf]
        columns = [column for column in woven if column is not None]
        if len(columns) == len(woven):
            return Block.of_columns(parts[0].structure, columns, len(parts) * parts[0].size)
    by_part = [part.rows() for part in parts]
    starts = range(0, parts[0].size, block_length)
    rows = [row for start in starts for part in by_part for row in part[start : start + block_length]]
    block = Block.of_rows(rows, has_failures=False)
    block.origins = _interleaved_origins(parts, block_length)
    return block


def _interleaved_origins(parts: list[Block], block_length: int) -> Origins | None:
    """The same of parts in turn."""
    origins = [part.origins for part in parts]
    if not any(origins):
        return None

    def name(place: int) -> tuple[str, int] | None:
        turn, i = divmod(place, block_length * len(origins))
        return origin_at(origins[i // block_length], turn * block_length + i % block_length)

    return name, 0


def _interleaved_column(leaves: tuple[np.ndarray, ...], block_length: int, allocate: Allocate) -> np.ndarray | None:
    """One leaf of all parts; None where it differs in shape or dtype."""
    first = leaves[0]
    if any(leaf.shape != first.shape or leaf.dtype != first.dtype for leaf in leaves):
        return None
    each = first.shape[1:]
    out = (np.empty if first.dtype.hasobject else allocate)((len(leaves) * len(first), *each), first.dtype)
    turns = out.reshape(-1, len(leaves), block_length, *each)
    for i, leaf in enumerate(leaves):
        turns[:, i] = leaf.reshape(-1, block_length, *each)
    return out
