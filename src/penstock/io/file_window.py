"""FileWindow: the part of a stream that lies in memory.

A source that streams holds one window: a buffer on the ledger, and as much again for what is being cut out of it. It
has the size that the user asked for where the budget has room, and 4 kB where it does not. It grows for a record that
it cannot hold, if the budget allows; so what a file says of its own sizes never decides how much memory is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..errors import FormatError
from ..memory.ledger import Share
from ..plan.footprint import Footprint, Sizes, times
from .inflate import Stream

__all__ = ["SMALLEST_BYTES", "FileWindow", "closed_on_error", "of_stream"]

SMALLEST_BYTES = 4096
#: What is read at a time where nothing else was asked for, as in tf.data.
DEFAULT_BYTES = 256 << 10


class FileWindow:
    """Bytes of a stream: `data[start:stop]` are there and not taken yet.

    Args:
        stream: Where they come from; it is closed with the window.
        share: The account of the stage.
        wanted_bytes: The size of the buffer where the budget has room for it; None for what the stream likes, 256 kB
            where it does not say.
        offset: Where in the file the stream begins.
    """

    __slots__ = ("_lease", "_luxury", "_stream", "data", "ended", "offset", "start", "stop")

    def __init__(self, stream: Stream, share: Share, wanted_bytes: int | None = None, offset: int = 0) -> None:
        self._stream = stream
        self._lease = share.acquire(0)
        with closed_on_error(stream):
            self._lease.settle(stream.held_bytes + 2 * SMALLEST_BYTES, single=True)
        size = max(SMALLEST_BYTES, wanted_bytes or stream.likes_bytes or DEFAULT_BYTES)
        self._luxury = None
        while size > SMALLEST_BYTES and not share.frugal and self._luxury is None:
            # On the slack alone: the floor is for the elements.
            if 2 * size <= share.spare_bytes:
                self._luxury = share.try_acquire(2 * (size - SMALLEST_BYTES), ahead=True)
            size = size if self._luxury else size // 4
        self.data = bytearray(SMALLEST_BYTES if self._luxury is None else size)
        self.start = self.stop = 0
        #: Where in the file `data[start]` is.
        self.offset = offset
        self.ended = False

    def __len__(self) -> int:
        return self.stop - self.start

    def more(self) -> bool:
        """Reads on behind what is there; False at the end of the stream."""
        if self.ended:
            return False
        if self.start:
            self.data[: len(self)] = self.data[self.start : self.stop]
            self.start, self.stop = 0, len(self)
        if self.stop == len(self.data):
            self._grow()
        with memoryview(self.data) as view, view[self.stop :] as room:
            count = self._stream.readinto(room)
        self.stop += count
        self.ended = not count
        return not self.ended

    def double(self) -> bool:
        """Reads on until there is twice as much, or the buffer is full; False at the end of the stream.

        For who goes through all that is there each time to find the end of something: streams may give little at once.
        """
        had = len(self)
        try:
            self.need(max(had + 1, min(2 * had, len(self.data))))
        except FormatError:  # which comes again, behind what came
            if len(self) == had:
                raise
        return len(self) > had

    def _grow(self) -> None:
        size, held = 2 * len(self.data), self._stream.held_bytes
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None
        self._lease.settle(held + 2 * size, single=True)
        grown = bytearray(size)
        grown[: len(self.data)] = self.data
        self.data = grown

    def need(self, nbytes: int) -> bool:
        """Reads on until so many bytes are there; False if the stream ends before."""
        while len(self) < nbytes:
            if not self.more():
                return False
        return True

    def take(self, nbytes: int) -> bytes:
        """The next bytes, of those that are there."""
        taken = self.peek(nbytes)
        self.drop(nbytes)
        return taken

    def peek(self, nbytes: int) -> bytes:
        """The next bytes, as far as they are there; they stay."""
        with memoryview(self.data) as view:
            return bytes(view[self.start : min(self.start + nbytes, self.stop)])

    def drop(self, nbytes: int) -> None:
        """Leaves the next bytes, of those that are there, behind."""
        self.start += nbytes
        self.offset += nbytes

    def pass_over(self, nbytes: int) -> int:
        """Leaves the next bytes behind, there or not; returns how many there were."""
        left = nbytes
        while left:
            if not len(self) and not self.more():
                break
            count = min(left, len(self))
            self.drop(count)
            left -= count
        return nbytes - left

    def close(self) -> None:
        """Gives the buffer back; a second call does nothing."""
        self._stream.close()
        self.data = bytearray()
        self.start = self.stop = 0
        self.ended = True
        self._lease.release()
        if self._luxury is not None:
            self._luxury.release()
            self._luxury = None


class _Closed(Protocol):
    def close(self) -> None: ...


@contextmanager
def closed_on_error(file: _Closed) -> Iterator[None]:
    """Closes a file if it cannot be taken to the place where reading begins: nobody else will have it to close it."""
    try:
        yield
    except BaseException:
        file.close()
        raise


def of_stream(sizes: Sizes, wanted_bytes: int | None, held_bytes: int = 0) -> Footprint:
    """What a source holds that reads a stream through a window, and something for itself."""
    one = times(1, sizes.output)
    floor = sizes.at_least_as_seen(None if one is None else one + held_bytes + 2 * SMALLEST_BYTES)
    likes = None if floor is None else floor + 2 * (wanted_bytes or DEFAULT_BYTES)
    return Footprint(likes, "a part of a file, and one element on its way", floor)
