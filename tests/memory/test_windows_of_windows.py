"""Windows of windows: an element that several of them have is on the ledger once, and never less than what is there."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
COUNT = 14
ELEMENT = 100_000


def batches(windows: Any) -> Any:
    return windows.flat_map(lambda w: w.flat_map(lambda v: v.batch(4)))


WINDOWS: dict[str, Callable[[Any], Any]] = {
    "two at a time": lambda d: batches(d.window(3, shift=1).window(2)),
    "in steps of one": lambda d: batches(d.window(3, shift=1).window(3, shift=1)),
    "with gaps": lambda d: batches(d.window(2, shift=1, stride=2).window(2, shift=3)),
    "no overlap": lambda d: batches(d.window(3).window(2)),
    "skipped in part": lambda d: batches(d.window(4, shift=1).map(lambda w: w.skip(1)).window(2)),
    "three deep": lambda d: d.window(2, shift=1).window(2, shift=1).window(2).flat_map(batches),
}


class Made:
    """Arrays that a function made, and how many of their bytes are there."""

    def __init__(self) -> None:
        self._arrays: list[weakref.ref[np.ndarray]] = []

    def make(self, i: Any) -> np.ndarray:
        array = np.full(ELEMENT // 8, float(i))
        self._arrays.append(weakref.ref(array))
        return array

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for ref in self._arrays if (array := ref()) is not None)


@pytest.mark.parametrize("windows", WINDOWS)
def test_what_is_there_is_on_the_ledger(windows: str) -> None:
    made = Made()
    seen: list[tuple[int, int]] = []

    def function(i: Any) -> np.ndarray:
        seen.append((made.nbytes, run.ledger.charged_bytes))  # of those before it
        return made.make(i)

    with WINDOWS[windows](D.range(COUNT).map(function)).run(memory="20MB") as run:
        expected = [batch[:, 0].tolist() for batch in WINDOWS[windows](D.range(COUNT).map(float).map(np.atleast_1d))]
        found = []
        for batch in run:
            found.append(batch[:, 0].tolist())
            del batch
            seen.append((made.nbytes, run.ledger.charged_bytes))
    assert found == expected
    assert all(there <= charged for there, charged in seen), seen
    assert max(there for there, _ in seen) > 2 * ELEMENT
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize(("windows", "most"), [("two at a time", 22), ("in steps of one", 27), ("three deep", 38)])
def test_the_minimum_counts_an_element_once(windows: str, most: int) -> None:
    def dataset() -> Any:
        return WINDOWS[windows](D.range(COUNT).map(lambda i: np.full(ELEMENT // 8, float(i))))

    expected = [batch[:, 0].tolist() for batch in dataset()]
    sampled = dataset()
    minimum = sampled.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < most * ELEMENT
    for each in (sampled, dataset()):
        assert [batch[:, 0].tolist() for batch in each.run(memory=minimum)] == expected


def test_a_position_between_windows_that_overlap() -> None:
    dataset = WINDOWS["in steps of one"](D.range(COUNT).map(lambda i: np.full(ELEMENT // 8, float(i))))
    expected = [batch[:, 0].tolist() for batch in dataset]
    for count in (1, 5, 9):
        with dataset.run() as run:
            for _ in range(count):
                next(run)
            state = run.state_dict()
        with dataset.run() as again:
            again.load_state_dict(state)
            assert [batch[:, 0].tolist() for batch in again] == expected[count:]
        assert again.ledger.charged_bytes == 0
