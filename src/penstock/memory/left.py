"""What was left to the caller for good: memory that a run no longer has any hand in, but still tells of."""

from __future__ import annotations

import weakref

import numpy as np

__all__ = ["LeftToCaller"]

_FEW = 64


class LeftToCaller:
    """The bases of slots that a run has given up, known for as long as somebody holds a batch in them.

    By weak references, so that nothing lives longer for being told of. Those to memory that is gone are dropped once
    they are half of all: there are never many more than batches that are held.
    """

    def __init__(self) -> None:
        self._bases: list[weakref.ref[np.ndarray]] = []
        self._most = _FEW

    def add(self, base: np.ndarray) -> None:
        """Tells of one more."""
        self._bases.append(weakref.ref(base))
        if len(self._bases) > self._most:
            self._bases = [known for known in self._bases if known() is not None]
            self._most = max(_FEW, 2 * len(self._bases))

    @property
    def first_is_gone(self) -> bool:
        """Whether the caller has dropped what was left first, of all that is told of."""
        return bool(self._bases) and self._bases[0]() is None

    @property
    def nbytes(self) -> int:
        """Bytes that are still held."""
        return sum(base.nbytes for base in [known() for known in self._bases] if base is not None)
