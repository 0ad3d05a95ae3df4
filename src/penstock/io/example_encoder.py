"""Arrays to tf.train.Example and SequenceExample: one record, or a block of them in one native call.

Integers and bools are stored as int64, floats as float32, strings as bytes; every array flat, in C order. Keys are
sorted by their bytes, so that equal values give equal records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._native import encode_examples as native_encode_examples
from .._native import encode_feature_lists as native_encode_feature_lists
from .._native import encode_plain_example
from ..byte_strings import encode_strings
from ..errors import BadArgument, BadType
from ..leaf import Ragged, Sparse, string
from .sparse_lists import list_of

if TYPE_CHECKING:
    from .._native import EncodedColumn

__all__ = ["encode_example", "encode_examples", "encode_sequence_example"]

_NONE, _BYTES, _FLOATS, _INTS = range(4)


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Serializes one Example.

    Args:
        features: Values by name: numbers, `bytes`, `str`, arrays or lists of them, and `ps.Sparse` as `VarLenFeature`
            parses them. Integers and bools are stored as int64, floats as float32, strings as bytes. An empty list,
            which could be of any kind, is stored as a feature without values.

    Raises:
        BadType: A value is none of these.
        BadArgument: An integer does not fit into int64.

    >>> import penstock as ps
    >>> record = ps.io.encode_example({"x": [1.0, 2.0], "name": "Ada", "ok": True})
    >>> ps.io.parse_single_example(record, {"name": ps.io.FixedLenFeature([], bytes)})
    {'name': b'Ada'}
    """
    return encode_plain_example(features) or _encode_any(features)  # no Example is of no bytes


def _encode_any(features: Mapping[str, Any]) -> bytes:
    """The same for values of all kinds, and with words for those that cannot be stored."""
    columns = []
    for name, key in _sorted_keys(features):
        values = _values(name, features[name])
        columns.append(_column(key, values, None, _size(values)))
    return native_encode_examples(columns, False, np.empty(1, np.int64))


def encode_examples(columns: Mapping[str, Any], framed: bool = False) -> tuple[bytes, np.ndarray]:
    """Serializes a block of Examples in one call.

    Args:
        columns: Values by name, with a leading axis for the records: arrays, or `ps.Ragged` for other numbers of values
            in each record.
        framed: Whether each record is framed as in a TFRecord file.

    Returns:
        All records, one after the other, and the length of each, without its frame.

    >>> data, lengths = encode_examples({"x": np.zeros((3, 2), np.float32)})
    >>> len(data), lengths.tolist()
    (63, [21, 21, 21])
    """
    encoded: list[EncodedColumn] = []
    num_records: int | None = None
    for name, key in _sorted_keys(columns):
        given = columns[name]
        splits = None
        row_size = 0
        if isinstance(given, Ragged):
            count = len(given)
            splits = np.ascontiguousarray(given.row_splits, np.int64)
            flat: Any = given.values
            if isinstance(flat, Ragged) or getattr(flat, "ndim", 1) != 1:
                raise BadType(f"feature {name!r}: an Example holds flat lists, got rows of rows")
            values = _values(name, flat)
        else:
            array = given if isinstance(given, np.ndarray) else np.asarray(given)
            if array.ndim == 0:
                raise BadType(f"feature {name!r}: expected a leading axis for the records, got a scalar")
            count = len(array)
            values = _values(name, given)
            row_size = _size(values) // count if count else 0
        if num_records is not None and count != num_records:
            raise BadArgument(f"feature {name!r}: expected {num_records} records as of the others, got {count}")
        num_records = count
        encoded.append(_column(key, values, splits, row_size))
    if num_records is None:
        raise BadArgument("columns: expected at least one feature, got none")
    lengths = np.empty(num_records, np.int64)
    return native_encode_examples(encoded, framed, lengths), lengths


def encode_sequence_example(context: Mapping[str, Any], feature_lists: Mapping[str, Any]) -> bytes:
    """Serializes one SequenceExample.

    Args:
        context: Values by name, as for `encode_example`.
        feature_lists: For each name a list with the values of each step; also an array with a leading axis for the
            steps, or a `ps.Ragged`.

    Raises:
        BadType: A value is of no kind that can be stored.
        BadArgument: An integer does not fit into int64, or steps of one list are of several kinds.

    >>> import penstock as ps
    >>> record = ps.io.encode_sequence_example({"label": 1}, {"words": [["a", "b"], ["c"]]})
    >>> ps.io.parse_single_sequence_example(record, sequence_features={"words": ps.io.RaggedFeature(bytes)})[1][
    ...     "words"
    ... ].to_list()
    [[b'a', b'b'], [b'c']]
    """
    columns = []
    num_steps = []
    for name, key in _sorted_keys(feature_lists):
        column, steps = _steps(name, key, feature_lists[name])
        columns.append(column)
        num_steps.append(steps)
    head = encode_example(context) if context else b""
    return head + (native_encode_feature_lists(columns, num_steps) if columns else b"")


