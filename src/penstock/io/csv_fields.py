"""Fields of CSV records: their types, their defaults, and how text becomes a value."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import BadArgument, BadType, FormatError
from ..leaf import string

__all__ = ["CsvField"]

_DTYPES = tuple(np.dtype(kind) for kind in ("float32", "float64", "int32", "int64"))
_HEXADECIMAL = re.compile(rb"\s*[+-]?0[xX]")


@dataclasses.dataclass(frozen=True)
class CsvField:
    """One field: its dtype, and what it is where it is empty (None: it must be there)."""

    number: int
    dtype: np.dtype[Any]
    default: Any
    convert: Callable[[bytes], Any]

    @classmethod
    def of(cls, number: int, default: Any) -> CsvField:
        value, dtype = None, _as_dtype(default)
        if dtype is None:
            array = np.asarray(default)
            if array.size > 1 or array.ndim > 1:
                raise BadArgument(
                    f"record_defaults: expected a dtype or one value for field {number}, got {default!r:.60}"
                )
            dtype = string if array.dtype.kind in "OUST" else array.dtype
            if array.size:
                value = array.reshape(-1)[0]
                value = _as_bytes(value) if dtype == string else value
        if dtype != string and dtype not in _DTYPES:
            names = ", ".join(kind.name for kind in _DTYPES)
            raise BadType(f"record_defaults: expected {names} or string for field {number}, got {dtype}")
        return cls(number, dtype, value, _conversion(dtype))

    def column(self, texts: Sequence[bytes], na: bytes) -> np.ndarray:
        """The field in many records at once; an error if one of them needs a closer look."""
        if b"" in texts or (na and na in texts):
            if self.default is None:
                raise ValueError("a field that must be there is empty")
            values = [self.default if not text or text == na else self.convert(text) for text in texts]
            if self.dtype != string:
                return np.array(values, self.dtype)
            texts = values
        if self.dtype == string:
            column = np.empty(len(texts), object)
            column[:] = texts
            return column
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):
                return np.array(list(map(float, texts)), self.dtype)
        return np.array(list(map(int, texts)), self.dtype)

    def value(self, text: bytes, na: bytes) -> Any:
        if not text or text == na:
            if self.default is None:
                raise FormatError(f"expected a value in field {self.number}, got {text!r}")
            return self.default
        try:
            return self.convert(text)
        except (ValueError, OverflowError):
            raise FormatError(f"expected {self.dtype} in field {self.number}, got {text[:60]!r}") from None


def _as_dtype(value: Any) -> np.dtype[Any] | None:
    """A dtype, if the user gave one and no default."""
    if hasattr(value, "as_numpy_dtype"):  # a tf.DType
        value = value.as_numpy_dtype
    if value in (bytes, str, object) if isinstance(value, type) else False:
        return string
    if isinstance(value, np.dtype):
        return string if value.kind in "OUST" else value
    return np.dtype(value) if isinstance(value, type) and issubclass(value, (np.generic, int, float)) else None


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _conversion(dtype: np.dtype[Any]) -> Callable[[bytes], Any]:
    if dtype == string:
        return bytes
    if dtype.kind == "f":
        return functools.partial(_as_float, dtype.type)
    info = np.iinfo(dtype)
    return functools.partial(_as_integer, dtype.type, int(info.min), int(info.max))


def _as_float(kind: Any, text: bytes) -> Any:
    if b"_" in text:
        raise ValueError(text)
    value = float.fromhex(text.decode()) if _HEXADECIMAL.match(text) else float(text)
    with np.errstate(over="ignore"):
        return kind(value)


def _as_integer(kind: Any, low: int, high: int, text: bytes) -> Any:
    value = int(text)
    if b"_" in text:  # Python takes it for a digit
        raise ValueError(text)
    if not low <= value <= high:
        raise OverflowError(text)
    return kind(value)
