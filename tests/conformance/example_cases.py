"""Random questions to parsers of Examples: features of all kinds, and records that mostly have them.

A case follows from its number alone. Its records are right for the most part; in some a feature is missing, empty, of
another kind or length, comes twice, or a few bytes are damaged. In some batches two records have each other's values
under a key: as a whole it is right, record by record it is not.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.native import wire

__all__ = ["APIS", "Case", "case_of"]

APIS = ("single", "batch", "single sequence", "sequences")
_KINDS = {"int64": wire.ints, "float32": wire.floats, "string": wire.strings}
_KEYS = ("a", "b", "c", "p", "q")
_SHAPES: tuple[tuple[int, ...], ...] = ((), (), (), (1,), (1,), (2,), (2,), (3,), (2, 2), (1, 2), (0,))
_R = tf.io.RaggedFeature


@dataclasses.dataclass
class Case:
    """What is asked: `features` of Examples, or of contexts and `lists` of SequenceExamples."""

    api: str
    features: dict[str, Any]
    lists: dict[str, Any]
    records: list[bytes]
    is_damaged: bool

    def ask(self, io: Any) -> Any:
        """The answer of `tf.io` or `ps.io`."""
        match self.api:
            case "single":
                return io.parse_single_example(self.records[0], self.features)
            case "batch":
                return io.parse_example(self._batch, self.features)
            case "single sequence":
                return io.parse_single_sequence_example(self.records[0], self.features, self.lists)
            case _:
                return io.parse_sequence_example(self._batch, self.features, self.lists)

    @property
    def is_fatal(self) -> bool:
        """Whether TensorFlow may end the process on a record that is to be refused.

        In lists it skips strings without looking where they end; to a shape of no values it writes those that come, and
        to any shape the floats that are not packed.
        """
        fixed = [feature for feature in self.features.values() if isinstance(feature, tf.io.FixedLenFeature)]
        if any(0 in feature.shape for feature in fixed) or (self.is_damaged and self.lists):
            return True
        has_unpacked = any(b"\x0d" in record for record in self.records)  # the tag of such a float
        return has_unpacked and any(feature.dtype == "float32" for feature in fixed)

    @property
    def is_looser_in_graphs(self) -> bool:
        """Whether functions of tf.data may take what `tf.io` refuses where it knows the shapes: see docs/records.md."""
        return any(
            any(isinstance(partition, _R.ValueRowIds) for partition in feature.partitions) and not feature.validate
            if isinstance(feature, _R)
            else getattr(feature, "already_sorted", False)
            for feature in self.features.values()
        )

    @property
    def _batch(self) -> Any:
        # Of an empty list TensorFlow makes floats.
        return self.records or np.empty(0, object)


# A column says how a key is to be filled for a feature that reads it: kind, and numbers of values or the values.
_Column = tuple[str, Callable[[random.Random], list[Any]]]


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.columns: dict[str, _Column] = {}
        # Of the record that is made: how many values more than usual there are under keys that must agree, and steps.
        self.num_more = self.num_steps = 0
        self.is_right = rng.random() < 0.3  # whether each feature is what is asked for, in the record it is made for
        self.has_damaged = False

    def features(self, classes: list[str]) -> dict[str, Any]:
        rng = self.rng
        features = {}
        for name in rng.sample(_KEYS[:3], rng.choice([1, 1, 2, 3])):
            if name not in self.columns or rng.random() < 0.1:
                features[name] = getattr(self, rng.choice(classes))(name)
        return features

    def _dtype(self) -> str:
        return self.rng.choice(list(_KINDS))

    def _column(self, key: str, dtype: str, count: Callable[[random.Random], int]) -> None:
        self.columns[key] = (dtype, lambda rng: [_value(rng, dtype) for _ in range(count(rng))])

    def fixed(self, name: str) -> Any:
        shape, dtype = self.rng.choice(_SHAPES), self._dtype()
        size = math.prod(shape)
        default = None
        if self.rng.random() < 0.5:
            default = [{"int64": 7, "float32": 7.5, "string": "d"}[dtype]] * size
        self._column(name, dtype, lambda rng: size)
        return tf.io.FixedLenFeature(shape, dtype, default if shape or not default else default[0])

    def varlen(self, name: str) -> Any:
        dtype = self._dtype()
        self._column(name, dtype, _few)
        return tf.io.VarLenFeature(getattr(tf, dtype))

    def padded(self, name: str) -> Any:
        shape, dtype = self.rng.choice(_SHAPES[:-1]), self._dtype()
        self._column(name, dtype, lambda rng: math.prod(shape) * _few(rng))
        default = {"int64": 7, "float32": 7.5, "string": "d"}[dtype] if self.rng.random() < 0.3 else None
        return tf.io.FixedLenSequenceFeature(shape, dtype, self.rng.random() < 0.97, default)

    def steps(self, name: str) -> Any:
        shape, dtype = self.rng.choice(_SHAPES[:-1]), self._dtype()  # TensorFlow divides by the number of values
        self._column(name, dtype, lambda rng: math.prod(shape))
        return tf.io.FixedLenSequenceFeature(shape, dtype, self.rng.random() < 0.6)

    def ragged(self, name: str) -> Any:
        dtype = self._dtype()
        split_dtype = self.rng.choice([tf.int32, tf.int64])
        value_key = self.rng.choice([None, None, "v"])
        # How many values there are is fixed for the record, so that its partitions can fit.
        size = self._size([0, 1, 2, 3, 4, 6])
        self._column(value_key or name, dtype, lambda rng: size())
        partitions = []
        for key in self.rng.choice([(), ("p",), ("p",), ("q", "p")])[::-1]:
            partition, size = self._partition(key, size)
            partitions.insert(0, partition)
        return _R(getattr(tf, dtype), value_key, partitions, split_dtype, self.rng.random() < 0.4)

    def _size(self, usual: list[int]) -> Callable[[], int]:
        """A number of values, which differs from record to record."""
        size = self.rng.choice(usual)
        return lambda: size + self.num_more

    def _partition(self, key: str, size: Callable[[], int]) -> tuple[Any, Callable[[], int]]:
        """A partition of `size` items, and how many rows it makes."""
        kind = self.rng.choice(["RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds", "UniformRowLength"])
        if kind == "UniformRowLength":
            length = self.rng.choice([1, 2, 3])
            return _R.UniformRowLength(length), lambda: size() // length
        rows = self.rng.choice([1, 2, 3])
        seed = self.rng.random()

        def values(rng: random.Random) -> list[int]:
            # Mostly the same cut of each record, so that partitions fit each other.
            cut = random.Random(seed)
            splits = [0, *sorted(cut.randrange(size() + 1) for _ in range(rows - 1)), size()]
            lengths = [b - a for a, b in itertools.pairwise(splits)]
            found = {
                "RowSplits": splits,
                "RowLengths": lengths,
                "RowStarts": splits[:-1],
                "RowLimits": splits[1:],
                "ValueRowIds": [i for i, length in enumerate(lengths) for _ in range(length)],
            }[kind]
            if self.is_right:
                return found
            if found and rng.random() < 0.12:
                found[rng.randrange(len(found))] += rng.choice([-2, -1, 1, 1, 2])
            if rng.random() < 0.05:
                found = [rng.randrange(-1, 5) for _ in range(rng.randrange(4))]
            return found

        self.columns[key] = ("int64", values)
        return getattr(_R, kind)(key), lambda: rows

    def sparse(self, name: str) -> Any:
        dtype = self._dtype()
        size = self._size([0, 1, 2, 3])
        self._column("v", dtype, lambda rng: size())
        keys = self.rng.choice(["i", ["i"], ["i", "j"]])
        sizes = [self.rng.choice([2, 3, 5]) for _ in keys] if isinstance(keys, list) else self.rng.choice([2, 3, 5])
        for key, limit in zip(keys, sizes if isinstance(sizes, list) else [sizes], strict=True):
            self.columns[key] = (
                "int64",
                lambda rng, limit=limit: [rng.randrange(limit + (rng.random() < 0.05)) for _ in range(size())],
            )
        return tf.io.SparseFeature(keys, "v", getattr(tf, dtype), sizes, self.rng.random() < 0.3)

    def feature(self, key: str) -> bytes | None:
        """A Feature for a key that a feature reads, some of them damaged; None for none."""
        feature = self._feature(key)
        return feature and self._perhaps_damaged(feature, 0.02)

    def _perhaps_damaged(self, data: bytes, chance: float) -> bytes:
        """What holds it says its length rightly: the damage is found only where it is."""
        if self.rng.random() >= chance:
            return data
        damaged = wire.damaged(self.rng, data)
        if wire.claims_much(damaged):
            return data
        self.has_damaged |= damaged != data
        return damaged

    def _feature(self, key: str) -> bytes | None:
        rng = self.rng
        dtype, values = self.columns[key]
        match 0 if self.is_right else rng.choices(range(6), [80, 4, 3, 3, 4, 6])[0]:
            case 0:
                return _encoded(rng, dtype, values(rng))
            case 1:
                return None
            case 2:
                return b""
            case 3:
                return _encoded(rng, dtype, [])
            case 4:
                other = rng.choice(list(_KINDS))
                return _encoded(rng, other, [_value(rng, other) for _ in range(_few(rng))])
            case _:
                return _encoded(rng, dtype, [_value(rng, dtype) for _ in range(_few(rng))])

    def feature_list(self, key: str) -> bytes | None:
        if self.rng.random() < 0.06:
            return None
        count = self.num_steps if self.rng.random() < 0.85 else _few(self.rng)
        return self._perhaps_damaged(wire.steps(*[self.feature(key) or b"" for _ in range(count)]), 0.02)

    def maps(self, count: int, make: Callable[[str], bytes | None]) -> list[bytes]:
        """Of each record its entries, with what `make` makes for their keys."""
        records = [self._made(make) for _ in range(count)]
        if count > 1 and self.columns and self.rng.random() < 0.4:
            key = self.rng.choice(list(self.columns))
            one, other = self.rng.sample(records, 2)
            one[key], other[key] = other[key], one[key]
        return [b"".join([*map(_entry, record.items()), *self._one_more(record, make)]) for record in records]

    def _made(self, make: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
        self.num_more = self.rng.choice([0, 0, 0, 1, 2])
        self.num_steps = self.rng.choice([0, 1, 2, 3])
        keys = list(self.columns)
        self.rng.shuffle(keys)
        return {key: make(key) for key in keys}

    def _one_more(self, record: dict[str, Any], make: Callable[[str], bytes | None]) -> list[bytes]:
        """Sometimes an entry whose key nobody asked for, or that came already."""
        if self.rng.random() >= 0.1:
            return []
        key = self.rng.choice([*record, "other"])
        return [_entry((key, make(key) if key in self.columns else wire.ints(1)))]


def case_of(number: int) -> Case:
    rng = random.Random(number)
    api = APIS[number % len(APIS)]
    count = 1 if api.startswith("single") else rng.choice([0, 1, 2, 2, 3, 5])
    if not api.endswith(("sequence", "sequences")):
        maker = _Maker(rng)
        features = maker.features(["fixed", "varlen", "padded", "ragged", "ragged", "sparse"])
        records = [wire.example(each) if rng.random() < 0.97 else b"" for each in maker.maps(count, maker.feature)]
        return _case(rng, api, features, {}, records, maker)
    context, lists = _Maker(rng), _Maker(rng)
    features = context.features(["fixed", "varlen", "ragged"]) if rng.random() < 0.6 else {}
    list_features = lists.features(["steps", "steps", "varlen", "ragged", "ragged"])
    contexts = context.maps(count, context.feature)
    records = list(map(wire.sequence_example, contexts, lists.maps(count, lists.feature_list)))
    return _case(rng, api, features, list_features, records, context, lists)


def _case(
    rng: random.Random, api: str, features: dict[str, Any], lists: dict[str, Any], records: list[bytes], *makers: _Maker
) -> Case:
    is_damaged = any(maker.has_damaged for maker in makers)
    if records and rng.random() < 0.2:
        at = rng.randrange(len(records))
        damaged = wire.damaged(rng, records[at])
        if not wire.claims_much(damaged):
            is_damaged = True
            records[at] = damaged
    return Case(api, features, lists, records, is_damaged)


def _entry(of: tuple[str, bytes | None]) -> bytes:
    key, value = of
    return b"" if value is None else wire.entry(key.encode(), value)


def _few(rng: random.Random) -> int:
    return rng.choice([0, 1, 1, 2, 2, 3, 4])


def _value(rng: random.Random, dtype: str) -> Any:
    if dtype == "int64":
        return rng.choice([0, 1, 2, 3, -1, 300, 2**40])
    return rng.choice([0.0, 1.5, -2.0]) if dtype == "float32" else rng.choice([b"", b"x", b"yz"])


def _encoded(rng: random.Random, dtype: str, values: list[Any]) -> bytes:
    if rng.random() < 0.2 and dtype != "string":
        return (wire.unpacked_ints if dtype == "int64" else wire.unpacked_floats)(*values)
    return _KINDS[dtype](*values)
