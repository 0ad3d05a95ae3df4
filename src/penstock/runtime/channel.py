"""What crosses a thread boundary: blocks that wait for their consumer, admitted one by one under the ledger.

Blocks cross, not elements. A block carries the position of the input before it, so that a saved position is always that
of what was delivered, not of what was begun; and what waits for the consumer is on the ledger, or is not made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ..block import Block
from ..cursor import State
from ..ending import Ended
from ..memory.arena import Arena
from ..memory.array_memory import Use
from ..memory.ledger import Lease, Share
from ..memory.singly import failures_in, objects_of_block
from .closing import mark_worker
from .stacks import start_thread

__all__ = ["Admission", "Boundary", "InFlight", "Ready", "Threads"]

_GROWTH = 1.25
# A block that waits, its lease and its position: what is counted where there are many of them. There may be a million,
# of small elements that take long to make, for a consumer who stopped.
_READY_BYTES = 800
_FEW = 16


def _nothing() -> bool:
    return False


class Boundary:
    """Where blocks pass from one thread to another, as the ledger must know it.

    A thread may wait for memory while a boundary between it and the caller holds something: that will be taken, and
    what it takes up will come free, without this thread's help.
    """

    __slots__ = ("_outer", "holds", "on_close")

    def __init__(self, outer: Boundary | None) -> None:
        self._outer = outer
        #: Whether something waits here for its consumer, or is still in the consumer's hands.
        self.holds: Callable[[], bool] = _nothing
        self.on_close: Callable[[], object] = _nothing

    @property
    def is_outermost(self) -> bool:
        """Whether the caller's own thread takes what crosses here."""
        return self._outer is None

    def close(self) -> None:
        """Nothing will cross here again, and whoever did is forgotten: they know each other, and what was read by one
        of an inner dataset must not stay until garbage is collected.
        """
        self.holds = _nothing
        self.on_close()

    def may_release(self) -> bool:
        return self.holds() or self.outer_may_release()

    def outer_may_release(self) -> bool:
        return self._outer is not None and self._outer.may_release()


