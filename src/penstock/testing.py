"""The laws that every pipeline keeps, for tests of operators, sources and pipelines of your own.

>>> import penstock as ps
>>> check_op(ps.Dataset.range(10).shuffle(4, seed=1).batch(3))
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from .dataset import Dataset
from .element import Structure
from .leaf import is_dataset
from .runtime.closing import wait_for_closing
from .runtime.run import Run

__all__ = ["check_op", "check_source", "elements_of", "same"]

_MOST_ELEMENTS = 200


class _Raised:
    """An error in the place of an element: compared by its type."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"raised {type(self.error).__name__}"


def elements_of(run: Run, most: int = _MOST_ELEMENTS) -> list[Any]:
    """What a run delivers from here on, errors in their places, at most so many."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(_plain(next(run)))
        except StopIteration:
            break
        except Exception as error:
            found.append(_Raised(error))
    return found


def _plain(element: Any) -> Any:
    """An element with nested datasets as lists of their elements."""
    structure = Structure.of(element)
    leaves = [elements_of(leaf.run(epoch=0)) if is_dataset(leaf) else leaf for leaf in structure.flatten(element)]
    return leaves[0] if structure.is_leaf else (structure, leaves)


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal to the bit: structure, dtype, shape, values, and errors by their type."""
    if isinstance(a, _Raised) or isinstance(b, _Raised):
        return isinstance(a, _Raised) and isinstance(b, _Raised) and type(a.error) is type(b.error)
    if isinstance(a, (np.ndarray, np.generic)):
        if not isinstance(b, (np.ndarray, np.generic)) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        # Those of objects one by one: they may be arrays, or NaN.
        return all(map(same, a.flat, b.flat)) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a):  # the user's own, Ragged, Sparse
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return bool(a == b)


def check_op(dataset: Dataset, *, most: int = _MOST_ELEMENTS) -> None:
    """Checks the laws on one pipeline; raises AssertionError where one is broken.

    - The optimizer changes nothing that it yields.
    - A position saved after any element, loaded into a new run, gives exactly the rest.
    - The ledger never exceeds the budget, and reads zero once the run is closed, wherever that happens.
    - No thread outlives its run.
    """
    for optimize in (True, False):
        whole = elements_of(dataset.run(epoch=0, optimize=optimize), most)
        if optimize:
            expected = whole
        _check_equal(whole, expected, f"optimize={optimize} gives other elements")
        _check_resume(dataset, whole, optimize)
        _check_close(dataset, len(whole), optimize)


def check_source(dataset: Dataset, *, most: int = _MOST_ELEMENTS) -> None:
    """Checks a source: the laws of `check_op`, alone and under each change of order."""
    check_op(dataset, most=most)
    for changed in (
        dataset.take(3),
        dataset.skip(2),
        dataset.shard(2, 1),
        dataset.shuffle(3, seed=7),
        dataset.take(5).repeat(2),
        dataset.take(6).shuffle(seed=7),
        dataset.batch(2),
    ):
        check_op(changed, most=most)


def _check_equal(found: list[Any], expected: list[Any], what: str) -> None:
    for i, (a, b) in enumerate(zip(found, expected, strict=False)):
        assert same(a, b), f"{what}: element {i} is {a!r}, expected {b!r}"
    assert len(found) == len(expected), f"{what}: {len(found)} elements, expected {len(expected)}"


def _check_resume(dataset: Dataset, whole: list[Any], optimize: bool) -> None:
    with dataset.run(epoch=0, optimize=optimize) as run:
        for done in range(len(whole) + 1):
            state = run.state_dict()
            with dataset.run(optimize=optimize) as resumed:
                resumed.load_state_dict(state)
                rest = elements_of(resumed, len(whole) - done)
            _check_equal(rest, whole[done:], f"resumed after {done} elements (optimize={optimize})")
            elements_of(run, 1)


def _check_close(dataset: Dataset, size: int, optimize: bool) -> None:
    for done in sorted({0, 1, size // 2, size}):
        before = set(threading.enumerate())
        run = dataset.run(epoch=0, optimize=optimize)
        elements_of(run, done)
        ledger = run.ledger
        assert ledger.peak_bytes <= ledger.budget_bytes
        run.close()
        assert ledger.charged_bytes == 0, f"{ledger.charged_bytes} bytes are still held after close()"
        wait_for_closing()  # of another run that happened to be found meanwhile
        left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("penstock")]
        assert not left, f"threads outlived their run: {left}"
