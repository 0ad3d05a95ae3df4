"""What tells one array from another: shape, dtype, and the elements that count; of a large array those are a sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["about", "bytes_of", "holds_objects", "sampled"]

# How many elements of an array are copied at a time to hash them, where they do not lie side by side.
_COPIED = 1 << 16
# Bytes of a long double that count: of x86's 80 bits 10, in 16.
_LONG_DOUBLE = np.dtype(np.longdouble).itemsize
_LONG_DOUBLE_USED = 10 if np.finfo(np.longdouble).nmant == 63 else _LONG_DOUBLE


def about(array: np.ndarray) -> list[str]:
    """Shape and dtype in words."""
    dtype = array.dtype
    return [repr(array.shape), repr(dtype.descr) if dtype.names else repr(dtype)]


def holds_objects(array: np.ndarray) -> bool:
    """Whether what lies in an array are addresses."""
    return array.dtype.hasobject or array.dtype.kind == "T"


def sampled(array: np.ndarray, whole_bytes: int, num_pieces: int, piece_length: int) -> np.ndarray:
    """An array as it is, or of one above `whole_bytes` pieces at equal distances, wherever its bytes lie.

    Of long elements there are fewer: one at least, and no more bytes than of an array that counts as a whole.
    """
    array = np.asarray(array)
    if array.nbytes <= whole_bytes or array.size <= 1:
        return array
    piece_length = min(piece_length, max(1, whole_bytes // array.itemsize))
    num_pieces = min(num_pieces, max(1, whole_bytes // (piece_length * array.itemsize)))
    starts = np.linspace(0, max(0, array.size - piece_length), num_pieces).astype(np.int64)
    places = np.clip(starts[:, None] + np.arange(piece_length), 0, array.size - 1).ravel()
    found: np.ndarray = array[np.unravel_index(places, array.shape)]
    return found


def bytes_of(array: np.ndarray) -> Iterator[bytes]:
    """The bytes of an array in the order of its elements; one that does not lie so is never copied as a whole.

    Not those between fields, nor at the end of a long double: nobody writes there, and they may be anything.
    """
    if array.dtype.names:
        for name in array.dtype.names:
            yield from bytes_of(array[name])
    elif array.nbytes:
        is_long = array.dtype.type in (np.longdouble, np.clongdouble)
        pieces: Any = np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_COPIED)
        for piece in pieces:
            looked_at = piece.view(np.uint8).reshape(-1, _LONG_DOUBLE)[:, :_LONG_DOUBLE_USED] if is_long else piece
            yield looked_at.tobytes()
