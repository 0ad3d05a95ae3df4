"""Inputs that several families share: small arrays of every dtype, nested structures."""

from typing import Any, NamedTuple

import numpy as np


class Point(NamedTuple):
    x: Any
    y: Any


def arrays(n: int) -> dict[str, np.ndarray]:
    """One array of n rows for each dtype that pipelines meet in practice."""
    return {
        "uint8": np.arange(n, dtype=np.uint8) * 7,
        "int8": -np.arange(n, dtype=np.int8),
        "int16": np.arange(n, dtype=np.int16) * 300 - 500,
        "uint16": np.arange(n, dtype=np.uint16) * 999,
        "int32": np.arange(n, dtype=np.int32) * 70_000,
        "uint32": np.arange(n, dtype=np.uint32) + np.uint32(2**31),
        "int64": np.arange(n, dtype=np.int64) * 2**33,
        "uint64": np.arange(n, dtype=np.uint64) + np.uint64(2**63),
        "float16": (np.arange(n) / 8).astype(np.float16),
        "float32": (np.arange(n) / 3).astype(np.float32),
        "float64": np.arange(n) / 7,
        "complex64": (np.arange(n) + 1j).astype(np.complex64),
        "complex128": np.arange(n) - 2j,
        "bool": np.arange(n) % 3 == 0,
        "bytes": np.array([b"a" * i for i in range(n)], dtype=object),
        "fixed_bytes": np.array([b"x%03d" % i for i in range(n)], dtype="S4").reshape(n),
        "text": np.array(["é" * (i % 3) + str(i) for i in range(n)]).reshape(n).astype("U5"),
    }


def matrix(rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(rows * columns).reshape(rows, columns).astype(dtype)


def structures(n: int) -> dict[str, Any]:
    """Nested structures whose leaves have n rows."""
    a, b, c = np.arange(n, dtype=np.int64), matrix(n, 3), np.array([b"s%d" % i for i in range(n)], dtype=object)
    return {
        "tuple": (a, b),
        "one-tuple": (a,),
        "dict": {"b": b, "a": a},
        "namedtuple": Point(a, c),
        "nested": ({"u": a, "v": (b, c)}, Point(a + 1, {"w": c})),
        "deep": (((a,), b), {"k": {"m": (c, a)}}),
    }
