"""Random numbers by counter."""

import numpy as np

from penstock.ops.randomness import uniforms


def test_a_number_depends_on_key_and_place_only() -> None:
    whole = uniforms(2**64 - 1, 10, 100)
    assert np.array_equal(whole[30:40], uniforms(2**64 - 1, 40, 10))
    assert not np.array_equal(whole, uniforms(5, 10, 100))
    assert np.array_equal(uniforms(3, 2**62, 4)[1:], uniforms(3, 2**62 + 1, 3))
    assert uniforms(3, 0, 0).size == 0


def test_numbers_are_evenly_spread() -> None:
    numbers = uniforms(7, 0, 100_000)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.bincount((numbers * 20).astype(int), minlength=20)
    assert np.abs(counts / 5000 - 1).max() < 0.06
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.01
