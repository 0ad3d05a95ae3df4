"""Filling: threads make the elements of one batch side by side in its slot, and the next batch while that is used.

What comes out is a block as large as the batch: its slot *is* the batch, and nobody copies it. Working ahead waits for
a slot that is free, such as the one of the batch that the caller has just dropped: it never takes memory of its own.
"""

from __future__ import annotations

from time import perf_counter_ns

from ...block import Block
from ...cursor import Cursor, State
from ...memory.arena import Arena
from ...memory.ledger import Lease, Share
from ...memory.spill import SpillSpace
from ..channel import Boundary, Ready
from ..meter import Meter
from .ahead import AheadCursor
from .crew import Crew

__all__ = ["FillingCursor"]

# The caller drops a batch without telling: looked for after so long, and then twice as long each time, up to the last.
_FIRST_LOOK_S = 0.0005
_LAST_LOOK_S = 0.05


class FillingCursor(AheadCursor):
    """What an inline cursor (`input`) makes with its crew, one block of `size` elements ahead of demand at most."""

    def __init__(
        self,
        input: Cursor,
        crew: Crew,
        size: int,
        share: Share,
        arena: Arena,
        meter: Meter,
        boundary: Boundary,
        spill: SpillSpace,
        live: bool,
    ) -> None:
        super().__init__(input, size, share, arena, meter, boundary, spill)
        self._crew = crew
        self._slots = arena.slots
        self._slot_bytes = 0
        self._live = live
        self._looked_s = _FIRST_LOOK_S
        self._next_look_s: float | None = None

    def _note(self) -> None:
        pass  # the number of elements is nobody's choice

    def _admit(self) -> tuple[int, Lease | None]:
        self._next_look_s = None
        if self._wanted and self._num_ready() < self._demand:
            self._looked_s = _FIRST_LOOK_S
        elif self._live:
            return 0, None
        elif self._slot_bytes and not self._slots.has_unused(self._slot_bytes):
            if not self._num_ready() and self._looked_s <= _LAST_LOOK_S:
                self._next_look_s, self._looked_s = self._looked_s, 2 * self._looked_s
            return 0, None
        return super()._admit()

    def _patience_s(self) -> float | None:
        return self._next_look_s

    def _admit_beside(self, num_in_flight: int) -> tuple[int, Lease | None]:
        # To the end of a batch: more would be cut, and copied. Its slot is charged when it is taken.
        size = (self._demand - self._num_ready() - 1) % self._capacity + 1
        return size, self._admission.try_admit(num_in_flight)

    def _make(self, item: Ready, demand: int) -> None:
        super()._make(item, demand)
        if item.block is not None:
            self._learn(item.block)

    def _learn(self, block: Block) -> None:
        self._slot_bytes = self._slots.bytes_of(block)

    def pull(self, n: int) -> Block | None:
        changed = self._threads.changed
        with changed:
            # What nobody has begun the consumer makes itself, with the crew: it need not wait for a thread to wake.
            alone = self._inline = not self._ready and self._making is None
        if not alone:
            return super().pull(n)
        block = self._pull_inline(n)
        if block is not None:
            with changed:
                self._gave(n, block.size)
                self._inline = False
                self._looked_s = _FIRST_LOOK_S
                if not self._threads.count and not self._live:
                    self._threads.start(self._work)
                changed.notify_all()
        return block

    def _pull_inline(self, n: int) -> Block | None:
        self._take_back()
        if self._ended:
            return None
        start = perf_counter_ns()
        self._ended = True  # unless it goes on
        lease = self._admission.try_admit(0)
        assert lease is not None  # nothing else is in flight
        try:
            block = self._input.pull(n)
            if block is not None:
                self._admission.settle(lease, block)
                self._learn(block)
                self._ended = False
        except BaseException:
            lease.release()
            raise
        self._given = lease  # not before: threads below would wait for the consumer to release it
        self._meter.waiting_ns += perf_counter_ns() - start
        return block

    def _gave(self, demand: int, size: int) -> None:
        self._demand = demand - size or self._capacity  # what is left of a batch, or the next one

    def state(self) -> State:
        """As other ways to run a function save it, and can read it: the number of threads may change."""
        (place, below, *taken), offset = super().state()
        offset += sum(taken)
        return [below, place - sum(taken), offset, 0, []] if offset else [place, below]

    def restore(self, state: State) -> None:
        self._input.restore(state)

    def close(self) -> None:
        if self._threads.has_current() or self._crew.threads.has_current():
            self._threads.joins = self._crew.threads.joins = False  # some may wait for this very thread
        self._crew.stop()
        super().close()
