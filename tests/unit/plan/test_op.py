"""Operators: the smallest one that the documentation shows, arguments, and one line of a plan for each."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.errors import BadArgument, BadType
from penstock.plan.node import Node
from penstock.plan.op import Context, ElementFunction, Op, argument, show
from penstock.plan.traits import Traits
from penstock.spec import Spec

D = ps.Dataset


@dataclasses.dataclass(frozen=True)
class Negate(Op):
    """The operator in the docstring of `plan.op`."""

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0]

    @property
    def traits(self) -> Traits:
        return Traits(runtime="elementwise", one_to_one=True, pure=True)

    def element_function(self, context: Context) -> ElementFunction:
        return lambda block, place: Block.of_rows([-row for row in block.rows()])


def test_an_operator_of_ones_own_needs_no_more_than_the_documentation_says() -> None:
    dataset = D(Node(Negate(), (D.range(5).node,)))
    assert list(dataset) == [0, -1, -2, -3, -4]
    shuffled = dataset.shuffle(seed=1)
    assert list(shuffled.run(epoch=0)) == list(shuffled.run(epoch=0, optimize=False))
    assert [node.op.name for node in shuffled.run().plan.walk()] == ["read", "negate"]  # the shuffle went below it


@pytest.mark.parametrize("method", ["open", "element_function", "reader", "numbered"])
def test_an_operator_that_does_not_run_so_says_so(method: str) -> None:
    arguments = () if method == "numbered" else (None,)
    with pytest.raises(AssertionError, match="Op "):
        getattr(Op(), method)(*arguments)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_integers_of_all_kinds_are_arguments(value: Any) -> None:
    number = argument("count", value)
    assert number == 3
    assert type(number) is int


class Scalar:
    """A framework's integer scalar."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        return self.value


def test_a_frameworks_integer_is_an_argument() -> None:
    assert argument("count", Scalar(np.int64(3))) == 3
    with pytest.raises(BadArgument, match="count: expected at least 4, got 3"):
        argument("count", Scalar(np.int64(3)), at_least=4)


@pytest.mark.parametrize(
    "value", [1.0, True, np.bool_(True), "1", None, [1], np.array([1]), np.float32(1), Scalar(1.5)]
)
def test_nothing_else_is_an_integer(value: Any) -> None:
    with pytest.raises(BadType, match=f"count: expected an integer, got {type(value).__name__}"):
        argument("count", value)


def named(x: Any) -> Any:
    return x


class Callable_:
    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return x

    def __str__(self) -> str:
        return f"at {id(self)}"


@pytest.mark.parametrize("value, text", [
    (named, "named"),
    (lambda x: x, "λ"),
    (Callable_().method, "Callable_.method"),
    (Callable_(), "Callable_"),
    (10_000, "10_000"),
    (np.zeros((3, 4), np.uint8), "3×4 uint8"),
    ("a" * 100, "'" + "a" * 56 + "..."),
    (None, "None"),
    (True, "True"),
])  # fmt: skip
def test_arguments_in_few_characters(value: Any, text: str) -> None:
    assert show(value) == text


@pytest.mark.parametrize("dataset, text", [
    (D.range(10_000), "range(10_000)"),
    (D.range(1, 10, 2), "range(1, 10, 2)"),
    (D.range(3).take(2), "take(2)"),
    (D.range(3).batch(2), "batch(2)"),
    (D.range(3).batch(2, drop_remainder=True), "batch(2, drop_remainder=True)"),
    (D.range(3).shuffle(), "shuffle(None)"),
    (D.range(3).shuffle(2, seed=4), "shuffle(2, seed=4)"),
    (D.range(3).map(named, num_parallel_calls=2), "map(named, num_parallel_calls=2)"),
    (D.range(3).map(named, ps.AUTOTUNE), "map(named, num_parallel_calls=AUTOTUNE)"),
    (D.range(3).prefetch(ps.AUTOTUNE), "prefetch(AUTOTUNE)"),
    (D.from_tensor_slices((np.zeros((5, 2)), ["a"] * 5)), "from_tensor_slices(5×2 float64, 5 object)"),
])  # fmt: skip
def test_operators_as_one_line(dataset: Any, text: str) -> None:
    assert dataset.node.op.describe() == text
