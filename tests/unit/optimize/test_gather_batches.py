"""gather_batches: a batch of a random-access source is one gather, or no copy at all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.optimize import PASSES, optimize
from penstock.optimize.gather_batches import gather_batches

D = ps.Dataset
ARRAY = np.arange(40.0).reshape(20, 2)
SLICES = D.from_tensor_slices((ARRAY, np.arange(20)))
VIEW, GATHER, COMPUTED = "view", "gather", "computed"


def whole_blocks(dataset: Any) -> str | None:
    node, _ = optimize(dataset.node, PASSES)
    return next(n.op.whole_blocks for n in node.walk() if n.op.name == "batch")


@pytest.mark.parametrize("written, kind", [
    (lambda: SLICES.batch(4), VIEW),
    (lambda: SLICES.skip(2).take(5).batch(4), VIEW),
    (lambda: SLICES.repeat(1).batch(4), VIEW),
    (lambda: SLICES.repeat(2).batch(4), GATHER),
    (lambda: SLICES.shuffle(seed=1).batch(4), GATHER),
    (lambda: SLICES.shuffle(5, seed=1).batch(4), GATHER),
    (lambda: SLICES.shard(2, 1).batch(4), GATHER),
    (lambda: D.range(20).batch(4), COMPUTED),
    (lambda: D.range(20).shuffle(seed=1).batch(4), COMPUTED),
    (lambda: SLICES.batch(4, drop_remainder=True).shuffle(3, seed=1), VIEW),
    (lambda: SLICES.map(lambda x, y: x).batch(4), None),
    (lambda: SLICES.filter(lambda x, y: True).batch(4), None),
    (lambda: SLICES.prefetch(2).batch(4), None),
    (lambda: SLICES.concatenate(SLICES).batch(4), None),
])  # fmt: skip
def test_batches_of_sources_are_made_whole(written: Callable[[], Any], kind: str | None) -> None:
    dataset = written()
    assert whole_blocks(dataset) == kind
    found, expected = list(dataset.run(epoch=1)), list(dataset.run(epoch=1, optimize=False))
    assert repr(found) == repr(expected)


def test_a_ragged_source_is_not_stacked() -> None:
    ragged = ps.Ragged(np.arange(6), np.array([0, 2, 4, 6]))
    assert whole_blocks(D.from_tensor_slices(ragged).batch(2)) is None


def test_the_rule_alone_needs_the_source_next_to_it() -> None:
    node, steps = optimize(SLICES.batch(4).node, [(gather_batches,)])
    assert node.op.whole_blocks == VIEW
    (step,) = steps
    assert step.reason.startswith("from_tensor_slices makes whole batches at once")
    node, steps = optimize(SLICES.take(3).batch(4).node, [(gather_batches,)])
    assert steps == []


def test_a_batch_of_neighbours_is_a_view_and_a_shuffled_one_a_slot() -> None:
    for x, _ in SLICES.batch(4).run():
        assert np.shares_memory(x, ARRAY)
        assert not x.flags.writeable
    for x, _ in SLICES.shuffle(seed=1).batch(4).run():
        assert not np.shares_memory(x, ARRAY)
        assert x.flags.writeable


@pytest.mark.parametrize("size, drop", [(7, False), (7, True), (20, True), (21, True), (21, False), (1, False)])
def test_the_last_batch(size: int, drop: bool) -> None:
    sizes = [len(x) for x, _ in SLICES.batch(size, drop_remainder=drop)]
    expected = [size] * (20 // size) + ([20 % size] if 20 % size and not drop else [])
    assert sizes == expected
