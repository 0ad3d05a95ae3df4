"""A gate for calls: so many at a time, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Gate"]


class Gate:
    """Lets calls through; one that is to be alone waits for those within, and none follows until it is done."""

    def __init__(self, limit: int) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._taken = False
        self._within = self._num_waiting = 0
        #: How many may be within at a time; those that are may be more for a moment, after it went down.
        self.limit = limit
        #: How many came through.
        self.num_entered = 0

    def enter(self) -> None:
        with self._changed:
            while self._taken or self._within >= self.limit:
                self._wait()
            self._within += 1
            self.num_entered += 1

    def leave(self) -> None:
        with self._changed:
            self._within -= 1
            if self._num_waiting:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            while self._taken:
                self._wait()
            self._taken = True
        try:
            with self._changed:
                while self._within:
                    self._wait()
                self.num_entered += 1
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()

    def _wait(self) -> None:
        self._num_waiting += 1
        try:
            self._changed.wait()
        finally:
            self._num_waiting -= 1
