"""tf.train.SequenceExample to arrays: a context, parsed as an Example is, and lists with a Feature for each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._native import FoundFeatures
from ..errors import BadArgument, RecordError
from ..leaf import Ragged, string
from .example import batch_of, one_record, parse_columns
from .example_columns import Lists, parsed_alone, record_error, sparse_of, sparse_of_lists
from .example_names import with_names
from .feature_table import DTYPES, Feature, FeatureTable, Layout
from .features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, VarLenFeature
from .partitions import cut_batch, partition_keys

__all__ = ["SequenceExampleParser", "parse_sequence_example", "parse_single_sequence_example"]

Parsed = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


class SequenceExampleParser:
    """Parses blocks of SequenceExamples.

    Args:
        context_features: What to parse of the contexts, by name.
        sequence_features: What to parse of the feature lists, by name.
    """

    def __init__(
        self,
        context_features: Mapping[str, Any] | None = None,
        sequence_features: Mapping[str, Any] | None = None,
    ) -> None:
        if not context_features and not sequence_features:
            raise BadArgument("context_features, sequence_features: expected at least one feature, got none")
        self.context = FeatureTable(context_features or {}, (FixedLenFeature, VarLenFeature, RaggedFeature))
        lists = (FixedLenSequenceFeature, VarLenFeature, RaggedFeature)
        self.lists = FeatureTable(sequence_features or {}, lists, are_lists=True)
        for name, feature in self.lists.features.items():
            if isinstance(feature, FixedLenSequenceFeature) and feature.default_value is not None:
                raise BadArgument(f"feature {name!r}: a feature list has no default_value; see allow_missing")

    def __reduce__(self) -> tuple[Any, ...]:
        return (SequenceExampleParser, (self.context.features, self.lists.features))

    def parse_block(self, records: Sequence[bytes]) -> Parsed:
        """(context, feature lists, number of steps of the dense lists), each by name, with a leading axis."""
        if not records:
            self._check_no_records()
        context = parse_columns(self.context, records, Layout.CONTEXTS, len(records), None)
        lists = _FeatureLists(self.lists, records)
        by_name = {name: lists.batched(name, feature) for name, feature in self.lists.features.items()}
        return context, by_name, lists.num_steps()

    def _check_no_records(self) -> None:
        """TensorFlow takes the size of a required feature from the records, and refuses a batch of none."""
        for name, feature in self.context.features.items():
            if isinstance(feature, FixedLenFeature) and feature.num_values and feature.default_value is None:
                raise record_error(f"feature {name!r}: expected a record that has it, got no records", None, name)

    def parse_one(self, record: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """(context, feature lists) of one record, without a leading axis."""
        try:
            context = parse_columns(self.context, (record,), Layout.CONTEXTS, None, None)
            lists = _FeatureLists(self.lists, (record,))
            return context, {name: lists.single(name, feature) for name, feature in self.lists.features.items()}
        except RecordError as error:
            raise parsed_alone(error) from None


class _FeatureLists:
    """The feature lists of a block."""

    def __init__(self, table: FeatureTable, records: Sequence[bytes]) -> None:
        self._table = table
        splits = [np.empty(len(records) + 1, np.int64) for _ in table.keys]
        self._found: FoundFeatures = table.parse(records, Layout.FEATURE_LISTS, splits)
        self._step_splits = dict(zip(table.keys, splits, strict=True))
        self._lists: dict[str, Lists] = {}

    def num_steps(self) -> dict[str, np.ndarray]:
        dense = (name for name, kind in self._table.features.items() if isinstance(kind, FixedLenSequenceFeature))
        return {name: np.diff(self._step_splits[name]) for name in dense}

    def batched(self, name: str, feature: Feature) -> Any:
        if isinstance(feature, FixedLenSequenceFeature):
            return self._padded(name, feature)
        if isinstance(feature, RaggedFeature):
            return self._ragged_batch(name, feature)
        return sparse_of_lists(self._filled(name), self._step_splits[name])

    def single(self, name: str, feature: Feature) -> Any:
        if isinstance(feature, FixedLenSequenceFeature):
            return self._padded(name, feature)[0]
        if isinstance(feature, RaggedFeature):
            return self._ragged(name, feature)
        return sparse_of(self._filled(name))

    def _ragged(self, name: str, feature: RaggedFeature) -> Ragged:
        """A row for each step of all records."""
        value_key = feature.value_key or name
        numbers = {key: self._filled(key) for key in partition_keys(feature)}
        try:
            return cut_batch(name, feature, self._filled(value_key), numbers, step_splits=self._step_splits[value_key])
        except RecordError:
            self._check_steps(name, feature)
            raise

    def _ragged_batch(self, name: str, feature: RaggedFeature) -> Ragged:
        splits = self._step_splits[feature.value_key or name]
        steps = self._ragged(name, feature)
        # As in TensorFlow: unless `validate` says so, only the batch must have as many.
        if feature.validate or len(steps) != splits[-1]:
            self._check_steps(name, feature)
        return Ragged(steps, splits.astype(feature.row_splits_dtype))

    def _check_steps(self, name: str, feature: RaggedFeature) -> None:
        """Refuses records that have not as many steps of a partition as of the values."""
        value_key = feature.value_key or name
        for key in partition_keys(feature):
            uneven = np.flatnonzero(self._step_splits[key] != self._step_splits[value_key])
            if uneven.size:
                record = int(uneven[0]) - 1
                counts = [int(np.diff(self._step_splits[each])[record]) for each in (value_key, key)]
                text = f"{value_key!r} has {counts[0]} steps, and {key!r} {counts[1]}"
                raise record_error(f"feature {name!r} of record {record}: {text}", record, name) from None

    def _filled(self, key: str) -> Lists:
        """The values of all steps of all records, and where each step begins."""
        if key not in self._lists:
            number = self._table.keys.index(key)
            splits = np.zeros(int(self._step_splits[key][-1]) + 1, np.int64)
            self._found.count_steps(number, splits[1:])
            np.cumsum(splits, out=splits)
            values = np.empty(int(splits[-1]), DTYPES[self._table.columns[key].kind])
            self._found.fill(number, values, 0)
            self._lists[key] = Lists(values, splits)
        return self._lists[key]

    def _padded(self, name: str, feature: FixedLenSequenceFeature) -> np.ndarray:
        splits = self._step_splits[name]
        longest = int(np.diff(splits).max(initial=0))
        shape = (splits.size - 1, longest, *feature.shape)
        padded = np.full(shape, b"" if feature.dtype == string else 0, feature.dtype)
        if padded.size:
            self._found.fill(self._table.keys.index(name), padded, longest * feature.num_values)
        return padded


def parse_single_sequence_example(
    serialized: bytes,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses one SequenceExample.

    Args:
        serialized: The record.
        context_features: `FixedLenFeature`, `VarLenFeature` or `RaggedFeature`, by name.
        sequence_features: `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, by name.
        example_name: A name, which an error says.
        name: Taken as in TensorFlow; it changes nothing.

    Returns:
        Values of the context and of the feature lists, each by name.

    Raises:
        RecordError: The record is not a SequenceExample, or not one that has these features.

    >>> import penstock as ps
    >>> record = ps.io.encode_sequence_example({"label": 1}, {"x": [[1.0, 2.0], [3.0, 4.0]]})
    >>> lists = {"x": ps.io.FixedLenSequenceFeature([2], "float32")}
    >>> ps.io.parse_single_sequence_example(record, sequence_features=lists)[1]["x"]
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    parser = SequenceExampleParser(context_features, sequence_features)
    return with_names(example_name, None, lambda: parser.parse_one(one_record(serialized)), "example_name")


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> Parsed:
    """Parses a batch of SequenceExamples.

    Args:
        serialized: A list or an array of records.
        context_features: `FixedLenFeature`, `VarLenFeature` or `RaggedFeature`, by name.
        sequence_features: `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, by name.
        example_names: Of each record a name, which errors about it say.
        name: Taken as in TensorFlow; it changes nothing.

    Returns:
        Values of the contexts and of the feature lists, and the number of steps of each list that was padded, each by
        name and with a leading axis for the records.

    Raises:
        RecordError: A record is not a SequenceExample, or not one that has these features.

    >>> import penstock as ps
    >>> records = [ps.io.encode_sequence_example({}, {"x": steps}) for steps in ([1, 2, 3], [4])]
    >>> lists = {"x": ps.io.FixedLenSequenceFeature([], "int64")}
    >>> _, parsed, num_steps = ps.io.parse_sequence_example(records, sequence_features=lists)
    >>> parsed["x"].tolist(), num_steps["x"].tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    """
    parser = SequenceExampleParser(context_features, sequence_features)
    records = batch_of(serialized)
    if not isinstance(records, bytes):
        return with_names(example_names, len(records), lambda: parser.parse_block(records))
    context, lists = with_names(example_names, None, lambda: parser.parse_one(records))
    steps = {
        name: lists[name].shape[0]
        for name, f in parser.lists.features.items()
        if isinstance(f, FixedLenSequenceFeature)
    }
    return context, lists, {name: np.int64(count) for name, count in steps.items()}
