"""Draws: in which order a shuffle gives the elements of a stream, known before they are drawn.

What is drawn when depends on the key and on how many elements there are, never on the elements themselves. So the
shuffle can be run ahead on numbers, to learn which elements of a buffer will be needed soon and which late. Ahead it
assumes that the stream goes on; when the end comes, what was drawn ahead is forgotten and drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..order import PermutationOrder, RangeOrder, WindowShuffler, as_array

__all__ = ["Draws"]

# What it takes to draw or look up so many is on no account.
_CHUNK = 16_384


class Draws:
    """The numbers of a stream's elements in the order in which they are drawn.

    Args:
        buffer_size: Elements to draw from; None for all there are.
        key: What the order follows from.
        most_ahead: Says how many draws may be known ahead, at 8 bytes each: fewer when there is less memory.
    """

    def __init__(self, buffer_size: int | None, key: int, most_ahead: Callable[[], int]) -> None:
        self._buffer_size = buffer_size
        self._key = key
        self._may_know = most_ahead
        self._window: WindowShuffler | None = None  # made with the first draw: the dataset may be smaller
        self._fed = 0
        self._ahead = np.empty(0, np.int64)
        #: How many were drawn.
        self.drawn = 0
        #: How many elements there are, once that is known.
        self.length: int | None = None

    @property
    def _most_ahead(self) -> int:
        return self._may_know() if self._buffer_size is None else min(self._may_know(), 2 * self._buffer_size)

    @property
    def held_bytes(self) -> int:
        """What it holds while draws are known ahead: of a whole dataset none are before its end."""
        ahead = 0 if self._buffer_size is None else self._most_ahead
        if self.length is not None:
            ahead = min(self._most_ahead, self.length - self.drawn)
        ahead = max(ahead, self._ahead.size)  # there was more memory when these were drawn
        return 8 * ahead + (0 if self._window is None else self._window.held_bytes)

    def wanted(self, n: int, num_read: int) -> int:
        """How many more elements must have come before n can be drawn; where it takes all there are, any number."""
        if self.length is not None:
            return 0
        return _CHUNK if self._buffer_size is None else max(0, self._buffer_size + self.drawn + n - num_read)

    def end(self, length: int) -> None:
        """Says how many elements there are."""
        self.length = length
        if self._fed > length:
            self.move_to(self.drawn)

    def move_to(self, drawn: int) -> None:
        """Starts over and draws so many, at a few nanoseconds each."""
        self._ahead = self._ahead[:0]
        self._window = None
        self._fed = 0
        self.drawn = drawn
        done = 0
        while self._buffer_size is not None and done < drawn:
            done += self._more(min(_CHUNK, drawn - done)).size

    def next(self, n: int) -> np.ndarray:
        """The next n numbers, or all that are left; they count as drawn when `drop` is called."""
        if self._ahead.size < n:
            self._extend(n)
        return self._ahead[:n]

    def drop(self, n: int) -> None:
        """Counts the next n as drawn."""
        self._ahead = self._ahead[n:]
        self.drawn += n

    def due(self, numbers: np.ndarray) -> np.ndarray:
        """When each of these (ascending) numbers will be drawn; for those not drawn soon, how far that is known."""
        most = self._most_ahead
        # A buffer is often given as large as a dataset might ever be: to look ahead must not fill a huge one.
        is_small = self._buffer_size is not None and self._buffer_size <= most
        if (is_small or self._window is not None or self.length is not None) and 2 * self._ahead.size < most:
            self._extend(most)
        due = np.full(numbers.size, self.drawn + self._ahead.size)
        for start in range(0, self._ahead.size, _CHUNK):
            part = self._ahead[start : start + _CHUNK]
            places = np.minimum(np.searchsorted(numbers, part), numbers.size - 1)
            (found,) = np.nonzero(numbers[places] == part)
            due[places[found]] = self.drawn + start + found
        return due

    def waiting(self, num_read: int) -> np.ndarray:
        """The numbers below `num_read` that were not drawn, ascending."""
        if self._buffer_size is not None:
            waiting = np.concatenate([self._held(), self._ahead, np.arange(self._fed, num_read)])
            return np.sort(waiting[waiting < num_read])
        if self.length is None:
            return np.arange(num_read)
        drawn = np.zeros(num_read, bool)
        for start in range(0, self.drawn, _CHUNK):
            drawn[self._permuted(start, min(start + _CHUNK, self.drawn))] = True
        return np.nonzero(~drawn)[0]

    def oldest(self, num_read: int) -> int:
        """The smallest number that was not drawn."""
        lowest = [part.min() for part in (self._held(), self._ahead) if part.size]
        return int(min([*lowest, self._fed, num_read]))

    def _held(self) -> np.ndarray:
        return np.empty(0, np.int64) if self._window is None else self._window.held()

    def _extend(self, size: int) -> None:
        ahead, known = np.empty(size, np.int64), self._ahead.size
        ahead[:known] = self._ahead
        # Chunk by chunk to where they stay: only there they are on the ledger.
        while known < size and (more := self._more(min(_CHUNK, size - known), known)).size:
            ahead[known : known + more.size] = more
            known += more.size
        self._ahead = ahead[:known]

    def _more(self, n: int, known: int = 0) -> np.ndarray:
        """The n numbers, a chunk at most, behind so many that are known; fewer at the end."""
        if self._buffer_size is None:
            start = self.drawn + known
            return self._permuted(start, start + n)
        if self._window is None:
            size = self._buffer_size if self.length is None else min(self._buffer_size, max(1, self.length))
            self._window = WindowShuffler(size, self._key)
        window = self._window
        until = self._buffer_size + window.drawn + n
        if self.length is not None and until >= self.length:
            until = self.length
            window.drain()
        for start in range(self._fed, until, _CHUNK):
            window.feed(np.arange(start, min(start + _CHUNK, until)))
            window.draw(0)  # moves what was fed into the slots, so that little lies around twice
        self._fed = max(self._fed, until)
        return window.draw(n)

    def _permuted(self, start: int, stop: int) -> np.ndarray:
        return as_array(PermutationOrder(RangeOrder(self.length or 0), self._key).slice(start, stop))
