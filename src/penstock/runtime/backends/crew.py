"""A crew: threads that share the work on one block, and are done when it is (`Map.filling`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import perf_counter_ns

from ...frames import taken
from ..channel import Threads
from ..meter import Meter
from .tuner import ParallelismTuner

__all__ = ["Crew"]


class Crew:
    """The thread that asks and, if that pays, some others: as many in all as the tuner says.

    The others start with the first work that is worth it, and sleep in between.
    """

    def __init__(self, num_parallel_calls: int, meter: Meter) -> None:
        self._tuner = ParallelismTuner(num_parallel_calls, meter)
        self._meter = meter
        self.threads = Threads("map")
        self._job: _Job | None = None

    def each(self, make: Callable[[int], bool], count: int) -> int:
        """Calls `make` with 0, 1, … until one call says no; returns how many there were, each of which is done.

        Raises:
            BaseException: What a call raised, once all have ended.
        """
        start, tuner = perf_counter_ns(), self._tuner
        tuner.inline |= tuner.leaving
        is_alone = tuner.inline
        job = _Job(make, count, 0 if is_alone else min(tuner.level, count) - 1)
        tuner.asked(starved=True)
        self._do(job)
        tuner.served()
        self._meter.worker_ns += job.working_ns
        if job.error is not None:
            raise taken(job)
        if self.threads.stopped:
            raise RuntimeError("the run was closed")
        num_made = job.num_begun()
        if is_alone:
            tuner.called_inline(num_made, perf_counter_ns() - start)
        else:
            tuner.finished(num_made)
        return num_made

    def _do(self, job: _Job) -> None:
        changed = self.threads.changed
        with changed:
            self._job = job
            job.stopped = self.threads.stopped
            while self.threads.count < job.num_open and not job.stopped:
                self.threads.start(self._help)
            changed.notify_all()
        job.work()
        with changed:
            self._job = None
            while job.num_helping:
                changed.wait()

    def _help(self) -> None:
        changed = self.threads.changed
        while True:
            with changed:
                while not self.threads.stopped and (self._job is None or not self._job.num_open):
                    changed.wait()
                if self.threads.stopped:
                    return
                job = self._job
                assert job is not None
                job.num_open -= 1
                job.num_helping += 1
            job.work()
            with changed:
                job.num_helping -= 1
                changed.notify_all()
            del job  # or it would keep a slot while there is nothing to do

    def stop(self) -> None:
        """Ends all threads once they have made what they are at."""
        job = self._job
        if job is not None:
            job.stopped = True
        self.threads.stop()


class _Job:
    """One block's work: calls with the numbers from 0 on, which threads take in turn."""

    def __init__(self, make: Callable[[int], bool], count: int, num_others: int) -> None:
        self.stopped = False
        self.error: BaseException | None = None
        self.num_open = num_others  # places for threads that may still join
        self.num_helping = 0
        self.working_ns = 0
        self._make = make
        self._count = count
        self._numbers = itertools.count()

    def num_begun(self) -> int:
        """How many calls there were. Asked once, when nobody works any more."""
        return min(self._count, next(self._numbers))

    def work(self) -> None:
        make, count, numbers = self._make, self._count, self._numbers
        start = perf_counter_ns()
        try:
            # A number that was taken is worked on: so what is done has no gaps.
            while not self.stopped and (number := next(numbers)) < count:
                if not make(number):
                    self.stopped = True
        except BaseException as error:
            self.error, self.stopped = error, True
        self.working_ns += perf_counter_ns() - start
