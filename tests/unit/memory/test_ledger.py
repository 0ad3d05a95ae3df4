"""The ledger: whatever happens, no more is charged than the budget, and a floor is always there for its owner."""

import re
import threading
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from penstock.errors import BudgetTooSmall, OverBudget
from penstock.memory.ledger import Lease, Ledger, Share, format_bytes
from penstock.memory.pool import Pool
from penstock.memory.work_lock import WorkLock

SIZES = st.integers(0, 60)


class Accounts(RuleBasedStateMachine):
    """Leases taken, settled and released at random, against plain arithmetic on a dict."""

    leases = Bundle("leases")

    @initialize(budget=st.integers(1, 120), floors=st.lists(st.integers(0, 40), min_size=1, max_size=4))
    def open(self, budget: int, floors: list[int]) -> None:
        self.ledger = Ledger(budget)
        self.shares: list[Share] = []
        for i, floor in enumerate(floors):
            if sum(share.floor_bytes for share in self.shares) + floor <= budget:
                self.shares.append(self.ledger.share(f"stage {i}", floor))
            else:
                with pytest.raises(BudgetTooSmall):
                    self.ledger.share(f"stage {i}", floor)
        if not self.shares:
            self.shares.append(self.ledger.share("last", 0))
        self.held = {share.name: 0 for share in self.shares}
        self.ahead = {share.name: 0 for share in self.shares}
        self.sizes: dict[int, int] = {}

    def own(self, share: Share) -> int:
        """What is left of its floor: what is held ahead of others does not lie on it."""
        return max(0, share.floor_bytes - self.held[share.name] + self.ahead[share.name])

    def room(self, share: Share, ahead: bool = False) -> int:
        """What the contract promises: its own floor, and what all floors leave and nobody uses."""
        over = sum(max(self.ahead[s.name], self.held[s.name] - s.floor_bytes) for s in self.shares)
        slack = self.ledger.budget_bytes - sum(s.floor_bytes for s in self.shares) - over
        return slack if ahead else slack + self.own(share)

    def room_at_last(self, share: Share, ahead: bool = False) -> int:
        """The same when floors that were raised are given up, where nobody uses them."""
        unused = {
            s.name: max(0, s.floor_bytes - max(s.planned_bytes, self.held[s.name] - self.ahead[s.name]))
            for s in self.shares
        }
        of_its_own = 0 if ahead else unused[share.name]  # which was its own before
        return self.room(share, ahead) + sum(unused.values()) - of_its_own

    def grew(self, lease: Lease, share: Share, nbytes: int) -> None:
        self.held[share.name] += nbytes
        if lease.ahead:
            self.ahead[share.name] += nbytes
        self.sizes[id(lease)] = lease.nbytes

    @rule(target=leases, which=st.integers(0, 3), nbytes=SIZES, waits=st.booleans())
    def acquire(self, which: int, nbytes: int, waits: bool) -> Any:
        share = self.shares[which % len(self.shares)]
        # Who can do without leaves a tenth of the budget to those who cannot; its own floor is its own.
        spared = 0 if waits or nbytes <= self.own(share) else self.ledger.budget_bytes // 10
        fits = nbytes + spared <= (self.room_at_last(share) if waits else self.room(share))
        if waits and not fits:
            with pytest.raises(OverBudget):
                share.acquire(nbytes)
            return multiple()
        lease = share.acquire(nbytes) if waits else share.try_acquire(nbytes)
        assert (lease is not None) == fits
        if lease is None:
            return multiple()
        self.grew(lease, share, nbytes)
        return (lease, share)

    @rule(target=leases, which=st.integers(0, 3), nbytes=SIZES)
    def acquire_ahead(self, which: int, nbytes: int) -> Any:
        share = self.shares[which % len(self.shares)]
        lease = share.try_acquire(nbytes, ahead=True)
        assert (lease is not None) == (not nbytes or nbytes + self.ledger.headroom_bytes <= self.room(share, True))
        if lease is None:
            return multiple()
        self.grew(lease, share, nbytes)
        return (lease, share)

    @rule(taken=leases)
    def come_first(self, taken: tuple[Lease, Share]) -> None:
        lease, share = taken
        if lease.ahead:
            self.ahead[share.name] -= lease.nbytes
        lease.come_first()
        assert not lease.ahead

    @rule(which=st.integers(0, 3), nbytes=SIZES)
    def ask(self, which: int, nbytes: int) -> None:
        """Asking for room is not taking it: nothing changes, not even the peak."""
        share = self.shares[which % len(self.shares)]
        before = (self.ledger.charged_bytes, self.ledger.peak_bytes, share.peak_bytes)
        assert share.free_bytes == self.room(share)
        assert share.has_room(nbytes) == (nbytes <= self.room(share))
        assert share.has_room(nbytes, ahead=True) == (nbytes <= self.room(share, True))
        assert (self.ledger.charged_bytes, self.ledger.peak_bytes, share.peak_bytes) == before

    @rule(which=st.integers(0, 3), nbytes=SIZES)
    def raise_floor(self, which: int, nbytes: int) -> None:
        """Sets aside what the slack has, and what of it the share uses already; never takes from others' floors."""
        share = self.shares[which % len(self.shares)]
        before, slack = share.floor_bytes, self.ledger.slack_bytes
        used = max(0, self.held[share.name] - self.ahead[share.name] - before)
        share.raise_floor(nbytes)
        assert share.floor_bytes == before + max(0, min(nbytes - before, slack + used))
        assert sum(s.floor_bytes for s in self.shares) <= self.ledger.budget_bytes
        assert self.ledger.slack_bytes >= 0

    @rule(taken=leases, nbytes=SIZES)
    def settle(self, taken: tuple[Lease, Share], nbytes: int) -> None:
        lease, share = taken
        more = nbytes - lease.nbytes
        if more > 0 and more > self.room_at_last(share, lease.ahead):
            with pytest.raises(OverBudget):
                lease.settle(nbytes)
        else:
            lease.settle(nbytes)
            self.grew(lease, share, more)

    @rule(taken=consumes(leases))
    def release(self, taken: tuple[Lease, Share]) -> None:
        lease, share = taken
        self.grew(lease, share, -lease.nbytes)
        lease.release()
        lease.release()  # a second time does nothing

    @precondition(lambda self: hasattr(self, "ledger"))
    @invariant()
    def the_books_balance(self) -> None:
        ledger = self.ledger
        assert 0 <= ledger.charged_bytes <= ledger.budget_bytes
        assert ledger.charged_bytes == sum(self.held.values())
        assert ledger.charged_bytes <= ledger.peak_bytes <= ledger.budget_bytes
        for share in self.shares:
            assert share.charged_bytes == self.held[share.name] <= share.peak_bytes

    @precondition(lambda self: hasattr(self, "ledger"))
    @invariant()
    def every_floor_is_there_for_its_owner(self) -> None:
        for share in self.shares:
            left = self.own(share)
            if left > 0:
                lease = share.try_acquire(left)
                assert lease is not None
                lease.release()

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.slack_bytes <= self.ledger.budget_bytes


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=30)


