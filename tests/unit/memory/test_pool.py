"""The pool: runs that share it never hold more than it together, and get back what others let go."""

import threading
from collections.abc import Callable

import pytest

from penstock.errors import BudgetTooSmall, OverBudget
from penstock.memory.ledger import Ledger
from penstock.memory.pool import Pool


def test_two_ledgers_never_hold_more_than_the_pool() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    a, b = first.share("a", 30), second.share("b", 30)
    assert pool.taken_bytes == 60
    lease = a.acquire(65)
    assert pool.taken_bytes == 95
    with pytest.raises(OverBudget, match="5 B of the 100 B budget are left"):
        b.acquire(36)
    assert b.acquire(35).nbytes == 35
    lease.release()
    assert pool.taken_bytes == 30 + 35
    assert first.charged_bytes + second.charged_bytes <= 100


def test_floors_of_a_run_that_does_not_fit_are_refused_with_what_others_hold() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    first.share("a", 80).charge(80)
    with pytest.raises(
        BudgetTooSmall, match=r"100 B, of which other open runs and caches hold 80 B: ps.set_memory\(110\)"
    ):
        second.share("b", 30)
    assert pool.taken_bytes == 80


def test_closing_gives_everything_back() -> None:
    pool = Pool(100)
    ledger = Ledger(100, pool)
    share = ledger.share("a", 30)
    lease = share.acquire(50)
    share.raise_floor(60)
    assert pool.taken_bytes == 60
    lease.release()
    ledger.close()
    assert pool.taken_bytes == 0
    assert pool.free_bytes == 100


@pytest.mark.parametrize(
    "floor, raised, charged", [(0, 0, 40), (30, 30, 10), (30, 50, 40), (30, 90, 95), (30, 30, 100)]
)
def test_what_is_taken_is_floors_and_slack(floor: int, raised: int, charged: int) -> None:
    pool = Pool(100)
    ledger = Ledger(100, pool)
    share = ledger.share("a", floor)
    lease = share.acquire(charged)
    share.raise_floor(raised)
    assert pool.taken_bytes == max(share.floor_bytes, charged)
    ledger.close()
    assert pool.taken_bytes == 0
    lease.release()  # late, and none of the pool's business any more
    assert (pool.taken_bytes, ledger.charged_bytes) == (0, 0)


def test_others_are_asked_to_let_go() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    hoarder = first.share("cache")
    lease = hoarder.acquire(100)
    first.on_shortage(lease.release)
    assert second.share("b").acquire(60).nbytes == 60
    assert first.charged_bytes == 0


def test_who_is_short_waits_for_a_run_that_is_at_work() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    lease = first.share("shuffle").acquire(80)
    times_asked = 0
    awaited: list[int] = []

    def give_way() -> bool:
        nonlocal times_asked
        times_asked += 1
        awaited.append(pool.awaited_bytes)
        if times_asked == 3:
            lease.release()
        return times_asked < 3

    first.on_shortage(give_way)
    second.share("window").charge(50)
    assert times_asked == 3
    assert awaited == [0, 50, 50]  # the others know
    assert pool.awaited_bytes == 0


def one_at_work(pool: Pool, nbytes: int) -> Ledger:
    """A run that holds so much beyond its floors, and gives it back when it is asked for the sixth time."""
    ledger = Ledger(pool.total_bytes, pool)
    lease = ledger.share("shuffle").acquire(nbytes)
    answers = iter([True] * 5 + [False])

    def give_way() -> bool:
        at_work = next(answers)
        if not at_work:
            lease.release()
        return at_work

    ledger.on_shortage(give_way)
    return ledger


