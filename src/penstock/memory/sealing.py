"""Elements as they are kept: arrays that nobody can change, and what they keep alive."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..element import Structure, detach, leaf_bytes, read_only

__all__ = ["sealed"]


def sealed(element: Any) -> tuple[Any, int]:
    """The element with arrays that nobody can change, as they will be given again; and the bytes it keeps alive."""
    if type(element) is bytes or isinstance(element, np.generic):
        return element, leaf_bytes(element) + _SCALAR_BYTES
    structure = Structure.of(element)
    leaves = structure.flatten(detach(element))
    return structure.unflatten([read_only(leaf) for leaf in leaves]), sum(map(_kept_bytes, leaves), _NEST_BYTES)


# An array's object and that of the view which is given out; a scalar's object and its place in a list; a nest.
_ARRAY_BYTES = 256
_SCALAR_BYTES = 40
_NEST_BYTES = 64


def _kept_bytes(leaf: Any) -> int:
    # What is a read-only view even now is a window on an array that lives anyway.
    if isinstance(leaf, np.ndarray) and leaf.base is not None:
        return _ARRAY_BYTES
    return leaf_bytes(leaf) + (_ARRAY_BYTES if isinstance(leaf, np.ndarray) else _SCALAR_BYTES)
