"""Features by name, in the form that the kernels take: keys, kinds, numbers of values and defaults.

Several features may read one key (a `RaggedFeature` or `SparseFeature` names its own); each key is looked for once.
What a kernel found wrong becomes an error here, since only here the names are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._native import ExampleFeatures, FoundFeatures
from ..errors import BadArgument, BadType, PenstockError, RecordError
from ..leaf import string
from .example_columns import record_error
from .features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    Kind,
    RaggedFeature,
    SparseFeature,
    UniformRowLength,
    VarLenFeature,
    kind_of,
    name_of_kind,
)

__all__ = ["DTYPES", "Column", "Feature", "FeatureTable", "Layout", "Records"]

Feature = FixedLenFeature | VarLenFeature | FixedLenSequenceFeature | RaggedFeature | SparseFeature
#: `bytes` of each record, or (buffer, offsets, lengths).
Records = Sequence[bytes] | tuple[Any, np.ndarray, np.ndarray]

_CLASSES: dict[str, type[Feature]] = {
    kind.__name__: kind
    for kind in (FixedLenFeature, VarLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature)
}


class Layout:
    """How the kernel is to read records; the numbers are the kernel's."""

    EXAMPLES = 0
    SINGLE_EXAMPLE = 1
    CONTEXTS = 2
    FEATURE_LISTS = 3


@dataclasses.dataclass
class Column:
    """What the kernel looks for under one key."""

    kind: Kind
    role: str
    num_values: int | None = None
    default: Any = None
    used_by: str = ""


