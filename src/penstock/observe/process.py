"""The process's memory as the operating system sees it."""

from __future__ import annotations

import threading

from ..memory.pressure import resident_bytes

__all__ = ["PeakMemory", "resident_bytes"]


class PeakMemory:
    """Watches how far the process grows over what it occupied when the watch began.

    >>> with PeakMemory() as watch:
    ...     data = b"x" * 100_000_000
    >>> watch.growth_bytes >= 50_000_000
    True
    """

    def __init__(self, period_s: float = 0.002) -> None:
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-memory-watch", daemon=True)
        self.baseline_bytes = 0
        self.peak_bytes = 0

    @property
    def growth_bytes(self) -> int:
        """The largest growth seen."""
        return max(0, self.peak_bytes - self.baseline_bytes)

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, resident_bytes())

    def _watch(self) -> None:
        while not self._stop.wait(self._period_s):
            self._look()

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        self.baseline_bytes = self.peak_bytes = resident_bytes()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._look()
        self._stop.set()
        self._thread.join()
