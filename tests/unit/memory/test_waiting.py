"""Waiting for room: a thread that works ahead waits until its consumer has taken something, and nobody else does."""

import threading

import pytest

from penstock.errors import ElementTooLarge, OverBudget
from penstock.memory.ledger import Ledger


def test_nobody_waits_unless_he_says_so() -> None:
    ledger = Ledger(100)
    share = ledger.share("a")
    share.charge(90)
    with pytest.raises(OverBudget):
        share.charge(20)


def test_who_may_wait_gets_what_is_released() -> None:
    ledger = Ledger(100)
    share, other = ledger.share("a"), ledger.share("b")
    lease = other.acquire(90)
    got = threading.Event()

    def work() -> None:
        with ledger.waiting_while(lambda: True):
            share.charge(20)
        got.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not got.wait(0.05)
    lease.release()
    assert got.wait(5)
    thread.join()
    assert ledger.charged_bytes == 20


def test_who_may_wait_no_longer_is_refused() -> None:
    ledger = Ledger(100)
    ledger.share("b").charge(90)
    share = ledger.share("a")
    hope = iter([True, True, False])
    with ledger.waiting_while(lambda: next(hope)), pytest.raises(OverBudget):
        share.charge(20)


def test_waiting_is_over_with_the_block_that_allowed_it() -> None:
    ledger = Ledger(100)
    share = ledger.share("a")
    share.charge(90)
    with ledger.waiting_while(lambda: True):
        pass
    with pytest.raises(OverBudget):
        share.charge(20)


def test_one_thing_that_does_not_fit_is_too_large() -> None:
    ledger = Ledger(100)
    with pytest.raises(ElementTooLarge, match="memory=150 or more"):
        ledger.share("a").charge(150, single=True)
    with pytest.raises(OverBudget) as refused:
        ledger.share("window").charge(150)
    assert type(refused.value) is OverBudget


def test_the_advice_may_know_better() -> None:
    ledger = Ledger(100)
    ledger.advise = lambda share, nbytes: 12_345
    with pytest.raises(OverBudget, match="memory=12_345 or more"):
        ledger.share("a").charge(150)
