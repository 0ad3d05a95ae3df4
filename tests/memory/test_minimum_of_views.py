"""Elements that are views of the user's own arrays: who gathers them holds copies, and says so beforehand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

PIPELINES: dict[str, Callable[[Any], Any]] = {
    "bucket_by_sequence_length": lambda d: d.bucket_by_sequence_length(len, [10], [2, 2]),
    "sparse_batch": lambda d: d.sparse_batch(2, [100_000]),
    "group_by_window": lambda d: d.group_by_window(lambda x: np.int64(0), lambda key, w: w.batch(2), window_size=2),
    "window": lambda d: d.window(3).flat_map(lambda w: w.batch(3)),
    "shuffle, window": lambda d: d.shuffle(seed=1).window(3, 2).flat_map(lambda w: w.batch(3)),
    "padded_batch": lambda d: d.padded_batch(3),
    "ragged_batch": lambda d: d.ragged_batch(3),
    "shuffle of a stream": lambda d: d.filter(lambda x: True).shuffle(5, seed=1),
    "cache, shuffle": lambda d: d.cache().shuffle(5, seed=1),
    "cache, prefetch": lambda d: d.cache().prefetch(2),
    "repeat, prefetch": lambda d: d.repeat(2).prefetch(2),
    "repeat, batch across the end": lambda d: d.repeat(2).batch(5),
    "some, repeat, window": lambda d: d.skip(1).take(7).repeat(3).window(3).flat_map(lambda w: w.batch(3)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("build", PIPELINES.values(), ids=PIPELINES)
def test_the_minimum_is_enough_in_every_epoch(build: Callable[[Any], Any]) -> None:
    dataset = build(ps.Dataset.from_tensor_slices(np.zeros((12, 100_000), np.uint8)))
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    counts = []
    for _ in range(3):
        with dataset.run(memory=minimum) as run:
            counts.append(sum(1 for _ in run))
        assert run.ledger.peak_bytes <= minimum
    assert counts[0] > 0
    assert len(set(counts)) == 1
