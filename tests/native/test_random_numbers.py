"""The numbers of `Dataset.random` against a twin in NumPy, and against hostile arguments."""

from __future__ import annotations

import numpy as np
import pytest

from penstock._native import random_numbers


def twin(key: int, index: np.ndarray) -> np.ndarray:
    x = index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)


@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("size", [0, 1, 33, 5000])
def test_numbers_are_those_of_the_twin(key: int, size: int) -> None:
    index = np.random.default_rng(size).integers(0, 2**62, size)
    out = np.zeros_like(index)
    random_numbers(key, index, out)
    assert np.array_equal(out, twin(key, index))


def test_indices_may_be_written_over() -> None:
    index = np.arange(100)
    random_numbers(7, index, index)
    assert np.array_equal(index, twin(7, np.arange(100)))


def test_hostile_arguments_are_refused() -> None:
    numbers = np.arange(10)
    with pytest.raises(ValueError, match="same length"):
        random_numbers(1, numbers, np.zeros(9, np.int64))
    with pytest.raises(ValueError, match="share none"):
        random_numbers(1, numbers[:9], numbers[1:])
    with pytest.raises(ValueError, match="key"):
        random_numbers(-1, numbers, numbers)
    with pytest.raises(TypeError):
        random_numbers(1, numbers.astype(np.int32), numbers)  # type: ignore[arg-type]
