"""Calling users' functions: what they return is counted as it is."""

import numpy as np
import pytest

import penstock as ps

COUNT = 2_000


def words(i: int) -> np.ndarray:
    array = np.empty(COUNT, object)
    array[:] = [b"%0100d" % i] * COUNT
    return array


@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_arrays_of_strings_count_with_their_strings(num_parallel_calls: int | None) -> None:
    dataset = ps.Dataset.range(4).filter(lambda i: True).map(words, num_parallel_calls=num_parallel_calls)
    with dataset.run(memory="16MB") as run:
        assert [int(row[-1]) for row in run] == [0, 1, 2, 3]
        assert run.ledger.peak_bytes >= COUNT * 100
