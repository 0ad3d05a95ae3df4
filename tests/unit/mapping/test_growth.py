"""The watch over how far the process grows."""

import threading

import numpy as np

from penstock.mapping.growth import GrowthWatch
from penstock.memory.allocator import trim_heap

PATIENCE_S = 20


def test_growth_that_nobody_knows_of_is_told_once_and_again_after_a_look() -> None:
    trim_heap()  # of what others have left, which would go back in between
    known, rung = [0], threading.Semaphore(0)
    watch = GrowthWatch(lambda: known[0], rung.release)
    watch.start()
    try:
        first = np.ones(4_000_000)
        assert rung.acquire(timeout=PATIENCE_S)
        assert watch.absorb(0)
        watch.rearm()
        assert not rung.acquire(timeout=0.02)  # it is there, and will stay
        second = np.ones(4_000_000)
        assert rung.acquire(timeout=PATIENCE_S)
        assert first.sum() == second.sum()
        del second
        assert not watch.absorb(0)  # it has gone again
    finally:
        watch.stop()


def test_growth_that_is_known_is_no_reason() -> None:
    known, rung = [64_000_000], threading.Event()
    watch = GrowthWatch(lambda: known[0], rung.set)
    known[0] *= 2
    watch.start()
    try:
        held = np.ones(4_000_000)
        assert not rung.wait(0.02)
        known[0] = 0  # the same growth, that nobody answers for any more
        assert rung.wait(PATIENCE_S)
        assert held[-1] == 1
    finally:
        watch.stop()


def test_what_was_known_and_is_freed_is_no_reason() -> None:
    trim_heap()
    freed, rung = [128_000_000], []
    watch = GrowthWatch(lambda: 0, lambda: rung.append(1), freed_bytes=lambda: freed[0])
    held = np.ones(8_000_000)  # as malloc may hold it for those to come
    watch._look()
    assert not rung
    freed[0] = 0
    watch._look()
    assert rung == [1]
    assert held[-1] == 1


def test_who_is_about_to_call_looks_where_nobody_did() -> None:
    rung: list[int] = []
    watch = GrowthWatch(lambda: 0, lambda: rung.append(1))  # its thread is not started
    held = np.ones(8_000_000)
    watch.look_if_stale()
    assert rung == [1]
    assert watch.beyond_bytes > held.nbytes // 2
    watch.look_if_stale()  # nobody has seen to it yet
    assert rung == [1]


def test_a_little_that_stays_is_no_reason_for_much_that_went() -> None:
    watch = GrowthWatch(lambda: 0, lambda: None)
    much, little = np.ones(8_000_000), np.ones(500_000)
    watch.look_if_stale()
    del much
    assert not watch.absorb(0)
    assert little[0] == 1


def test_what_is_promised_counts_before_it_is_written_to() -> None:
    charged = [0]
    watch = GrowthWatch(lambda: 0, lambda: None, lambda: charged[0])
    try:
        assert not watch.sees_promise()
        held = np.empty(8_000_000)
        assert watch.sees_promise()
        charged[0] = held.nbytes
        assert not watch.sees_promise()  # it is known
        charged[0] = 0
        del held
        assert watch.forget_promises(0)  # it has gone
        held = np.empty(8_000_000)
        assert not watch.forget_promises(0)  # this one stays
        assert not watch.sees_promise()
        watch.expect_promises()
        watch.expect_promises()
        more = np.empty(4_000_000)
        assert not watch.sees_promise()
        assert held.size > more.size
    finally:
        watch.stop()
