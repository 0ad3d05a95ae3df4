"""Dtypes that elements on disk may have, and their names there."""

from __future__ import annotations

import ast
import functools
from typing import Any

import numpy as np

from ..errors import BadType, FormatError

__all__ = ["dtype_from_text", "dtype_to_text", "native", "storable"]


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same in the machine's order of bytes."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def storable(dtype: np.dtype[Any], keeps_order: bool = False) -> np.dtype[Any]:
    """As which dtype an array is stored, in its own order of bytes or the machine's; `BadType` if it cannot be."""
    stored = native(dtype)
    try:
        same = _has_name(stored) and dtype_from_text(dtype_to_text(stored)) == stored
    except (FormatError, ValueError, TypeError):
        same = False
    if not same:
        raise BadType(f"expected numbers, dates or strings, got an array of dtype {dtype}: it cannot be stored")
    return dtype if keeps_order else stored


def _has_name(dtype: np.dtype[Any]) -> bool:
    """Whether it is no dtype of NumPy's new kind, such as text of variable width: asked for its name, NumPy warns."""
    return getattr(type(dtype), "_legacy", True)


@functools.cache
def dtype_to_text(dtype: np.dtype[Any]) -> str:
    """Its name, from which NumPy makes the same again."""
    if dtype.type.__module__ == "ml_dtypes":
        return f"ml_dtypes.{dtype.name}"
    descr: Any = np.lib.format.dtype_to_descr(dtype)
    return descr if isinstance(descr, str) else repr(descr)


def dtype_from_text(text: str) -> np.dtype[Any]:
    """What `dtype_to_text` wrote; others may have written it too."""
    if text.startswith("ml_dtypes."):
        import ml_dtypes

        known: np.dtype[Any] = np.dtype(getattr(ml_dtypes, text.partition(".")[2]))
        return known
    descr: Any = ast.literal_eval(text) if text.startswith("[") else text
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject or not dtype.itemsize or not dtype.isnative:
        raise FormatError(f"a column of dtype {dtype}")
    return dtype
