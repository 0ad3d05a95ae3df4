"""The ledger: every byte a run holds is on it before it exists.

The contract:

1. A run has one Ledger with a budget. Each stage has a Share of it.
2. A Share has a *floor*, set aside for it alone, and may draw on the common *slack*, which is what the floors leave.
3. A stage takes a Lease before bytes exist, settles it when their true size is known, and releases it when they leave.
4. Who can do without asks with `try_acquire`, which never waits, and leaves a tenth of the budget (the headroom) to
   those who cannot: to results that turn out larger than was reserved for them.
5. A stage that makes several things at a time holds only the first in turn on its floor, and the others on the slack
   alone (*ahead*). So the one that its consumer waits for can always grow to what the floor is meant for.
6. Who cannot do without asks with `charge` or `acquire`. When there is no room, all that hold more than they need are
   asked to let go. A thread that works ahead then waits until its consumer has taken something (`waiting_while`); for
   all others the answer is `OverBudget`, or `ElementTooLarge` for one thing that does not fit. So nobody waits for what
   only he himself could release. Only who was asked and is at work in another thread, of this run or of another one in
   the pool, is waited for and asked again, for a while: he may be waiting, too.
7. `charged_bytes <= budget_bytes` at every moment.

Not on the ledger: the user's own arrays, the interpreter, temporaries of a user's function (but for `map_fn`'s), and
batches that were handed to the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter

from ..ending import Ending
from .lease import Lease
from .pool import Pool
from .refusal import format_bytes, too_small
from .share import Share
from .withheld import Withheld

__all__ = ["Lease", "Ledger", "Share", "format_bytes"]

# A thread that waits for room looks again after so long: what it waits for may come free without anybody telling.
_LOOK_AGAIN_S = 0.02
# Who was asked for memory while at work may wait for some itself, and for this thread: it is waited for only so long.
_PUT_OFF_S = 2.0
# So long if that is another run which does not wait itself. On a busy machine, or with slow functions, it takes its
# time; to be refused would be worse than to wait.
_BUSY_S = 10.0


class Ledger:
    """The account of one run's bytes, and of its part in a pool that several runs have in common."""

    def __init__(self, budget_bytes: int, pool: Pool | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.headroom_bytes = budget_bytes // 10
        self.charged_bytes = 0
        self.peak_bytes = 0
        self.under_pressure = False
        #: Whether stages make one element at a time, to see what they need.
        self.frugal = False
        #: Whether no element was delivered yet, and some stages cannot know what they will need for one.
        self.is_untried = False
        #: Whether that one could not tell what some stages will need, and the budget has little to spare for it.
        self.has_unknown = False
        self.shares: list[Share] = []
        #: Says how large a budget would have to be, knowing what was seen so far, and that a share was refused so many
        #: bytes for one thing (or 0); None where nobody knows better.
        self.advise: Callable[[Share, int], int | None] = _no_advice
        #: Says what shares were seen to need at least.
        self.needs: Callable[[], list[tuple[Share, int]]] = list
        self.ending = Ending()
        #: Told of bytes before they are charged, in any thread.
        self.watch: Callable[[int], None] = _unwatched
        self._pool = pool
        self._set_aside = 0  # taken from the pool for floors to come
        self._grace = 0  # what was free before the pool was made smaller, for what was begun by then
        self._taken_from_pool = 0
        self._num_takes = 0  # of its own, from the pool
        self._releases: dict[int, tuple[Callable[[], object], bool]] = {}
        self._at_end: dict[int, Callable[[], object]] = {}
        self._forgets: dict[int, Callable[[int], object]] = {}
        self._slack_used = 0
        self._floors = 0
        self._closed = False
        self.withheld = Withheld()
        # Reentrant: a garbage collection inside a transition may close another cursor of the same run.
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)
        self.num_waiting = 0  # threads, for room
        self._num_in_need = 0  # threads that wait for what they cannot do without
        self._of_thread = threading.local()
        if pool is not None:
            pool.join(self)

    def share(self, name: str, floor_bytes: int = 0) -> Share:
        """A new stage's share; its floor is set aside from now on."""
        missing = max(0, floor_bytes - self._set_aside)
        if self._floors + floor_bytes > self.budget_bytes or not self.set_aside(missing):
            raise too_small(self, name, floor_bytes)
        with self._lock:
            self._set_aside -= floor_bytes
            share = Share(self, name, floor_bytes)
            self._floors += floor_bytes
            self.shares.append(share)
            return share

    def set_aside(self, nbytes: int, kept: Callable[[Share], int] = lambda keeper: 0) -> bool:
        """Takes the floors of shares to come from the pool at once; other runs give way for them.

        `kept` says what the pool's keeper has that will be on these floors: `counts_kept` is to be called when it is.
        """
        pool = self._pool
        if pool is not None and nbytes:
            if nbytes > pool.total_bytes or not pool.take_floors(self, nbytes, kept):
                return False
            self._taken_from_pool += nbytes
        self._set_aside += nbytes
        return True

    def counts_kept(self) -> None:
        """What its caches keep is on its account by now."""
        if self._pool is not None:
            self._pool.repay(self)

    @property
    def floor_bytes(self) -> int:
        """What is set aside for its stages."""
        return self._floors + self._set_aside

    @property
    def slack_used_bytes(self) -> int:
        """What its stages hold beyond their floors."""
        return self._slack_used

    @property
    def is_in_need(self) -> bool:
        """Whether it waits for room that it cannot do without."""
        return self._num_in_need > 0

    @property
    def aim_bytes(self) -> int:
        """What it should hold at most: less than its budget if its pool was made smaller."""
        return self.budget_bytes if self._pool is None else min(self.budget_bytes, self._pool.total_bytes)

    @property
    def wanted_bytes(self) -> int:
        """Slack that this thread asked for when there was too little of it for the last time."""
        return getattr(self._of_thread, "wanted_bytes", 0)

    @property
    def lacking_bytes(self) -> int:
        """What is missing for what this thread asked for last, and to a pool that is overdrawn."""
        lacking = self.wanted_bytes - self._own_slack_bytes
        return max(0, lacking if self._pool is None else max(lacking, self._pool.lacking_bytes(self.wanted_bytes)))

    @property
    def should_give_way(self) -> bool:
        """Whether its pool is overdrawn, or another run waits for room in it, and it holds more than its floors."""
        pool = self._pool
        if pool is None or not self._slack_used:
            return False
        # What `lacking_bytes` would say, without a call: this is asked before each batch.
        return pool.taken_bytes + pool.awaited_bytes > pool.total_bytes

    def give_way(self) -> None:
        """Gives back what the pool lacks, or who waits for room in it: at a time when its own thread is not at work."""
        if self._pool is not None:
            self.keep_needs(overdraw=self._pool.lacking_bytes(0) > 0)  # of what has been seen since
            self.let_go(self._pool.awaited_bytes)

    def pool_resized(self, were_free_bytes: int) -> None:
        """Its budget grows with the pool. It does not shrink: what was promised to its stages stays theirs.

        What was free before (`were_free_bytes`) they may still use for what they must have: some may be in the midst of
        it.
        """
        with self._lock:
            if self._pool is not None:
                self._grace = max(self._grace, were_free_bytes)
                self.budget_bytes = max(self.budget_bytes, self._pool.total_bytes)
                self.headroom_bytes = self.aim_bytes // 10

    def keep_needs(self, overdraw: bool) -> None:
        """Raises floors to what the stages were seen to need; `overdraw`: even if the pool has not got it."""
        for share, nbytes in self.needs():
            self.raise_floor(share, nbytes, overdraw)

    @property
    def slack_bytes(self) -> int:
        """What the floors leave, and nobody uses yet."""
        own = max(0, self._own_slack_bytes)
        return own if self._pool is None else min(own, self._pool.free_bytes)

    @property
    def _own_slack_bytes(self) -> int:
        return self.budget_bytes - self._floors - self._slack_used - self.withheld.nbytes

    def raise_floor(self, share: Share, nbytes: int, overdraw: bool = False) -> None:
        """Moves bytes from the slack to a share's floor, as many as there are up to `nbytes` in all."""
        with self._lock:
            extra = nbytes - share.floor_bytes
            used = share.slack_used_bytes - share.ahead_bytes
            slack = self._own_slack_bytes if overdraw else self.slack_bytes
            extra = min(extra, slack + used)
            if extra <= 0 or not self._take_from_pool(extra - min(extra, used), overdraw):
                return
            share.floor_bytes += extra
            self._floors += extra
            self._slack_used -= min(extra, used)

    def lower_floors(self) -> bool:
        """Takes back what floors were raised by since the run began and nobody uses now; whether that is anything.

        They were raised by what was seen to be needed, which may never be needed again: better that a stage may have to
        be refused something later than that one has to be now.
        """
        with self._lock:
            unused = 0
            for share in self.shares:
                extra = share.floor_bytes - max(share.planned_bytes, share.charged_bytes - share.ahead_bytes)
                if extra > 0:
                    share.floor_bytes -= extra
                    unused += extra
            self._floors -= unused
            self._give_back_to_pool(unused)
            return unused > 0

    def on_shortage(self, release: Callable[[], object], of_use: bool = False) -> Callable[[], None]:
        """Names a function that lets go of what is held; returns one that takes it back.

        `of_use` says that something is lost with it, such as the time to write it to disk and read it back.
        """
        key = id(release)
        with self._lock:
            self._releases[key] = release, of_use
        return lambda: self._releases.pop(key, None) and None

    @property
    def keeper(self) -> Share | None:
        """The account of what outlives it in its pool; None if it has a budget of its own."""
        return None if self._pool is None else self._pool.keeper(_keeper_of)

    def at_end(self, leave: Callable[[], object]) -> Callable[[], None]:
        """Names a function for when the run is over; returns one that takes it back."""
        key = id(leave)
        self._at_end[key] = leave
        return lambda: self._at_end.pop(key, None) and None

    def on_refusal(self, key: int, forget: Callable[[int], object] | None) -> None:
        """Names a function that forgets what can be made again, until no more than so much is charged here.

        Those are asked first whose `key` was named first; None takes it back.
        """
        self._forgets.pop(key, None)
        if forget is not None:
            self._forgets[key] = forget

    def forget(self, nbytes: int) -> bool:
        """Has those forget so much who can; whether any did."""
        before = self.charged_bytes
        for forget in list(self._forgets.values()):
            if self.charged_bytes > before - nbytes:
                forget(before - nbytes)
        return self.charged_bytes < before

    def forget_kept(self, share: Share, nbytes: int) -> bool:
        """Has caches of its pool forget what no run counts, where so much is too much for a share; whether any did."""
        return self._pool is not None and self._pool.forget_kept(nbytes - share.free_bytes)

    @property
    def asker(self) -> Share | None:
        """The share for which this thread asks others to let go, if it is for one."""
        return getattr(self._of_thread, "asker", None)

    def try_charge(self, share: Share, nbytes: int, leave_bytes: int = 0, lease: Lease | None = None) -> bool:
        """Puts bytes on a share's account, if there is room; asks others to let go first.

        Who leaves something to others can do without: for that one nobody gives up what is of use.
        """
        self.watch(nbytes)
        if self.charge_free(share, nbytes, leave_bytes, lease):
            return True
        on_floor = 0 if lease is not None and lease.ahead else share.free_bytes - self.slack_bytes
        num_takes = self._num_takes_of_others
        self.let_go(nbytes - on_floor + leave_bytes, of_use=not leave_bytes, asker=share)
        if self.charge_free(share, nbytes, leave_bytes, lease):
            return True
        # Another run may have taken what was let go of.
        if self._num_takes_of_others != num_takes and not self._is_asking:
            self._of_thread.put_off_s = max(self._of_thread.put_off_s, _PUT_OFF_S)
        return False

    def let_go(
        self, wanted_bytes: int = 0, of_use: bool = True, asks_pool: bool = True, *, asker: Share | None = None
    ) -> bool:
        """Asks those who hold without need to let go, and also (`of_use`) those who could do with less.

        `asker` is the share that is short; None if all is wanted back that can be had.
        `asks_pool`: other runs too. Not for one that is asked by another run: with many of them it would never end.
        Whether somebody was at work instead, in another thread.
        """
        if self._is_asking:  # who lets go may itself be short
            return False
        self._of_thread.asking, self._of_thread.put_off_s = True, 0.0
        self._of_thread.asker = asker
        try:
            self._of_thread.wanted_bytes = wanted_bytes
            # A copy, made at once: meanwhile threads, or a garbage collection in this one, may take theirs back.
            named = list(self._releases.values())
            releases = [release for release, is_of_use in named if of_use or not is_of_use]
            put_off_s = _PUT_OFF_S if [release() for release in releases].count(True) else 0.0
            if asks_pool and self._pool is not None and self._pool.lacking_bytes(wanted_bytes):
                at_work = self._pool.ask_others(self, wanted_bytes, of_use)
                if at_work:
                    put_off_s = _PUT_OFF_S if all(other.is_in_need for other in at_work) else _BUSY_S
            self._of_thread.put_off_s = put_off_s
            return put_off_s > 0
        finally:
            self._of_thread.asking, self._of_thread.asker = False, None

    @property
    def _is_asking(self) -> bool:
        return getattr(self._of_thread, "asking", False)

    @property
    def _num_takes_of_others(self) -> int:
        return 0 if self._pool is None else self._pool.num_takes - self._num_takes

    def charge_free(
        self, share: Share, nbytes: int, leave_bytes: int = 0, lease: Lease | None = None, overdraw: bool = False
    ) -> bool:
        """Puts bytes on a share's account, if they are free as it is, or (`overdraw`) were before the pool shrank."""
        with self._lock:
            if self._closed:  # while this thread was in the midst of something: what it holds goes with it
                return True
            if leave_bytes and self._pool is not None:
                leave_bytes += self._pool.awaited_bytes
            ahead = nbytes if lease is not None and lease.ahead else 0
            charged = share.charged_bytes + nbytes
            over = max(share.ahead_bytes + ahead, charged - share.floor_bytes) - share.slack_used_bytes
            slack = min(self._grace, self._own_slack_bytes) if overdraw else self.slack_bytes
            if over and (over + leave_bytes > slack or not self._take_from_pool(over, overdraw)):
                return False
            self._grace -= over if overdraw else 0
            self._slack_used += over
            share.ahead_bytes += ahead
            share.charged_bytes = charged
            if lease is not None:
                lease.nbytes += nbytes
            share.peak_bytes = max(share.peak_bytes, share.charged_bytes)
            self.charged_bytes += nbytes
            self.peak_bytes = max(self.peak_bytes, self.charged_bytes)
            assert self.charged_bytes <= self.budget_bytes
            return True

    def discharge(self, share: Share, nbytes: int, lease: Lease | None = None) -> None:
        with self._lock:
            if self._closed:  # and some of it may never have been charged
                nbytes = min(nbytes, share.charged_bytes)
            over_before = share.slack_used_bytes
            share.charged_bytes -= nbytes
            self.charged_bytes -= nbytes
            if lease is not None:
                lease.nbytes -= nbytes
                if lease.ahead:
                    share.ahead_bytes -= nbytes
            self._give_back(over_before - share.slack_used_bytes)
            assert share.charged_bytes >= 0, f"{share.name} gave back more than it held"

    def come_first(self, share: Share, lease: Lease) -> None:
        with self._lock:
            over_before = share.slack_used_bytes
            share.ahead_bytes -= lease.nbytes
            lease.ahead = False
            self._give_back(over_before - share.slack_used_bytes)

    def _give_back(self, slack_bytes: int) -> None:
        """What a share had of the slack is free again; who waits for room looks again."""
        self._slack_used -= slack_bytes
        self._give_back_to_pool(slack_bytes)
        if self.num_waiting:
            self._freed.notify_all()

    def _give_back_to_pool(self, nbytes: int) -> None:
        if self._pool is not None and nbytes:
            self._pool.give_back(nbytes)
            self._taken_from_pool -= nbytes

    def _take_from_pool(self, nbytes: int, overdraw: bool = False) -> bool:
        if self._pool is None or not nbytes:
            return True
        if not self._pool.try_take(nbytes, overdraw):
            return False
        self._taken_from_pool += nbytes
        self._num_takes += 1
        return True

    # Waiting.

    @contextmanager
    def waiting_while(self, others_may_release: Callable[[], bool]) -> Iterator[None]:
        """Within it this thread waits for room, as long as somebody is sure to release some without its help."""
        outer = getattr(self._of_thread, "while_", None)
        self._of_thread.while_ = others_may_release
        try:
            yield
        finally:
            self._of_thread.while_ = outer

    def wait_and_charge(self, share: Share, nbytes: int, lease: Lease | None = None) -> bool:
        """Charges as soon as there is room, if this thread may wait for it.

        It may for a while if somebody who was asked to let go was at work in another thread, or took what others had
        let go of, and can be asked again.
        """
        others_may_release = getattr(self._of_thread, "while_", None)
        # Who works ahead and is not waited for has time: other runs need not hurry for that one.
        has_time = others_may_release is not None and others_may_release()
        with nullcontext() if has_time else self._in_need(nbytes):
            start = perf_counter()
            while (others_may_release is not None and others_may_release()) or (
                perf_counter() - start < getattr(self._of_thread, "put_off_s", 0.0)
            ):
                with self._freed:
                    self.num_waiting += 1
                    try:
                        self._freed.wait(_LOOK_AGAIN_S)
                    finally:
                        self.num_waiting -= 1
                if self.try_charge(share, nbytes, 0, lease):
                    return True
        return others_may_release is not None and self.try_charge(share, nbytes, 0, lease)

    @contextmanager
    def _in_need(self, nbytes: int) -> Iterator[None]:
        """Within it others know that this run waits for so much."""
        with self._lock:
            self._num_in_need += 1
        try:
            with nullcontext() if self._pool is None else self._pool.awaiting(nbytes):
                yield
        finally:
            with self._lock:
                self._num_in_need -= 1

    # Refusing.

    def held_by_others(self) -> tuple[int, int]:
        """What other runs have taken of its pool, and how much of that are their floors."""
        return (0, 0) if self._pool is None else self._pool.held_by_others(self, self._taken_from_pool)

    def about_pool(self, least_bytes: int, more_bytes: int = 0) -> str:
        """What there is to say of the pool if this run needs so much of it, and so much more than it has."""
        others, _ = self.held_by_others()
        enough = others + max(self._taken_from_pool + more_bytes, least_bytes)
        return "" if self._pool is None else self._pool.about(others, enough)

    def close(self) -> None:
        """The run is over: gives the floors back, and to the pool all that was taken from it."""
        with self._lock:
            for share in self.shares:
                over_before = share.slack_used_bytes
                self._floors -= share.floor_bytes
                share.floor_bytes = 0
                self._slack_used += share.slack_used_bytes - over_before
            # Before the keeper is to have room in the pool for what outlives the run.
            self._give_back_to_pool(self._taken_from_pool - self._slack_used)
            self._set_aside = 0
        for leave in list(self._at_end.values()):  # without the lock: they have locks of their own
            leave()
        with self._lock:
            if self._pool is not None:
                self._pool.give_back(self._taken_from_pool)
                self._pool.leave(self)
                self.leave_pool()
            self._closed = True
        self._forget_stages()

    def _forget_stages(self) -> None:
        """Nobody is asked for anything any more: who has an array of the run must not keep all of its data alive."""
        for named in (self._releases, self._at_end, self._forgets):
            named.clear()
        self.advise, self.needs, self.watch = _no_advice, list, _unwatched

    def leave_pool(self) -> None:
        """From now on what is released is on nobody's account but this one's."""
        self._pool, self._taken_from_pool, self._set_aside = None, 0, 0


def _no_advice(share: Share, nbytes: int) -> int | None:
    return None


def _unwatched(nbytes: int) -> None:
    pass


def _keeper_of(pool: Pool) -> Share:
    return Ledger(pool.total_bytes, pool).share("cache")
