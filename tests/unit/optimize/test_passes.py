"""All rules together: however a pipeline is written, the plan that runs is the best of its spellings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.optimize import PASSES, optimized
from tests.unit.fakes import all_with_errors

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


# --- failures ---


def fail_on(modulus: int, rest: int) -> Callable[[Any], Any]:
    def fail(x: Any) -> Any:
        if x % modulus == rest:
            raise ValueError(int(x))
        return x

    return fail


def stream(count: int) -> Any:
    """Numbers without random access."""
    return D.range(count).filter(lambda x: True)


FAILING: dict[str, Callable[[Any], Any]] = {
    "take": lambda ds: ds.map(fail_on(3, 1)).take(4),
    "take below another function": lambda ds: ds.map(double).take(4).map(fail_on(3, 1)),
    "take between functions that fail": lambda ds: ds.map(fail_on(4, 0)).take(3).map(fail_on(3, 1)),
    "two takes": lambda ds: ds.map(fail_on(4, 0)).take(5).map(fail_on(3, 1), num_parallel_calls=2).take(3),
    "take, repeat": lambda ds: ds.map(fail_on(3, 1)).take(3).repeat(2),
    "take, skip": lambda ds: ds.map(fail_on(3, 1)).take(4).skip(1),
    "take, shard": lambda ds: ds.map(fail_on(3, 1)).take(4).shard(2, 0),
    "take, shuffle": lambda ds: ds.map(fail_on(3, 1)).take(4).shuffle(seed=1),
    "take, window shuffle": lambda ds: ds.map(fail_on(3, 0)).take(2).shuffle(3, seed=3),
    "skip, take": lambda ds: ds.map(fail_on(3, 1)).skip(1).take(3),
    "shuffle, take": lambda ds: ds.map(fail_on(3, 1)).shuffle(5, seed=1).take(4),
    "prefetch below": lambda ds: ds.prefetch(2).map(fail_on(3, 2)).take(3),
    "prefetch above": lambda ds: ds.map(fail_on(3, 2)).take(3).prefetch(2),
    "prefetch between": lambda ds: ds.map(fail_on(3, 2), num_parallel_calls=2).prefetch(1).take(5).skip(3),
    "parallel": lambda ds: ds.map(double, num_parallel_calls=2).map(fail_on(3, 1)).take(4),
    "enumerate": lambda ds: ds.map(fail_on(3, 1)).enumerate().take(3).map(lambda i, x: x),
    "batch": lambda ds: ds.map(fail_on(5, 3)).take(7).batch(2),
}


@pytest.mark.parametrize("source", [lambda: D.range(12), lambda: D.counter(), lambda: stream(12)])
@pytest.mark.parametrize("build", FAILING.values(), ids=FAILING)
def test_elements_and_errors_come_as_in_the_plan_as_written(
    source: Callable[[], Any], build: Callable[[Any], Any]
) -> None:
    """A take counts what the functions below it return, wherever it is moved, and no others."""

    def outcome(optimize: bool) -> list[str]:
        with build(source()).take(40).run(epoch=1, optimize=optimize) as run:
            return [repr(x) for x in all_with_errors(run)]

    assert outcome(True) == outcome(False)


@pytest.mark.parametrize("source", [lambda: D.range(12), lambda: stream(12)])
@pytest.mark.parametrize("build", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("optimize", [True, False])
def test_positions_are_exact_where_elements_fail(source: Any, build: Callable[[Any], Any], optimize: bool) -> None:
    states = []
    with build(source()).run(epoch=1, optimize=optimize) as run:
        found: list[str] = []
        while True:
            states.append(run.state_dict())
            try:
                found.append(repr(next(run)))
            except StopIteration:
                break
            except ValueError as error:
                found.append(repr(error))
    for done, state in enumerate(states):
        with build(source()).run(optimize=optimize) as again:
            again.load_state_dict(state)
            assert [repr(x) for x in all_with_errors(again)] == found[done:], f"after {done}"
