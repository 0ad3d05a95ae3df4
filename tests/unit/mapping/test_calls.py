"""Calls of map_fn's function: which may run beside each other."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.mapping.calls import MeasuredCalls
from penstock.mapping.elems import only_part
from penstock.mapping.growth import GrowthWatch
from penstock.memory.ledger import Ledger

PATIENCE_S = 20
NUM_FIRST = 64


def in_thread(entry: Any, element: Any) -> threading.Thread:
    thread = threading.Thread(target=entry, args=(element,))
    thread.start()
    return thread


@pytest.mark.parametrize("size, waits", [(8_000_000, True), (1_000, False)], ids=["much", "little"])
def test_a_call_does_not_begin_beside_one_that_has_asked_for_much(size: int, waits: bool) -> None:
    num_small = [0]
    asked, may_end, began = threading.Event(), threading.Event(), threading.Event()

    def fn(element: str) -> int:
        if element == "large":
            held = np.empty(size)  # not written to: the process does not grow yet
            asked.set()
            assert may_end.wait(PATIENCE_S)
            return len(held)
        if element == "next":
            began.set()
        num_small[0] += 1
        return 0

    calls = MeasuredCalls(fn, only_part, num_parallel_calls=2)
    results: Any = SimpleNamespace(written_bytes=0)
    calls.begin(Ledger(16_000_000), results)
    entry = calls.entry()
    try:
        measured_at = -1
        while calls.num_measured == measured_at or num_small[0] < NUM_FIRST:  # the next to be measured is far away then
            measured_at = calls.num_measured
            in_thread(entry, "small").join()
        measured_at = calls.num_measured
        threads = [in_thread(entry, "large")]
        assert asked.wait(PATIENCE_S)
        threads.append(in_thread(entry, "next"))
        assert began.wait(0.1 if waits else PATIENCE_S) is not waits
        may_end.set()
        for thread in threads:
            thread.join()
        assert began.is_set()
        assert calls.num_measured == measured_at + waits
    finally:
        may_end.set()
        calls.close()


def test_an_alarm_that_comes_while_a_call_looks_at_promises_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = MeasuredCalls(lambda element: element, only_part, num_parallel_calls=2)
    results: Any = SimpleNamespace(written_bytes=0)
    calls.begin(Ledger(16_000_000), results)
    entry = calls.entry()

    def sees_promise(watch: GrowthWatch) -> bool:
        monkeypatch.undo()
        watch.beyond_bytes = 16_000_000
        calls._alarm()  # as the thread does that watches
        return True

    try:
        for _ in range(NUM_FIRST):
            in_thread(entry, 0).join()
        monkeypatch.setattr(GrowthWatch, "sees_promise", sees_promise)
        measured_at = calls.num_measured
        for _ in range(NUM_FIRST):
            in_thread(entry, 0).join()
        assert calls.num_measured == measured_at + NUM_FIRST  # all are due, not the next alone
    finally:
        calls.close()


@pytest.mark.parametrize("beyond_bytes, num_measured", [(5_000_000, 8), (9_000_000, 400)], ids=["within", "beyond"])
def test_all_calls_are_measured_only_where_the_budget_may_be_broken(beyond_bytes: int, num_measured: int) -> None:
    calls = MeasuredCalls(lambda element: element, only_part, num_parallel_calls=None)
    results: Any = SimpleNamespace(written_bytes=0)
    calls.begin(Ledger(16_000_000), results)
    entry, watch = calls.entry(), calls._watch
    assert watch is not None
    try:
        for _ in range(200):
            entry(0)
        watch.stop()  # what else this process does is no part of the test
        measured_at, calls._measured_ns = calls.num_measured, 1 << 60
        calls._next_number = 1 << 60
        watch.beyond_bytes, watch._baseline_bytes = beyond_bytes, 1 << 60
        calls._alarm()
        for _ in range(1_000):
            entry(0)
        assert calls.num_measured - measured_at == num_measured
    finally:
        calls.close()


def test_few_calls_are_looked_at_once_no_other_thread_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when threads turn out to be of no use."""
    num_careful = [0]
    with_care = MeasuredCalls._with_care

    def counted(calls: MeasuredCalls, element: Any) -> Any:
        num_careful[0] += 1
        return with_care(calls, element)

    monkeypatch.setattr(MeasuredCalls, "_with_care", counted)
    calls = MeasuredCalls(lambda element: element, only_part, num_parallel_calls=2)
    results: Any = SimpleNamespace(written_bytes=0)
    calls.begin(Ledger(16_000_000), results)
    entry = calls.entry()
    try:
        for _ in range(NUM_FIRST):
            in_thread(entry, 0).join()
            entry(0)
        assert num_careful == [2 * NUM_FIRST]  # all, while both call
        for _ in range(NUM_FIRST * 10):
            entry(0)
        assert num_careful[0] < NUM_FIRST * 4
        in_thread(entry, 0).join()
        assert calls._num_free <= 16  # which threads may come to have, if they are tried again
    finally:
        calls.close()
