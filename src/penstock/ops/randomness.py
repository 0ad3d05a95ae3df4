"""Random numbers by counter: number i of a key is the same whenever and however it is asked for."""

from __future__ import annotations

import numpy as np

__all__ = ["uniforms"]


def uniforms(key: int, start: int, count: int) -> np.ndarray:
    """Numbers `start` to `start + count` of a key's sequence, evenly spread over [0, 1).

    >>> bool((uniforms(7, 0, 5)[2:] == uniforms(7, 2, 3)).all())
    True
    """
    # The finaliser of splitmix64. 52 bits: times a total, the result is below the total however it is rounded.
    x = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: np.ndarray = ((x ^ (x >> np.uint64(31))) >> np.uint64(12)) * 2.0**-52
    return result
