"""Meters: each stage has its own time and its own counts."""

import json
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.cursor import UnaryCursor
from penstock.element import LEAF, Failed
from penstock.io.numbers import Range
from penstock.plan.node import Node
from penstock.runtime import meter as module
from penstock.runtime.meter import Meter, MeteredCursor
from tests.unit.fakes import ListCursor, all_of

MS = 1_000_000

NODE = Node(Range(3))


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter_ns", clock)
    return clock


class Slow(UnaryCursor):
    """Takes its time for each pull, before its input does."""

    def __init__(self, input: Any, clock: Clock, ms: int) -> None:
        super().__init__(input)
        self.clock, self.ms = clock, ms

    def pull(self, n: int) -> Block | None:
        self.clock.now += self.ms * MS
        return self.input.pull(n)


def test_a_stage_is_busy_for_its_own_work_only(clock: Clock) -> None:
    source, upper = Meter("source"), Meter("upper")
    inner = MeteredCursor(Slow(ListCursor([1, 2, 3]), clock, 5), NODE, source, upper)
    outer = MeteredCursor(Slow(inner, clock, 2), NODE, upper, None)
    assert all_of(outer, 1) == [1, 2, 3]
    assert source.busy_s == pytest.approx(4 * 0.005)  # three elements, and the end
    assert upper.busy_s == pytest.approx(4 * 0.002)
    assert upper.waiting_s == source.waiting_s == 0


def test_a_thread_pulls_in_no_ones_time(clock: Clock) -> None:
    source, upper = Meter("source"), Meter("upper")
    inner = MeteredCursor(Slow(ListCursor([1]), clock, 5), NODE, source, upper, in_its_time=False)
    inner.pull(1)
    assert source.busy_s == pytest.approx(0.005)
    assert upper.inputs_ns == 0


def test_waiting_is_not_work_and_the_work_of_threads_is() -> None:
    meter = Meter("map", elapsed_ns=10 * MS, inputs_ns=2 * MS, waiting_ns=7 * MS, worker_ns=30 * MS)
    assert meter.busy_s == pytest.approx(0.031)
    assert meter.waiting_s == pytest.approx(0.007)
    assert Meter("map", elapsed_ns=1, inputs_ns=5).busy_s == 0


def test_elements_bytes_and_pulls_are_counted() -> None:
    meter = Meter("map")
    blocks = [Block.of_columns(LEAF, [np.zeros((4, 2))], 4), Block.of_rows([np.zeros(3), np.zeros(3)]), None]

    class Given(ListCursor):
        def pull(self, n: int) -> Block | None:
            return blocks.pop(0)

    cursor = MeteredCursor(Given([]), NODE, meter, None)
    while cursor.pull(4) is not None:
        pass
    assert (meter.num_elements, meter.num_bytes, meter.num_pulls, meter.num_failed) == (6, 64 + 48, 2, 0)


def test_failures_are_counted_where_they_come_from_and_where_they_go() -> None:
    lower, upper = Meter("lower"), Meter("upper")
    all_of(MeteredCursor(ListCursor([1, Failed(ValueError()), 3]), NODE, lower, upper), 2)
    assert (lower.num_failed, lower.num_elements, upper.num_failed_in) == (1, 3, 1)


def test_everything_else_is_passed_on() -> None:
    source = ListCursor(list(range(10)))
    cursor = MeteredCursor(source, NODE, Meter("map"), None)
    assert cursor.skip(3) == 3
    assert cursor.state() == 3
    cursor.restore(5)
    cursor.lost(2)
    assert (source.place, source.lost_elements) == (5, 2)
    cursor.close()
    assert source.num_closed == 1


def test_the_busy_stage_of_a_run_is_found() -> None:
    """What stats are for: the map does the work here, and nobody else."""

    def work(x: Any) -> Any:
        return sum(range(60_000)) + x

    with ps.Dataset.range(150).map(work).batch(15).prefetch(1).run() as run:
        list(run)
        stages = {stage["name"].split("(")[0]: stage for stage in run.stats()["stages"]}
    assert max(stages, key=lambda name: stages[name]["busy_s"]) == "map"
    assert stages["prefetch"]["waiting_s"] > 0
    json.dumps(run.stats())


def test_failures_are_not_in_what_elements_take_on_average() -> None:
    class Blocks(UnaryCursor):
        def pull(self, n: int) -> Block | None:
            return Block.of_rows([Failed(ValueError("no")), np.zeros(10), Failed(ValueError("no")), np.zeros(10)])

    meter = Meter("upper")
    MeteredCursor(Blocks(ListCursor([])), NODE, meter, None).pull(4)
    assert (meter.num_elements, meter.num_failed, meter.largest_bytes, meter.typical_bytes) == (4, 2, 80, 80)


def test_makers_hear_that_what_they_gave_is_counted_elsewhere() -> None:
    """Else an element that has crossed to another thread would be on two accounts until the next is asked for."""
    heard: list[str] = []

    class Maker(ListCursor):
        def used_up(self) -> None:
            heard.append("used up")

    MeteredCursor(Maker([1]), NODE, Meter("source"), None).used_up()
    assert heard == ["used up"]
