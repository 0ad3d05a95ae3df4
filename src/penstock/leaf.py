"""Leaves: what elements are made of. NumPy arrays and scalars, `bytes`, `Ragged`, `Sparse`, nested datasets, None.

`as_leaf` turns whatever a user's function or generator gave into one of these.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .byte_strings import checked_objects, encode_strings, encoded, is_text, utf8
from .errors import BadType

__all__ = [
    "Ragged",
    "Sparse",
    "as_leaf",
    "dtype_of",
    "is_dataset",
    "leaf_bytes",
    "own_leaf",
    "refuse_masked",
    "shape_of",
    "string",
]

#: The dtype of byte strings: arrays of them are object arrays of `bytes`.
string = np.dtype(object)


@dataclasses.dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of unequal length: row i is `values[row_splits[i]:row_splits[i + 1]]`.

    `values` is an array, or another `Ragged` where inner dimensions are ragged too.
    """

    values: Any
    row_splits: np.ndarray

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, row: int) -> Any:
        count = len(self)
        if not -count <= row < count:
            raise IndexError(f"row {row} of a Ragged with {count} rows")
        row %= count
        start, stop = int(self.row_splits[row]), int(self.row_splits[row + 1])
        return self.values._rows(start, stop) if isinstance(self.values, Ragged) else self.values[start:stop]

    def _rows(self, start: int, stop: int) -> Ragged:
        splits = self.row_splits[start : stop + 1]
        first, last = int(splits[0]), int(splits[-1])
        inner = self.values._rows(first, last) if isinstance(self.values, Ragged) else self.values[first:last]
        return Ragged(inner, splits - splits[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (len(self), None, *self.values.shape[1:])

    @property
    def nbytes(self) -> int:
        return int(self.row_splits.nbytes + leaf_bytes(self.values))

    def to_list(self) -> list[Any]:
        """The rows as nested Python lists."""
        rows = [self[i] for i in range(len(self))]
        return [row.to_list() if isinstance(row, Ragged) else row.tolist() for row in rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse array in coordinate form: `indices` is (num_values, rank), sorted in row-major order."""

    indices: np.ndarray
    values: np.ndarray
    dense_shape: np.ndarray

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.values.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.dense_shape)

    @property
    def nbytes(self) -> int:
        return int(self.indices.nbytes + leaf_bytes(self.values) + self.dense_shape.nbytes)

    def to_dense(self, default_value: Any = 0) -> np.ndarray:
        """The same values in an ordinary array, `default_value` elsewhere; `IndexError` where an index is outside."""
        if self.indices.min(initial=0) < 0:  # which NumPy counts from the end
            raise IndexError(f"index {self.indices.min()} of a sparse array of shape {self.shape}")
        dense = np.full(self.shape, default_value, dtype=self.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense


def is_dataset(value: Any) -> bool:
    """Whether `value` is a (nested) dataset. Datasets live in a layer above; they mark themselves."""
    return getattr(type(value), "__penstock_dataset__", False) is True


def as_leaf(value: Any) -> Any:
    """Converts one value to a leaf: an array, a NumPy scalar or `bytes`."""
    kind = type(value)
    if kind is np.ndarray:
        if is_text(value.dtype):
            value = encode_strings(value)
        elif value.dtype.kind == "O":
            value = checked_objects(value)
        return value[()] if value.ndim == 0 else value
    if kind is bytes:
        return value
    if isinstance(value, np.generic):
        return encoded(value.item()) if value.dtype.kind in "US" else value
    if kind is str:
        return utf8(value)
    if kind is bool:
        return np.bool_(value)
    if kind is int:
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    if kind is float:
        return np.float64(value)
    if isinstance(value, (Ragged, Sparse)):
        return _with_arrays(value)
    return value if value is None or is_dataset(value) else _converted(value)


def _with_arrays(value: Any) -> Any:
    """A `Ragged` or `Sparse` of arrays, also where a function gave lists; and of byte strings, where it gave text."""
    changes = {}
    for name, part in vars(value).items():
        if isinstance(part, Ragged):
            own = _with_arrays(part)
        elif type(part) is np.ndarray:
            own = as_leaf(part) if is_text(part.dtype) or part.dtype.kind == "O" else part
        elif name == "values":
            own = as_leaf(part)
        else:
            own = np.asarray(part, np.int64)
            if name == "indices" and not own.size:
                own = own.reshape(0, len(value.dense_shape))
        if own is not part:
            changes[name] = own
    if not changes:
        return value
    made = dataclasses.replace(value, **changes)
    if isinstance(made, Sparse) and made.indices.shape != (*np.shape(made.values)[:1], len(made.dense_shape)):
        raise BadType(
            f"expected a Sparse with values, and an index of {len(made.dense_shape)} numbers for each, got values of "
            f"shape {np.shape(made.values)} and indices of shape {made.indices.shape}"
        )
    return made


def own_leaf(value: Any, as_array: Callable[[Any], Any] = as_leaf) -> Any:
    """A ragged or sparse tensor of TensorFlow's, known by the name of its class, as ours; any other value as it is."""
    name = type(value).__name__
    if name in ("RaggedTensor", "RaggedTensorValue"):
        inner = own_leaf(value.values, as_array)
        return Ragged(inner if isinstance(inner, Ragged) else as_array(inner), as_array(value.row_splits))
    if name in ("SparseTensor", "SparseTensorValue"):
        return Sparse(as_array(value.indices), as_array(value.values), as_array(value.dense_shape))
    return value


def refuse_masked(value: Any) -> None:
    """Raises where values are masked: arrays cannot say so, and what lies below the mask would count as data."""
    masked = sys.modules.get("numpy.ma")  # there is no such array before that is loaded
    if (
        masked is not None
        and isinstance(value, masked.MaskedArray)
        and (count := int(np.count_nonzero(masked.getmask(value))))
    ):
        raise BadType(
            f"expected an array, got a masked one: {count:,} of its {value.size:,} values are masked, which would be "
            "lost; fill them (`.filled(0)`), or give the mask as an array of its own"
        )


def _converted(value: Any) -> Any:
    own = own_leaf(value)
    if own is not value:
        return own
    refuse_masked(value)
    if getattr(getattr(value, "dtype", None), "name", "") == "string" and hasattr(value, "numpy"):
        return as_leaf(value.numpy())  # TensorFlow ends the process where it is asked for strings as below
    if hasattr(value, "__dlpack__"):
        try:
            return as_leaf(np.from_dlpack(value))
        except (BufferError, RuntimeError, TypeError, ValueError):
            pass  # e.g. bfloat16 or a tensor that wants its gradient: __array__ decides below
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of unequal length
        raise BadType(f"expected something that NumPy can hold, got {_brief(value)}: {error}") from None
    if array.dtype.kind in "US" and isinstance(value, (list, tuple)):
        array = np.asarray(value, dtype=object)  # fixed-width strings would lose the zeros at their ends
    if array.dtype.kind == "O" and not array.ndim:
        raise BadType(f"expected numbers, strings or arrays of them, got {_brief(value)}")
    return as_leaf(array)


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def shape_of(leaf: Any) -> tuple[int | None, ...]:
    """The shape of a leaf; `bytes` and None are scalars."""
    return getattr(leaf, "shape", ())


def dtype_of(leaf: Any) -> np.dtype[Any]:
    """The dtype of a leaf; that of `bytes` is `string`."""
    return getattr(leaf, "dtype", string)


_POINTER = 8
# The head of the object, 33, and what malloc adds to come to a multiple of 16: half of that on average.
_BYTES_OVERHEAD = 41


def leaf_bytes(leaf: Any) -> int:
    """Bytes that a leaf occupies, strings included."""
    if type(leaf) is bytes:
        return len(leaf) + _BYTES_OVERHEAD
    if isinstance(leaf, np.ndarray):
        if leaf.dtype.kind != "O":
            return int(leaf.nbytes)
        # In no list: there may be very many.
        return sum(map(len, leaf.flat)) + leaf.size * (_POINTER + _BYTES_OVERHEAD)
    if is_dataset(leaf):  # a window holds elements, a source may hold arrays that were made for it
        node = leaf.node
        if not node.inputs:
            return int(node.op.held_bytes)
        return sum({id(part.op): part.op.held_bytes for part in node.walk()}.values())  # one may be there twice
    return int(getattr(leaf, "nbytes", 0))
