"""How far the process grows while `map_fn` calls its function: what no measured call has told shows there.

A call that takes more than those before it is seen while it runs, if it runs for some milliseconds; and what takes less
time cannot fill much memory. Where many threads call, the one that watches may have to wait for its turn: those that
are about to call look, too, so that none begins beside a call that has already taken too much. That one may have asked
for its memory, and not have written to it yet: so they look at what the system has promised as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns

from ..memory.allocator import trim_heap
from ..memory.pressure import PromisedMemory, anonymous_bytes

__all__ = ["GrowthWatch"]

# A look takes some microseconds.
_PERIOD_S = 0.002
# And those that are about to call look after so long without one.
_STALE_NS = 1_000_000
# What the process may be larger by than is known: the heap's gaps, stacks of threads.
_SPARE_BYTES = 4 << 20
# What may be promised to it beyond that: the stack of a new thread is 8 MB, of which a few pages are ever used.
_SPARE_PROMISED_BYTES = 12 << 20


class GrowthWatch:
    """A thread that looks at the process, from `start` to `stop`.

    Args:
        known_bytes: What the process may have grown by, with what is reserved for calls.
        alarm: Called in the thread that looked when it has grown by more; not again until `rearm`.
        charged_bytes: The part of it that is promised as soon as it is known: arrays for results are written to later.
        freed_bytes: What was known and is no more: malloc may keep it for those to come.
    """

    def __init__(
        self,
        known_bytes: Callable[[], int],
        alarm: Callable[[], None],
        charged_bytes: Callable[[], int] = lambda: 0,
        freed_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._known_bytes = known_bytes
        self._freed_bytes = freed_bytes
        self._alarm = alarm
        self._baseline_bytes = anonymous_bytes() - known_bytes()
        self._rung = False
        self._looked_ns = 0
        #: The most that the process was larger by than was known.
        self.beyond_bytes = 0
        self._charged_bytes = charged_bytes
        self._promised = PromisedMemory()
        self._spare_promised_bytes = _SPARE_PROMISED_BYTES
        self._promised_before = self._promised.nbytes() - charged_bytes()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on the process is watched, if it was not."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_on, name="penstock-growth-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._promised.close()

    def look_if_stale(self) -> None:
        """Looks, if nobody did for a while."""
        if perf_counter_ns() - self._looked_ns > _STALE_NS:
            self._look()

    def sees_promise(self) -> bool:
        """Whether some call that is running has asked for more than is known."""
        return self._promised_beyond() > self._spare_promised_bytes

    def forget_promises(self, reserved_bytes: int) -> bool:
        """No call is running: what the process is promised now is nothing that calls take for a moment.

        Returns:
            Whether calls took what was seen, if something was: it has gone with them.
        """
        beyond_bytes = self._promised_beyond() + reserved_bytes
        self._promised_before += beyond_bytes
        return beyond_bytes < self._spare_promised_bytes

    def expect_promises(self) -> None:
        """What was seen had nothing to do with the calls that followed: only more than that is worth telling."""
        self._spare_promised_bytes *= 2

    def _promised_beyond(self) -> int:
        return self._promised.nbytes() - self._promised_before - self._charged_bytes()

    def rearm(self) -> None:
        """The alarm was seen to; the next is worth telling."""
        self._rung, self.beyond_bytes = False, 0

    def absorb(self, reserved_bytes: int) -> bool:
        """No call is running: what the process has grown by is nothing that calls took for a moment.

        Args:
            reserved_bytes: What is known only as reserved for calls.

        Returns:
            Whether that is reason enough for the alarm.
        """
        trim_heap()
        baseline_bytes = anonymous_bytes() - self._known_bytes() + reserved_bytes
        stays = baseline_bytes - self._baseline_bytes > max(_SPARE_BYTES, self.beyond_bytes) // 2
        self._baseline_bytes = baseline_bytes
        return stays

    def _look_on(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            self._look()

    def _look(self) -> None:
        self._looked_ns = perf_counter_ns()
        beyond_bytes = anonymous_bytes() - self._baseline_bytes - self._known_bytes() - self._freed_bytes()
        self.beyond_bytes = max(self.beyond_bytes, beyond_bytes)
        if not self._rung and beyond_bytes > _SPARE_BYTES:
            self._rung = True
            self._alarm()
