"""Results of functions that look at memory which only they keep alive, as elements that own their bytes.

A read-only view is taken for a window on an array of the user's, which lives anyway and is not counted. What
`np.frombuffer` makes of `bytes`, and `np.asarray` of a JAX array (by way of a `memoryview`), is read-only too, but
whoever holds it holds its bytes: such arrays are copied as they come, so that they are counted like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .element import Ragged, Sparse, Structure, arrays_in

__all__ = ["owned"]


def owned(element: Any) -> Any:
    """`element`, with copies of the read-only arrays that look at `bytes` or at a `memoryview`.

    >>> owned(np.frombuffer(b"ab", np.uint8)).flags.owndata
    True
    """
    kind = type(element)
    if kind is tuple or kind is dict:
        # Most elements end here, in a third of the time that a look through any nest takes.
        for part in element if kind is tuple else element.values():
            if type(part) is np.ndarray:
                if part.base is not None:
                    break
            elif not isinstance(part, np.generic):
                break
        else:
            return element
    if not any(map(_looks_at_bytes, arrays_in(element))):
        return element
    if kind is np.ndarray:
        return element.copy()
    if isinstance(element, Ragged):
        return Ragged(owned(element.values), owned(element.row_splits))
    if isinstance(element, Sparse):
        return Sparse(owned(element.indices), owned(element.values), owned(element.dense_shape))
    return Structure.of(element).map(owned, element)


def _looks_at_bytes(array: np.ndarray) -> bool:
    if array.flags.writeable:  # what a view of a slot is, and never taken for the user's
        return False
    base: Any = array.base
    while type(base) is np.ndarray:
        base = base.base
    return type(base) is bytes or type(base) is memoryview
