"""What to take from an Example: tf.io's feature classes, with NumPy's dtypes.

An Example stores three kinds of values: float32, int64 and byte strings. A feature says under which key they are, and
how many are expected: `FixedLenFeature` exactly as many as its shape has, the others any number. The classes check
their arguments when they are made; the parsers can rely on them.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..byte_strings import encode_strings, is_text
from ..errors import BadArgument, BadType
from ..leaf import string

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "Kind",
    "Partition",
    "RaggedFeature",
    "RowLengths",
    "RowLimits",
    "RowSplits",
    "RowStarts",
    "SparseFeature",
    "UniformRowLength",
    "ValueRowIds",
    "VarLenFeature",
    "kind_of",
    "name_of_kind",
]

#: The number of a kind of list in a Feature, as protobuf has it.
Kind = int

_KINDS: dict[np.dtype[Any], Kind] = {string: 1, np.dtype(np.float32): 2, np.dtype(np.int64): 3}
_NAMES = {1: "bytes", 2: "float32", 3: "int64"}


def kind_of(dtype: np.dtype[Any]) -> Kind:
    return _KINDS[dtype]


def name_of_kind(kind: Kind) -> str:
    return _NAMES.get(kind, "nothing known")


def _dtype(given: Any) -> np.dtype[Any]:
    """float32, int64 or `string`; also as `bytes`, `str`, Python's `float` and `int`, or a dtype of TensorFlow."""
    if given in (bytes, str, "bytes", "string"):
        return string
    given = {float: np.float32, int: np.int64}.get(given, getattr(given, "as_numpy_dtype", given))
    try:
        dtype: np.dtype[Any] = np.dtype(given)
    except TypeError:
        raise BadType(f"dtype: expected float32, int64 or bytes, got {given!r}") from None
    if is_text(dtype):
        return string
    if dtype not in _KINDS or given is None:
        raise BadArgument(
            f"dtype: an Example stores float32, int64 and bytes, not {dtype if given is not None else None}; "
            "parse as one of them and convert"
        )
    return dtype


def _shape(given: Any) -> tuple[int, ...]:
    if given is None:
        raise BadArgument("shape: expected the number of values in each dimension, got None")
    as_list = getattr(given, "as_list", None)  # TensorFlow's TensorShape
    given = as_list() if as_list else given
    sizes = list(given) if isinstance(given, Sequence | np.ndarray) else [given]
    if None in sizes:
        raise BadArgument(f"shape: all dimensions must be known, got {given!r}; see FixedLenSequenceFeature")
    try:
        shape = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise BadType(f"shape: expected ints, got {given!r}") from None
    if any(size < 0 for size in shape):
        raise BadArgument(f"shape: no dimension can be negative, got {given!r}")
    return shape