class FeatureTable:
    """Features by name, and the columns that they need by key."""

    def __init__(self, features: Mapping[str, Any], accepted: tuple[type, ...], are_lists: bool = False) -> None:
        if not isinstance(features, Mapping):
            raise BadType(f"features: expected a dict of features, got {type(features).__name__}")
        self.features: dict[str, Feature] = {}
        self.columns: dict[str, Column] = {}
        self.are_lists = are_lists
        for name, given in features.items():
            if not isinstance(name, str):
                raise BadType(f"features: expected names as keys, got {name!r}")
            feature = _as_feature(name, given)
            if not isinstance(feature, accepted):
                raise BadArgument(f"feature {name!r}: {type(feature).__name__} cannot be used here")
            self.features[name] = feature
            self._add(name, feature)
        self.keys = list(self.columns)
        # (key, shape, dtype) of each, where all are of fixed length: the commonest case by far.
        self.dense: list[tuple[str, tuple[int, ...], np.dtype[Any]]] | None = None
        fixed = [(name, f.shape, f.dtype) for name, f in self.features.items() if isinstance(f, FixedLenFeature)]
        if len(fixed) == len(self.features):
            self.dense = fixed
        self.native = ExampleFeatures(
            [key.encode() for key in self.keys],
            [column.kind for column in self.columns.values()],
            [column.num_values for column in self.columns.values()],
            [column.default for column in self.columns.values()],
            # In TensorFlow's parser what it pads is dense too.
            [column.role not in ("dense", "padded") for column in self.columns.values()],
        )

    def _add(self, name: str, feature: Feature) -> None:
        kind = kind_of(feature.dtype)
        if isinstance(feature, FixedLenFeature):
            default = feature.default_value
            # As in TensorFlow, a default of no values is none.
            raw = None if default is None or not default.size else _native_default(default)
            self._need(name, name, Column(kind, "dense", feature.num_values, raw))
        elif isinstance(feature, FixedLenSequenceFeature):
            if self.are_lists:
                allowed = _EMPTY_DEFAULT[kind] * feature.num_values if feature.allow_missing else None
                self._need(name, name, Column(kind, "dense", feature.num_values, allowed))
            else:
                if not feature.allow_missing:
                    raise BadArgument(
                        f"feature {name!r}: FixedLenSequenceFeature needs allow_missing=True in an Example"
                    )
                if not feature.num_values:
                    raise BadArgument(f"feature {name!r}: parts of shape {feature.shape} have no values to count by")
                self._need(name, name, Column(kind, "padded"))
        elif isinstance(feature, RaggedFeature):
            role = f"ragged, row_splits of {feature.row_splits_dtype}"
            self._need(name, feature.value_key or name, Column(kind, role))
            for partition in feature.partitions:
                if not isinstance(partition, UniformRowLength):
                    self._need(name, partition.key, Column(kind_of(np.dtype(np.int64)), role))
        elif isinstance(feature, SparseFeature):
            self._need(name, feature.value_key, Column(kind, "sparse"))
            for key in feature.index_keys:
                self._need(name, key, Column(kind_of(np.dtype(np.int64)), "sparse"))
        else:
            self._need(name, name, Column(kind, "sparse"))

    def _need(self, name: str, key: str, column: Column) -> None:
        column.used_by = name
        other = self.columns.setdefault(key, column)
        if other is not column and (column.kind, column.role) != (other.kind, other.role):
            raise BadArgument(
                f"features {other.used_by!r} and {name!r} both read the key {key!r}, one as {name_of_kind(other.kind)} "
                f"({other.role}), the other as {name_of_kind(column.kind)} ({column.role})"
            )

    def parse(self, records: Records, layout: int, outputs: list[np.ndarray]) -> FoundFeatures:
        """Fills dense outputs and row splits, or says what is wrong."""
        found = self.native.parse(records, layout, outputs)
        if isinstance(found, FoundFeatures):
            return found
        raise self._error(layout, *found)

    def _error(self, layout: int, flaw: int, record: int, feature: int, number: int, step: int) -> RecordError:
        message = "Example" if layout <= Layout.SINGLE_EXAMPLE else "SequenceExample"
        of_record = "" if layout == Layout.SINGLE_EXAMPLE else f" of record {record}"
        if flaw == _BAD_RECORD:
            which = "the record" if layout == Layout.SINGLE_EXAMPLE else f"record {record}"
            return record_error(f"{which} is not a serialized tf.train.{message}", record)
        key = self.keys[feature]
        column = self.columns[key]
        kind = name_of_kind(column.kind)
        where = f"feature {key!r}{of_record}" + (f", step {step}" if step >= 0 else "")
        text = {
            _BAD_FEATURE: f"{where}: expected a list of {kind}, got bytes that are none",
            _WRONG_KIND: f"{where}: expected {kind}, got {name_of_kind(number)}",
            _MISSING: f"{where} is missing, and there is no {'allow_missing' if self.are_lists else 'default_value'}",
            _WRONG_COUNT: f"{where}: expected {column.num_values} values of {kind}, got {number}",
        }[flaw]
        return record_error(text, record, key)


_BAD_RECORD, _BAD_FEATURE, _WRONG_KIND, _MISSING, _WRONG_COUNT = range(1, 6)
DTYPES: dict[Kind, np.dtype[Any]] = {1: string, 2: np.dtype(np.float32), 3: np.dtype(np.int64)}
_EMPTY_DEFAULT: dict[Kind, Any] = {1: (b"",), 2: bytes(4), 3: bytes(8)}


def _native_default(default: np.ndarray) -> Any:
    return tuple(default.reshape(-1).tolist()) if default.dtype == string else default.tobytes()


def _as_feature(name: str, given: Any) -> Feature:
    """One of our features, or one of TensorFlow's of the same name."""
    if isinstance(given, Feature):
        return given
    kind = _CLASSES.get(type(given).__name__)
    if kind is None or not hasattr(given, "_asdict"):
        raise BadType(f"feature {name!r}: expected one of {', '.join(_CLASSES)}, got {given!r:.80}")
    try:
        return kind(**given._asdict())
    except PenstockError as error:
        raise type(error)(f"feature {name!r}: {error}") from None
