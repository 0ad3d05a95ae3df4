"""merge_neighbours: two operators that one can do."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.optimize import optimize
from penstock.optimize.merge_neighbours import merge_neighbours

D = ps.Dataset


def add(x: Any) -> Any:
    return x + 1


def double(x: Any) -> Any:
    return x * 2


def merged(dataset: Any) -> Any:
    return optimize(dataset.node, [(merge_neighbours,)])[0]


@pytest.mark.parametrize("written, expected", [
    (lambda ds: ds.take(5).take(3), lambda ds: ds.take(3)),
    (lambda ds: ds.take(3).take(5), lambda ds: ds.take(3)),
    (lambda ds: ds.take(9).take(7).take(8), lambda ds: ds.take(7)),
    (lambda ds: ds.skip(2).skip(3), lambda ds: ds.skip(5)),
    (lambda ds: ds.skip(2).take(5).take(3).skip(1).skip(1), lambda ds: ds.skip(2).take(3).skip(2)),
])  # fmt: skip
def test_neighbours_of_a_kind_are_one(written: Callable[[Any], Any], expected: Callable[[Any], Any]) -> None:
    for base in (D.range(20), D.range(20).map(add)):
        assert merged(written(base)) == expected(base).node


@pytest.mark.parametrize("written", [
    lambda ds: ds.take(5).skip(3),
    lambda ds: ds.skip(3).take(5),
    lambda ds: ds.take(5).take(-1),
    lambda ds: ds.skip(-1).skip(2),
    lambda ds: ds.shuffle(3, seed=1).shuffle(4, seed=2),
    lambda ds: ds.batch(2).batch(3),
    lambda ds: ds.map(add, stateful=True).map(double),
    lambda ds: ds.map(add).map(double, stateful=True),
    lambda ds: ds.map(add).map(double, num_parallel_calls=2),
    lambda ds: ds.map(add, num_parallel_calls=3).map(double, num_parallel_calls=2),
    lambda ds: ds.map(add, num_parallel_calls=2, deterministic=False).map(double, num_parallel_calls=2),
    lambda ds: ds.map(add, vectorized=True).map(double),
    lambda ds: ds.map(add).filter(bool).map(double),
])  # fmt: skip
def test_what_one_operator_cannot_do_stays_two(written: Callable[[Any], Any]) -> None:
    dataset = written(D.range(20))
    assert merged(dataset) == dataset.node


@pytest.mark.parametrize("options", [{}, {"num_parallel_calls": 2}, {"num_parallel_calls": 2, "deterministic": False}])
def test_maps_become_one_map_that_calls_both_in_order(options: dict[str, Any]) -> None:
    node = merged(D.range(5).map(add, **options).map(double, **options).map(add, **options))
    assert [n.op.name for n in node.walk()] == ["range", "map"]
    assert node.op.describe().startswith("map(add then double then add")
    assert node.op.traits == D.range(5).map(add, **options).node.op.traits
    assert sorted(D(node)) == [3, 5, 7, 9, 11]


def test_a_tuple_between_two_functions_is_unpacked_and_a_list_is_a_tuple() -> None:
    def pair(x: Any) -> Any:
        return [x, x + 1]

    def total(a: Any, b: Any) -> Any:
        return a + b

    dataset = D.range(4).map(pair).map(total)
    assert list(D(merged(dataset))) == list(dataset.run(optimize=False)) == [1, 3, 5, 7]


def test_what_lies_between_two_functions_is_normal() -> None:
    seen: list[Any] = []

    def note(x: Any) -> Any:
        seen.append(x)
        return 0

    for value in ("text", 3, 2.5, True, [[1, 2]], {"a": "b"}):
        dataset = D.range(1).map(lambda _, value=value: value).map(note)
        list(dataset.run())
        list(dataset.run(optimize=False))
        with_rule, without = seen[-2:]
        assert type(with_rule) is type(without)
        assert repr(with_rule) == repr(without)
