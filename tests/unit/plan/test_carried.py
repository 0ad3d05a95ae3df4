"""Carried: which arrays live by a dataset alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan.carried import carried_bytes

D = ps.Dataset
KEPT = np.ones(1000)
PAIR = (np.ones(1000), np.zeros(1000))
PART = np.ones(1000)[10:]
TEXT = bytes(8000)
CACHED = D.range(3).cache()
DATASET = D.from_tensor_slices(np.ones(1000))


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
