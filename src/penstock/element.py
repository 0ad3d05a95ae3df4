"""Elements: NumPy values in tuples, dicts, namedtuples and dataclasses.

An *element* is a leaf or a nest of leaves. A leaf is a NumPy array, a NumPy scalar, `bytes`, a `Ragged`, a `Sparse`,
a nested dataset, or None. As in tf.data a *list* is not structure: it is converted to an array. `normalize` turns
whatever a user's function or generator gave into this form; `Structure` is the shape of the nest without its leaves.

Why not a pytree library: lists must be leaves, dataclasses need no registration, and a mismatch must name both sides;
see docs/adr/0002.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from .byte_strings import checked_objects, encode_strings, encoded, is_text
from .errors import BadType, SpecMismatch
from .failed import Failed

__all__ = [
    "LEAF",
    "Failed",
    "Ragged",
    "Sparse",
    "Structure",
    "arrays_in",
    "as_leaf",
    "detach",
    "dtype_of",
    "is_dataset",
    "leaf_bytes",
    "nbytes_of",
    "normalize",
    "parts_of",
    "read_only",
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
        """The same values in an ordinary array, `default_value` elsewhere."""
        dense = np.full(self.shape, default_value, dtype=self.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense


def is_dataset(value: Any) -> bool:
    """Whether `value` is a (nested) dataset. Datasets live in a layer above; they mark themselves."""
    return getattr(type(value), "__penstock_dataset__", False) is True


# --- leaves -----------------------------------------------------------------------------------------------------


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
        return value.encode()
    if kind is bool:
        return np.bool_(value)
    if kind is int:
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    if kind is float:
        return np.float64(value)
    if isinstance(value, (Ragged, Sparse)):
        return _with_bytes(value)
    return value if value is None or is_dataset(value) else _converted(value)


def _with_bytes(value: Any) -> Any:
    """A `Ragged` or `Sparse`; where its values are text, with the same as byte strings."""
    values = value.values
    if isinstance(values, Ragged):
        text = _with_bytes(values)
    elif type(values) is np.ndarray and (is_text(values.dtype) or values.dtype.kind == "O"):
        text = as_leaf(values)
    else:
        return value
    return value if text is values else dataclasses.replace(value, values=text)


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
        return sum(map(len, leaf.reshape(-1).tolist())) + leaf.size * (_POINTER + _BYTES_OVERHEAD)
    if is_dataset(leaf):  # a window, or what was made of one, holds elements
        node = leaf.node
        return sum([part.op.held_bytes for part in node.walk()]) if node.inputs else int(node.op.held_bytes)
    return int(getattr(leaf, "nbytes", 0))


# --- structure --------------------------------------------------------------------------------------------------


class Structure:
    """The shape of a nest: how many leaves, and how to take it apart and put it together.

    `kind` is None for a leaf, else the container's class; `keys` name the parts. Compared by value; dicts with the
    same keys in another order are equal.
    """

    __slots__ = ("_build", "children", "fields", "is_flat", "is_flat_tuple", "is_leaf", "keys", "kind", "num_leaves")

    def __init__(self, kind: type | None, keys: tuple[Any, ...] = (), children: tuple[Structure, ...] = ()) -> None:
        self.kind = kind
        self.keys = keys
        self.children = children
        self.num_leaves: int = 1 if kind is None else sum(child.num_leaves for child in children)
        self.is_leaf = kind is None
        #: Whether all parts are leaves, as in most nests.
        self.is_flat = kind is not None and self.num_leaves == len(children) and all(c.kind is None for c in children)
        #: Whether this is a plain tuple of leaves, the commonest nest by far.
        self.is_flat_tuple = self.is_flat and kind is tuple
        #: The parts of a nest of this kind, as a tuple; a KeyError where a dict lacks one.
        self.fields, self._build = _access(kind, keys)

    @staticmethod
    def of(element: Any) -> Structure:
        """The structure of a normalized element."""
        keys, parts = parts_of(element)
        if keys is None:
            return LEAF
        return Structure(_nest_kind(type(element)), keys, tuple(Structure.of(part) for part in parts))

    def flatten(self, element: Any) -> list[Any]:
        """The leaves of `element`, which must have this structure."""
        if self.kind is None:
            if _is_nest(element):
                raise SpecMismatch(f"expected {self}, got {Structure.of(element)}")
            return [element]
        leaves: list[Any] = []
        self._flatten_into(element, leaves)
        return leaves

    def _flatten_into(self, element: Any, leaves: list[Any]) -> None:
        if type(element) is not self.kind and _nest_kind(type(element)) is not self.kind:
            raise SpecMismatch(f"expected {self}, got {Structure.of(element)}")
        try:
            parts = self.fields(element)
        except KeyError:
            raise SpecMismatch(f"expected {self}, got {Structure.of(element)}") from None
        if len(parts) != len(self.children) or (isinstance(element, Mapping) and len(element) != len(parts)):
            raise SpecMismatch(f"expected {self}, got {Structure.of(element)}")
        for child, part in zip(self.children, parts, strict=True):
            if child.kind is None:
                if _is_nest(part):
                    raise SpecMismatch(f"expected {self}, got {Structure.of(element)}")
                leaves.append(part)
            else:
                child._flatten_into(part, leaves)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The element with this structure and these leaves."""
        if self.kind is None:
            (leaf,) = leaves
            return leaf
        if self.is_flat:
            return self._build(leaves if isinstance(leaves, list) else list(leaves))
        return self._unflatten(iter(leaves))

    def _unflatten(self, leaves: Any) -> Any:
        if self.kind is None:
            return next(leaves)
        return self._build([child._unflatten(leaves) for child in self.children])

    def map(self, function: Callable[[Any], Any], element: Any) -> Any:
        """`element` with `function` applied to each leaf."""
        return self.unflatten([function(leaf) for leaf in self.flatten(element)])

    def _key(self) -> Any:
        pairs = list(zip(self.keys, self.children, strict=True))
        if self.kind is not None and issubclass(self.kind, Mapping):
            pairs.sort(key=lambda pair: repr(pair[0]))
        return (self.kind, tuple(pairs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (self.same_layout(other) or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return "LEAF" if self.kind is None else (Structure, (self.kind, self.keys, self.children))

    def same_layout(self, other: Structure) -> bool:
        """Whether leaves stand in the same places too: equal, and the keys of dicts in the same order."""
        return self is other or (
            self.kind is other.kind
            and self.keys == other.keys
            and all(a.same_layout(b) for a, b in zip(self.children, other.children, strict=True))
        )

    def __repr__(self) -> str:
        return repr_nest(self.unflatten(["·"] * self.num_leaves))


def repr_nest(nest: Any) -> str:
    """Text of a nest of short leaves: `(·, {'a': ·})`."""
    keys, parts = parts_of(nest)
    if keys is None:
        return str(nest)
    inner = [repr_nest(part) for part in parts]
    if isinstance(nest, Mapping):
        return "{" + ", ".join(f"{key!r}: {text}" for key, text in zip(keys, inner, strict=True)) + "}"
    if type(nest) is tuple:
        return f"({inner[0]},)" if len(inner) == 1 else "(" + ", ".join(inner) + ")"
    pairs = ", ".join(f"{key}={text}" for key, text in zip(keys, inner, strict=True))
    return f"{type(nest).__name__}({pairs})"


# Asked several times for each element: looked up by type, which is ten times as quick as finding out.
_NEST_TYPES: dict[type, bool] = {}


def _is_nest(value: Any) -> bool:
    kind = type(value)
    known = _NEST_TYPES.get(kind)
    return _is_nest_type(kind) if known is None else known


def _is_nest_type(kind: type) -> bool:
    is_array = all(hasattr(kind, name) for name in ("shape", "dtype", "__getitem__"))  # zarr's arrays are dataclasses
    is_nest = issubclass(kind, (tuple, Mapping)) or (
        dataclasses.is_dataclass(kind)
        and not is_array
        and not issubclass(kind, (type, Ragged, Sparse))
        and not getattr(kind, "__penstock_dataset__", False)
    )
    _NEST_TYPES[kind] = is_nest
    return is_nest


def _nest_kind(kind: type) -> type:
    """The class that a nest is rebuilt as: mappings that are no dicts (a group in a file, say) become dicts."""
    return dict if issubclass(kind, Mapping) and not issubclass(kind, dict) else kind


def parts_of(value: Any) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Keys and parts of a nest; (None, []) for a leaf."""
    if not _is_nest(value):
        return None, []
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return (tuple(names) if names is not None else tuple(range(len(value)))), list(value)
    if isinstance(value, Mapping):
        return tuple(value), list(value.values())
    names = tuple(field.name for field in dataclasses.fields(value))
    return names, [getattr(value, name) for name in names]


def _access(
    kind: type | None, keys: tuple[Any, ...]
) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[list[Any]], Any]]:
    """How to read the parts of a nest of this kind, and how to build one from its parts."""
    if kind is None or kind is tuple:
        return tuple, tuple
    if issubclass(kind, tuple):
        return tuple, kind._make  # type: ignore[attr-defined]  # a namedtuple's, which is no type of its own
    if issubclass(kind, Mapping):
        make: Any = functools.partial(kind, None) if issubclass(kind, defaultdict) else kind
        return _all_of(itemgetter, keys), lambda parts: make(zip(keys, parts, strict=True))
    return _all_of(attrgetter, keys), lambda parts: kind(**dict(zip(keys, parts, strict=True)))


def _all_of(getter: Any, keys: tuple[Any, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gets the parts of all keys as a tuple; a getter of a single one would give that alone."""
    if len(keys) > 1:
        every: Callable[[Any], tuple[Any, ...]] = getter(*keys)
        return every
    each = [getter(key) for key in keys]
    return lambda element: tuple([get(element) for get in each])


#: The structure of an element that is a single leaf.
LEAF = Structure(None)


def normalize(value: Any) -> Any:
    """Converts what a user gave to an element: nests kept, every leaf through `as_leaf`."""
    kind = type(value)
    if isinstance(value, np.number):
        return value
    if kind is np.ndarray or kind is bytes or isinstance(value, np.generic):
        return as_leaf(value)
    if kind is tuple:
        return tuple([normalize(part) for part in value])
    if kind is dict:
        return {key: normalize(part) for key, part in value.items()}
    keys, parts = parts_of(value)
    if keys is None:
        return as_leaf(value)
    return _access(_nest_kind(kind), keys)[1]([normalize(part) for part in parts])


def nbytes_of(element: Any) -> int:
    """Bytes that an element occupies."""
    kind = type(element)
    if (kind is np.ndarray and element.dtype.kind != "O") or issubclass(kind, np.number):
        return int(element.nbytes)
    if kind is Failed:  # objects alone: see memory/singly.py
        return 0
    if not _is_nest(element):
        return leaf_bytes(element)
    return sum(map(nbytes_of, parts_of(element)[1]))


def arrays_in(element: Any) -> list[np.ndarray]:
    """All arrays of which an element is made, those inside `Ragged` and `Sparse` leaves too."""
    if type(element) is np.ndarray:
        return [element]
    if isinstance(element, Ragged):
        return [element.row_splits, *arrays_in(element.values)]
    if isinstance(element, Sparse):
        return [element.indices, element.values, element.dense_shape]
    if not _is_nest(element):
        return []
    return [array for part in parts_of(element)[1] for array in arrays_in(part)]


def read_only(leaf: Any) -> Any:
    """A leaf that cannot be changed through what is returned; arrays are not copied."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    view = leaf.view()
    view.flags.writeable = False
    return view


def detach(element: Any) -> Any:
    """`element` with no leaf pinning a larger buffer: what long-lived buffers must hold.

    A row of a gathered block is a view; kept as it is, it would pin the whole block. Read-only views are windows on the
    user's own arrays and pin nothing of ours.
    """
    if type(element) is np.ndarray:
        pinned = element.base is not None and element.flags.writeable
        return element.copy() if pinned else element
    if isinstance(element, Ragged):
        return Ragged(detach(element.values), detach(element.row_splits))
    if isinstance(element, Sparse):
        return Sparse(detach(element.indices), detach(element.values), detach(element.dense_shape))
    if not _is_nest(element):
        return element
    keys, parts = parts_of(element)
    assert keys is not None
    return _access(_nest_kind(type(element)), keys)[1]([detach(part) for part in parts])
