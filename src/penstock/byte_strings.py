"""Text as byte strings, UTF-8, as in TensorFlow: what elements hold of arrays of text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from .errors import BadType

__all__ = ["checked_objects", "encode_strings", "encoded", "is_text", "refuse_missing", "utf8"]

# Of fixed-width text so much at a time is there as Python's strings too.
_PIECE_BYTES = 1 << 16
# Longer text is encoded in pieces.
_PIECE_CHARACTERS = 1 << 14
# So many are in a list at a time.
_LISTED = 8192


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this dtype are text that becomes byte strings: `U`, `S`, or of variable width."""
    return dtype.kind in "UST"


def encoded(text: Any) -> Any:
    """One string as `bytes`; anything else as it is."""
    return utf8(text) if isinstance(text, str) else bytes(text) if isinstance(text, np.bytes_) else text


def utf8(text: str) -> bytes:
    """A string as `bytes`, in memory that fits them.

    Python takes for all characters what the longest could become, and gives back the end: of a long text with one emoji
    three quarters, as a gap in the heap into which the next text does not fit.
    """
    if len(text) <= _PIECE_CHARACTERS or text.isascii():
        return text.encode()
    try:
        starts = range(0, len(text), _PIECE_CHARACTERS)
        return b"".join([text[i : i + _PIECE_CHARACTERS].encode() for i in starts])
    except UnicodeEncodeError:
        return text.encode()  # the error names the place in all of it


def encode_strings(array: np.ndarray) -> np.ndarray:
    """An array of text (`U`, `S`, variable-width or str objects) as an object array of `bytes`.

    Raises:
        BadType: A string of variable width is missing (its dtype has an `na_object`).
    """
    refuse_missing(array)
    out = np.empty(array.shape, dtype=object)
    into, items = out.reshape(-1), map(encoded, _items(array))
    for start in range(0, array.size, _LISTED):
        into[start : start + _LISTED] = list(islice(items, _LISTED))
    return out


def refuse_missing(array: np.ndarray) -> None:
    """Raises where a string of variable width is missing: bytes cannot say so."""
    if not hasattr(array.dtype, "na_object"):  # most have none, and no string is looked at
        return
    for place, item in enumerate(array.flat):
        if not isinstance(item, str):
            at = [int(i) for i in np.unravel_index(place, array.shape)]
            raise BadType(
                f"expected text, got a missing value at {at} of an array of {array.dtype}; put a text there, or leave "
                "it out"
            )


def checked_objects(array: np.ndarray) -> np.ndarray:
    """An array of objects, all strings, as one of `bytes`; `BadType` if there are others."""
    kinds = set(map(type, array.flat))  # in no list: there may be very many
    if kinds <= {bytes}:
        return array
    if kinds <= {bytes, str, np.bytes_, np.str_}:
        return encode_strings(array)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise BadType(f"expected numbers or strings, got an object array holding {names}")


def _items(array: np.ndarray) -> Iterator[Any]:
    """Its strings as Python's: few of them are there at a time, for each may be large."""
    if array.dtype.kind not in "US":
        return iter(array.flat)
    flat, step = array.flat, max(1, _PIECE_BYTES // max(1, array.itemsize))
    return chain.from_iterable(flat[i : i + step].tolist() for i in range(0, array.size, step))
