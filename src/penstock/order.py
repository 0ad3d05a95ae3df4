"""Orders: lazy sequences of source indices.

A pipeline over a random-access source is a source, an Order and a chain of element functions. `shuffle`, `take`,
`skip`, `shard` and `repeat` are arithmetic here: an Order holds O(1) bytes (a window shuffle 8 bytes per slot) however
long it is, and a position in it is one integer.

`order.slice(a, b)` gives places a to b as source indices: a `slice` where they are consecutive, so that a source can
answer with a view, else an int64 array. `order.at(places)` gives any places at once; a window shuffle cannot do that
(`random_access` is False): what it gives at a place depends on all places before.

Randomness is counter-based: what an order gives at a place depends only on its key, never on how it was asked. Keys
come from `hash64(seed, epoch)`.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ._native import permute, permute_at, window_shuffle

__all__ = [
    "Index",
    "Length",
    "Order",
    "PermutationOrder",
    "RangeOrder",
    "RepeatOrder",
    "ShardOrder",
    "SkipOrder",
    "TakeOrder",
    "WindowOrder",
    "WindowShuffler",
    "child_epoch",
    "draw_seed",
    "hash64",
]

Index = slice | np.ndarray
#: A count of elements; `math.inf` for one without end.
Length = int | float

_CHUNK = 65_536


def hash64(*parts: int) -> int:
    """64 well-mixed bits of some integers of any size."""
    text = ",".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def draw_seed() -> int:
    """A seed that nobody chose."""
    return int.from_bytes(os.urandom(8), "little") >> 1


def child_epoch(epoch: int, iteration: int, count: int | None) -> int:
    """The epoch of an iteration inside `repeat(count)`: epochs of epochs, numbered without gaps or clashes.

    Run k of `ds.repeat(3)` is made of the same epochs as runs 3k, 3k + 1 and 3k + 2 of `ds`.
    """
    return epoch * count + iteration if count is not None else (epoch << 40) + iteration


def as_array(index: Index) -> np.ndarray:
    """Indices as an int64 array."""
    if isinstance(index, slice):
        return np.arange(index.start, index.stop, dtype=np.int64)
    return index


class Order(ABC):
    """A lazy sequence of source indices."""

    __slots__ = ()

    #: Whether `at` works.
    random_access = True
    #: Whether each place holds the index after the one before: any part of it is a slice.
    is_one_run = False

    @property
    @abstractmethod
    def length(self) -> Length:
        """How many places there are."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Index:
        """The source indices at places start to stop, cut at the end."""

    @abstractmethod
    def at(self, places: np.ndarray) -> np.ndarray:
        """The source indices at these places."""

    def extended(self, by: int) -> Order:
        """This order with room for `by` more elements where a `take` outside counts only those that succeeded."""
        return self

    @property
    def held_bytes(self) -> int:
        return 0


class RangeOrder(Order):
    """0, 1, 2, …, length - 1."""

    __slots__ = ("_length",)

    is_one_run = True

    def __init__(self, length: Length) -> None:
        self._length = length

    @property
    def length(self) -> Length:
        return self._length

    def slice(self, start: int, stop: int) -> Index:
        stop = int(min(stop, self._length))
        return slice(min(start, stop), stop)

    def at(self, places: np.ndarray) -> np.ndarray:
        return places


class _DerivedOrder(Order):
    """An order that rearranges another one."""

    __slots__ = ("inner",)

    def __init__(self, inner: Order) -> None:
        self.inner = inner

    @property
    def random_access(self) -> bool:  # type: ignore[override]  # a constant for most orders
        return self.inner.random_access

    @property
    def length(self) -> Length:
        return self.inner.length

    @property
    def held_bytes(self) -> int:
        return self.inner.held_bytes


class TakeOrder(_DerivedOrder):
    """The first `count` places; an *elastic* one was written above functions and counts only what they return."""

    __slots__ = ("count", "elastic")

    def __init__(self, inner: Order, count: int, elastic: bool = False) -> None:
        super().__init__(inner)
        self.count = count
        self.elastic = elastic

    @property
    def is_one_run(self) -> bool:  # type: ignore[override]  # a constant for most orders
        return self.inner.is_one_run

    @property
    def length(self) -> Length:
        return min(self.count, self.inner.length)

    def slice(self, start: int, stop: int) -> Index:
        stop = min(stop, self.count)
        return self.inner.slice(min(start, stop), stop)

    def at(self, places: np.ndarray) -> np.ndarray:
        return self.inner.at(places)

    def extended(self, by: int) -> Order:
        return TakeOrder(self.inner.extended(by), self.count + by, True) if self.elastic else self


