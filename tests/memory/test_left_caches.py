"""A cache that nobody reads any more is in memory all the same: on the ledger of its run until that is over.

Then it is the pool's, if the run shared one.
"""

import gc

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.process_pool import process_pool
from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize(
    "name", ["concatenated", "of_a_function", "made_for_each", "in_windows", "in_turn", "below_a_cache"]
)
def test_a_cache_that_was_read_is_inside_the_budget(name: str) -> None:
    found = child(name, "cached_children.py")
    assert found["count"] == found["expected"]
    assert found["growth"] <= found["most"] + 16 * MB, found


def test_what_is_kept_between_runs_is_the_pools_as_long_as_anybody_has_it() -> None:
    gc.collect()
    pool, before = process_pool(), process_pool().taken_bytes
    dataset = ps.Dataset.range(50).map(lambda i: np.full(1000, i)).cache()
    assert len(list(map(np.shape, dataset))) == 50
    assert pool.taken_bytes - before > 400_000
    with dataset.run() as run:
        assert int(next(run)[0]) == 0
        assert pool.taken_bytes - before < 600_000  # once
    assert len(list(map(np.shape, dataset.run(memory="8MB")))) == 50
    assert pool.taken_bytes - before > 400_000
    del dataset, run
    gc.collect()
    assert pool.taken_bytes == before


def test_a_cache_above_another_runs_with_what_a_sample_named() -> None:
    below = ps.Dataset.range(60).map(lambda i: np.full(12_500, float(i))).cache()
    dataset = below.map(lambda x: (x, x[:400] * 2)).cache()
    least = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    for _ in range(2):
        assert [int(large[0]) for large, _ in dataset.run(memory=least)] == list(range(60))
