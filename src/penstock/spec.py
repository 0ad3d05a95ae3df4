"""Specs: what is known of a dataset's elements before it runs.

A leaf's spec gives its dtype and shape (None for a dimension that may vary, or for a whole shape of unknown rank). A
`Spec` is a nest of those and the number of elements. What follows a user's function is `UNSEEN` until the function has
run once: penstock does not trace code, it looks at the first result.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .element import LEAF, Structure, parts_of, repr_nest
from .errors import BadType, SpecMismatch
from .leaf import Ragged, Sparse, dtype_of, is_dataset, shape_of, string

__all__ = [
    "INFINITE",
    "UNKNOWN",
    "UNSEEN",
    "DatasetSpec",
    "NoneSpec",
    "RaggedSpec",
    "SparseSpec",
    "Spec",
    "TensorSpec",
    "element_bytes",
    "map_specs",
    "merge",
    "spec_of",
]

#: The cardinality of a dataset without end.
INFINITE = -1
#: The cardinality of a dataset whose length only a run can tell.
UNKNOWN = -2
# More elements than int64 can count: nobody comes to their end.
_LARGEST = 2**63 - 1

Shape = tuple[int | None, ...]


def _as_dtype(dtype: Any) -> np.dtype[Any]:
    if isinstance(dtype, np.dtype):
        return string if dtype.kind in "USTO" else dtype
    if dtype in (bytes, str):
        return string
    if hasattr(dtype, "as_numpy_dtype"):  # a tf.DType
        dtype = dtype.as_numpy_dtype
    result = np.dtype(dtype)
    return string if result.kind in "USTO" else result


def _as_shape(shape: Any) -> Shape | None:
    if shape is None:
        return None
    if type(shape) is tuple and not shape:
        return ()
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    dims = tuple(None if n is None or (n == -1) else int(n) for n in shape)
    if any(n is not None and n < 0 for n in dims):
        raise SpecMismatch(f"expected dimensions >= 0 or None, got {tuple(shape)}")
    return dims


@dataclasses.dataclass(frozen=True, init=False)
class TensorSpec:
    """The dtype and shape of one array.

    >>> TensorSpec((None, 3), "float32")
    TensorSpec(shape=(None, 3), dtype=float32)
    """

    shape: Shape | None
    dtype: np.dtype[Any]

    def __init__(self, shape: Any = None, dtype: Any = np.float32) -> None:
        object.__setattr__(self, "shape", _as_shape(shape))
        object.__setattr__(self, "dtype", _as_dtype(dtype))

    @property
    def nbytes(self) -> int | None:
        """Bytes of one such array, or None where that is not known."""
        if self.shape is None or None in self.shape or self.dtype == string:
            return None
        return math.prod(n or 0 for n in self.shape) * self.dtype.itemsize

    def holds(self, leaf: Any) -> bool:
        """Whether `leaf` fits this spec."""
        if isinstance(leaf, (Ragged, Sparse)) or leaf is None or is_dataset(leaf):
            return False
        return dtype_of(leaf) == self.dtype and shape_fits(self.shape, shape_of(leaf))

    def with_shape(self, shape: Shape | None) -> TensorSpec:
        """This spec with another shape, which is taken as it is."""
        spec = object.__new__(type(self))
        spec.__dict__.update(shape=shape, dtype=self.dtype)
        return spec

    def __repr__(self) -> str:
        name = "string" if self.dtype == string else self.dtype.name
        return f"{type(self).__name__}(shape={self.shape}, dtype={name})"

    def __str__(self) -> str:
        name = "string" if self.dtype == string else self.dtype.name
        dims = "?" if self.shape is None else "×".join("?" if n is None else str(n) for n in self.shape)
        return f"{dims} {name}" if dims else name


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class RaggedSpec(TensorSpec):
    """The dtype and shape of a `Ragged`; ragged dimensions are None, or the length that all rows have."""

    def __init__(self, shape: Any = None, dtype: Any = np.float32) -> None:
        super().__init__(shape, dtype)

    @property
    def nbytes(self) -> None:
        """Not known: that of row splits depends on their dtype, and on how many dimensions have some."""
        return None

    def holds(self, leaf: Any) -> bool:
        return isinstance(leaf, Ragged) and leaf.dtype == self.dtype and _ragged_fits(self.shape, leaf)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class SparseSpec(TensorSpec):
    """The dtype and dense shape of a `Sparse`."""

    def __init__(self, shape: Any = None, dtype: Any = np.float32) -> None:
        super().__init__(shape, dtype)

    @property
    def nbytes(self) -> None:
        """Not known: it depends on how many values there are."""
        return None

    def holds(self, leaf: Any) -> bool:
        return isinstance(leaf, Sparse) and leaf.dtype == self.dtype and shape_fits(self.shape, leaf.shape)


@dataclasses.dataclass(frozen=True)
class DatasetSpec:
    """A leaf that is itself a dataset, as `window` makes them."""

    element_spec: Any
    nbytes: None = None

    def holds(self, leaf: Any) -> bool:
        return is_dataset(leaf)

    def __str__(self) -> str:
        return f"Dataset[{describe(self.element_spec)}]"


@dataclasses.dataclass(frozen=True)
class NoneSpec:
    """A leaf that is None."""

    nbytes: int = 0

    def holds(self, leaf: Any) -> bool:
        return leaf is None

    def __str__(self) -> str:
        return "None"


class _Unseen:
    """Stands for the element spec of a dataset whose function has not run yet."""

    def __repr__(self) -> str:
        return "UNSEEN"

    __str__ = __repr__

    def __reduce__(self) -> str:
        return "UNSEEN"  # the one that there is


#: The element spec of what follows a user's function that has not run yet.
UNSEEN = _Unseen()


@dataclasses.dataclass(frozen=True)
class Spec:
    """What is known of a dataset: a nest of leaf specs (or `UNSEEN`), and how many elements there are."""

    element: Any
    cardinality: int = UNKNOWN

    def __init__(self, element: Any, cardinality: int = UNKNOWN) -> None:
        # By hand, as for `Node`: one for each dataset inside a dataset.
        fields = self.__dict__
        fields["element"] = element
        fields["cardinality"] = cardinality if cardinality <= _LARGEST else INFINITE

    @property
    def seen(self) -> bool:
        return self.element is not UNSEEN

    @functools.cached_property
    def batched(self) -> dict[tuple[int, bool], Spec]:
        """Specs of batches of these elements that were worked out already: thousands of windows have one spec."""
        return {}

    def with_cardinality(self, cardinality: int) -> Spec:
        return Spec(self.element, cardinality)

    def __str__(self) -> str:
        count = {INFINITE: "infinite", UNKNOWN: "unknown"}.get(self.cardinality, f"{self.cardinality:,}")
        return f"{count} of {describe(self.element)}"


def shape_fits(expected: Shape | None, shape: Shape) -> bool:
    """Whether a shape is one that `expected` allows."""
    if expected is None or expected == shape:
        return True
    return len(expected) == len(shape) and all(a is None or a == b for a, b in zip(expected, shape, strict=True))


def _ragged_fits(expected: Shape | None, leaf: Ragged) -> bool:
    if expected is None:
        return True
    if len(expected) < 2 or expected[0] not in (None, len(leaf)):
        return False
    if expected[1] is not None and not np.all(np.diff(leaf.row_splits) == expected[1]):
        return False
    inner = None, *expected[2:]
    return _ragged_fits(inner, leaf.values) if isinstance(leaf.values, Ragged) else shape_fits(inner, leaf.values.shape)


def leaf_spec(leaf: Any) -> Any:
    """The spec of one leaf."""
    if leaf is None:
        return NoneSpec()
    if isinstance(leaf, Ragged):
        return RaggedSpec(leaf.shape, leaf.dtype)
    if isinstance(leaf, Sparse):
        return SparseSpec(leaf.shape, leaf.dtype)
    if is_dataset(leaf):
        return DatasetSpec(leaf.static_element_spec)
    return TensorSpec(shape_of(leaf), dtype_of(leaf))


def spec_of(element: Any) -> Any:
    """The nest of leaf specs of one element."""
    structure = Structure.of(element)
    return structure.unflatten([leaf_spec(leaf) for leaf in structure.flatten(element)])


def structure_of_spec(spec: Any) -> Structure:
    """The structure of a nest of leaf specs."""
    return spec_nest(spec)[0]


def _is_leaf_spec(value: Any) -> bool:
    return isinstance(value, (TensorSpec, DatasetSpec, NoneSpec, _Unseen))


def spec_nest(spec: Any, as_spec: Callable[[Any], Any] | None = None) -> tuple[Structure, list[Any]]:
    """Structure and leaves of a nest of specs (a leaf spec is a dataclass, and must not be taken apart).

    `as_spec` makes leaves of what is no spec of ours; without it that is refused.
    """
    if _is_leaf_spec(spec):
        return LEAF, [spec]
    leaves: list[Any] = []

    def look_into(value: Any) -> Structure:
        if _is_leaf_spec(value):
            leaves.append(value)
            return LEAF
        keys, parts = parts_of(value)
        if keys is not None:
            kind = dict if isinstance(value, Mapping) and not isinstance(value, dict) else type(value)
            return Structure(kind, keys, tuple([look_into(part) for part in parts]))
        leaves.append((as_spec or refuse)(value))
        return LEAF

    return look_into(spec), leaves


def refuse(value: Any) -> Any:
    """Says that something is no spec."""
    raise BadType(f"expected a nest of TensorSpec, got {type(value).__name__} {value!r:.60}")


def spec_leaves(spec: Any) -> list[Any]:
    """The leaf specs of a nest."""
    return spec_nest(spec)[1]


def map_specs(function: Any, spec: Any) -> Any:
    """A nest of specs with `function` applied to each leaf; `UNSEEN` stays so."""
    if spec is UNSEEN:
        return UNSEEN
    if type(spec) is TensorSpec:
        return function(spec)
    structure, leaves = spec_nest(spec)
    return structure.unflatten([function(leaf) for leaf in leaves])


def describe(spec: Any) -> str:
    """A nest of specs in few characters: `(3072 uint8, int64)`."""
    if spec is UNSEEN:
        return "?"
    structure, leaves = spec_nest(spec)
    return repr_nest(structure.unflatten([str(leaf) for leaf in leaves])) if not structure.is_leaf else str(leaves[0])


def element_bytes(spec: Any) -> int | None:
    """Bytes of one element of this spec, or None where that is not known before running."""
    if spec is UNSEEN:
        return None
    sizes = [leaf.nbytes for leaf in spec_leaves(spec)]
    return None if None in sizes else sum(sizes)


def merge(first: Any, second: Any) -> Any:
    """The spec of elements that may be of either kind; raises `SpecMismatch` where structure or dtype differ."""
    if first is UNSEEN or second is UNSEEN:
        return UNSEEN
    left, left_leaves = spec_nest(first)
    right, right_leaves = spec_nest(second)
    if left != right:
        raise SpecMismatch(f"expected {describe(first)}, got {describe(second)}")
    if left.kind is not None and left._key() == right._key() and left.keys != right.keys:
        right_leaves = left.flatten(right.unflatten(range(right.num_leaves)))
        right_leaves = [spec_leaves(second)[i] for i in right_leaves]
    merged = [_merge_leaf(a, b, first, second) for a, b in zip(left_leaves, right_leaves, strict=True)]
    return left.unflatten(merged)


def _merge_leaf(a: Any, b: Any, first: Any, second: Any) -> Any:
    if type(a) is not type(b):
        raise SpecMismatch(f"expected {describe(first)}, got {describe(second)}")
    if isinstance(a, DatasetSpec):
        return DatasetSpec(merge(a.element_spec, b.element_spec))
    if not isinstance(a, TensorSpec):
        return a
    if a.dtype != b.dtype:
        raise SpecMismatch(f"expected {describe(first)}, got {describe(second)}: dtypes {a.dtype} and {b.dtype}")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a.with_shape(None)
    return a.with_shape(tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)))
