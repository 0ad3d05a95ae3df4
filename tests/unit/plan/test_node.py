"""Nodes: plans compared by value, walked and rebuilt, and the user's line on each."""

import pickle
from typing import Any

import pytest

import penstock as ps
from penstock.errors import PlanError
from penstock.ops.skip import Skip
from penstock.ops.take import Take
from penstock.plan.node import Node, Origin, caller_origin

D = ps.Dataset


def double(x: Any) -> Any:
    return x * 2


def test_plans_are_equal_by_value_wherever_they_were_written() -> None:
    first = D.range(10).map(double).batch(3)
    second = D.range(10).map(double).batch(3)
    assert first.node == second.node
    assert first.node.origin != second.node.origin
    assert hash(first.node) == hash(second.node)
    for other in (D.range(10).map(double).batch(4), D.range(11).map(double).batch(3), D.range(10).batch(3)):
        assert first.node != other.node


def test_unseeded_shuffles_are_equal_as_plans() -> None:
    assert D.range(3).shuffle(2).node == D.range(3).shuffle(2).node
    assert D.range(3).shuffle(2).node != D.range(3).shuffle(2, seed=1).node


def test_nothing_runs_while_a_plan_is_written() -> None:
    def explode(x: Any) -> Any:
        raise AssertionError("called")

    dataset = D.range(10).map(explode).filter(explode).shuffle(3).batch(2).prefetch(1).repeat()
    assert "batch(2)" in repr(dataset.node)
    assert dataset.explain() is not None


def test_datasets_do_not_change() -> None:
    dataset = D.range(10)
    before = dataset.node
    dataset.batch(3).take(2)
    assert dataset.node is before


def test_inputs_come_before_those_that_read_them() -> None:
    node = D.range(10).map(double).batch(3).node
    assert [n.op.name for n in node.walk()] == ["range", "map", "batch"]
    assert node.input.input.inputs == ()


def test_the_only_input_is_the_only_one() -> None:
    with pytest.raises(ValueError, match="unpack"):
        D.range(10).node.input  # noqa: B018


def test_a_plan_is_rebuilt_from_the_bottom() -> None:
    seen = []

    def grow(node: Node) -> Node:
        seen.append(node.op.name)
        return node.with_op(Take(node.op.count + 1)) if isinstance(node.op, Take) else node

    node = D.range(10).take(3).skip(1).take(2).node
    assert node.transform(grow) == D.range(10).take(4).skip(1).take(3).node
    assert seen == ["range", "take", "skip", "take"]
    assert node == D.range(10).take(3).skip(1).take(2).node


def test_what_is_not_changed_is_not_made_anew() -> None:
    node = D.range(10).take(3).skip(1).node
    assert node.transform(lambda n: n) is node


def test_another_operator_or_other_inputs_keep_the_line() -> None:
    node = D.range(10).take(3).node
    changed = node.with_op(Skip(2)).on(D.range(5).node)
    assert changed == D.range(5).skip(2).node
    assert changed.origin == node.origin


def test_specs_follow_the_plan() -> None:
    node = D.range(10).take(7).batch(2, drop_remainder=True).node
    assert str(node.spec) == "3 of 2 int64"
    assert node.spec is node.spec


def test_a_plan_as_text() -> None:
    assert repr(D.range(10).map(double).batch(3).node) == "batch(3) ← [map(double) ← [range(10)]]"


def test_plans_can_be_sent_elsewhere() -> None:
    node = D.range(10).take(3).node
    assert node.spec.cardinality == 3
    copy = pickle.loads(pickle.dumps(node))
    assert copy == node
    assert copy.origin == node.origin
    assert copy.spec == node.spec


def test_the_origin_is_the_innermost_line_that_is_not_penstocks() -> None:
    line = test_the_origin_is_the_innermost_line_that_is_not_penstocks.__code__.co_firstlineno
    dataset = D.range(3).take(2)
    assert dataset.node.origin == Origin(__file__, line + 2)
    assert str(dataset.node.origin) == f"test_node.py:{line + 2}"
    assert caller_origin().file == __file__


def test_a_mistake_further_down_is_told_with_its_own_line() -> None:
    dataset = D.range(3).batch(2)
    with pytest.raises(PlanError, match=rf"batch at test_node.py:{dataset.node.origin.line}:"):
        Node(dataset.node.op, (D.range(3).window(2).node,), dataset.node.origin).spec  # noqa: B018
