"""What numba compiled is used again only where nothing has changed that the function refers to."""

import gc
import types
import weakref
from collections.abc import Callable
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import relu

import penstock as ps
from penstock.mapping import with_numba
from penstock.mapping.frozen import frozen
from penstock.mapping.recent import Recent

FACTOR: Any = 2.0
SETTINGS = types.SimpleNamespace(factor=2.0)


def by_global(x: Any) -> Any:
    return sqrt(np.abs(x)) * max(FACTOR, 1)


def by_closure(factor: Any) -> Callable[[Any], Any]:
    def scale(x: Any, power: int = 2) -> Any:
        return sum([x * factor for _ in range(power)])

    return scale


def key_of(function: Any) -> Any:
    found = frozen(function)
    assert found is not None
    return found[0]


def test_the_same_function_has_the_same_key_whoever_made_it() -> None:
    assert key_of(by_closure(3.0)) == key_of(by_closure(3.0))
    assert key_of(by_global) == key_of(by_global)


def test_names_that_numpy_warns_of_are_pythons() -> None:
    assert key_of(lambda x: len(str(x))) is not None  # np.str: a FutureWarning, which is an error here


@pytest.mark.parametrize("other", [3, 3.5, -0.0, True, np.float32(3), (3.0,), "3.0", None])
def test_another_value_makes_another_key(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_of(by_closure(other)) != key_of(by_closure(3.0))
    assert key_of(by_closure(0.0)) != key_of(by_closure(other))
    before = key_of(by_global)
    monkeypatch.setitem(by_global.__globals__, "FACTOR", other)
    assert key_of(by_global) != before


def test_a_copy_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = frozen(by_global)
    assert found is not None
    monkeypatch.setitem(by_global.__globals__, "FACTOR", 5.0)
    assert (found[1](4.0), by_global(4.0)) == (4.0, 10.0)


def by_attribute(x: Any) -> Any:
    return x * SETTINGS.factor


def by_import(x: Any) -> Any:
    import json

    return x * len(json.dumps(1))


def by_function(x: Any) -> Any:
    return by_global(x)


@pytest.mark.parametrize("function", [
    by_attribute,
    by_import,
    by_function,
    by_closure(np.arange(3)),
    by_closure([1]),
    np.sqrt,
    SETTINGS.__init__,
])  # fmt: skip
def test_what_refers_to_more_than_plain_values_has_none(function: Any) -> None:
    assert frozen(function) is None


@pytest.mark.parametrize("function", [
    lambda x: x * np.load("factor.npy"),
    lambda x: x + sum([np.random.rand() for _ in range(2)]),
    lambda x: x * len(vars()),
])  # fmt: skip
def test_what_is_run_to_be_compiled_must_not_look_elsewhere(function: Any) -> None:
    assert frozen(function) is not None
    assert frozen(function, is_run=True) is None


def test_modules_of_other_libraries_are_plain_where_that_is_said() -> None:
    def function(x: Any) -> Any:
        return jnp.abs(relu(x))

    assert frozen(function) is None
    assert frozen(function, (jnp, jax.nn)) is not None


def test_loops_are_kept_and_nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_numba, "_loops", Recent())
    elems = np.arange(50.0)

    def map_with(factor: float) -> Any:
        def scale(x: Any) -> Any:
            return x * factor

        np.testing.assert_array_equal(ps.map_fn(scale, elems, jit="numba"), elems * factor)
        return weakref.ref(scale)

    gone = [map_with(factor) for factor in (2.0, 2.0, 3.0)]
    assert len(with_numba._loops) == 2
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
