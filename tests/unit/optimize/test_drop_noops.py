"""drop_noops: plans written with and without operators that do nothing are one plan."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.optimize import optimize
from penstock.optimize.drop_noops import drop_noops

D = ps.Dataset


def double(x: Any) -> Any:
    return x * 2


def dropped(dataset: Any) -> Any:
    return optimize(dataset.node, [(drop_noops,)])[0]


@pytest.mark.parametrize("noop", [
    lambda ds: ds.take(-1),
    lambda ds: ds.take(10),
    lambda ds: ds.take(11),
    lambda ds: ds.skip(0),
    lambda ds: ds.repeat(1),
    lambda ds: ds.shard(1, 0),
    lambda ds: ds.shuffle(1),
    lambda ds: ds.shuffle(1, seed=3, reshuffle_each_iteration=True),
    lambda ds: ds.prefetch(0),
    lambda ds: ds.take(-1).skip(0).repeat(1),
])  # fmt: skip
def test_what_does_nothing_is_not_there(noop: Callable[[Any], Any]) -> None:
    for base in (D.range(10), D.range(10).map(double)):
        assert dropped(noop(base)) == base.node
        assert dropped(noop(base).batch(3)) == base.batch(3).node


@pytest.mark.parametrize("operator", [
    lambda ds: ds.take(9),
    lambda ds: ds.take(0),
    lambda ds: ds.skip(1),
    lambda ds: ds.skip(-1),
    lambda ds: ds.repeat(0),
    lambda ds: ds.repeat(2),
    lambda ds: ds.repeat(),
    lambda ds: ds.shard(2, 0),
    lambda ds: ds.shuffle(2),
    lambda ds: ds.shuffle(),
    lambda ds: ds.prefetch(1),
    lambda ds: ds.prefetch(ps.AUTOTUNE),
    lambda ds: ds.batch(1),
])  # fmt: skip
def test_what_does_something_stays(operator: Callable[[Any], Any]) -> None:
    dataset = operator(D.range(10))
    assert dropped(dataset) == dataset.node


def test_a_take_of_more_than_may_come_stays_where_the_length_is_not_known() -> None:
    dataset = D.range(10).filter(lambda x: True).take(100)
    assert dropped(dataset) == dataset.node


def test_a_single_element_needs_no_shuffle() -> None:
    assert dropped(D.range(1).shuffle(100)) == D.range(1).node
    assert dropped(D.range(0).shuffle()) == D.range(0).node


def test_the_reason_names_the_operator() -> None:
    _, (step,) = optimize(D.range(10).skip(0).node, [(drop_noops,)])
    assert (step.rule, step.reason) == ("drop_noops", "skip(0) gives every element as it comes")
