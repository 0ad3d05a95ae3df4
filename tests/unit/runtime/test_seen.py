"""Specs of what follows a user's function: found by running it on the first element, once."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.spec import UNSEEN

D = ps.Dataset
INT = ps.TensorSpec((), np.int64)


class Counted:
    def __init__(self, function: Any = lambda x: x) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *parts: Any) -> Any:
        self.calls += 1
        return self.function(*parts)


def test_a_function_is_run_once_however_often_one_asks() -> None:
    function = Counted(lambda x: np.zeros((3, 2), np.float32))
    dataset = D.range(10).map(function)
    assert function.calls == 0
    for _ in range(3):
        assert dataset.element_spec == ps.TensorSpec((3, 2), np.float32)
    assert dataset.batch(4).element_spec == ps.TensorSpec((None, 3, 2), np.float32)
    assert dataset.batch(4, drop_remainder=True).shuffle(3).take(2).element_spec == ps.TensorSpec((4, 3, 2), np.float32)
    assert function.calls == 1


def test_each_function_of_a_chain_is_run_once() -> None:
    first, second, third = Counted(), Counted(lambda x: (x, x)), Counted(lambda x, y: {"a": x})
    dataset = D.range(10).map(first).map(second).map(third).batch(2)
    assert dataset.element_spec == {"a": ps.TensorSpec((None,), np.int64)}
    assert (first.calls, second.calls, third.calls) == (1, 1, 1)


def test_nothing_is_run_where_the_plan_says_all() -> None:
    function = Counted(lambda x: True)
    assert D.range(10).filter(function).shuffle(3).batch(2).element_spec == ps.TensorSpec((None,), np.int64)
    assert function.calls == 0


def test_what_is_known_without_a_call_is_told_without_one() -> None:
    function = Counted()
    dataset = D.range(10).map(function)
    assert dataset.static_element_spec is UNSEEN
    assert dataset.cardinality() == 10
    assert len(dataset.batch(3)) == 4
    assert repr(dataset).endswith("10 of ?>")
    assert function.calls == 0


def test_asking_does_not_begin_a_run_of_the_dataset() -> None:
    dataset = D.range(10).shuffle(seed=1).map(lambda x: x)
    assert dataset.element_spec == INT
    assert dataset.run().epoch == 0


def test_where_there_is_no_element_the_spec_stays_unseen() -> None:
    assert D.range(0).map(lambda x: x).element_spec is UNSEEN
    assert D.range(0).element_spec == INT


def test_an_error_of_the_function_reaches_who_asked() -> None:
    def fail(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        D.range(3).map(fail).element_spec  # noqa: B018


def test_strings_and_nests_are_seen() -> None:
    dataset = D.range(3).map(lambda x: (x, {"name": "text", "none": None}))
    assert dataset.element_spec == (INT, {"name": ps.TensorSpec((), ps.string), "none": ps.NoneSpec()})


def test_mismatches_that_only_a_call_can_tell_name_the_operator() -> None:
    dataset = D.range(3).map(lambda x: D.range(2)).batch(2)
    with pytest.raises(ps.errors.BadType, match=r"batch at test_seen.py:\d+: cannot batch datasets"):
        dataset.element_spec  # noqa: B018
