"""Elements as text: how an operator puts one into a saved position, which must survive JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ..element import Structure
from ..errors import BadType, StateError
from ..leaf import Ragged, Sparse

__all__ = ["pack", "unpack"]


def pack(element: Any) -> list[Any]:
    """The leaves of an element as lists, numbers and strings."""
    return [_pack_leaf(leaf) for leaf in Structure.of(element).flatten(element)]


def unpack(structure: Structure, packed: Any) -> Any:
    """The element of this structure that was packed."""
    if not isinstance(packed, (list, tuple)) or len(packed) != structure.num_leaves:
        raise StateError(f"expected a saved element of {structure}, got {packed!r:.80}")
    return structure.unflatten([_unpack_leaf(leaf) for leaf in packed])


def _pack_leaf(leaf: Any) -> Any:
    if leaf is None:
        return None
    if type(leaf) is bytes:
        return ["bytes", _text(leaf)]
    if isinstance(leaf, Ragged):
        return ["ragged", _pack_leaf(leaf.values), _pack_leaf(leaf.row_splits)]
    if isinstance(leaf, Sparse):
        return ["sparse", _pack_leaf(leaf.indices), _pack_leaf(leaf.values), _pack_leaf(leaf.dense_shape)]
    if isinstance(leaf, np.generic):
        return ["scalar", leaf.dtype.str, _text(leaf.tobytes())]
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O":
        return ["strings", list(leaf.shape), [_text(item) for item in leaf.reshape(-1).tolist()]]
    if isinstance(leaf, np.ndarray):
        return [
            "array",
            list(leaf.shape),
            leaf.dtype.str,
            _text(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data),
        ]
    raise BadType(f"expected arrays, numbers or strings, got {type(leaf).__name__} {leaf!r:.60}")


def _unpack_leaf(packed: Any) -> Any:
    if packed is None:
        return None
    kind, *parts = packed
    if kind == "bytes":
        return base64.b64decode(parts[0])
    if kind == "ragged":
        return Ragged(*map(_unpack_leaf, parts))
    if kind == "sparse":
        return Sparse(*map(_unpack_leaf, parts))
    if kind == "scalar":
        return np.frombuffer(base64.b64decode(parts[1]), np.dtype(parts[0]))[0]
    if kind == "strings":
        strings = np.empty(len(parts[1]), dtype=object)
        strings[:] = [base64.b64decode(text) for text in parts[1]]
        return strings.reshape(parts[0])
    if kind == "array":
        return np.frombuffer(base64.b64decode(parts[2]), np.dtype(parts[1])).reshape(parts[0])
    raise StateError(f"expected a saved array, number or string, got {packed!r:.80}")


def _text(data: bytes | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")
