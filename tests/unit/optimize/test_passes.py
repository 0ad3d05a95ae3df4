"""All rules together: however a pipeline is written, the plan that runs is the best of its spellings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.optimize import PASSES, optimized

D = ps.Dataset
SLICES = D.from_tensor_slices(np.arange(20))


def double(x: Any) -> Any:
    return x * 2


SAME: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "shuffle": (
        lambda ds: ds.map(double).shuffle(4, seed=1),
        lambda ds: ds.shuffle(4, seed=1).map(double),
    ),
    "no-ops anywhere": (
        lambda ds: ds.take(-1).map(double).skip(0).shuffle(4, seed=1).repeat(1).batch(3),
        lambda ds: ds.shuffle(4, seed=1).map(double).batch(3),
    ),
    "skips come together across a map": (
        lambda ds: ds.skip(2).map(double).skip(3),
        lambda ds: ds.skip(2).skip(3).map(double),
    ),
    "through two maps": (
        lambda ds: ds.map(double, num_parallel_calls=2).map(double).shard(2, 1),
        lambda ds: ds.shard(2, 1).map(double, num_parallel_calls=2).map(double),
    ),
    "prefetch": (
        lambda ds: ds.prefetch(2).shuffle(seed=1).batch(2),
        lambda ds: ds.shuffle(seed=1).prefetch(2).batch(2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("source", [D.range(20), SLICES])
@pytest.mark.parametrize("first, second", SAME.values(), ids=SAME)
def test_spellings_of_one_pipeline_run_as_one_plan(source: Any, first: Any, second: Any) -> None:
    assert optimized(first(source).node) == optimized(second(source).node)
    assert repr(list(first(source).run(epoch=1))) == repr(list(second(source).run(epoch=1)))


def test_a_typical_pipeline() -> None:
    dataset = SLICES.map(double).shuffle(8, seed=1).repeat(2).batch(4).prefetch(2)
    node = optimized(dataset.node)
    assert [n.op.name for n in node.walk()] == ["read", "map", "batch", "prefetch"]
    read, map_, *_ = node.walk()
    assert [op.name for op in read.op.orders] == ["shuffle", "repeat"]  # type: ignore[attr-defined]
    assert map_.op.into_slot  # type: ignore[attr-defined]


def test_optimizing_twice_changes_nothing_more() -> None:
    for first, _ in SAME.values():
        once = optimized(first(SLICES).node)
        assert optimized(once) == once


def test_passes_hold_every_rule_once() -> None:
    rules = [rule for group in PASSES for rule in group]
    assert len(rules) == len(set(rules)) >= 6


def test_a_run_without_the_optimizer_runs_what_was_written() -> None:
    dataset = D.range(10).map(double).shuffle(4, seed=1)
    with dataset.run(optimize=False) as run:
        assert run.plan == dataset.node
    with dataset.run() as run:
        assert run.plan == optimized(dataset.node)
