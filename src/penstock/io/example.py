"""tf.train.Example to arrays: one record, or a block of them in one native call.

`ExampleParser` is what the others stand on: it holds the features, checked and in the form that the kernel takes. What
is parsed, and what is refused, is what TensorFlow 2.21 parses and refuses; the tests compare the two on damaged bytes
as well. An error says which feature of which record, what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._native import FoundFeatures
from ..errors import BadArgument, BadType, RecordError
from ..leaf import Sparse, string
from .example_columns import Lists, parsed_alone, placed, record_error, sparse_of
from .example_names import with_names
from .feature_table import DTYPES, Feature, FeatureTable, Layout, Records
from .features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from .partitions import cut_alone, cut_batch, partition_keys

__all__ = ["ExampleParser", "batch_of", "one_record", "parse_columns", "parse_example", "parse_single_example"]


class ExampleParser:
    """Parses blocks of Examples.

    Args:
        features: What to parse, by name.

    >>> parser = ExampleParser({"x": FixedLenFeature([2], "float32")})
    >>> parser.parse_block([b"\\n\\x13\\n\\x11\\n\\x01x\\x12\\x0c\\x12\\n\\n\\x08" + np.float32([1, 2]).tobytes()])["x"]
    array([[1., 2.]], dtype=float32)
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        if not features:
            raise BadArgument("features: expected at least one feature, got none")
        accepted = (FixedLenFeature, VarLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature)
        self.table = FeatureTable(features, accepted)
        self.features = self.table.features

    def __reduce__(self) -> tuple[Any, ...]:
        return (ExampleParser, (self.features,))

    @property
    def is_dense(self) -> bool:
        """Whether a batch of records is parsed to what the records parsed one by one make when stacked."""
        return all(isinstance(feature, FixedLenFeature) for feature in self.features.values())

    def parse_block(self, records: Records, out: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
        """All records of a block: every value has a leading axis for them.

        Args:
            records: `bytes` of each record, or (buffer, offsets, lengths): a buffer that holds them, and int64 arrays.
            out: C-contiguous arrays of the right shape and dtype to put results into, by the names of features of fixed
                length; for others, and where a name is missing, new ones are made.

        Raises:
            RecordError: A record is not an Example, or not one that has these features; `error.record` is its number.
        """
        count = len(records[1]) if _is_slices(records) else len(records)
        return parse_columns(self.table, records, Layout.EXAMPLES, count, out)

    def parse_one(self, record: bytes) -> dict[str, Any]:
        """One record: arrays, scalars and `bytes` without a leading axis."""
        try:
            return parse_columns(self.table, (record,), Layout.SINGLE_EXAMPLE, None, None)
        except RecordError as error:
            raise parsed_alone(error) from None


def _is_slices(records: Any) -> bool:
    return isinstance(records, tuple) and len(records) == 3 and isinstance(records[1], np.ndarray)


def parse_columns(
    table: FeatureTable, records: Records, layout: int, count: int | None, out: Mapping[str, np.ndarray] | None
) -> dict[str, Any]:
    """Features of `count` records, or of the one there is, without a leading axis, where that is None."""
    if table.dense is not None and count is None:  # a record alone: every microsecond counts
        arrays = [np.empty(shape, dtype) for _, shape, dtype in table.dense]
        table.parse(records, layout, arrays)
        return {key: array if shape else array[()] for (key, shape, _), array in zip(table.dense, arrays, strict=True)}
    lead = () if count is None else (count,)
    num_splits = 2 if count is None else count + 1
    outputs: list[np.ndarray] = []
    dense: dict[str, np.ndarray] = {}
    for key, column in table.columns.items():
        if column.num_values is None:
            outputs.append(np.empty(num_splits, np.int64))
            continue
        feature = table.features[key]
        assert isinstance(feature, FixedLenFeature)
        given = None if out is None else out.get(key)
        dense[key] = np.empty(lead + feature.shape, feature.dtype) if given is None else given
        outputs.append(dense[key])
    found = table.parse(records, layout, outputs)
    if table.dense is not None:
        return dense
    return _Results(table, found, outputs, count, dense).by_name()


class _Results:
    """Results of all kinds, from what was found in a block."""

    def __init__(
        self,
        table: FeatureTable,
        found: FoundFeatures,
        outputs: list[np.ndarray],
        count: int | None,
        dense: dict[str, Any],
    ) -> None:
        self._table = table
        self._found = found
        self._splits = dict(zip(table.keys, outputs, strict=True))
        self._count = count
        self._dense = dense
        self._lists: dict[str, Lists] = {}

    def by_name(self) -> dict[str, Any]:
        return {name: self._result(name, feature) for name, feature in self._table.features.items()}

    def _result(self, name: str, feature: Feature) -> Any:
        if isinstance(feature, FixedLenFeature):
            return self._dense[name] if self._count is not None else self._dense[name][()]
        if isinstance(feature, FixedLenSequenceFeature):
            return self._padded(name, feature)
        if isinstance(feature, RaggedFeature):
            return self._ragged(name, feature)
        if isinstance(feature, SparseFeature):
            indices = [self._filled(key) for key in feature.index_keys]
            sparse = placed(name, feature, self._filled(feature.value_key), indices)
            if self._count is not None:
                return sparse
            return Sparse(sparse.indices[:, 1:], sparse.values, sparse.dense_shape[1:])
        lists = self._filled(name)
        if self._count is not None:
            return sparse_of(lists)
        size = lists.values.size
        return Sparse(np.arange(size).reshape(-1, 1), lists.values, np.array([size]))

    def _ragged(self, name: str, feature: RaggedFeature) -> Any:
        lists = self._filled(feature.value_key or name)
        numbers = {key: self._filled(key) for key in partition_keys(feature)}
        if self._count is not None:
            return cut_batch(name, feature, lists, numbers)
        return cut_alone(name, feature, lists.values, {key: given.values for key, given in numbers.items()})

    def _filled(self, key: str) -> Lists:
        """The values under a key, one record after the other."""
        if key not in self._lists:
            splits = self._splits[key]
            values = np.empty(int(splits[-1]), DTYPES[self._table.columns[key].kind])
            self._found.fill(self._table.keys.index(key), values, 0)
            self._lists[key] = Lists(values, splits)
        return self._lists[key]

    def _padded(self, name: str, feature: FixedLenSequenceFeature) -> np.ndarray:
        lengths = np.diff(self._splits[name])
        uneven = np.flatnonzero(lengths % feature.num_values)
        if uneven.size:
            record = int(uneven[0])
            raise record_error(
                f"feature {name!r} of record {record}: expected parts of {feature.num_values} values "
                f"(shape {feature.shape}), got {int(lengths[record])} values in all",
                record,
                name,
            )
        width = int(lengths.max(initial=0))
        parts = (width // feature.num_values, *feature.shape)
        if self._count is None:
            return self._filled(name).values.reshape(parts)
        padded = np.full((self._count, *parts), feature.padding, feature.dtype)
        if width:
            self._found.fill(self._table.keys.index(name), padded, width)
        return padded


# --- functions ---

# By the identity of the dict, which is kept with it: map functions mostly use one again and again.
_parsers: dict[int, tuple[Any, list[Any], ExampleParser]] = {}
_MOST_PARSERS = 16


def _parser_of(features: Any) -> ExampleParser:
    known = _parsers.get(id(features))
    if known is not None and known[0] is features and list(features.items()) == known[1]:
        return known[2]
    parser = ExampleParser(features)
    if len(_parsers) >= _MOST_PARSERS:
        _parsers.clear()
    _parsers[id(features)] = (features, list(features.items()), parser)
    return parser


def parse_single_example(
    serialized: bytes, features: Mapping[str, Any], example_names: Any = None, name: str | None = None
) -> dict[str, Any]:
    """Parses one Example.

    Args:
        serialized: The record.
        features: What to parse, by name: `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`,
            `RaggedFeature` or `SparseFeature`.
        example_names: A name, which an error says.
        name: Taken as in TensorFlow; it changes nothing.

    Returns:
        Values by name: arrays, NumPy scalars or `bytes` for features of fixed length, `ps.Sparse` for `VarLenFeature`
        and `SparseFeature`, arrays and `ps.Ragged` for `RaggedFeature`.

    Raises:
        RecordError: The record is not an Example, or not one that has these features.

    >>> import penstock as ps
    >>> record = ps.io.encode_example({"x": [1.5, 2.5], "label": 3})
    >>> parsed = ps.io.parse_single_example(
    ...     record, {"x": ps.io.FixedLenFeature([2], "float32"), "label": ps.io.FixedLenFeature([], "int64")}
    ... )
    >>> parsed["x"], int(parsed["label"])
    (array([1.5, 2.5], dtype=float32), 3)
    """
    parser = _parser_of(features)
    if example_names is None:
        return parser.parse_one(one_record(serialized))
    return with_names(example_names, None, lambda: parser.parse_one(one_record(serialized)))


def parse_example(
    serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: str | None = None
) -> dict[str, Any]:
    """Parses a batch of Examples in one go.

    Partitions and indices must fit the values of the batch as a whole, as in TensorFlow: where one record has too few
    and another as many too many, some values end up with other records than those that hold them.

    Args:
        serialized: A list or an array of records. One record alone is parsed as by `parse_single_example`.
        features: What to parse, by name: `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`,
            `RaggedFeature` or `SparseFeature`.
        example_names: Of each record a name, which errors about it say.
        name: Taken as in TensorFlow; it changes nothing.

    Returns:
        Values by name, each with a leading axis for the records: arrays for features of fixed length and for sequences,
        which are padded, `ps.Sparse` for `VarLenFeature` and `SparseFeature`, `ps.Ragged` for `RaggedFeature`.

    Raises:
        RecordError: A record is not an Example, or not one that has these features.

    >>> import penstock as ps
    >>> records = [ps.io.encode_example({"n": [1, 2, 3]}), ps.io.encode_example({"n": [4]})]
    >>> ps.io.parse_example(records, {"n": ps.io.VarLenFeature("int64")})["n"].to_dense()
    array([[1, 2, 3],
           [4, 0, 0]])
    """
    records = batch_of(serialized)
    parser = _parser_of(features)
    if isinstance(records, bytes):
        return with_names(example_names, None, lambda: parser.parse_one(records))
    return with_names(example_names, len(records), lambda: parser.parse_block(records))


def one_record(serialized: Any) -> bytes:
    """The record of an argument that must be one."""
    records = batch_of(serialized)
    if not isinstance(records, bytes):
        raise BadType(f"serialized: expected the bytes of one record, got {type(serialized).__name__}")
    return records


def batch_of(serialized: Any) -> bytes | Sequence[bytes]:
    """The records of an argument: `bytes`, a list of them, or an array of them."""
    if isinstance(serialized, bytes):
        return serialized
    if isinstance(serialized, np.ndarray):
        if serialized.dtype != string or serialized.ndim > 1:
            # NumPy's own fixed-width strings lose the zeros at their ends.
            raise BadType(
                f"serialized: expected a list of bytes, or a one-dimensional array of them as objects, got an array of "
                f"{serialized.dtype} of shape {serialized.shape}"
            )
        records: list[bytes] = serialized.tolist()
        return records
    if not isinstance(serialized, list | tuple):
        raise BadType(f"serialized: expected bytes or a list of them, got {type(serialized).__name__}")
    for number, record in enumerate(serialized):
        if not isinstance(record, bytes):
            raise BadType(f"serialized: expected bytes, got {type(record).__name__} as record {number}")
    return serialized
