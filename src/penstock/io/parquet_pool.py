"""What Arrow's allocator keeps of what it freed.

Whatever pool a reader or writer is given, Arrow takes the memory for pages from the default one. That keeps what is
freed for the next time, of each size, and for each thread: in the end several times what was ever in use at a time. It
gives it back when asked, which takes as long as decoding a megabyte. So it is asked when the process has grown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from ..memory.pressure import anonymous_bytes

__all__ = ["FreedByArrow", "RecordBatches"]


class FreedByArrow:
    """Memory that was freed, in the thread that uses it.

    Args:
        most_bytes: By how much the process may grow before it is asked for.
    """

    def __init__(self, most_bytes: int) -> None:
        import pyarrow as pa

        self._pool = pa.default_memory_pool()
        self._most_bytes = most_bytes
        self._least_bytes = anonymous_bytes()

    def look(self) -> None:
        """Has it given back if the process has grown since it last was, whatever for."""
        now_bytes = anonymous_bytes()
        self._least_bytes = min(self._least_bytes, now_bytes)
        if now_bytes > self._least_bytes + self._most_bytes:
            self.give_back()

    def give_back(self) -> None:
        """Has it given back."""
        self._pool.release_unused()
        self._least_bytes = anonymous_bytes()


class RecordBatches(Iterator[Any]):
    """Record batches as Arrow decodes them. What it has freed is looked at between two, and in the end."""

    def __init__(self, batches: Generator[Any, None, None], freed: FreedByArrow) -> None:
        self._batches = batches
        self._freed = freed

    def __next__(self) -> Any:
        self._freed.look()
        return next(self._batches)

    def close(self) -> None:
        self._batches.close()
        self._freed.look()  # the pages, too: the next row group, or column, has its own
