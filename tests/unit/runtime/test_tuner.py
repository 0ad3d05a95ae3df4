"""The parallelism tuner against a clock of our own: what it chooses for which rates."""

import os
from typing import Any

import pytest

from penstock.options import AUTOTUNE
from penstock.runtime.backends import tuner as module
from penstock.runtime.backends.tuner import ParallelismTuner
from penstock.runtime.meter import Meter

MS = 1_000_000
START = max(2, os.cpu_count() or 1)


class Clock:
    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter_ns", clock)
    return clock


def tuned() -> tuple[ParallelismTuner, Meter]:
    meter = Meter("map")
    return ParallelismTuner(AUTOTUNE, meter), meter


def test_a_number_given_leaves_nothing_to_choose(clock: Clock) -> None:
    meter = Meter("map")
    tuner = ParallelismTuner(3, meter)
    assert (tuner.inline, tuner.level, meter.chosen) == (False, 3, {"num_parallel_calls": 3})
    for _ in range(100):
        clock.now += 50 * MS
        tuner.asked(starved=True)
        tuner.finished(10)
    assert tuner.level == 3


def test_cheap_calls_stay_inline() -> None:
    tuner, meter = tuned()
    for _ in range(1000):
        tuner.called_inline(1, 5_000)
    assert tuner.inline
    assert meter.chosen == {"num_parallel_calls": "inline"}


def test_one_expensive_call_is_enough_to_know() -> None:
    tuner, meter = tuned()
    tuner.called_inline(1, 120 * MS)
    assert not tuner.inline
    assert tuner.level == START
    assert meter.chosen == {"num_parallel_calls": START}


def test_calls_of_middling_cost_are_tried_some_times_first() -> None:
    tuner, _ = tuned()
    for _ in range(15):
        tuner.called_inline(1, 100_000)
        assert tuner.inline
    tuner.called_inline(1, 100_000)
    assert not tuner.inline


def climb(tuner: ParallelismTuner, clock: Clock, rate: Any, windows: int, starved: bool = True) -> list[int]:
    """Levels after each window, with `rate(level)` elements finished in 100 ms."""
    levels = []
    tuner.finished(0)
    for _ in range(windows):
        tuner.asked(starved=starved)
        elements = rate(tuner.level)
        clock.now += 101 * MS
        tuner.finished(elements)
        levels.append(tuner.level)
    return levels


def test_threads_are_added_while_they_help(clock: Clock) -> None:
    """A function that only waits: twice the threads, twice the rate, up to the most there may be."""
    tuner, meter = tuned()
    tuner.called_inline(1, 120 * MS)
    levels = climb(tuner, clock, lambda level: 10 * level, 12)
    assert levels == sorted(levels)
    assert levels[-1] == levels[-2] >= 32
    assert meter.chosen == {"num_parallel_calls": levels[-1]}


def test_the_last_step_that_did_not_help_is_taken_back(clock: Clock) -> None:
    tuner, meter = tuned()
    tuner.called_inline(1, 120 * MS)
    limit = START * 2
    levels = climb(tuner, clock, lambda level: 10 * min(level, limit), 8)
    assert max(levels) == limit * 2
    assert levels[-1] == limit
    assert meter.chosen == {"num_parallel_calls": limit}


def test_nothing_is_added_for_a_consumer_who_does_not_wait(clock: Clock) -> None:
    tuner, _ = tuned()
    tuner.called_inline(1, 120 * MS)
    assert climb(tuner, clock, lambda level: 10 * level, 10, starved=False) == [START] * 10


def test_no_conclusion_is_drawn_from_few_elements(clock: Clock) -> None:
    tuner, _ = tuned()
    tuner.called_inline(1, 120 * MS)
    assert climb(tuner, clock, lambda level: 1, 6) == [START] * 6


def test_one_call_that_was_interrupted_is_not_taken_for_an_expensive_one() -> None:
    tuner, meter = tuned()
    tuner.called_inline(1, 8 * MS)
    for _ in range(15):
        tuner.called_inline(1, 5_000)
    assert tuner.inline
    assert meter.chosen["num_parallel_calls"] == "inline"


def test_a_first_call_that_was_slow_does_not_outweigh_many_quick_ones() -> None:
    tuner, meter = tuned()
    tuner.called_inline(1, 300_000)  # whatever is done for the first time
    tuner.called_inline(32, 32 * 2_000)
    assert tuner.settled_inline
    assert meter.chosen["num_parallel_calls"] == "inline"


def test_three_calls_that_take_long_are_enough() -> None:
    tuner, _ = tuned()
    for _ in range(2):
        tuner.called_inline(1, 6 * MS)
        assert tuner.inline
    tuner.called_inline(1, 6 * MS)
    assert not tuner.inline


def tried(tuner: ParallelismTuner, each_ns: int, getting_ns: int = 0) -> None:
    for _ in range(16):
        tuner.called_inline(1, each_ns, getting_ns)
    assert not tuner.inline


def wait_for(tuner: ParallelismTuner, clock: Clock, count: int, wait_ns: int, own_ns: int = 0) -> int:
    """So many elements that the consumer waits for, and does something with; how many until threads are to end."""
    tuner.finished(0)
    for number in range(count):
        tuner.asked(starved=True)
        clock.now += wait_ns
        tuner.finished(1)
        assert tuner.served() == wait_ns
        clock.now += own_ns
        if tuner.leaving:
            return number + 1
    return count


@pytest.mark.parametrize("wait_ns, getting_ns, own_ns, most", [
    (420_000, 0, 0, 90),  # clear after 25 ms
    (210_000, 0, 0, 600),  # a little slower than none
    (550_000, 300_000, 0, 210),  # it would have to wait for the input, too
    (180_000, 0, 0, 1000),
    (190_000, 100_000, 0, 1000),
    (50_000, 0, 1_000_000, 1000),  # it hardly waits, as it has something else to do
])  # fmt: skip
def test_threads_that_are_no_quicker_than_none_end(
    wait_ns: int, getting_ns: int, own_ns: int, most: int, clock: Clock
) -> None:
    tuner, meter = tuned()
    tried(tuner, 200_000, getting_ns)
    num_made = wait_for(tuner, clock, 1000, wait_ns, own_ns)
    assert num_made <= most
    assert tuner.leaving == (most < 1000)
    assert (meter.chosen["num_parallel_calls"] == "inline") == tuner.leaving


def test_threads_are_tried_again_after_a_while(clock: Clock) -> None:
    """The machine was busy when they were tried."""
    tuner, meter = tuned()
    for pause_s in (2, 4, 8):
        tried(tuner, 200_000)
        assert wait_for(tuner, clock, 1000, 500_000) < 100
        tuner.inline = True  # as who calls it says, when all that threads began was taken
        for _ in range(pause_s):
            tuner.called_inline(10, 2 * MS)
            assert tuner.settled_inline
            clock.now += 1000 * MS
    tried(tuner, 200_000)
    assert wait_for(tuner, clock, 1000, 100_000) == 1000
    assert meter.chosen["num_parallel_calls"] >= START


def test_cheap_calls_are_not_tried_again(clock: Clock) -> None:
    tuner, _ = tuned()
    tuner.called_inline(32, 32 * 2_000)
    clock.now += 10**12
    tuner.called_inline(1, MS)
    assert tuner.settled_inline
