"""Verification: a rewrite may know less of the elements than before, never something else."""

from typing import Any

import pytest

import penstock as ps
from penstock.plan.verify import check_rewrite

D = ps.Dataset


def double(x: Any) -> Any:
    return x * 2


def test_a_rewrite_that_promises_the_same_passes() -> None:
    check_rewrite("rule", D.range(10).take(5).take(3).node, D.range(10).take(3).node)


def test_a_rewrite_may_know_less() -> None:
    check_rewrite("rule", D.range(10).node, D.range(10).map(double).node)
    check_rewrite("rule", D.range(10).map(double).node, D.range(10).node)


@pytest.mark.parametrize("after", [
    D.range(9), D.range(10).repeat(), D.range(10).filter(bool), D.range(10).batch(1), D.range(10, output_type="int32"),
    D.from_tensor_slices([0.0] * 10), D.range(20).map(double).take(11),
])  # fmt: skip
def test_a_rewrite_that_promises_something_else_is_named(after: Any) -> None:
    with pytest.raises(AssertionError, match="rule bad_rule changed the spec from 10 of int64 to") as caught:
        check_rewrite("bad_rule", D.range(10).node, after.node)
    assert repr(after.node) in str(caught.value)
