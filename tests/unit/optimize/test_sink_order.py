"""sink_order: order moves below what looks at one element at a time, and stays above everything else."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.ops.take import Take
from penstock.optimize import optimize
from penstock.optimize.sink_order import sink_order

D = ps.Dataset


def double(x: Any) -> Any:
    return x * 2


def jitter(x: Any, rng: Any) -> Any:
    return x + rng.random()


def sunk(dataset: Any) -> Any:
    return optimize(dataset.node, [(sink_order,)])[0]


ORDERS: dict[str, Callable[[Any], Any]] = {
    "skip": lambda ds: ds.skip(3),
    "shard": lambda ds: ds.shard(3, 1),
    "repeat": lambda ds: ds.repeat(2),
    "shuffle": lambda ds: ds.shuffle(seed=1),
    "window shuffle": lambda ds: ds.shuffle(4, seed=1),
    "several": lambda ds: ds.shuffle(4, seed=1).skip(1).repeat().shard(2, 0),
}
MAPS: dict[str, Callable[[Any], Any]] = {
    "map": lambda ds: ds.map(double),
    "parallel map": lambda ds: ds.map(double, num_parallel_calls=2),
    "vectorized map": lambda ds: ds.map(double, vectorized=True),
    "prefetch": lambda ds: ds.prefetch(2),
    "two maps": lambda ds: ds.map(double, num_parallel_calls=2).map(double),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("map", MAPS.values(), ids=MAPS)
def test_order_above_is_order_below(order: Callable[[Any], Any], map: Callable[[Any], Any]) -> None:
    assert sunk(order(map(D.range(10)))) == map(order(D.range(10))).node
    assert sunk(order(map(D.range(10))).batch(2)) == map(order(D.range(10))).batch(2).node


def test_a_take_below_a_function_counts_only_what_the_function_returns() -> None:
    below = dataclasses.replace(Take(3), elastic=True)
    written = D.range(10).take(3).map(double).node
    expected = written.with_op(written.op.telling_failures()).on(written.input.with_op(below))
    assert sunk(D.range(10).map(double).take(3)) == expected
    assert sunk(D.range(10).prefetch(2).take(3)) == D.range(10).take(3).prefetch(2).node


@pytest.mark.parametrize("barrier", [
    lambda ds: ds.map(double, stateful=True),
    lambda ds: ds.filter(lambda x: x > 1),
    lambda ds: ds.batch(2),
    lambda ds: ds.take_while(lambda x: x < 5),
    lambda ds: ds.ignore_errors(),
    lambda ds: ds.unique(),
    lambda ds: ds.flat_map(lambda x: D.range(2)),
    lambda ds: ds.concatenate(D.range(3)),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_order_stays_above_what_is_not_one_to_one_and_pure(barrier: Callable[[Any], Any], order: Any) -> None:
    dataset = order(barrier(D.range(10)))
    assert sunk(dataset) == dataset.node


@pytest.mark.parametrize("keyed", [lambda ds: ds.random_map(jitter, seed=1), lambda ds: ds.enumerate(5)])
@pytest.mark.parametrize("order", [ORDERS[name] for name in ("skip", "shard", "shuffle", "window shuffle")])
def test_order_moves_below_a_keyed_operator_if_elements_carry_their_numbers(keyed: Any, order: Any) -> None:
    dataset = order(keyed(D.range(10)))
    node = sunk(dataset)
    names = [n.op.name for n in node.walk()]
    assert names[-1] == keyed(D.range(10)).node.op.name
    assert node.op.by_number
    assert node.input.input.op.numbered_at == 0
    assert repr(list(D(node).run(epoch=3))) == repr(list(dataset.run(epoch=3, optimize=False)))


def test_a_repeat_stays_above_what_knows_its_epoch() -> None:
    dataset = D.range(10).random_map(jitter, seed=1).repeat(2)
    assert sunk(dataset) == dataset.node


def test_elements_are_numbered_once_however_many_operators_want_their_numbers() -> None:
    dataset = D.range(6).map(double).random_map(jitter, seed=1).enumerate().shuffle(seed=2)
    assert repr(list(dataset.run(epoch=1))) == repr(list(dataset.run(epoch=1, optimize=False)))


def test_the_reason_says_why_it_is_legal() -> None:
    _, (step,) = optimize(D.range(10).map(double).shuffle(4, seed=1).node, [(sink_order,)])
    assert step.reason == "map(double) looks at one element at a time: shuffle moves below it, to smaller data"


def test_what_is_shuffled_is_small() -> None:
    """The point of it: a buffer of 1,000 loaded elements would be 800 MB."""

    def load(x: Any) -> Any:
        return np.zeros(100_000)

    with D.range(5000).map(load).shuffle(1000, seed=1).batch(2).run(memory="10MB") as run:
        next(run)
        assert run.ledger.peak_bytes < 5_000_000