def _values(name: str, given: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """An argument as an array of `dtype`; nothing is cut to fit."""
    if dtype == string:
        array = np.asarray(given, dtype=object)
        if not all(isinstance(item, bytes | str) for item in array.reshape(-1).tolist()):
            raise BadType(f"{name}: expected bytes, got {given!r:.60}")
        return encode_strings(array)
    array = np.asarray(given)
    wanted = "iub" if dtype == np.int64 else "iubf"
    if array.size and array.dtype.kind not in wanted:
        raise BadType(f"{name}: expected {dtype} values, got {given!r:.60}")
    return array.astype(dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class FixedLenFeature:
    """As many values as `shape` has, in every record.

    Args:
        shape: Shape of the result; `[]` for one value.
        dtype: float32, int64 or `bytes`.
        default_value: Used where a record has no such feature; of this shape. Without it such a record is an error.

    >>> FixedLenFeature([2], "float32", default_value=[0, 1])
    FixedLenFeature(shape=(2,), dtype=dtype('float32'), default_value=array([0., 1.], dtype=float32))
    """

    shape: Any
    dtype: Any
    default_value: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        if self.default_value is not None:
            default = _values("default_value", self.default_value, self.dtype)
            if default.size != self.num_values:
                raise BadArgument(
                    f"default_value: expected {self.num_values} values for shape {self.shape}, got {default.size}"
                )
            object.__setattr__(self, "default_value", default.reshape(self.shape))

    @property
    def num_values(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class VarLenFeature:
    """Any number of values, as a `ps.Sparse`.

    Args:
        dtype: float32, int64 or `bytes`.

    >>> VarLenFeature("int64")
    VarLenFeature(dtype=dtype('int64'))
    """

    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype(self.dtype))


@dataclasses.dataclass(frozen=True, eq=False)
class FixedLenSequenceFeature:
    """Any number of parts of one shape; in a batch, shorter rows are padded to the longest.

    Args:
        shape: Shape of one part: a result is `[number of parts, *shape]`.
        dtype: float32, int64 or `bytes`.
        allow_missing: Whether a record may lack it, which is then as if it had no parts. Must be True for Examples.
        default_value: One value to pad with; 0 or an empty string if not given. Not used in SequenceExamples.

    >>> FixedLenSequenceFeature([2], "float32", allow_missing=True).shape
    (2,)
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        if self.default_value is not None:
            default = _values("default_value", self.default_value, self.dtype)
            if default.size != 1:
                raise BadArgument(f"default_value: expected one value to pad with, got {default.size}")
            object.__setattr__(self, "default_value", default.reshape(()))

    @property
    def num_values(self) -> int:
        """Values in one part."""
        return math.prod(self.shape)

    @property
    def padding(self) -> Any:
        if self.default_value is not None:
            return self.default_value[()]
        return b"" if self.dtype == string else 0


@dataclasses.dataclass(frozen=True)
class RowSplits:
    """The feature `key` says where rows begin, and where the last one ends."""

    key: str


@dataclasses.dataclass(frozen=True)
class RowLengths:
    """The feature `key` has the length of each row."""

    key: str


@dataclasses.dataclass(frozen=True)
class RowStarts:
    """The feature `key` says where each row begins."""

    key: str


@dataclasses.dataclass(frozen=True)
class RowLimits:
    """The feature `key` says where each row ends."""

    key: str


@dataclasses.dataclass(frozen=True)
class ValueRowIds:
    """The feature `key` has of each value the number of its row."""

    key: str


@dataclasses.dataclass(frozen=True)
class UniformRowLength:
    """All rows have this length."""

    length: int


Partition = RowSplits | RowLengths | RowStarts | RowLimits | ValueRowIds | UniformRowLength


@dataclasses.dataclass(frozen=True, eq=False)
class RaggedFeature:
    """Any number of values, as a `ps.Ragged`; with partitions, as rows of rows.

    Args:
        dtype: float32, int64 or `bytes`.
        value_key: Where the values are, if not under the name of the feature itself.
        partitions: How values are cut into rows, outermost first: `RaggedFeature.RowSplits(key)`, `RowLengths(key)`,
            `RowStarts(key)`, `RowLimits(key)`, `ValueRowIds(key)` or `UniformRowLength(length)`.
        row_splits_dtype: int32 or int64.
        validate: Whether also `ValueRowIds` must not go back, and feature lists must have as many steps as their
            partitions in each record. That partitions fit the values is always asked for, as in TensorFlow of a whole
            batch: where one record has too few and the next as many too many, rows run over the end of a record.

    >>> RaggedFeature("int64", partitions=[RaggedFeature.RowLengths("lengths")]).partitions
    (RowLengths(key='lengths'),)
    """

    dtype: Any
    value_key: str | None = None
    partitions: Any = ()
    row_splits_dtype: Any = np.int32
    validate: bool = False

    RowSplits = RowSplits
    RowLengths = RowLengths
    RowStarts = RowStarts
    RowLimits = RowLimits
    ValueRowIds = ValueRowIds
    UniformRowLength = UniformRowLength

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        splits = np.dtype(getattr(self.row_splits_dtype, "as_numpy_dtype", self.row_splits_dtype))
        if splits not in (np.dtype(np.int32), np.dtype(np.int64)):
            raise BadArgument(f"row_splits_dtype: expected int32 or int64, got {splits}")
        object.__setattr__(self, "row_splits_dtype", splits)
        if self.value_key is not None and (not isinstance(self.value_key, str) or not self.value_key):
            raise BadArgument(f"value_key: expected a name, got {self.value_key!r}")
        if not isinstance(self.partitions, list | tuple):
            raise BadType(f"partitions: expected a list, got {self.partitions!r:.60}")
        object.__setattr__(self, "partitions", tuple(_partition(given) for given in self.partitions))


_PARTITIONS = {
    kind.__name__: kind for kind in (RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds, UniformRowLength)
}


def _partition(given: Any) -> Partition:
    """One of our classes, or one of TensorFlow's of the same name."""
    name = type(given).__name__
    if name not in _PARTITIONS:
        raise BadArgument(f"partitions: expected one of {', '.join(_PARTITIONS)}, got {given!r}")
    if name == "UniformRowLength":
        length = operator.index(given.length)
        if length < 1:
            raise BadArgument(f"UniformRowLength: expected a length of at least 1, got {length}")
        return UniformRowLength(length)
    partition: Partition = _PARTITIONS[name](given.key)
    return partition


@dataclasses.dataclass(frozen=True, eq=False)
class SparseFeature:
    """Values in places that other features of the record say, as a `ps.Sparse`.

    Args:
        index_key: The feature that has an index for each value; for more dimensions a list of them.
        value_key: The feature that has the values.
        dtype: float32, int64 or `bytes`.
        size: Size of the result; a list, with one for each dimension, if `index_key` is one.
        already_sorted: Whether values are stored in the order of their places, so that they need not be sorted.

    >>> SparseFeature(["row", "column"], "value", "float32", [100, 3]).sizes
    (100, 3)
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        for key in (self.value_key, *self.index_keys):
            if not isinstance(key, str) or not key:
                raise BadArgument(f"index_key, value_key: expected names, got {key!r}")
        is_list = not isinstance(self.index_key, str)
        if is_list != isinstance(self.size, list | tuple):
            raise BadType(f"size: expected {'a list, as index_key is one' if is_list else 'an int'}, got {self.size!r}")
        if len(self.index_keys) != len(self.sizes) or not self.sizes:
            raise BadArgument(f"size: expected one for each index_key, got {self.size!r} for {self.index_key!r}")

    @property
    def index_keys(self) -> tuple[str, ...]:
        return (self.index_key,) if isinstance(self.index_key, str) else tuple(self.index_key)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return _shape(self.size)
