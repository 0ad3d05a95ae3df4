"""Calls of map_fn's function: which may run beside each other."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.mapping.calls import MeasuredCalls
from penstock.mapping.elems import only_part
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