class SkipOrder(_DerivedOrder):
    """All but the first `count` places."""

    __slots__ = ("count",)

    def __init__(self, inner: Order, count: int) -> None:
        super().__init__(inner)
        self.count = count

    @property
    def is_one_run(self) -> bool:  # type: ignore[override]  # a constant for most orders
        return self.inner.is_one_run

    @property
    def length(self) -> Length:
        return max(0, self.inner.length - self.count)

    def slice(self, start: int, stop: int) -> Index:
        return self.inner.slice(start + self.count, stop + self.count)

    def at(self, places: np.ndarray) -> np.ndarray:
        return self.inner.at(places + self.count)


class ShardOrder(_DerivedOrder):
    """Places index, index + num_shards, index + 2·num_shards, …"""

    __slots__ = ("index", "num_shards")

    def __init__(self, inner: Order, num_shards: int, index: int) -> None:
        super().__init__(inner)
        self.num_shards = num_shards
        self.index = index

    @property
    def is_one_run(self) -> bool:  # type: ignore[override]  # a constant for most orders
        return self.num_shards == 1 and self.inner.is_one_run

    @property
    def length(self) -> Length:
        inner = self.inner.length
        return (
            inner if inner == math.inf else max(0, (int(inner) - self.index + self.num_shards - 1) // self.num_shards)
        )

    def slice(self, start: int, stop: int) -> Index:
        stop = int(min(stop, self.length))
        if start >= stop:
            return slice(0, 0)
        if self.num_shards == 1:
            return self.inner.slice(start, stop)
        first, last = (start * self.num_shards + self.index, (stop - 1) * self.num_shards + self.index)
        if self.inner.random_access:
            return self.inner.at(np.arange(first, last + 1, self.num_shards, dtype=np.int64))
        # A sequential order must walk all places; in pieces, so that a wide stride holds few of them at a time.
        parts = []
        step = max(1, _CHUNK // self.num_shards) * self.num_shards
        for begin in range(first, last + 1, step):
            parts.append(as_array(self.inner.slice(begin, min(begin + step, last + 1)))[:: self.num_shards])
        return np.concatenate(parts)

    def at(self, places: np.ndarray) -> np.ndarray:
        return self.inner.at(places * self.num_shards + self.index)


class RepeatOrder(Order):
    """An order again and again, bound anew for each iteration so that shuffles inside it differ."""

    __slots__ = ("_bind", "_count", "_current", "_epoch", "_first", "_iteration", "_period")

    def __init__(self, bind: Callable[[int], Order], count: int | None, epoch: int) -> None:
        self._bind = bind
        self._count = count
        self._epoch = epoch
        self._first = bind(child_epoch(epoch, 0, count))
        self._iteration, self._current = 0, self._first
        self._period = self._first.length

    @property
    def random_access(self) -> bool:  # type: ignore[override]  # a constant for most orders
        return self._first.random_access

    @property
    def is_one_run(self) -> bool:  # type: ignore[override]  # a constant for most orders
        # Behind each end comes the first again.
        return self._first.is_one_run and (self._count == 1 or self._period == math.inf)

    @property
    def length(self) -> Length:
        if self._period == 0 or self._count == 0:
            return 0
        return math.inf if self._count is None else self._period * self._count

    def _at_iteration(self, iteration: int) -> Order:
        if iteration != self._iteration:
            self._iteration = iteration
            self._current = self._bind(child_epoch(self._epoch, iteration, self._count))
        return self._current

    def slice(self, start: int, stop: int) -> Index:
        stop = int(min(stop, self.length))
        if start >= stop:
            return slice(0, 0)
        if self._period == math.inf:
            return self._first.slice(start, stop)
        period = int(self._period)
        if type(self._first) is RangeOrder and start // period != (stop - 1) // period:
            return np.arange(start, stop) % period
        parts: list[Index] = []
        while start < stop:
            iteration, offset = divmod(start, period)
            end = min(period, offset + stop - start)
            parts.append(self._at_iteration(iteration).slice(offset, end))
            start += end - offset
        return parts[0] if len(parts) == 1 else np.concatenate([as_array(part) for part in parts])

    def at(self, places: np.ndarray) -> np.ndarray:
        if self._period == math.inf:
            return self._first.at(places)
        iterations, offsets = np.divmod(places, int(self._period))
        out = np.empty_like(places)
        for iteration in np.unique(iterations):
            here = iterations == iteration
            out[here] = self._at_iteration(int(iteration)).at(offsets[here])
        return out

    @property
    def held_bytes(self) -> int:
        return 2 * self._first.held_bytes


class PermutationOrder(_DerivedOrder):
    """All places of a random-access order in a random order: a keyed bijection, nothing is stored."""

    __slots__ = ("_key", "_n")

    def __init__(self, inner: Order, key: int) -> None:
        super().__init__(inner)
        self._n = int(inner.length)
        self._key = key

    def slice(self, start: int, stop: int) -> Index:
        stop = min(stop, self._n)
        if start >= stop:
            return slice(0, 0)
        out = np.empty(stop - start, dtype=np.int64)
        permute(self._n, self._key, start, out)
        return self.inner.at(out)

    def at(self, places: np.ndarray) -> np.ndarray:
        out = np.empty_like(places)
        permute_at(self._n, self._key, np.ascontiguousarray(places), out)
        return self.inner.at(out)


class WindowShuffler:
    """A shuffle buffer on numbers: the state of tf.data's `shuffle(n)` with 8 bytes a slot.

    Numbers go in with `feed`; `draw` gives the shuffled ones, as many as the buffer may let go. The outcome does not
    depend on how feeding and drawing are cut into calls.
    """

    __slots__ = ("_fed", "_filled", "_key", "_slots", "drained", "drawn")

    def __init__(self, buffer_size: int, key: int) -> None:
        self._slots = np.empty(buffer_size, dtype=np.int64)
        self._filled = 0
        self._key = key
        self._fed = np.empty(0, dtype=np.int64)
        self.drawn = 0
        self.drained = False

    def feed(self, numbers: np.ndarray) -> None:
        """Brings the next numbers."""
        self._fed = numbers if not self._fed.size else np.concatenate([self._fed, numbers])

    def drain(self) -> None:
        """Says that no more numbers will come."""
        self.drained = True

    def wanted(self, n: int) -> int:
        """How many more numbers must come before n can be drawn."""
        return 0 if self.drained else max(0, self._slots.size - self._filled + n - self._fed.size)

    def draw(self, n: int) -> np.ndarray:
        """Up to n shuffled numbers."""
        out = np.empty(n, dtype=np.int64)
        consumed, produced, self._filled = window_shuffle(
            self._slots, self._filled, np.ascontiguousarray(self._fed), self.drained, self._key, self.drawn, out
        )
        self._fed = self._fed[consumed:]
        self.drawn += produced
        return out[:produced]

    def held(self) -> np.ndarray:
        """The numbers in the buffer now."""
        return np.concatenate([self._slots[: self._filled], self._fed])

    @property
    def held_bytes(self) -> int:
        return int(self._slots.nbytes)


class WindowOrder(_DerivedOrder):
    """A shuffle buffer over an order. Sequential: going back starts over, and re-draws at a few ns a place."""

    __slots__ = ("_buffer_size", "_key", "_read", "_shuffler")

    random_access = False

    def __init__(self, inner: Order, buffer_size: int, key: int) -> None:
        super().__init__(inner)
        self._buffer_size = int(min(buffer_size, inner.length)) or 1
        self._key = key
        self._shuffler: WindowShuffler | None = None  # made when first asked: plans are compared without running
        self._read = 0

    def _start_over(self) -> WindowShuffler:
        self._shuffler = WindowShuffler(self._buffer_size, self._key)
        self._read = 0
        return self._shuffler

    def slice(self, start: int, stop: int) -> Index:
        stop = int(min(stop, self.length))
        if start >= stop:
            return slice(0, 0)
        shuffler = self._shuffler
        if shuffler is None or start < shuffler.drawn:
            shuffler = self._start_over()
        while shuffler.drawn < start:
            self._draw(shuffler, min(_CHUNK, start - shuffler.drawn))
        parts = []
        while shuffler.drawn < stop:
            parts.append(self._draw(shuffler, min(_CHUNK, stop - shuffler.drawn)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _draw(self, shuffler: WindowShuffler, n: int) -> np.ndarray:
        while wanted := shuffler.wanted(n):
            fresh = as_array(self.inner.slice(self._read, self._read + min(wanted, _CHUNK)))
            self._read += fresh.size
            shuffler.feed(fresh)
            if self._read >= self.inner.length:
                shuffler.drain()
            elif shuffler.wanted(n) >= _CHUNK:
                shuffler.draw(0)  # moves what was fed into the slots, so that little lies around twice
        return shuffler.draw(n)

    def at(self, places: np.ndarray) -> Any:
        raise TypeError("a window shuffle is sequential")

    @property
    def held_bytes(self) -> int:
        return self.inner.held_bytes + 8 * self._buffer_size