def test_slack_is_what_the_floors_leave() -> None:
    ledger = Ledger(100)
    first, second = ledger.share("first", 30), ledger.share("second", 20)
    assert ledger.slack_bytes == 50
    lease = first.acquire(70)  # its floor, and 40 of the slack
    assert ledger.slack_bytes == 10
    assert second.try_acquire(31) is None
    assert second.try_acquire(30) is None  # the last tenth is for those who cannot do without
    assert second.acquire(30) is not None
    lease.release()
    assert ledger.slack_bytes == 40
    assert ledger.peak_bytes == 100


def test_what_is_held_without_need_is_let_go_before_a_refusal() -> None:
    ledger = Ledger(100)
    hoarder, needy = ledger.share("hoarder"), ledger.share("needy")
    hoard = hoarder.acquire(80)
    asked: list[int] = []

    def let_go() -> None:
        asked.append(ledger.charged_bytes)
        hoard.release()

    ledger.on_shortage(let_go)
    needy.acquire(20)
    assert asked == []  # there was room
    assert needy.has_room(50)
    assert asked == [100]
    needy.acquire(50)
    assert ledger.charged_bytes == 70
    assert needy.try_acquire(31) is None


def test_who_leaves_while_others_are_asked_ends_nothing() -> None:
    """Another thread, or a garbage collection, takes back what it had named in the midst of the list."""
    ledger = Ledger(100)
    asked: list[str] = []
    leave = [ledger.on_shortage(lambda: asked.append("one")), ledger.on_shortage(lambda: asked.append("other"))]

    class Leaving:
        def __bool__(self) -> bool:
            leave.pop()()
            return True

    ledger.let_go(10, cast("bool", Leaving()))
    ledger.let_go(10)
    assert asked == ["one", "other"]


