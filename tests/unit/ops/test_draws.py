"""Draws: what they ask for, what is known ahead, and what that takes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io import generator
from penstock.ops.draws import Draws
from penstock.runtime.process_pool import process_pool


@pytest.mark.parametrize("count", [1, 5_000])
@pytest.mark.parametrize("demand", ["one by one", "batches"])
def test_a_whole_stream_is_read_in_blocks(count: int, demand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    pull = generator._GeneratorCursor.pull

    def noted(self: Any, n: int) -> Any:
        block = pull(self, n)
        sizes.append(0 if block is None else block.size)
        return block

    monkeypatch.setattr(generator._GeneratorCursor, "pull", noted)
    dataset = ps.Dataset.from_generator(lambda: iter(range(count))).shuffle(None, seed=1)
    found = list(dataset) if demand == "one by one" else [x for batch in dataset.batch(7) for x in batch]
    assert sorted(map(int, found)) == list(range(count))
    assert sum(sizes) == count
    # One to learn its size, blocks that grow with what is known of sizes, and one that is empty.
    assert len(sizes) <= 2 + count // 100


def test_nothing_is_wanted_once_the_end_is_known() -> None:
    draws = Draws(None, 7, lambda: 64)
    assert draws.wanted(1, 0) > 1
    draws.end(3)
    assert draws.wanted(1, 3) == 0


def test_no_more_draws_are_counted_than_there_are() -> None:
    whole = Draws(None, 7, lambda: 1000)
    assert whole.held_bytes == 0
    whole.end(50)
    assert whole.held_bytes == 400
    whole.next(20)
    whole.drop(20)
    assert whole.held_bytes == 240
    whole.due(np.arange(10))
    assert 8 * whole._ahead.size <= whole.held_bytes
    window = Draws(100, 7, lambda: 1000)
    assert window.held_bytes == 1600
    window.end(30)
    assert window.held_bytes == 240


def test_fewer_draws_are_known_ahead_when_there_is_less_memory() -> None:
    """What is drawn when does not change."""
    most = [1000]
    draws, others = Draws(400, 7, lambda: most[0]), Draws(400, 7, lambda: 1000)
    most[0] = 100
    draws.next(1)
    draws.due(np.arange(10))
    assert draws._ahead.size == 100
    assert draws.held_bytes == 800 + draws._window.held_bytes
    most[0] = 50  # those that are known stay so
    assert draws.held_bytes == 800 + draws._window.held_bytes
    drawn: list[int] = []
    for _ in range(30):
        drawn += draws.next(10).tolist()
        draws.drop(10)
        draws.due(np.arange(10))
    assert draws._ahead.size <= 50
    assert drawn == others.next(300).tolist()


def test_a_shuffle_of_few_elements_goes_on_when_another_run_takes_the_rest_of_the_pool() -> None:
    """When it began there was room for many draws ahead; there are not as many."""

    def elements() -> Iterator[np.ndarray]:
        for i in range(60):
            yield np.full(10_000, float(i))

    shuffled = ps.Dataset.from_generator(elements).shuffle(seed=1)
    other = ps.Dataset.from_tensor_slices(np.zeros((8, 1_000_000))).map(lambda x: x + 1)
    try:
        needs = [
            dataset.explain(memory="100MB", sample=100).to_dict()["minimum_bytes"] for dataset in (shuffled, other)
        ]
        # What caches of other tests have in the pool stays there.
        ps.set_memory(sum(needs) + ps.get_memory() - process_pool().free_bytes)
        with shuffled.run() as run, other.run() as beside:
            found = [int(x[0]) for x in run]
            assert len(list(beside)) == 8
        assert sorted(found) == list(range(60))
    finally:
        ps.set_memory(None)


def test_a_shuffle_keeps_to_a_pool_that_was_made_smaller() -> None:
    """When it began there was room to know what is drawn of a buffer that is far larger than the dataset."""
    stream = ps.Dataset.from_generator(lambda: (np.full(500, float(i)) for i in range(1500)))
    try:
        ps.set_memory("500MB")
        with stream.shuffle(1_000_000, seed=1).run() as run:
            ps.set_memory("3MB")
            assert sorted(int(x[0]) for x in run) == list(range(1500))
            assert run.ledger.peak_bytes <= 3_000_000
    finally:
        ps.set_memory(None)
