"""A remote file of which parts are kept that were asked for: for readers that ask for a little at a time.

Arrow reads each column of a Parquet file for itself, some kilobytes at a time, and each read of a store of objects is a
request that takes as long as a megabyte. So whoever reads a row group says first where its columns lie, and how much
memory there is. What fits is fetched as a whole, neighbours together; of what does not, a part of each column.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from typing import Any

__all__ = ["FetchedFile"]

# What lies between two parts is fetched with them where that takes no longer than a second request.
_GAP_BYTES = 256 << 10
# The largest part of a column that is fetched at a time where there is no room for all.
_MOST_BYTES = 1 << 20
_LEAST_BYTES = 1 << 15


class FetchedFile:
    """What `pa.PythonFile` reads of: answers from the parts that are there, and asks the file for others.

    Args:
        file: A file of pyarrow's.
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._size = int(file.size())
        self._at = 0
        self._spans: list[tuple[int, int]] = []  # what will be read, in the order of the file
        self._window_bytes = 0
        self._windows: dict[int, tuple[int, Any]] = {}  # by the number of the span: where it begins, and a buffer

    def expect(self, spans: Sequence[tuple[int, int]], room_bytes: int) -> int:
        """Says which parts will be read, and how much of them may be kept; returns how much will be.

        Args:
            spans: Where they begin and end.
            room_bytes: All that is kept takes no more than this.
        """
        self.forget()
        spans = _merged(spans, room_bytes)
        if sum(stop - start for start, stop in spans) <= room_bytes:
            self._window_bytes = max((stop - start for start, stop in spans), default=0)
        else:
            self._window_bytes = min(_MOST_BYTES, room_bytes // max(1, len(spans)))
        self._spans = spans if self._window_bytes >= min(_LEAST_BYTES, room_bytes) else []
        return sum(min(self._window_bytes, stop - start) for start, stop in self._spans)

    def forget(self) -> None:
        """Gives up what is kept."""
        self._spans = []
        self._windows.clear()

    def read_at(self, nbytes: int, offset: int) -> Any:
        """So many bytes from an offset on, as something with a buffer."""
        number = bisect.bisect_right(self._spans, (offset, self._size + 1)) - 1
        if number < 0 or offset + nbytes > self._spans[number][1] or nbytes > self._window_bytes:
            return self._file.read_at(nbytes, offset)
        start, kept = self._windows.get(number, (0, None))
        if kept is None or not start <= offset or offset + nbytes > start + kept.size:
            import pyarrow as pa

            self._windows.pop(number, None)  # before there is another
            del kept
            wanted = min(self._window_bytes, self._spans[number][1] - offset)
            start, kept = offset, pa.py_buffer(self._file.read_at(wanted, offset))
            self._windows[number] = start, kept
        return kept.slice(offset - start, min(nbytes, start + kept.size - offset))

    # --- what pa.PythonFile asks ---

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, nbytes: int = -1) -> Any:
        nbytes = self._size - self._at if nbytes < 0 else nbytes
        data = self.read_at(nbytes, self._at)
        self._at += len(data)
        return data

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.forget()
        self._file.close()


def _merged(spans: Sequence[tuple[int, int]], most_bytes: int) -> list[tuple[int, int]]:
    """Spans in order, those that are near each other as one if all of them together are not too long."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start - merged[-1][1] <= _GAP_BYTES:
            start, stop = merged[-1][0], max(stop, merged.pop()[1])
        merged.append((start, stop))
    return merged if sum(stop - start for start, stop in merged) <= most_bytes else sorted(spans)