def test_each_thread_is_given_what_it_asked_for() -> None:
    """Two are short at a time: who lets go must not take the wish of one for that of the other."""
    ledger = Ledger(100)
    hoarder, needy = ledger.share("hoarder"), ledger.share("needy")
    hoard = hoarder.acquire(90)
    main = threading.get_ident()

    def let_go() -> None:
        if threading.get_ident() == main:
            other = threading.Thread(target=ledger.let_go, args=(11,))
            other.start()
            other.join()
            hoard.settle(hoard.nbytes - hoarder.lacking_bytes)

    ledger.on_shortage(let_go)
    needy.charge(60)
    assert (hoard.nbytes, needy.charged_bytes) == (40, 60)


def test_giving_back_more_than_was_held_is_caught() -> None:
    share = Ledger(100).share("batch")
    share.charge(10)
    with pytest.raises(AssertionError, match="batch gave back more than it held"):
        share.discharge(11)


def test_a_lease_that_shrinks_gives_the_rest_back() -> None:
    ledger = Ledger(100)
    lease = ledger.share("map").acquire(80)
    lease.settle(30)
    assert ledger.charged_bytes == lease.nbytes == 30


def test_a_refused_settlement_changes_nothing() -> None:
    ledger = Ledger(100)
    lease = ledger.share("map").acquire(80)
    with pytest.raises(OverBudget):
        lease.settle(101)
    assert ledger.charged_bytes == lease.nbytes == 80
    lease.release()
    assert ledger.charged_bytes == 0


# --- texts ---


def told(error: Exception) -> str:
    """A refusal without the name of the stage, which may stand in front of it."""
    return re.sub(r"^batch( at a\.py:4)?: ", "", str(error))


def test_a_refusal_says_asked_held_left_and_who_holds() -> None:
    ledger = Ledger(10_000_000)
    for name, nbytes in (("shuffle at a.py:1", 4_000_000), ("cache at a.py:2", 3_500_000), ("map at a.py:3", 1000)):
        ledger.share(name).charge(nbytes)
    idle = ledger.share("batch at a.py:4")
    with pytest.raises(OverBudget) as caught:
        idle.charge(5_000_000)
    assert told(caught.value) == (
        "asked for 5 MB more and holds 0 B; 2.5 MB of the 10 MB budget are left to it "
        "(held: shuffle at a.py:1 4 MB, cache at a.py:2 3.5 MB, map at a.py:3 1 kB); "
        "use memory=12_501_000 or more, or make the stage hold less"
    )
    assert isinstance(caught.value, MemoryError)


def test_a_refusal_adds_up() -> None:
    ledger = Ledger(10_000)
    for name, floor, held in (("a", 2000, 500), ("b", 0, 1000), ("c", 300, 700), ("d", 100, 200), ("e", 0, 50)):
        ledger.share(name, floor).charge(held)
    share = ledger.share("batch", 1000)
    share.charge(100)
    with pytest.raises(OverBudget) as caught:
        share.charge(9000)
    # 5950 + 2550 + 1500 are the 10 kB.
    assert told(caught.value) == (
        "asked for 9 kB more and holds 100 B; 5.95 kB of the 10 kB budget are left to it "
        "(held: b 1 kB, c 700 B, a 500 B, the rest 350 B; set aside for others: 1.5 kB); "
        "use memory=13_050 or more, or make the stage hold less"
    )


def test_a_refusal_names_what_other_runs_have() -> None:
    pool = Pool(1000)
    Ledger(1000, pool).share("other").charge(600)
    with pytest.raises(OverBudget, match=r"400 B of the 1 kB budget .*\(taken by other runs: 600 B\)"):
        Ledger(1000, pool).share("batch").charge(500)


def test_a_refusal_of_the_first_charge_names_no_holders() -> None:
    with pytest.raises(OverBudget) as caught:
        Ledger(1000).share("batch").charge(1500)
    assert told(caught.value) == (
        "asked for 1.5 kB more and holds 0 B; 1 kB of the 1 kB budget are left to it; "
        "use memory=1_500 or more, or make the stage hold less"
    )


@pytest.mark.parametrize(
    "floors, held, nbytes", [([0, 0], 0, 120), ([60, 0], 0, 50), ([60, 20], 30, 70), ([0, 50], 70, 101)]
)
def test_the_budget_that_a_refusal_advises_is_the_smallest_that_works(
    floors: list[int], held: int, nbytes: int
) -> None:
    def attempt(budget: int) -> None:
        ledger = Ledger(budget)
        shares = [ledger.share(str(i), floor) for i, floor in enumerate(floors)]
        shares[1].charge(held)
        shares[1].charge(nbytes)

    with pytest.raises(OverBudget) as caught:
        attempt(100)
    advised = int(str(caught.value).split("memory=")[1].split()[0])
    attempt(advised)
    with pytest.raises(OverBudget):
        attempt(advised - 1)


