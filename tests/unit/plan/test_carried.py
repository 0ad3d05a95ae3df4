"""Carried: which arrays live by a dataset alone."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.element import nbytes_of, read_only
from penstock.ops.calling import as_result
from penstock.plan.carried import carried_bytes

D = ps.Dataset
KEPT = np.ones(1000)
PAIR = (np.ones(1000), np.zeros(1000))
PART = np.ones(1000)[10:]
TEXT = bytes(8000)
CACHED = D.range(3).cache()
DATASET = D.from_tensor_slices(np.ones(1000))
NEST = {"a": (1, D.from_tensor_slices(np.ones(1000)))}


@dataclasses.dataclass
class Pair:
    number: Any
    dataset: Any


def one_source_twice() -> Any:
    source = D.from_tensor_slices(np.ones(1000))
    return D.zip((source, source.map(lambda x: x)))


def one_array_twice() -> Any:
    array = np.ones(1000)
    return D.from_tensor_slices(array).concatenate(D.from_tensor_slices(array[::-1]))


MADE: dict[str, tuple[int, Callable[[], Any]]] = {
    "slices": (8000, lambda: D.from_tensor_slices(np.ones(1000))),
    "one element": (8000, lambda: D.from_tensors(np.ones(1000))),
    "a nest": (16_000, lambda: D.from_tensor_slices((np.ones(1000), {"a": np.ones(1000)}))),
    "a nest as one element": (8024, lambda: D.from_tensors((np.ones(1000), np.ones(3)))),
    "a part of an array": (8000, lambda: D.from_tensor_slices(np.ones(1000)[500:])),
    "below others": (8000, lambda: D.from_tensor_slices(np.ones(1000)).map(lambda x: x).batch(2)),
    "one source twice": (8000, one_source_twice),
    "one array twice": (8000, one_array_twice),
    "bytes": (8000, lambda: D.from_tensor_slices(np.frombuffer(bytes(8000), np.uint8))),
    "a list": (8000, lambda: D.from_tensor_slices([1.0] * 1000)),
    "a cache of them": (8000, lambda: D.from_tensor_slices(np.ones(1000)).cache().map(lambda x: x)),
    "a cache alone": (0, lambda: D.range(3).cache().batch(2)),
    "ragged": (8024, lambda: D.from_tensor_slices(ps.Ragged(np.ones(1000), np.array([0, 500, 1000])))),
}

KEPT_BY_OTHERS: dict[str, Callable[[], Any]] = {
    "an array": lambda: D.from_tensor_slices(KEPT),
    "an array as one element": lambda: D.from_tensors(KEPT),
    "a part of one": lambda: D.from_tensor_slices(KEPT[10:]),
    "a nest": lambda: D.from_tensor_slices(PAIR),
    "a view": lambda: D.from_tensor_slices(PART),
    "a part of a view": lambda: D.from_tensor_slices(PART[10:]),
    "bytes": lambda: D.from_tensor_slices(np.frombuffer(TEXT, np.uint8)),
    "a cache": lambda: CACHED,
    "an operator on a cache": lambda: CACHED.batch(2),
    "a dataset": lambda: DATASET,
    "an operator on a dataset": lambda: DATASET.map(lambda x: x),
}


@pytest.mark.parametrize("case", MADE)
def test_arrays_that_nobody_else_holds_are_carried(case: str) -> None:
    expected, make = MADE[case]
    dataset = make()
    assert carried_bytes(dataset, 1000) == expected


@pytest.mark.parametrize("case", KEPT_BY_OTHERS)
def test_arrays_of_others_are_not(case: str) -> None:
    dataset = KEPT_BY_OTHERS[case]()
    assert carried_bytes(dataset, 1000) is None


def test_mapped_files_and_small_arrays_are_not(tmp_path: Any) -> None:
    mapped = D.from_tensor_slices(np.memmap(tmp_path / "data", np.uint8, "w+", shape=(8000,)))
    assert carried_bytes(mapped, 0) is None
    small = D.from_tensor_slices(np.ones(10))
    assert carried_bytes(small, 80) is None
    assert carried_bytes(small, 79) == 80


def slices() -> Any:
    return D.from_tensor_slices(np.ones(1000))


def two_of_one_array() -> Any:
    array = np.ones(1000)
    return D.from_tensor_slices(array[:500]), {"a": D.from_tensor_slices(array[500:])}


NESTS: dict[str, tuple[int, Callable[[], Any]]] = {
    "a tuple": (8008, lambda: (np.int64(1), slices())),
    "a list": (8008, lambda: [np.int64(1), slices()]),
    "a dict of a tuple": (16_000, lambda: {"a": (slices(), slices())}),
    "a dataclass": (8008, lambda: Pair(np.int64(1), slices().batch(2))),
    "two of one array": (8000, two_of_one_array),
    "beside others": (8000, lambda: (slices(), DATASET, DATASET.batch(2))),
}

NESTS_OF_OTHERS: dict[str, tuple[int, Callable[[], Any]]] = {
    "a nest": (8, lambda: NEST),
    "a part of one": (8, lambda: NEST["a"]),
    "a dataset in a new one": (0, lambda: {"a": DATASET}),
}


def bytes_as_element(make: Callable[[], Any]) -> int:
    """As a map calls a function, and counts what it returned."""
    result = make()
    result = as_result(result)
    return nbytes_of(result)


@pytest.mark.parametrize("case", [case for case in MADE if "cache alone" not in case])
def test_a_dataset_as_an_element_counts_arrays_that_nobody_else_holds(case: str) -> None:
    expected, make = MADE[case]
    assert bytes_as_element(make) == expected


@pytest.mark.parametrize("case", NESTS)
def test_so_do_datasets_in_a_nest(case: str) -> None:
    expected, make = NESTS[case]
    assert bytes_as_element(make) == expected


@pytest.mark.parametrize("case", [*KEPT_BY_OTHERS, *NESTS_OF_OTHERS])
def test_arrays_of_others_are_not_counted(case: str) -> None:
    expected, make = NESTS_OF_OTHERS.get(case) or (0, KEPT_BY_OTHERS[case])
    assert bytes_as_element(make) == expected


GIVEN: dict[str, tuple[int, Any]] = {
    "an array": (8000, np.ones(1000)),
    "a nest": (8000, (np.ones(1000), np.int64(1))),
    "an array in another shape": (8000, np.ones(1000).reshape(10, 100)),
    "a window on an array of the user's": (0, read_only(KEPT)),
    "a part of what others hold": (0, KEPT[10:]),
}


@pytest.mark.parametrize("case", GIVEN)
def test_a_dataset_counts_arrays_that_its_function_was_given(case: str) -> None:
    expected, given = GIVEN[case]
    result = D.from_tensors(given)
    assert nbytes_of(as_result(result, given)) == expected


def test_arrays_beside_those_that_were_noted_are_carried() -> None:
    element = as_result(slices())
    pair = D.zip((element, slices()))
    assert carried_bytes(pair, 1000, element) == 8000


def test_a_dataset_that_is_made_of_an_element_counts_as_that_does() -> None:
    element = as_result(slices())
    made = as_result(element.map(lambda x: x).batch(2), element)
    assert nbytes_of(made) == 8000
    assert carried_bytes(made, 1000) == 0  # who holds it counts it, and its elements are to be copied
    assert carried_bytes(element, 1000) == 0


def test_windows_count_what_they_hold_once() -> None:
    with D.range(4).map(lambda i: np.ones(1000)).window(2).map(lambda w: w.batch(2)).run() as run:
        assert nbytes_of(next(run)) == 16_000
