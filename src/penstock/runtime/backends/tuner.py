"""The parallelism tuner: how many threads a function is worth, from measured rates.

With a number given there is nothing to choose. With `AUTOTUNE`: the first calls run in the consumer's own thread and
are timed. A call that is cheaper than handing it to a thread stays there. Otherwise threads are added, doubling, for as
long as the consumer still waits and the rate of finished elements grows by a tenth; the last step that did not help is
taken back. What was chosen is on the stage's meter.
"""

from __future__ import annotations

import os
from time import perf_counter_ns

from ...options import AUTOTUNE, MOST_THREADS
from ...spec import UNKNOWN
from ..meter import Meter

__all__ = ["ParallelismTuner"]

_CHEAP_NS = 20_000
_TRIAL_NS = 5_000_000
_TRIAL_CALLS = 16
# One call may have taken long because somebody else had the processor; if it took as long as this, it did itself.
_LONG_NS = 100_000_000
_FEWEST_CALLS = 3
_WINDOW_NS = 100_000_000
_WINDOW_ELEMENTS = 8
_WORTHWHILE = 1.1
_MOST_TUNED = 32


class ParallelismTuner:
    """Chooses between calling inline (`inline`) and a number of threads (`level`), no more than there are elements."""

    def __init__(self, num_parallel_calls: int, meter: Meter, num_elements: int = UNKNOWN) -> None:
        most = min(MOST_THREADS, max(1, num_elements)) if num_elements >= 0 else MOST_THREADS
        self._tuned = num_parallel_calls == AUTOTUNE
        self._meter = meter
        self.inline = self._tuned
        self.level = 1 if self._tuned else min(num_parallel_calls, most)
        self._trial_calls = self._trial_ns = 0
        self._trial_each_ns: list[tuple[int, int]] = []  # what each of so many took
        self._climbing = self._tuned
        self._best_rate = 0.0
        self._window_start = 0
        self._window_elements = 0
        self._starved = 0
        #: Whether it is known that calls are cheap.
        self.settled_inline = False
        self._note()

    def _note(self) -> None:
        self._meter.chosen["num_parallel_calls"] = "inline" if self.inline else self.level

    def called_inline(self, num_elements: int, elapsed_ns: int) -> None:
        """Hears how long a call in the consumer's thread took."""
        if self.settled_inline:
            return
        self._trial_calls += num_elements
        self._trial_ns += elapsed_ns
        self._trial_each_ns.append((elapsed_ns // num_elements, num_elements))
        if self._trial_calls < _TRIAL_CALLS and not self._took_long():
            return
        if self._trial_median_ns() < _CHEAP_NS:
            self.settled_inline = True
        else:
            self.inline = False
            self.level = max(2, os.cpu_count() or 1)
        self._note()

    def _trial_median_ns(self) -> int:
        """What the element in the middle took: the first one of all may have taken long for reasons of its own."""
        left = self._trial_calls // 2
        for each_ns, num_elements in sorted(self._trial_each_ns):
            left -= num_elements
            if left < 0:
                return each_ns
        return 0

    def _took_long(self) -> bool:
        few = len(self._trial_each_ns) < _FEWEST_CALLS
        return self._trial_ns >= (_LONG_NS if few else _TRIAL_NS)

    def asked(self, starved: bool) -> None:
        """Hears that the consumer came, and whether it has to wait."""
        self._starved += starved

    def finished(self, num_elements: int) -> None:
        """Hears that a worker finished some elements; now and then draws a conclusion."""
        if not self._climbing:
            return
        now = perf_counter_ns()
        if not self._window_start:
            self._window_start = now
            return
        self._window_elements += num_elements
        elapsed = now - self._window_start
        if elapsed < _WINDOW_NS or self._window_elements < _WINDOW_ELEMENTS:
            return
        rate = self._window_elements / elapsed
        if self._starved:
            self._step(rate)
        self._window_start, self._window_elements, self._starved = now, 0, 0

    def _step(self, rate: float) -> None:
        if rate > self._best_rate * _WORTHWHILE and self.level < _MOST_TUNED:
            self._best_rate = rate
            self.level *= 2
        else:
            if rate <= self._best_rate * _WORTHWHILE:
                self.level = max(1, self.level // 2)
            self._climbing = False
        self._note()
