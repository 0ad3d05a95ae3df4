"""The parallelism tuner: how many threads a function is worth, from measured rates.

With a number given there is nothing to choose. With `AUTOTUNE`: the first calls run in the consumer's own thread and
are timed. A call that is cheaper than handing it to a thread stays there. Otherwise threads are tried. Where they share
one interpreter, and a function holds on to it or lets it go often, they may well be slower than none: if the consumer
has waited longer for elements than it takes to make them, it makes them itself again. After a while they are tried once
more, and then ever more seldom: the machine may have been busy. Else threads are added, doubling, for as long as the
consumer still waits and the rate of finished elements grows by a tenth; the last step that did not help is taken back.
What was chosen is on the stage's meter.
"""

from __future__ import annotations

import os
from time import perf_counter_ns

from ...options import AUTOTUNE, MOST_THREADS
from ...spec import UNKNOWN
from ..meter import Meter

__all__ = ["ParallelismTuner"]

# To hand over an element, and what comes of it, takes about as long.
_CHEAP_NS = 50_000
_TRIAL_NS = 5_000_000
_TRIAL_CALLS = 16
# One call may have taken long because somebody else had the processor; if it took as long as this, it did itself.
_LONG_NS = 100_000_000
_FEWEST_CALLS = 3
_WINDOW_NS = 100_000_000
_WINDOW_ELEMENTS = 8
# Threads that are of no use at all are found sooner, if that is clear, and by more elements.
_FIRST_WINDOW_NS = 25_000_000
_FIRST_ELEMENTS = 32
_CLEARLY_SLOWER = 2.0
# They are tried again after so long, and then after twice as long, each time.
_PAUSE_NS = 2_000_000_000
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
        self._whole_each_ns: list[tuple[int, int]] = []  # the same with what it took to get them
        self._climbing = self._tuned
        self._best_rate = 0.0
        self._window_start = 0
        self._window_elements = 0
        self._starved = 0
        self._asked_ns = self._waited_ns = 0
        self._inline_ns = 0  # what it takes the consumer to make an element itself
        self._try_again_ns, self._pause_ns = 0, _PAUSE_NS
        #: Whether it is known that calls are cheap, or threads of no use for now.
        self.settled_inline = False
        #: Whether threads are to begin nothing more: once all that they began was taken, the consumer calls inline.
        self.leaving = False
        self._note()

    def _note(self) -> None:
        self._meter.chosen["num_parallel_calls"] = self.level if self.may_begin else "inline"

    @property
    def may_begin(self) -> bool:
        """Whether threads may begin something."""
        return not (self.inline or self.leaving)

    def called_inline(self, num_elements: int, elapsed_ns: int, getting_ns: int = 0) -> None:
        """Hears how long a call in the consumer's thread took, and what it was called on before that."""
        if self.settled_inline and not self._tries_again():
            return
        self._trial_calls += num_elements
        self._trial_ns += elapsed_ns
        self._trial_each_ns.append((elapsed_ns // num_elements, num_elements))
        self._whole_each_ns.append(((elapsed_ns + getting_ns) // num_elements, num_elements))
        if self._trial_calls < _TRIAL_CALLS and not self._took_long():
            return
        if self._median_ns(self._trial_each_ns) < _CHEAP_NS:
            self.settled_inline = True
        else:
            self.inline = False
            self.level = max(2, os.cpu_count() or 1)
            self._inline_ns = self._median_ns(self._whole_each_ns)
        self._note()

    def _tries_again(self) -> bool:
        if not self.leaving or perf_counter_ns() < self._try_again_ns:
            return False
        self.settled_inline = self.leaving = False
        self._trial_calls = self._trial_ns = self._window_start = 0
        self._trial_each_ns, self._whole_each_ns = [], []
        self._climbing = True
        return True

    def _median_ns(self, trials: list[tuple[int, int]]) -> int:
        """What the element in the middle took: the first one of all may have taken long for reasons of its own."""
        left = self._trial_calls // 2
        for each_ns, num_elements in sorted(trials):
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
        self._asked_ns = perf_counter_ns()

    def served(self) -> int:
        """Hears that the consumer has what it came for; returns how long that took."""
        waited_ns = perf_counter_ns() - self._asked_ns
        self._asked_ns = 0
        self._waited_ns += waited_ns
        return waited_ns

    def finished(self, num_elements: int) -> None:
        """Hears that a worker finished some elements; now and then draws a conclusion."""
        if not self._climbing:
            return
        now = perf_counter_ns()
        if not self._window_start:
            self._begin_window(now)
            return
        self._window_elements += num_elements
        elapsed = now - self._window_start
        if elapsed < _WINDOW_NS or self._window_elements < _WINDOW_ELEMENTS:
            is_enough = elapsed >= _FIRST_WINDOW_NS and self._window_elements >= _FIRST_ELEMENTS
            if is_enough and self._are_slower_than_none(now, by=_CLEARLY_SLOWER):
                self._leave(now)
            return
        if self._are_slower_than_none(now, by=1.0):
            self._leave(now)
            return
        rate = self._window_elements / elapsed
        if self._starved:
            self._step(rate)
        self._begin_window(now)

    def _begin_window(self, now: int) -> None:
        self._window_start, self._window_elements, self._starved = now, 0, 0
        self._waited_ns = self._asked_ns and self._asked_ns - now  # only what it will have waited from now on

    def _are_slower_than_none(self, now: int, by: float) -> bool:
        """Whether the consumer has waited longer, so many times, than making the elements itself would have taken.

        What it does with elements takes its time in any case, beside threads or in between.
        """
        if self._best_rate:  # fewer threads were of use
            return False
        waited_ns = self._waited_ns + (self._asked_ns and now - self._asked_ns)
        return waited_ns > by * self._window_elements * self._inline_ns

    def _leave(self, now: int) -> None:
        self.leaving = self.settled_inline = True
        self._climbing = False
        self._try_again_ns = now + self._pause_ns
        self._pause_ns *= 2
        self._note()

    def _step(self, rate: float) -> None:
        if rate > self._best_rate * _WORTHWHILE and self.level < _MOST_TUNED:
            self._best_rate = rate
            self.level *= 2
        else:
            if rate <= self._best_rate * _WORTHWHILE:
                self.level = max(1, self.level // 2)
            self._climbing = False
        self._note()
