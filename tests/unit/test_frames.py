"""Errors that travel as elements keep alive nothing but themselves, and still tell where they came from."""

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.element import Failed

D = ps.Dataset


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def raised(function: Callable[[], Any]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("expected an error")


def plain() -> None:
    raise ValueError("plain")


def chained() -> None:
    try:
        plain()
    except ValueError as error:
        raise KeyError("chained") from error


def while_handling() -> None:
    try:
        plain()
    except ValueError:
        chained()


def grouped() -> None:
    raise ExceptionGroup("grouped", [raised(chained), raised(plain)])


def in_a_generator() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        plain()

    list(numbers())


def deep(n: int = 50) -> None:
    return deep(n - 1) if n else plain()


@pytest.mark.parametrize("function", [plain, chained, while_handling, grouped, in_a_generator, deep])
def test_tracebacks_read_as_before(function: Callable[[], Any]) -> None:
    error = raised(function)
    before = text_of(error)
    assert text_of(Failed(error).error) == before
    assert "in plain" in before


@pytest.mark.parametrize("function", [plain, chained, while_handling, grouped, in_a_generator])
def test_nothing_that_was_in_hand_stays_alive(function: Callable[[], Any]) -> None:
    kept: list[weakref.ref[np.ndarray]] = []

    def in_hand() -> Failed:
        array = np.zeros(10)  # of a frame that called, and catches
        kept.append(weakref.ref(array))

        def fails() -> None:
            inner = np.ones(10)
            kept.append(weakref.ref(inner))
            function()

        try:
            fails()
        except Exception as error:
            return Failed(error)
        return Failed(ValueError(array))

    gc.collect()
    gc.disable()
    try:
        failed = in_hand()
        assert all(array() is None for array in kept)
    finally:
        gc.enable()
    assert "in fails" in text_of(failed.error)


def test_what_the_caller_handles_meanwhile_is_left_alone() -> None:
    run = iter(D.range(3).map(lambda i: 1 // 0))
    handled, error = None, None
    try:
        plain()
    except ValueError as being_handled:
        handled = being_handled
        frames = [frame for frame, _ in traceback.walk_tb(handled.__traceback__)]
        error = raised(lambda: next(run))
    assert error.__context__ is handled
    assert [frame for frame, _ in traceback.walk_tb(handled.__traceback__)] == frames
    assert frames[0].f_locals["run"] is run


PIPELINES = {
    "one by one": lambda ds: ds,
    "parallel": lambda ds: ds,
    "prefetch": lambda ds: ds.prefetch(30),
    "filter": lambda ds: ds.filter(lambda x: True),
    "interleave": lambda ds: D.range(3).interleave(lambda i: ds, cycle_length=3),
    "scan": lambda ds: ds.scan(np.int64(0), lambda state, x: (state, x)),
    "shuffle": lambda ds: ds.filter(lambda x: True).shuffle(30, seed=1),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_failures_in_a_pipeline_keep_no_locals(name: str) -> None:
    made: list[weakref.ref[np.ndarray]] = []

    def fails(i: Any) -> np.ndarray:
        array = np.full(1000, i)
        made.append(weakref.ref(array))
        raise ValueError(i)

    ds = D.range(30).map(fails, num_parallel_calls=2 if name == "parallel" else None)
    gc.collect()
    gc.disable()
    try:
        with PIPELINES[name](ds).run(memory="1MB") as run:
            errors = [raised(lambda: next(run)) for _ in range(10)]
            # Two threads may be at work.
            assert sum(array() is not None for array in made) <= 2 < len(made)
            assert all("in fails" in text_of(error) for error in errors)
    finally:
        gc.enable()
