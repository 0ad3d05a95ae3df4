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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any

import numpy as np

from .errors import SpecMismatch
from .failed import Failed
from .leaf import Ragged, Sparse, as_leaf, is_dataset, leaf_bytes

__all__ = [
    "LEAF",
    "Failed",
    "Structure",
    "arrays_in",
    "detach",
    "has_dataset",
    "has_scalars_only",
    "nbytes_of",
    "normalize",
    "parts_of",
    "read_only",
]


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
        kind = type(element)
        if kind in _LEAVES:
            return LEAF
        if (kind is dict or kind is tuple) and _LEAVES.issuperset(map(type, _parts(element))):
            return _flat(kind, element)
        keys, parts = parts_of(element)
        if keys is None:
            return LEAF
        children = [LEAF if type(part) in _LEAVES else Structure.of(part) for part in parts]
        return Structure(_nest_kind(type(element)), keys, tuple(children))

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
        if self.is_flat and _LEAVES.issuperset(map(type, parts)):
            leaves += parts
            return
        for child, part in zip(self.children, parts, strict=True):
            if child.kind is None:
                if type(part) not in _LEAVES and _is_nest(part):
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

    def _pairs(self) -> list[tuple[Any, Structure]]:
        """Keys and parts, in an order that equal structures share."""
        pairs = list(zip(self.keys, self.children, strict=True))
        if self.kind is not None and issubclass(self.kind, Mapping):
            pairs.sort(key=lambda pair: repr(pair[0]))
        return pairs

    def _key(self) -> Any:
        return (self.kind, tuple(self._pairs()))

    def by_key(self) -> Structure:
        """This structure with the keys of dicts in an order that all equal ones share."""
        if self.kind is None:
            return self
        pairs = self._pairs()
        return Structure(self.kind, tuple(key for key, _ in pairs), tuple(child.by_key() for _, child in pairs))

    def places_by_key(self) -> list[int]:
        """Which leaves come first, second, … in that order."""
        return self.by_key().flatten(self.unflatten(list(range(self.num_leaves))))

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


# Of a row with many numbers each is looked at several times: by type they are known without a call.
_SCALARS: frozenset[type] = frozenset([bytes, *np.sctypeDict.values()])
_LEAVES = _SCALARS | {np.ndarray}
_NUMBERS = frozenset([kind for kind in _SCALARS if issubclass(kind, np.number)])


def has_scalars_only(element: Any) -> bool:
    """Whether this is a tuple or dict of numbers and texts, as the rows of most tables are."""
    kind = type(element)
    return (kind is dict or kind is tuple) and _SCALARS.issuperset(map(type, _parts(element)))


# Of structures that come with every element: so many, of so many parts, are made only once.
_KNOWN_FLAT = 64
_MOST_KNOWN_PARTS = 64


def _flat(kind: type, nest: Any) -> Structure:
    """The structure of a tuple or dict of leaves."""
    if len(nest) <= _MOST_KNOWN_PARTS:
        if kind is tuple:
            return _known_flat(tuple, tuple(range(len(nest))))
        if {str}.issuperset(map(type, nest)):  # others may be equal, and yet not the same: 1 and True
            return _known_flat(dict, tuple(nest))
    return Structure(kind, tuple(range(len(nest)) if kind is tuple else nest), (LEAF,) * len(nest))


@functools.lru_cache(_KNOWN_FLAT)
def _known_flat(kind: type, keys: tuple[Any, ...]) -> Structure:
    return Structure(kind, keys, (LEAF,) * len(keys))


def _parts(nest: Any) -> Iterable[Any]:
    """The parts of a nest; those of the commonest kinds as they lie there."""
    kind = type(nest)
    return nest.values() if kind is dict else nest if kind is tuple else parts_of(nest)[1]


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
        return {_one_key(key): normalize(part) for key, part in value.items()}
    keys, parts = parts_of(value)
    if keys is None:
        return as_leaf(value)
    return _access(_nest_kind(kind), tuple(map(_one_key, keys)))[1]([normalize(part) for part in parts])


def _one_key(key: Any) -> Any:
    """The same key for all elements: what is made for each (`f"s{i}"`) would weigh as much as small values."""
    return intern(key) if type(key) is str else key


def nbytes_of(element: Any) -> int:
    """Bytes that an element occupies."""
    kind = type(element)
    if (kind is np.ndarray and element.dtype.kind != "O") or issubclass(kind, np.number):
        return int(element.nbytes)
    if kind is Failed:  # objects alone: see memory/singly.py
        return 0
    if not _is_nest(element):
        return leaf_bytes(element)
    sizes = [
        part.nbytes if type(part) in _NUMBERS else leaf_bytes(part) if type(part) is bytes else nbytes_of(part)
        for part in _parts(element)
    ]
    return sum(sizes)


def arrays_in(element: Any) -> list[np.ndarray]:
    """All arrays of which an element is made, those inside `Ragged` and `Sparse` leaves too."""
    if type(element) is np.ndarray:
        return [element]
    if type(element) in _SCALARS:
        return []
    if isinstance(element, Ragged):
        return [element.row_splits, *arrays_in(element.values)]
    if isinstance(element, Sparse):
        return [element.indices, element.values, element.dense_shape]
    if not _is_nest(element):
        return []
    return [array for part in _parts(element) if type(part) not in _SCALARS for array in arrays_in(part)]


def has_dataset(element: Any) -> bool:
    """Whether a leaf of an element is a dataset."""
    if type(element) in _LEAVES:
        return False
    if not _is_nest(element):
        return is_dataset(element)
    parts = _parts(element)
    return not _LEAVES.issuperset(map(type, parts)) and any(map(has_dataset, parts))


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
    if type(element) in _SCALARS:
        return element
    if isinstance(element, Ragged):
        return Ragged(detach(element.values), detach(element.row_splits))
    if isinstance(element, Sparse):
        return Sparse(detach(element.indices), detach(element.values), detach(element.dense_shape))
    if not _is_nest(element):
        return element
    if type(element) is tuple:
        return tuple([part if type(part) in _SCALARS else detach(part) for part in element])
    if type(element) is dict:
        return {key: part if type(part) in _SCALARS else detach(part) for key, part in element.items()}
    keys, parts = parts_of(element)
    assert keys is not None
    return _access(_nest_kind(type(element)), keys)[1]([detach(part) for part in parts])
