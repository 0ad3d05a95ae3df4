"""What was left to the caller is told of, and not kept."""

import numpy as np

from penstock.memory.left import LeftToCaller


def test_what_is_held_is_told_and_what_is_gone_is_forgotten() -> None:
    left = LeftToCaller()
    kept = [np.empty(10, np.uint8) for _ in range(3)]
    for array in kept:
        left.add(array)
    for _ in range(10_000):
        left.add(np.empty(100, np.uint8))
    assert left.nbytes == 30
    assert len(left._bases) < 200
    del array, kept[0]
    assert left.nbytes == 20
