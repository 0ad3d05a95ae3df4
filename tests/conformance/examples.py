"""tf.io and ps.io on the same records: results in one form, refusals alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as ps

__all__ = ["normal", "outcome", "same"]


def normal(value: Any) -> Any:
    """Values, shapes and dtypes of a result of either library, as something that can be compared and printed."""
    if isinstance(value, dict):
        return {name: normal(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(normal(part) for part in value)
    kind = type(value).__name__
    if kind in ("SparseTensor", "Sparse"):
        return ("sparse", normal(value.indices), _in_one_order(value), normal(value.dense_shape))
    if kind in ("RaggedTensor", "Ragged"):
        _check_ragged(value)
        return ("ragged", normal(value.values), normal(value.row_splits))
    value = value.numpy() if hasattr(value, "numpy") else value
    if isinstance(value, bytes):
        return value
    array = np.asarray(value)
    return (array.tolist() if array.dtype == object else array.tobytes(), array.shape, str(array.dtype))


def _in_one_order(sparse: Any) -> Any:
    """The values; those with the same index sorted, since TensorFlow brings them into any order."""
    indices, values = np.asarray(sparse.indices), np.asarray(sparse.values)
    runs = np.cumsum([0, *(np.diff(indices, axis=0) != 0).any(axis=1)])
    order = sorted(range(len(values)), key=lambda place: (runs[place], repr(values[place])))
    return normal(values[order])


def _check_ragged(value: Any) -> None:
    """Refuses what says that it is ragged and is not, as tf.data does when a function returns it."""
    splits = np.asarray(value.row_splits)
    inner = value.values
    size = len(inner.row_splits) - 1 if type(inner).__name__ in ("RaggedTensor", "Ragged") else len(inner)
    if not splits.size or splits[0] != 0 or splits[-1] != size or (np.diff(splits) < 0).any():
        raise ValueError(f"row splits {splits} of {size} items")


def outcome(call: Callable[[], Any]) -> Any:
    """The result, or "refused"."""
    import tensorflow as tf

    # TensorFlow puts the record into some of its texts, and cannot make a str of it.
    refusals = (tf.errors.InvalidArgumentError, UnicodeDecodeError, ps.errors.PenstockError, ValueError, TypeError)
    try:
        return normal(call())
    except refusals:
        return "refused"


def same(theirs: Callable[[], Any], ours: Callable[[], Any], what: object = "") -> Any:
    expected, got = outcome(theirs), outcome(ours)
    assert got == expected, f"{what}\n  TensorFlow: {expected}\n  penstock:   {got}"
    return got
