"""Specs as JSON, for files that tell what their elements are like."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..element import LEAF, Structure
from ..errors import BadType, FormatError
from ..leaf import string
from ..spec import UNSEEN, NoneSpec, RaggedSpec, SparseSpec, TensorSpec, spec_leaves, structure_of_spec
from .layout import class_named

__all__ = ["spec_from_json", "spec_to_json"]

_KINDS: dict[str, type[TensorSpec]] = {"tensor": TensorSpec, "ragged": RaggedSpec, "sparse": SparseSpec}


def spec_to_json(spec: Any) -> Any:
    """A nest of specs as something that JSON can hold; None for one that is not known."""
    if spec is UNSEEN:
        return None
    leaves = iter(spec_leaves(spec))

    def nest(structure: Structure) -> Any:
        kind = structure.kind
        if kind is None:
            return _leaf_to_json(next(leaves))
        name = "tuple" if issubclass(kind, tuple) else "dict" if issubclass(kind, Mapping) else "dataclass"
        return {
            "nest": name,
            "class": f"{kind.__module__}:{kind.__qualname__}",
            "keys": [key if type(key) is str else {"literal": repr(key)} for key in structure.keys],
            "parts": [nest(child) for child in structure.children],
        }

    return nest(structure_of_spec(spec))


def spec_from_json(value: Any) -> Any:
    """The nest of specs that was written."""
    if value is None:
        return UNSEEN
    leaves: list[Any] = []

    def nest(value: Any) -> Structure:
        if "nest" not in value:
            leaves.append(_leaf_from_json(value))
            return LEAF
        keys = tuple(key if isinstance(key, str) else ast.literal_eval(key["literal"]) for key in value["keys"])
        children = tuple(map(nest, value["parts"]))
        if len(keys) != len(children):
            raise FormatError(f"{len(keys)} keys for {len(children)} parts")
        return Structure(class_named(value["nest"], value["class"], keys), keys, children)

    return nest(value).unflatten(leaves)


def _leaf_to_json(leaf: Any) -> Any:
    if isinstance(leaf, NoneSpec):
        return {"kind": "none"}
    kind = next((name for name, cls in _KINDS.items() if type(leaf) is cls), None)
    if kind is None:
        raise BadType(f"expected arrays, numbers or strings, got {leaf}: it cannot be stored")
    shape = None if leaf.shape is None else list(leaf.shape)
    dtype = "string" if leaf.dtype == string else leaf.dtype.str if leaf.dtype.names is None else repr(leaf.dtype.descr)
    return {"kind": kind, "shape": shape, "dtype": dtype}


def _leaf_from_json(value: Any) -> Any:
    if value["kind"] == "none":
        return NoneSpec()
    text = value["dtype"]
    dtype = string if text == "string" else np.dtype(ast.literal_eval(text) if text.startswith("[") else text)
    return _KINDS[value["kind"]](value["shape"], dtype)
