"""Which functions decode images, and how many threads a batch is worth: guesses, on which only speed depends."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.ops.filling import decodes_images, is_worth_filling


def direct(name: Any) -> Any:
    return ps.image.decode_png(ps.io.read_file(name))


def through_another(name: Any) -> Any:
    return direct(name)


def other(name: Any) -> Any:
    return ps.io.read_file(name)


def recursive(name: Any) -> Any:
    return mutual(name)


def mutual(name: Any) -> Any:
    return recursive(name)


def capturing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda name: function(name)


class Answering:
    """An object that can be called, and does not like to be asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name) if "decode" in name else AttributeError(name)

    def __call__(self, name: Any) -> Any:
        return direct(name)


@pytest.mark.parametrize("function, expected", [
    (direct, True),
    (through_another, True),
    (capturing(direct), True),
    (capturing(through_another), True),
    (lambda name: ps.image.decode_and_crop_jpeg(name, (0, 0, 1, 1)), True),
    (other, False),
    (recursive, False),
    (capturing(other), False),
    (len, False),
    (functools.partial(direct), False),
    (Answering(), False),
])  # fmt: skip
def test_a_function_that_names_a_decoder_decodes(function: Any, expected: bool) -> None:
    assert decodes_images(function) is expected


def test_a_variable_without_a_value_is_passed_over() -> None:
    def uses(name: Any) -> Any:
        return later(name)

    assert not decodes_images(uses)
    later = direct
    assert decodes_images(uses)


@pytest.mark.parametrize("parallel, size, expected", [(1, 8, True), (1, 7, False), (4, 32, True), (5, 32, False)])
def test_a_batch_has_enough_for_each_thread(parallel: int, size: int, expected: bool) -> None:
    assert is_worth_filling(parallel, size) is expected


@pytest.mark.parametrize("num_processors, size, expected", [(4, 32, True), (4, 31, False), (None, 8, True)])
def test_a_chosen_number_of_threads_is_that_of_processors(
    monkeypatch: pytest.MonkeyPatch, num_processors: int | None, size: int, expected: bool
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: num_processors)
    assert is_worth_filling(ps.AUTOTUNE, size) is expected
