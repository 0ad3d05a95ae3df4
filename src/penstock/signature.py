"""Signatures: what users say that elements are like, in our specs or TensorFlow's, and values that must fit.

Who comes from tf.data brings its specs along, and maybe its tensors. They are known by the names of their classes:
TensorFlow is not loaded for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .element import Structure, normalize
from .errors import BadType, SpecMismatch
from .leaf import Ragged, Sparse, dtype_of, own_leaf, string
from .spec import NoneSpec, RaggedSpec, SparseSpec, TensorSpec, describe, refuse, spec_nest, spec_of

__all__ = ["check_element", "own_signature", "own_spec"]


# --- specs ------------------------------------------------------------------------------------------------------


def own_signature(output_signature: Any) -> Any:
    """A nest of specs as ours. A `BadType` if there are none like them, or none at all."""
    try:
        structure, leaves = spec_nest(output_signature, own_spec)
    except BadType as error:
        raise BadType(f"output_signature: {error}") from None
    if not leaves:
        raise BadType("output_signature: expected at least one TensorSpec, got none")
    return structure.unflatten(leaves)


_OWN_KINDS: dict[str, type[TensorSpec]] = {
    "TensorSpec": TensorSpec,
    "RaggedTensorSpec": RaggedSpec,
    "SparseTensorSpec": SparseSpec,
}


def own_spec(spec: Any) -> Any:
    """A spec of TensorFlow's as ours."""
    names = [kind.__name__ for kind in type(spec).__mro__]
    if "NoneTensorSpec" in names:
        return NoneSpec()
    own = next((_OWN_KINDS[name] for name in names if name in _OWN_KINDS), None)
    if own is None:
        return refuse(spec)
    dtype = spec.dtype
    if getattr(dtype, "is_quantized", False) or getattr(dtype, "name", None) in ("variant", "resource"):
        raise BadType(f"expected tensors that NumPy has arrays for, got {spec!r:.60}")
    if own is RaggedSpec and not spec.ragged_rank:  # a row of a ragged tensor may be none itself
        own = TensorSpec
    return own(None if getattr(spec.shape, "rank", 0) is None else tuple(spec.shape), dtype)


# --- values -----------------------------------------------------------------------------------------------------


def check_element(spec: Any, value: Any) -> Any:
    """Normalizes `value` against a spec given by the user: converts leaves to its dtypes, refuses what does not fit."""
    structure, specs = spec_nest(spec)
    if structure.is_leaf:
        leaf = own_leaf(value)
        return _check_leaf(specs[0], list(leaf) if isinstance(leaf, (tuple, dict)) else leaf)
    element = normalize(_as_structure(structure, value))
    try:
        leaves = structure.flatten(element)
    except SpecMismatch as error:
        raise SpecMismatch(f"{error}; the signature is {describe(spec)}") from None
    return structure.unflatten([_check_leaf(s, leaf) for s, leaf in zip(specs, leaves, strict=True)])


def _as_structure(structure: Structure, value: Any) -> Any:
    """A list where the signature has a tuple is that tuple; a tuple where it has an array is that array.

    A dict is one of the kind that the signature has.
    """
    kind = type(value)
    if structure.kind is None:
        return list(value) if kind is tuple else own_leaf(value)
    if structure.kind is tuple and kind in (tuple, list) and len(value) == len(structure.children):
        return tuple(map(_as_structure, structure.children, value))
    if isinstance(value, Mapping) and issubclass(structure.kind, dict) and value.keys() == set(structure.keys):
        return structure._build([*map(_as_structure, structure.children, structure.fields(value))])
    return value


def _check_leaf(spec: Any, value: Any) -> Any:
    leaf = normalize(value)
    is_of_kind = isinstance(spec, TensorSpec) and isinstance(leaf, (Ragged, Sparse)) == (type(spec) is not TensorSpec)
    if is_of_kind and dtype_of(leaf) != spec.dtype:
        leaf = _cast(leaf, spec)
    if not spec.holds(leaf):
        raise _misfit(spec, leaf)
    return leaf


def _misfit(spec: Any, leaf: Any, more: str = "") -> SpecMismatch:
    came = spec_of(leaf)
    return SpecMismatch(f"expected {_kind_of(spec)}{spec}, got {_kind_of(came)}{describe(came)}{more}")


def _kind_of(spec: Any) -> str:
    return "ragged " if isinstance(spec, RaggedSpec) else "sparse " if isinstance(spec, SparseSpec) else ""


def _cast(leaf: Any, spec: TensorSpec) -> Any:
    """Converts where no value is lost (2 → float32, 2.0 → int64); refuses 2.7 for an integer, and numbers for text."""
    dtype = dtype_of(leaf)
    if spec.dtype == string or dtype == string or (dtype.kind == "b") != (spec.dtype.kind == "b"):
        raise _misfit(spec, leaf)
    cast = _of_dtype(leaf, spec.dtype)
    if cast is None:
        raise _misfit(spec, leaf, f" with a value that {spec.dtype} cannot hold")
    return cast


def _of_dtype(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """A leaf with its values in another dtype, or None if that cannot hold them."""
    if isinstance(leaf, (Ragged, Sparse)):
        values = _of_dtype(leaf.values, dtype)
        return None if values is None else dataclasses.replace(leaf, values=values)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = leaf.astype(dtype)
        return cast if dtype.kind in "fc" or np.all(cast == leaf) else None
