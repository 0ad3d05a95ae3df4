"""Inner datasets that were read by threads leave nothing behind for the garbage collector."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset


@pytest.mark.parametrize("prefetched", [False, True])
def test_what_threads_have_read_is_free_when_its_dataset_is_closed(prefetched: bool) -> None:
    alive: list[weakref.ref[np.ndarray]] = []

    def watched(i: Any) -> Any:
        array = np.ones((20, 100))
        alive.append(weakref.ref(array))
        return D.from_tensor_slices(array).prefetch(2) if prefetched else D.from_tensor_slices(array)

    gc.disable()
    try:
        for _ in D.range(8).interleave(watched, cycle_length=2, num_parallel_calls=None if prefetched else 2):
            assert sum(array() is not None for array in alive) <= 2
    finally:
        gc.enable()
