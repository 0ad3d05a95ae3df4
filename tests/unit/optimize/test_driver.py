"""The driver: groups of rules to their fixpoints, every step checked and told."""

from typing import Any

import pytest

import penstock as ps
from penstock.ops.batch import Batch
from penstock.ops.skip import Skip
from penstock.ops.take import Take
from penstock.optimize import PASSES, optimize, optimized
from penstock.optimize.driver import Rewrite
from penstock.plan.node import Node

D = ps.Dataset


def count_down(node: Node) -> Rewrite | None:
    """skip(n) → skip(n - 1) on skip(1), until there is nothing to split."""
    if isinstance(node.op, Skip) and node.op.count > 1:
        return Rewrite(node.with_op(Skip(1)).on(node.with_op(Skip(node.op.count - 1))), "split")
    return None


def lose_one(node: Node) -> Rewrite | None:
    return Rewrite(node.with_op(Take(node.op.count - 1)), "wrong") if isinstance(node.op, Take) else None


def swap(node: Node) -> Rewrite | None:
    """take ↔ skip: undoes itself for ever. The two mean the same on a dataset of ten."""
    if isinstance(node.op, Take):
        return Rewrite(node.with_op(Skip(5)), "there")
    if isinstance(node.op, Skip):
        return Rewrite(node.with_op(Take(5)), "and back")
    return None


def stay(node: Node) -> Rewrite | None:
    return Rewrite(node, "the same again") if node.inputs else None


def wrap(node: Node) -> Rewrite | None:
    """Grows the plan for ever."""
    if isinstance(node.op, Batch) and node.inputs:
        return Rewrite(node.on(node.with_op(Take(-1)).on(*node.inputs)), "another one")
    return None


def test_a_rule_runs_until_it_finds_nothing_in_all_that_it_made() -> None:
    node, steps = optimize(D.range(10).skip(4).batch(2).node, [(count_down,)])
    assert node == D.range(10).skip(1).skip(1).skip(1).skip(1).batch(2).node
    assert [step.rule for step in steps] == ["count_down"] * 3


def test_a_rule_that_changes_the_spec_is_named() -> None:
    with pytest.raises(AssertionError, match="rule lose_one changed the spec from 5 of int64 to 4 of int64"):
        optimize(D.range(10).take(5).node, [(lose_one,)])


@pytest.mark.parametrize("rule", [swap, stay, wrap])
def test_a_rule_that_never_ends_is_caught_and_named(rule: Any) -> None:
    with pytest.raises(AssertionError, match=f"rule {rule.__name__} does not end"):
        optimize(D.range(10).take(5).batch(2).node, [(rule,)])


def test_two_rules_that_undo_each_other_are_caught() -> None:
    def there(node: Node) -> Rewrite | None:
        return swap(node) if isinstance(node.op, Take) else None

    def back(node: Node) -> Rewrite | None:
        return swap(node) if isinstance(node.op, Skip) else None

    with pytest.raises(AssertionError, match=r"rule (there|back) does not end"):
        optimize(D.range(10).take(5).node, [(there, back)])
    node, _ = optimize(D.range(10).take(5).node, [(there,), (back,)])  # one after the other they are fine
    assert node == D.range(10).take(5).node


def test_groups_run_one_after_the_other() -> None:
    _, steps = optimize(D.range(10).skip(2).take(-1).node, [(count_down,), PASSES[0]])
    assert [step.rule for step in steps] == ["count_down", "drop_noops"]
    _, steps = optimize(D.range(10).skip(2).take(-1).node, [PASSES[0], (count_down,)])
    assert [step.rule for step in steps] == ["drop_noops", "count_down"]


def test_steps_tell_what_was_and_what_is() -> None:
    dataset = D.range(10).skip(2)
    node, (step,) = optimize(dataset.node, [(count_down,)])
    assert (step.before, step.after, step.reason) == (dataset.node, node, "split")
    assert step.before.origin == dataset.node.origin


def test_a_plan_that_is_good_already_is_left_as_it_is() -> None:
    node = D.range(10).filter(lambda x: True).node
    assert optimize(node, PASSES) == (node, [])
    assert optimized(node) is node


def test_branches_are_optimized_too() -> None:
    zipped = D.zip((D.range(10).skip(0), D.range(10).skip(0).take(-1))).node
    node, steps = optimize(zipped, [PASSES[0]])
    assert node == D.zip((D.range(10), D.range(10))).node
    assert len(steps) == 3


def test_a_long_pipeline_is_not_taken_for_a_rule_without_end() -> None:
    dataset = D.range(10)
    for i in range(40):
        dataset = dataset.map(lambda x: x, num_parallel_calls=1 + i % 2).shuffle(3, seed=i)
    node, steps = optimize(dataset.node, PASSES)
    assert [n.op.name for n in node.walk()] == ["read"] + ["map"] * 40
    assert len(steps) > 800
