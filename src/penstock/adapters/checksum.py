"""A checksum of elements, cheap enough for each of a stream: whether another iteration gives the same ones."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ..element import Failed, Structure
from ..leaf import Ragged, Sparse

__all__ = ["add_to_checksum"]

# Of what is longer, this much at the beginning, in the middle and at the end.
_PIECE_BYTES = 1 << 13
_PIECE_STRINGS = 32


def add_to_checksum(element: Any, before: int) -> int:
    """The checksum of some elements, of which all but the last have one already."""
    if type(element) is Failed:
        return zlib.crc32(b"failed", before)
    for leaf in Structure.of(element).flatten(element):
        before = _with_leaf(leaf, before)
    return before


def _with_leaf(leaf: Any, before: int) -> int:
    if isinstance(leaf, Ragged):
        return _with_leaf(leaf.values, _with_leaf(leaf.row_splits, before))
    if isinstance(leaf, Sparse):
        return _with_leaf(leaf.values, _with_leaf(leaf.indices, before))
    if isinstance(leaf, bytes):
        return _with_pieces(np.frombuffer(leaf, np.uint8), before)
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return before
    if leaf.dtype.hasobject:
        flat = np.asarray(leaf).reshape(-1)
        for string in (*flat[:_PIECE_STRINGS], *flat[-_PIECE_STRINGS:]):
            before = _with_leaf(string, before)
        return before
    array = np.asarray(leaf)
    if array.nbytes > 3 * _PIECE_BYTES and not array.flags.c_contiguous:
        return before  # would take a copy; tensors of TensorFlow are contiguous
    return _with_pieces(np.ascontiguousarray(array).reshape(-1).view(np.uint8), before)


def _with_pieces(memory: np.ndarray, before: int) -> int:
    size = len(memory)
    if size <= 3 * _PIECE_BYTES:
        return zlib.crc32(memory.data, before)
    for start in (0, (size - _PIECE_BYTES) // 2, size - _PIECE_BYTES):
        before = zlib.crc32(memory[start : start + _PIECE_BYTES].data, before)
    return before
