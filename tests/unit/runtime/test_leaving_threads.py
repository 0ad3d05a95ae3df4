"""AUTOTUNE that goes from the caller's thread to others and back, all the time: nothing of it can be seen."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.backends import tuner as module
from penstock.runtime.backends.tuner import ParallelismTuner

D = ps.Dataset
NUM_ELEMENTS = 60


@pytest.fixture(autouse=True)
def changes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Threads are tried after each few calls, found to be of no use after a few more, and at once tried again."""
    for name, value in (("_CHEAP_NS", 0), ("_TRIAL_CALLS", 3), ("_FIRST_WINDOW_NS", 0), ("_FIRST_ELEMENTS", 3)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_PAUSE_NS", 0)
    monkeypatch.setattr(ParallelismTuner, "_are_slower_than_none", lambda tuner, now, by: True)
    changes: list[str] = []
    leave, tries_again = ParallelismTuner._leave, ParallelismTuner._tries_again

    def left(tuner: ParallelismTuner, now: int) -> None:
        changes.append("left")
        leave(tuner, now)

    def tried_again(tuner: ParallelismTuner) -> bool:
        again = tries_again(tuner)
        changes.extend(["again"] * again)
        return again

    monkeypatch.setattr(ParallelismTuner, "_leave", left)
    monkeypatch.setattr(ParallelismTuner, "_tries_again", tried_again)
    return changes


def large(i: Any) -> Any:
    return np.full(20_000, i)


def fails_at_some(i: Any) -> Any:
    if i % 7 == 3:
        raise ValueError(f"no {i}")
    return large(i)


PIPELINES: dict[str, Callable[[], D]] = {
    "map": lambda: D.range(NUM_ELEMENTS).map(large, ps.AUTOTUNE),
    "vectorized": lambda: D.range(NUM_ELEMENTS).map(lambda x: x * 2, ps.AUTOTUNE, vectorized=True),
    "two": lambda: D.range(NUM_ELEMENTS).map(large, ps.AUTOTUNE).map(lambda x: x + 1, ps.AUTOTUNE),
    "failing": lambda: D.range(NUM_ELEMENTS).map(fails_at_some, ps.AUTOTUNE).ignore_errors(),
    "elastic": lambda: D.range(NUM_ELEMENTS).map(fails_at_some, ps.AUTOTUNE).ignore_errors().take(40),
    "random": lambda: D.range(NUM_ELEMENTS).random_map(lambda x, rng: x + rng.random(), seed=1, num_parallel_calls=-1),
    "filled": lambda: D.range(NUM_ELEMENTS).map(large, ps.AUTOTUNE).batch(4),
}


def numbers(elements: Any) -> list[float]:
    return [float(number) for element in elements for number in np.atleast_1d(element).reshape(-1, 1)[::20_000, 0]]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("memory", ["64MB", "4MB"])
def test_elements_are_the_same(name: str, memory: str, changes: list[str]) -> None:
    with PIPELINES[name]().run(memory=memory, epoch=0, optimize=name != "two") as run:
        found = numbers(run)
    assert changes.count("left") > 1
    assert "again" in changes
    assert run.ledger.charged_bytes == 0
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(module, "_CHEAP_NS", 10**15)
        assert found == numbers(PIPELINES[name]().run(epoch=0))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_position_is_good_wherever_it_is_taken(name: str) -> None:
    whole = numbers(PIPELINES[name]().run(epoch=0))
    count = len(list(PIPELINES[name]().run(epoch=0)))
    with PIPELINES[name]().run(epoch=0) as run:
        states = [run.state_dict() for element in run]
    assert len(states) == count
    for place in range(0, count, 3):
        with PIPELINES[name]().run(epoch=0) as run:
            run.load_state_dict(states[place])
            rest = numbers(run)
            assert rest == whole[len(whole) - len(rest) :]
            assert len(rest) == len(whole) * (count - 1 - place) // count


def test_in_any_order_none_is_lost(changes: list[str]) -> None:
    dataset = D.range(NUM_ELEMENTS).map(large, ps.AUTOTUNE, deterministic=False)
    assert sorted(numbers(dataset)) == list(range(NUM_ELEMENTS))
    assert "again" in changes


def test_in_any_order_a_position_is_good_wherever_it_is_taken() -> None:
    """What threads had begun is made again, by then in the caller's thread."""

    def unequal(i: Any) -> Any:
        time.sleep(0.0005 * (int(i) % 3))
        return i

    dataset = D.range(NUM_ELEMENTS).map(unequal, ps.AUTOTUNE, deterministic=False)
    for place in range(1, NUM_ELEMENTS, 4):
        with dataset.run(epoch=0) as run:
            first, state = [int(next(run)) for _ in range(place)], run.state_dict()
        with dataset.run(epoch=0) as run:
            run.load_state_dict(state)
            assert sorted(first + [int(x) for x in run]) == list(range(NUM_ELEMENTS))


def test_who_stops_at_any_place_leaves_nothing_behind() -> None:
    for place in range(1, 30):
        with D.range(NUM_ELEMENTS).map(large, ps.AUTOTUNE).run(memory="4MB") as run:
            assert numbers(next(run) for _ in range(place)) == list(range(place))
        assert run.ledger.charged_bytes == 0


def test_the_functions_errors_come_in_their_places() -> None:
    found: list[Any] = []
    with D.range(NUM_ELEMENTS).map(fails_at_some, ps.AUTOTUNE).run() as run:
        while True:
            try:
                found.append(int(next(run)[0]))
            except StopIteration:
                break
            except ValueError as error:
                found.append(str(error))
    assert found == [f"no {i}" if i % 7 == 3 else i for i in range(NUM_ELEMENTS)]
