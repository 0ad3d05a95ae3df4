"""How many small batches `batch` makes at once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

SMALL_BATCHES: dict[str, Callable[[], Any]] = {
    "views": lambda: ps.Dataset.from_tensor_slices(np.arange(60_000)).batch(2),
    "strings": lambda: ps.Dataset.from_tensor_slices(np.full(60_000, b"x", object)).batch(1),
    "of a function": lambda: ps.Dataset.range(60_000).map(lambda i: i).batch(2),
    "padded": lambda: ps.Dataset.range(60_000).map(lambda i: i).padded_batch(2),
    "of a dataset": lambda: ps.Dataset.range(2).flat_map(lambda i: ps.Dataset.range(60_000).map(lambda j: j).batch(2)),
}


@pytest.mark.parametrize("name", SMALL_BATCHES)
def test_no_more_small_batches_are_made_at_once_than_may_be_objects(name: str) -> None:
    """Each is an array of its own, which is on nobody's account while it is on its way."""
    with SMALL_BATCHES[name]().run(memory="256MB") as run:
        sizes = []
        while (block := run.pull(30_000)) is not None:
            sizes.append(block.size)
    assert max(sizes) <= 8192
    assert sum(sizes) in (30_000, 60_000)