def test_floors_that_do_not_fit_are_a_table() -> None:
    ledger = Ledger(10_000_000)
    ledger.share("shuffle at a.py:1", 8_000_000)
    ledger.share("map at a.py:2")
    with pytest.raises(BudgetTooSmall) as caught:
        ledger.share("batch at a.py:3", 3_000_000)
    assert str(caught.value) == (
        "the stages need 11 MB and the budget is 10 MB:\n"
        "  shuffle at a.py:1                              8 MB\n"
        "  batch at a.py:3                                3 MB\n"
        "use memory=11_000_000 or more"
    )
    assert len(ledger.shares) == 2  # nothing was set aside for the one that did not fit
    assert ledger.slack_bytes == 2_000_000


@pytest.mark.parametrize("nbytes, text", [
    (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_536, "1.54 kB"), (64_000_000, "64 MB"), (999_744, "1 MB"),
    (999_400, "999 kB"), (2 << 30, "2.15 GB"), (5 * 10**12, "5 TB"),
])  # fmt: skip
def test_sizes_for_people(nbytes: int, text: str) -> None:
    assert format_bytes(nbytes) == text


def test_who_is_at_work_in_another_thread_is_asked_again() -> None:
    ledger = Ledger(100)
    holder, asker = ledger.share("holder"), ledger.share("asker")
    lock, asked, at_work = WorkLock(), threading.Event(), threading.Event()

    def let_go() -> bool:
        if not lock.try_acquire():
            asked.set()
            return lock.is_anothers
        try:
            holder.discharge(holder.charged_bytes)
        finally:
            lock.release()
        return False

    def work() -> None:
        with lock:
            at_work.set()
            asked.wait(timeout=30)

    holder.charge(80)
    holder.on_shortage(let_go)
    worker = threading.Thread(target=work)
    worker.start()
    at_work.wait(timeout=30)
    asker.charge(60)  # refused at the first try, and not in the end
    worker.join(timeout=30)
    assert (holder.charged_bytes, asker.charged_bytes) == (0, 60)


def test_who_is_at_its_own_work_is_not_waited_for() -> None:
    ledger = Ledger(100)
    share, lock, asked = ledger.share("stage"), WorkLock(), []

    def let_go() -> bool:
        asked.append(lock.try_acquire())
        return lock.is_anothers

    share.charge(80)
    share.on_shortage(let_go)
    with lock, pytest.raises(OverBudget):
        share.charge(60)
    assert asked == [False]


def test_who_has_the_lock_and_has_not_said_so_yet_is_another() -> None:
    lock = WorkLock()
    lock._lock.acquire()  # as a thread has it that waited for it, until it runs again
    assert not lock.try_acquire()
    assert lock.is_anothers


def test_what_another_run_takes_that_was_let_go_of_is_asked_for_again() -> None:
    pool = Pool(100)
    asker, other = Ledger(100, pool), Ledger(100, pool)
    wants, holder, taker = asker.share("asker"), other.share("holder"), other.share("taker")
    num_asked = []

    def let_go() -> bool:
        num_asked.append(1)
        holder.discharge(min(30, holder.charged_bytes))
        if len(num_asked) == 1:  # as its own thread may, before the asker goes on
            taker.charge(20)
        return False

    holder.charge(60)
    wants.charge(20)
    other.on_shortage(let_go)
    wants.charge(40)
    assert (len(num_asked), wants.charged_bytes, pool.taken_bytes) == (2, 60, 80)
    with pytest.raises(OverBudget):
        wants.charge(21 + 60)  # more than there is, and nobody takes anything
    other.close()
    asker.close()


@pytest.mark.parametrize("pool", [None, Pool(100)])
def test_floors_that_were_raised_are_given_up_before_anybody_is_refused(pool: Pool | None) -> None:
    ledger = Ledger(100, pool)
    planned, raised, asker = ledger.share("planned", 20), ledger.share("raised", 10), ledger.share("asker")
    raised.raise_floor(60)
    held = raised.acquire(25)
    lease = asker.acquire(50)  # 20 planned and 25 in use stay; 5 are free
    assert (planned.floor_bytes, raised.floor_bytes, ledger.charged_bytes) == (20, 25, 75)
    with pytest.raises(OverBudget):
        asker.acquire(6)
    lease.release()
    held.release()
    ledger.close()
    assert pool is None or pool.taken_bytes == 0