def test_another_run_that_is_at_work_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a wait early is for those who wait for each other."""
    monkeypatch.setattr("penstock.memory.ledger._PUT_OFF_S", 1e-9)
    pool = Pool(100)
    first, second = one_at_work(pool, 80), Ledger(100, pool)
    second.share("window").charge(50)
    assert (first.charged_bytes, second.charged_bytes) == (0, 50)


def test_a_run_that_opens_gives_another_at_work_its_time() -> None:
    pool = Pool(100)
    first, second = one_at_work(pool, 80), Ledger(100, pool)
    assert pool.take_floors(second, 50, wait_s=1e-9)
    assert first.charged_bytes == 0


def test_who_has_only_floors_is_not_waited_for() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    first.share("shuffle", 60).charge(60)
    asked: list[bool] = []
    first.on_shortage(lambda: asked.append(True) or True)
    with pytest.raises(OverBudget):
        second.share("window").charge(50)
    assert len(asked) == 1


def test_two_that_wait_for_each_other_end_their_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is refused at least. When that run is over, the other may go on."""
    monkeypatch.setattr("penstock.memory.ledger._PUT_OFF_S", 0.1)
    monkeypatch.setattr("penstock.memory.ledger._BUSY_S", 60.0)  # for those who do not wait themselves
    pool = Pool(100)
    ledgers = [Ledger(100, pool), Ledger(100, pool)]
    both_wait = threading.Barrier(2, timeout=10)
    refused: list[OverBudget] = []

    def work(ledger: Ledger) -> None:
        share = ledger.share("shuffle")
        lease = share.acquire(50)
        at_work = ledger.on_shortage(lambda: True)
        both_wait.wait()
        try:
            share.charge(20)
            share.discharge(20)
        except OverBudget as error:
            refused.append(error)
        at_work()
        lease.release()
        ledger.close()

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= len(refused) <= 2
    assert (pool.taken_bytes, pool.awaited_bytes) == (0, 0)


def test_who_is_read_gives_way_to_one_who_waits() -> None:
    pool = Pool(100)
    first = Ledger(100, pool)
    share = first.share("shuffle", 20)
    lease = share.acquire(80)
    first.on_shortage(lambda: lease.settle(lease.nbytes - min(first.lacking_bytes, share.slack_used_bytes)))
    assert not first.should_give_way
    with pool.awaiting(50):
        assert first.should_give_way
        first.give_way()
        assert lease.nbytes == 50
        assert not first.should_give_way
    with pool.awaiting(100):
        first.give_way()
        assert lease.nbytes == 20
        assert not first.should_give_way  # the floor is its own


def test_two_that_are_short_do_not_ask_each_other_for_ever() -> None:
    pool = Pool(10)
    first, second = Ledger(10, pool), Ledger(10, pool)
    a, b = first.share("a"), second.share("b")
    first.on_shortage(lambda: a.has_room(5) and None)
    second.on_shortage(lambda: b.has_room(5) and None)
    a.charge(10)
    with pytest.raises(OverBudget):
        b.charge(5)


def test_who_opens_a_run_may_have_the_others_let_go() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    lease = first.share("cache").acquire(90)
    first.on_shortage(lease.release)
    assert second.share("batch", 60).floor_bytes == 60


def test_a_smaller_pool_takes_effect_at_once() -> None:
    pool = Pool(100)
    ledger = Ledger(100, pool)
    share = ledger.share("a")
    lease = share.acquire(60)
    pool.resize(50)
    assert pool.free_bytes == 0
    assert share.try_acquire(1) is None
    share.acquire(40).release()  # that much was free, and somebody may have counted on it
    with pytest.raises(OverBudget):
        share.acquire(1)
    lease.release()
    assert share.acquire(50).nbytes == 50


def test_a_smaller_pool_asks_for_all_that_is_overdrawn() -> None:
    pool = Pool(100)
    ledger = Ledger(100, pool)
    hoarder, other = ledger.share("shuffle"), ledger.share("batch", 10)
    hoarder.charge(80)
    asked: list[int] = []

    def give_way() -> None:
        asked.append(hoarder.lacking_bytes)
        hoarder.discharge(hoarder.lacking_bytes)

    ledger.on_shortage(give_way, of_use=True)
    pool.resize(30)
    assert asked == [60]  # 80 and 10 of 30
    assert pool.taken_bytes == 30
    other.charge(15)
    assert asked == [60, 5]
    assert hoarder.budget_bytes == 30