class Admission:
    """Decides whether another block may be made ahead of demand: only while others keep enough to go on.

    The first block runs alone and is measured: what it holds itself, and what the stages below took from the ledger to
    make it; so is every other one that runs alone, because the first time buffers may have been filled. Later ones
    reserve the largest seen of about so many elements × 1.25, or for each element they will have the largest seen if
    that is more.
    They are made only if as much as the stages below took is free as well, with room for two of the largest batches, or
    an eighth of the budget, beyond: working ahead is a luxury, and must not take what a batch needs. Until the first
    element is delivered, of a pipeline that was not sampled, nobody knows how much that is: a stage works ahead with an
    eighth of the budget at most. A stage with nothing in flight may always make one block, or the run could not go on
    at all.

    Args:
        feeds_caller: Whether no other thread stands between this stage and the caller: then the two batches are the one
            in the making and the caller's, and what is there already need not be free as well.
    """

    def __init__(self, share: Share, arena: Arena, feeds_caller: bool = False) -> None:
        self._share = share
        self._feeds_caller = feeds_caller
        self._arena = arena
        # Of blocks of 1, 2 to 3, 4 to 7, … elements: what many take says little of what one will.
        self._largest = [0]
        self._largest_each = 0
        self._taken_below = 0
        self._free_before = 0
        self._measured = False
        self._alone = False
        self._many = False  # are in flight

    def try_admit_some(self, num_in_flight: int, size: int, or_one: bool = True) -> tuple[int, Lease | None]:
        """A lease for the next block, and how many elements it should have: `size`, or one where more may not fit.

        `or_one`: rather one than none.
        """
        if size > 1 and not self._share.may_work_ahead(self._wanted(size)):
            size = 1
        lease = self.try_admit(num_in_flight, size)
        if lease is None and size > 1 and or_one:
            size, lease = 1, self.try_admit(num_in_flight)
        # Where nothing could be reserved one is sure to fit, and more are not.
        if lease is not None and not lease.nbytes and (self._wanted(size) or not self._measured):
            size = 1
        return size, lease

    def admit_inline(self, size: int) -> tuple[int, Lease]:
        """The same for who makes a block on demand, and has nothing else in flight: as many as are sure to fit."""
        share = self._share
        if size > 1 and self._measured:
            each = self._each_bytes()
            size = min(size, share.spare_bytes // each)
            lease = share.try_acquire(size * each) if size > 1 and share.may_work_ahead(size * each) else None
            if lease is not None:
                return size, lease
        return 1, share.acquire(0)

    def num_fitting(self, size: int) -> int:
        """How many of so many elements, made on demand, leave half of what is to spare to who makes them."""
        return min(size, self._share.spare_bytes // (2 * self._each_bytes()))

    def _each_bytes(self) -> int:
        return max(1, self._share.planned_bytes, int(self._largest_each * _GROWTH))

    def _wanted(self, size: int) -> int:
        wanted = int(max(*self._largest[: size.bit_length()], self._largest_each * size) * _GROWTH)
        # Of several each may be as large as the floor is meant for, however small those before them were.
        return max(wanted, self._share.planned_bytes * size) if size > 1 else wanted

    def try_admit(self, num_in_flight: int, size: int = 1) -> Lease | None:
        """A lease for the next block, of `size` elements or so, or None if it must wait."""
        wanted = self._wanted(size)
        if not num_in_flight:
            self._free_before = self._share.free_bytes
            self._alone = True
            # Reserved where it can be: others who begin before this one has settled must see it.
            return self._share.try_acquire(wanted) or self._share.acquire(0)
        if not self._measured or self._share.under_pressure or not self._share.may_work_ahead(wanted):
            return None
        slots = self._arena.slots
        unused, budget = slots.unused_bytes, self._share.budget_bytes
        if not self._feeds_caller:
            others = max(0, max(2 * slots.largest_bytes, budget // 8) - unused)  # a batch uses these before it asks
        elif (lacking := slots.lacking_bytes) <= budget // 2:
            others = max(lacking, budget // 8 - unused)
        else:  # there will never be room for two
            others = max(0, budget // 8 - unused)
        self._many = num_in_flight > _FEW
        wanted += _READY_BYTES if self._many else 0
        # Of datasets that a function makes, each may do the same.
        taken = (wanted + self._taken_below) * max(1, self._share.num_datasets)
        if not self._share.has_room(taken + others, ahead=True):
            return None
        return self._share.try_acquire(wanted, ahead=True)

    def settle(self, lease: Lease, block: Block, also_bytes: int = 0) -> None:
        """Corrects the lease to what the block holds; slots, which are on the ledger already, move to this account.

        `also_bytes` are held with it: what a function was called with.
        """
        self._arena.take_over(block)
        nbytes, failed_bytes = self.held_bytes(block) + also_bytes, failures_in(block)
        self._largest_each = max(self._largest_each, -(-(nbytes + failed_bytes) // block.size))
        if self._alone:
            self._alone = False
            taken = max(0, self._free_before - self._share.free_bytes)
            self._taken_below = min(self._taken_below, taken) if self._measured else taken
        kind = block.size.bit_length() - 1
        self._largest += [0] * (kind + 1 - len(self._largest))
        if nbytes + failed_bytes > self._largest[kind] or not self._measured:
            self._largest[kind], self._measured = max(self._largest[kind], nbytes + failed_bytes), True
            # One element must always fit, whatever others make ahead meanwhile.
            self._share.raise_floor(int(self._largest_each * _GROWTH))
        if lease.ahead and self._many:
            nbytes += _READY_BYTES + objects_of_block(block)
        # Errors are there already, and none is refused. Where there is no room for them no other block is begun.
        reserved = min(failed_bytes, max(0, lease.nbytes - nbytes))
        lease.settle(nbytes + reserved)
        if failed_bytes > reserved:
            lease.try_grow(failed_bytes - reserved)

    def held_bytes(self, block: Block) -> int:
        """Bytes of a block that are on nobody's account."""
        rows = block.rows() if block.columns is None else ()
        # Numbers of one type, the smallest of elements, are the ones for which looking at each would show.
        if rows and isinstance(rows[0], np.number) and len(set(map(type, rows))) == 1:
            return int(rows[0].nbytes) * len(rows)
        return self._arena.unaccounted_bytes(block)


class Threads:
    """Some worker threads and the condition they share with their consumer.

    They are daemons, are named `penstock-…`, and have ended when `stop` returns.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._conditions: list[threading.Condition] = []
        self.changed = self.condition()
        self.stopped = False
        self._failure: BaseException | None = None
        #: Whether who stops them waits for their end.
        self.joins = True
        self._threads: list[threading.Thread] = []

    def condition(self) -> threading.Condition:
        """Another condition under the same lock, for those who wait for something else: waking the wrong one costs."""
        made = threading.Condition(self._lock)
        self._conditions.append(made)
        return made

    @contextmanager
    def at_rest(self) -> Iterator[bool]:
        """Holds the lock if nobody else does: yields whether that is so, and never waits."""
        taken = self._lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._lock.release()

    def start(self, target: Callable[[], None]) -> None:
        as_here = Use.as_here()

        def work() -> None:
            mark_worker()
            try:
                with as_here:
                    target()
            except BaseException as error:  # a bug, or no memory at all: who waits must not wait for ever
                with self.changed:
                    self._failure = error
                    self.changed.notify_all()

        thread = threading.Thread(target=work, name=f"penstock-{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        try:
            start_thread(thread)
        except BaseException:
            self._threads.remove(thread)  # who stops them waits for those that began
            raise

    def wait(self) -> None:
        """The consumer waits until something changed; raises what ended a thread; `Ended` if all were stopped."""
        if self.stopped:
            raise Ended
        if self._failure is None:
            self.changed.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def count(self) -> int:
        return len(self._threads)

    def has_current(self) -> bool:
        """Whether this is one of them."""
        return threading.current_thread() in self._threads

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            for condition in self._conditions:
                condition.notify_all()
        # A function may close its own run, in a thread that holds what the others wait for: they are left to end by
        # themselves then.
        if self.joins and not self.has_current():
            for thread in self._threads:
                if thread.is_alive():  # one that is only being started ends as soon as it looks
                    thread.join()
        self._threads.clear()


class Ready:
    """A block that waits for the consumer."""

    __slots__ = (
        "before",
        "block",
        "error",
        "input",
        "input_bytes",
        "lease",
        "lost_before",
        "num_lost",
        "offset",
        "place",
        "pulling_ns",
        "size",
        "stowed",
    )

    def __init__(self, before: State, place: int, lease: Lease) -> None:
        self.before = before
        self.place = place
        self.lease = lease
        self.block: Block | None = None
        self.error: BaseException | None = None
        self.stowed = False  # the block is on disk
        self.size = 0
        self.input: Block | None = None  # until it is worked on
        self.input_bytes = 0
        self.offset = 0
        self.pulling_ns = 0
        self.lost_before = 0  # failures that the input had heard of at that position
        self.num_lost: int | None = None  # failures in this block that the input has heard of

    @property
    def done(self) -> bool:
        return self.block is not None or self.stowed or self.error is not None

    def take(self, n: int) -> Block:
        """The next n elements, or all that are left."""
        assert self.block is not None
        if not self.offset and n >= self.block.size:
            part = self.block
        else:
            part = self.block[self.offset : self.offset + n]
            if self.block.has_failures:
                self._forget(self.offset, part.size)
        self.offset += part.size
        return part

    def _forget(self, start: int, count: int) -> None:
        """Drops errors that were delivered: once raised they refer to the run, and would keep it alive from here."""
        assert self.block is not None
        if not start:  # a list of its own, for others may look at that one
            self.block = Block.of_rows([*self.block.rows()], self.block.positions, has_failures=True)
        self.block.rows()[start : start + count] = [None] * count

    @property
    def empty(self) -> bool:
        return self.block is not None and self.offset == self.block.size


class InFlight:
    """Counts results as they are made, on the lease of their piece: there is room for all, or none at all."""

    __slots__ = ("_lease", "_made", "is_of_part")

    takes_all = True

    def __init__(self, lease: Lease, input_bytes: int = 0, is_of_part: bool = True) -> None:
        self.is_of_part = is_of_part
        self._lease = lease
        self._made = input_bytes

    def add(self, nbytes: int, count: int = 1) -> bool:
        self._made += nbytes
        if self._made > self._lease.nbytes:
            self._lease.settle(self._made, single=count == 1)
        return True