def _steps(name: str, key: bytes, given: Any) -> tuple[EncodedColumn, int]:
    if isinstance(given, Ragged):
        values = _values(name, given.values)
        return _column(key, values, np.ascontiguousarray(given.row_splits, np.int64), 0), len(given)
    if isinstance(given, np.ndarray) and given.ndim:
        values = _values(name, given)
        return _column(key, values, None, _size(values) // len(given) if len(given) else 0), len(given)
    if not isinstance(given, list | tuple):
        raise BadType(f"feature list {name!r}: expected a list of steps, got {type(given).__name__}")
    steps = [_values(f"{name}[{number}]", step) for number, step in enumerate(given)]
    splits = np.concatenate([[0], np.cumsum([_size(step) for step in steps], dtype=np.int64)])
    kinds = {_kind(step) for step in steps} - {_NONE}
    if len(kinds) > 1:
        raise BadArgument(f"feature list {name!r}: expected steps of one kind, got several")
    joined: Any
    if not kinds:
        joined = ()
    elif kinds == {_BYTES}:
        joined = [item for step in steps for item in step]
    else:
        dtype = np.int64 if kinds == {_INTS} else np.float32
        joined = np.concatenate([np.empty(0, dtype), *[step for step in steps if _size(step)]])
    return _column(key, joined, splits, 0), len(steps)


# --- values: a flat array of float32 or int64, or a list of bytes; () where there are none of any kind ---


def _values(name: str, given: Any) -> Any:
    kind = type(given)
    if kind is bytes:
        return [given]
    if kind is str:
        return [given.encode()]
    if (kind is list or kind is tuple) and not given:
        return ()
    if kind is Sparse:
        given = list_of(given, f"feature {name!r}")
    if kind is Ragged:
        raise BadType(
            f"feature {name!r}: an Example holds flat lists, got rows of unequal length; unbatch() batches first, or "
            "store `values` and `row_splits` as two features, which RaggedFeature(value_key=…, "
            "partitions=[RaggedFeature.RowSplits(…)]) reads"
        )
    array = given if isinstance(given, np.ndarray) else _as_array(name, given)
    code = array.dtype.kind
    if code == "f":
        return np.require(array, np.float32, ["C", "A"]).reshape(-1)
    if code in "iub":
        if code == "u" and array.size and int(array.max()) >= 2**63:
            raise BadArgument(f"feature {name!r}: an Example stores int64, which cannot hold {int(array.max())}")
        return np.require(array, np.int64, ["C", "A"]).reshape(-1)
    if code in "OSUT":
        try:
            strings = encode_strings(array).reshape(-1).tolist()
        except BadType as error:  # one is missing
            raise BadType(f"feature {name!r}: {error}") from None
        if all(type(item) is bytes for item in strings):
            return strings
        wrong = next(type(item).__name__ for item in strings if type(item) is not bytes)
        raise BadType(f"feature {name!r}: expected numbers or strings, got {wrong}")
    raise BadType(f"feature {name!r}: an Example stores int64, float32 and bytes, not {array.dtype}")


def _as_array(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError) as error:
        raise BadType(f"feature {name!r}: expected numbers or strings of a regular shape: {error}") from None
    # Fixed-width strings would lose the zeros at their ends; numbers among strings must not become text.
    if array.dtype.kind in "SU" and isinstance(given, list | tuple):
        return np.asarray(given, dtype=object)
    if array.dtype == string and array.ndim == 0:
        raise BadType(f"feature {name!r}: expected numbers or strings, got {type(given).__name__}")
    return array


def _size(values: Any) -> int:
    return len(values)


def _kind(values: Any) -> int:
    if isinstance(values, list):
        return _BYTES
    if isinstance(values, tuple):
        return _NONE
    return _FLOATS if values.dtype == np.float32 else _INTS


def _column(key: bytes, values: Any, splits: np.ndarray | None, row_size: int) -> EncodedColumn:
    return (key, _kind(values), values, splits, row_size)


def _sorted_keys(features: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    if not isinstance(features, Mapping):
        raise BadType(f"expected a dict of values by name, got {type(features).__name__}")
    for name in features:
        if not isinstance(name, str):
            raise BadType(f"expected names as keys, got {name!r}")
    return sorted(((name, name.encode()) for name in features), key=lambda pair: pair[1])
