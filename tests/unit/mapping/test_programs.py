"""Programs that JAX compiled are used again, never for another function, and keep nothing of the user's."""

import gc
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import penstock as ps
from penstock.mapping import programs
from penstock.mapping.recent import Recent

ELEMS = np.arange(100.0)
FACTOR = 2.0


@pytest.fixture(autouse=True)
def num_compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts programs that are compiled, beginning with none kept."""
    count = [0]
    compile_one = jax.stages.Lowered.compile

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        return compile_one(*args, **kwargs)

    monkeypatch.setattr(jax.stages.Lowered, "compile", counted)
    monkeypatch.setattr(programs, "_recent", Recent())
    monkeypatch.setattr(programs, "_functions", Recent())
    return count


@pytest.fixture
def num_traced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts functions that are traced."""
    count = [0]
    vmap = jax.vmap

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        return vmap(*args, **kwargs)

    monkeypatch.setattr(jax, "vmap", counted)
    return count


def mapped(fn: Callable[[Any], Any], elems: Any = ELEMS) -> Any:
    told: list[str] = []
    results = ps.map_fn(fn, elems, jit="jax", report=told.append)
    assert "compiled with jax" in told[0]
    return results


def times_three(x: Any) -> Any:
    return jax.nn.relu(x) * 3  # which has a derivative of its own


def test_a_function_is_compiled_once(num_compiled: list[int]) -> None:
    for _ in range(3):
        np.testing.assert_array_equal(mapped(times_three), ELEMS * 3)
    assert num_compiled == [1]


def test_functions_that_come_and_go_are_compiled_once(num_compiled: list[int]) -> None:
    for _ in range(3):
        np.testing.assert_array_equal(mapped(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + i, x)), ELEMS + 3)
    assert num_compiled == [1]


@pytest.mark.parametrize("other", [np.arange(100), np.arange(101.0), np.ones((100, 2)), ELEMS.astype(np.float32)])
def test_other_elements_have_a_program_of_their_own(other: Any, num_compiled: list[int]) -> None:
    for elems in (ELEMS, other, ELEMS, other):
        results = mapped(times_three, elems)
        np.testing.assert_array_equal(results, elems * 3)
        assert results.dtype == elems.dtype
    assert num_compiled == [2]


def in_global() -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    return lambda x: x * FACTOR, lambda value: globals().update(FACTOR=value)


def in_closure() -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    factor = 2.0

    def change(value: float) -> None:
        nonlocal factor
        factor = value

    return lambda x: x * factor, change


def in_array() -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    table = np.full(1000, 2.0)
    return lambda x: x * jnp.asarray(table)[900], lambda value: table.__setitem__(900, value)


def in_attribute() -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    settings = types.SimpleNamespace(factor=2.0)
    return lambda x: x * settings.factor, lambda value: setattr(settings, "factor", value)


def in_method() -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    class Scale:
        factor = 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    scale = Scale()
    return scale, lambda value: setattr(scale, "factor", value)


@pytest.mark.parametrize("captured", [in_global, in_closure, in_array, in_attribute, in_method])
def test_what_a_function_has_captured_may_change(captured: Any, num_compiled: list[int]) -> None:
    fn, change = captured()
    for factor in (2.0, -0.0, 0.0, 2.0):
        change(factor)
        results = mapped(fn, ELEMS + 1)
        np.testing.assert_array_equal(results, (ELEMS + 1) * factor)
        np.testing.assert_array_equal(np.signbit(results), np.signbit((ELEMS + 1) * factor))
    assert num_compiled == [3]


def test_the_same_numbers_in_another_nest() -> None:
    first, second = mapped(lambda x: (x, x + 1))
    named = mapped(lambda x: {"a": x, "b": x + 1})
    pair = mapped(lambda x: [x, x + 1])
    np.testing.assert_array_equal(named["a"], first)
    np.testing.assert_array_equal(named["b"], second)
    assert type(pair) is list


def test_nothing_of_the_users_is_kept() -> None:
    def map_once() -> list[Any]:
        table = np.arange(1000.0)

        def look_up(x: Any) -> Any:
            return x + jnp.asarray(table)[7]

        mapped(look_up)
        return [weakref.ref(look_up), weakref.ref(table)]

    gone = map_once()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert len(programs._recent) == 1


def test_a_program_with_large_arrays_in_it_is_not_kept() -> None:
    table = np.arange(programs.MOST_CONSTANT_BYTES // 8 + 1)
    np.testing.assert_array_equal(mapped(lambda x: jnp.asarray(table)[x.astype(int)]), np.arange(100))
    assert not programs._recent


def test_a_program_that_calls_python_is_not_kept() -> None:
    def called(x: Any) -> Any:
        return jax.pure_callback(lambda y: np.asarray(y) + 1, x, x, vmap_method="sequential")

    with jax.enable_x64(True):
        np.testing.assert_array_equal(mapped(called), ELEMS + 1)
    assert not programs._recent


def test_the_last_ones_are_kept(monkeypatch: pytest.MonkeyPatch, num_compiled: list[int]) -> None:
    monkeypatch.setattr(programs, "_recent", Recent(2))
    for number in (1.0, 2.0, 1.0, 3.0, 1.0):
        mapped(lambda x, number=number: x + number)
    assert (len(programs._recent), num_compiled) == (2, [3])
    mapped(lambda x: x + 2.0)
    assert num_compiled == [4]


def test_a_function_of_plain_values_is_traced_once(num_traced: list[int]) -> None:
    for factor in (2.0, 3.0, 2.0, 3.0):
        np.testing.assert_array_equal(mapped(lambda x, factor=factor: jnp.abs(x) * factor), ELEMS * factor)
    for elems in (ELEMS[:50], ELEMS.astype(np.float32), ELEMS):
        np.testing.assert_array_equal(mapped(times_three, elems), elems * 3)
    assert num_traced == [3]


def test_a_function_that_reads_what_may_change_is_traced_anew(tmp_path: Path, num_traced: list[int]) -> None:
    path = str(tmp_path / "factor.npy")
    for factor in (2.0, 2.0, 3.0):
        np.save(path, factor)
        np.testing.assert_array_equal(mapped(lambda x: x * float(np.load(path))), ELEMS * factor)
    assert num_traced == [3]


def test_a_function_is_traced_anew_for_jax_told_otherwise() -> None:
    rows = np.ones((20, 2))

    def spread(x: Any) -> Any:
        return x + np.ones((3, 2))  # by NumPy, unless x is JAX's

    np.testing.assert_array_equal(mapped(spread, rows), np.full((20, 3, 2), 2.0))
    with jax.numpy_rank_promotion("raise"), pytest.warns(RuntimeWarning, match="jit was of no use"):
        ps.map_fn(spread, rows, jit="jax")
    np.testing.assert_array_equal(mapped(spread, rows), np.full((20, 3, 2), 2.0))


def test_a_copy_of_a_function_is_kept_and_not_the_function() -> None:
    def map_once() -> Any:
        def twice(x: Any) -> Any:
            return x * 2

        mapped(twice)
        return weakref.ref(twice)

    gone = map_once()
    gc.collect()
    assert gone() is None
    assert len(programs._functions) == 1


def test_a_function_that_made_large_arrays_is_not_kept() -> None:
    count = programs.MOST_CONSTANT_BYTES // 8 + 1
    results = mapped(lambda x, count=count: jnp.asarray(np.arange(float(count)))[x.astype(int)])
    np.testing.assert_array_equal(results, ELEMS)
    assert (len(programs._functions), len(programs._recent)) == (0, 0)