def test_floors_stay_in_a_pool_that_is_smaller_than_they() -> None:
    pool = Pool(100)
    ledger = Ledger(100, pool)
    share, other = ledger.share("batch", 40), ledger.share("map")
    ledger.needs = lambda: [(share, 60), (other, 5)]  # seen, and not in use now
    pool.resize(20)
    assert (share.floor_bytes, other.floor_bytes, pool.taken_bytes, pool.free_bytes) == (60, 5, 65, 0)
    share.charge(60)
    other.charge(35)
    other.discharge(30)  # 60 were free before, of which 30 are left to who cannot do without
    other.charge(30)
    other.discharge(30)
    with pytest.raises(OverBudget, match=r"the pool that runs share is 20 B.*ps.set_memory\(66\)"):
        share.charge(1)
    pool.resize(66)
    share.charge(1)
    ledger.close()
    assert pool.taken_bytes == 0


def test_an_open_run_may_use_a_larger_pool() -> None:
    pool = Pool(100)
    share = Ledger(100, pool).share("shuffle")
    pool.resize(300)
    assert share.budget_bytes == share.free_bytes == 300
    share.charge(300)


def test_who_opens_waits_for_one_who_is_at_work_and_nobody_takes_what_it_waits_for() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    hoarder, eager = first.share("shuffle"), first.share("map", 10)
    lease = hoarder.acquire(80)
    was_asked = threading.Event()
    first.on_shortage(was_asked.set)
    results: list[bool] = []
    opener = threading.Thread(target=lambda: results.append(pool.take_floors(second, 50, wait_s=10)))
    opener.start()
    assert was_asked.wait(10)
    lease.settle(45)
    assert eager.try_acquire(12) is None  # it is for who opens, though it is free
    eager.charge(12)  # who must have it gets it
    eager.discharge(12)
    lease.settle(30)
    opener.join(10)
    assert results == [True]
    assert pool.taken_bytes == 30 + 10 + 50
    assert eager.try_acquire(10) is not None


def test_floors_that_can_never_fit_are_refused_at_once() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    first.share("a", 60)
    assert not pool.take_floors(second, 50, wait_s=1e9)
    assert pool.awaited_bytes == 0


def test_what_an_open_run_was_seen_to_need_is_not_given_to_another() -> None:
    pool = Pool(100)
    first, second = Ledger(100, pool), Ledger(100, pool)
    share = first.share("batch")
    first.needs = lambda: [(share, 60)]
    first.share("shuffle").charge(30)
    assert not pool.take_floors(second, 71, wait_s=0)
    assert share.floor_bytes == 60
    assert pool.held_by_others(second, 0) == (90, 60)


def test_runs_that_open_at_the_same_time_wait_in_turn() -> None:
    pool = Pool(100)
    first = Ledger(100, pool)
    lease = first.share("cache").acquire(100)
    others = [Ledger(100, pool) for _ in range(4)]
    asked = threading.Barrier(2, timeout=10)

    def give_way() -> None:
        if lease.nbytes:
            asked.wait()
            lease.release()

    first.on_shortage(give_way)
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda other=other: results.append(pool.take_floors(other, 25, wait_s=10)))
        for other in others
    ]
    for thread in threads:
        thread.start()
    asked.wait()
    for thread in threads:
        thread.join(10)
    assert results == [True] * 4
    assert pool.taken_bytes == 100


def test_threads_of_two_runs_keep_the_books() -> None:
    pool = Pool(1000)
    ledgers = [Ledger(1000, pool) for _ in range(2)]

    def work(ledger: Ledger, seed: int) -> None:
        share = ledger.share(f"stage {seed}")
        for i in range(300):
            lease = share.try_acquire((seed * 31 + i * 17) % 200)
            assert pool.taken_bytes <= 1000
            if lease is not None:
                lease.release()

    threads = [threading.Thread(target=work, args=(ledgers[i % 2], i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.taken_bytes == 0


def test_many_runs_are_asked_once_each() -> None:
    pool = Pool(1000)
    ledgers = [Ledger(1000, pool) for _ in range(12)]
    asked = [0] * len(ledgers)

    def count(i: int) -> Callable[[], None]:
        def release() -> None:
            asked[i] += 1

        return release

    releases = [count(i) for i in range(len(ledgers))]
    for ledger, release in zip(ledgers, releases, strict=True):
        ledger.on_shortage(release, of_use=True)
    assert not ledgers[0].try_charge(ledgers[0].share("a"), 2000)
    assert asked == [1] * len(ledgers)
    # For who can do without, nobody gives up what is of use, in this run or another.
    assert not ledgers[0].share("b").try_charge(2000)
    assert asked == [1] * len(ledgers)
