"""Progress bars for what takes long before the first element comes: filling a shuffle buffer, writing a cache.

They show on a terminal only, never in a log, and only if it takes more than a second.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

__all__ = ["ProgressBar"]

_SHOW_AFTER_S = 1.0
_REFRESH_S = 0.1


class ProgressBar:
    """Counts elements; shows itself when it is worth it.

    Args:
        description: What is going on, such as "shuffle: filling the buffer".
        total: How many there will be; None where that is not known.
        enabled: Whether it may show at all.
    """

    def __init__(self, description: str, total: int | None, enabled: bool) -> None:
        self._description = description
        self._total = total
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self._done = 0
        self._next_look = monotonic() + _SHOW_AFTER_S
        self._shown: Any = None
        self._task: Any = None

    def advance(self, n: int) -> None:
        """n more are done."""
        self._done += n
        if self._enabled and monotonic() >= self._next_look:
            self._next_look = monotonic() + _REFRESH_S
            self._show()

    def _show(self) -> None:
        if self._shown is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            # Refreshed by us, as its own thread would outlive a run that is dropped; and the caller's streams stay his.
            self._shown = Progress(
                *columns,
                console=Console(file=sys.stderr),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._shown.add_task(self._description, total=self._total)
            self._shown.start()
        done = self._done if self._total is None else min(self._done, self._total)  # the last block may bring more
        self._shown.update(self._task, completed=done)
        self._shown.refresh()

    def close(self) -> None:
        """It is over; a second call does nothing."""
        self._enabled = False
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
