"""Working ahead: a thread makes elements ready before they are asked for (`prefetch`)."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns

from ...block import Block
from ...cursor import Cursor, State, expect_list, replay
from ...memory.arena import Arena
from ...memory.ledger import Lease, Share
from ...options import AUTOTUNE
from ..channel import Admission, Ready, Threads
from ..meter import Meter

__all__ = ["AheadCursor"]

_MOST_AHEAD = 64
_NOT_PULLING = object()


class AheadCursor(Cursor):
    """The input's elements, up to `num_elements` of them made ready by a thread."""

    def __init__(self, input: Cursor, num_elements: int, share: Share, arena: Arena, meter: Meter) -> None:
        self._input = input
        self._capacity = 2 if num_elements == AUTOTUNE else num_elements
        self._tuned = num_elements == AUTOTUNE
        self._was_full = False
        self._admission = Admission(share, arena)
        self._meter = meter
        self._ready: deque[Ready] = deque()
        self._pulling: State = _NOT_PULLING
        self._demand = 1
        self._ended = False
        self._threads = Threads("ahead")
        meter.chosen["buffer_size"] = self._capacity

    def _num_ready(self) -> int:
        return sum(item.size - item.offset for item in self._ready)

    def _work(self) -> None:
        changed = self._threads.changed
        while True:
            with changed:
                lease = self._admit()
                while lease is None and not self._threads.stopped:
                    changed.wait()
                    lease = self._admit()
                if self._threads.stopped or lease is None:
                    if lease is not None:
                        lease.release()
                    return
                item = Ready(None, 0, lease)
                self._begin(item)
                demand = min(self._demand, self._capacity)
            if not item.done:
                self._make(item, demand)
            with changed:
                self._pulling = _NOT_PULLING
                if item.done:
                    self._ready.append(item)
                else:
                    lease.release()
                # Not before the item is there: the consumer would take an error for the end.
                self._ended = item.block is None
                changed.notify_all()
                if self._ended:
                    return

    def _admit(self) -> Lease | None:
        if self._num_ready() >= self._capacity:
            self._was_full = True
            return None
        return self._admission.try_admit(len(self._ready))

    def _begin(self, item: Ready) -> None:
        try:
            item.before = self._pulling = self._input.state()
        except BaseException as error:
            item.error = error

    def _make(self, item: Ready, demand: int) -> None:
        try:
            item.block = self._input.pull(demand)
            if item.block is not None:
                item.size = item.block.size
                self._admission.settle(item.lease, item.block)
        except BaseException as error:
            item.error, item.block = error, None

    def pull(self, n: int) -> Block | None:
        changed = self._threads.changed
        with changed:
            self._demand = n
            if not self._threads.count and not self._ended:
                self._threads.start(self._work)
            start = perf_counter_ns()
            if not self._ready and not self._ended:
                self._grow()
            while not self._ready and not self._ended:
                changed.wait()
            self._meter.waiting_ns += perf_counter_ns() - start
            if not self._ready:
                return None
            item = self._ready[0]
            if item.error is not None:
                self._ready.popleft()
                item.lease.release()
                raise item.error
            block = item.take(n)
            if item.empty:
                self._ready.popleft()
                item.lease.release()
            changed.notify_all()
            return block

    def _grow(self) -> None:
        """The consumer came to an empty buffer that had been full: a larger one would have helped."""
        if self._tuned and self._was_full and self._capacity < _MOST_AHEAD:
            self._capacity *= 2
            self._was_full = False
            self._meter.chosen["buffer_size"] = self._capacity

    def state(self) -> State:
        with self._threads.changed:
            if self._ready:
                return [self._ready[0].before, self._ready[0].offset]
            # While the thread pulls, the input is its own; at all other times it can be asked.
            return [self._input.state() if self._pulling is _NOT_PULLING else self._pulling, 0]

    def restore(self, state: State) -> None:
        before, offset = expect_list(state, 2)
        self._input.restore(before)
        replay(self._input, offset)

    def skip(self, n: int) -> int:
        return super().skip(n) if self._threads.count else self._input.skip(n)

    def close(self) -> None:
        self._threads.stop()
        while self._ready:
            self._ready.popleft().lease.release()
        self._ended = True
        self._input.close()
