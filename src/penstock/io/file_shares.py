"""Which files, and which elements of them, belong to one of several workers that share the reading.

Lay the files end to end, by size, and cut the line into equal lengths, one for each worker. A cut close to the border
of two files is moved there. The files of a worker then are whole, but for the first and the last, which it may share
with its neighbours; where there are more workers than files, one file is shared by many. What is shared is dealt out
element by element, in proportion: how many elements a file has, nobody needs to know.

All workers come to the same result, because it follows from the sizes of the files alone.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..block import Block
from ..cursor import State
from ..element import detach
from ..errors import FormatError
from ..plan.op import Room
from .paths import stamp_of

__all__ = ["FilePart", "PartOfFile", "owners_by_weight", "share_of"]

# A worker's part may be larger or smaller by a twentieth for the sake of whole files: each of its ends by half of that.
_MOVED = 40
# Elements dealt out before the pattern repeats, where not all owners get as much.
_PATTERN = 256


class FilePart(NamedTuple):
    """A file, or those elements of it whose number, modulo the length of `owners`, has `mine` in that place."""

    path: str
    owners: tuple[int, ...] | None = None
    mine: int = 0


def share_of(paths: Sequence[str], num_shards: int, index: int) -> list[FilePart]:
    """The files and parts of files of one worker, in order."""
    # What is empty or missing must be somebody's too: it may be an error to tell.
    sizes = [max(1, size) for size in _sizes(paths)]
    # In units of 1/num_shards of a byte, so that cuts are whole numbers.
    borders = [0, *itertools.accumulate(size * num_shards for size in sizes)]
    total = borders[-1] // num_shards
    cuts = [_moved(cut * total, borders, total // _MOVED) for cut in range(num_shards)] + [borders[-1]]
    start, stop = cuts[index], cuts[index + 1]
    parts: list[FilePart] = []
    for number in range(bisect_right(borders, start) - 1, bisect_left(borders, stop)):
        first, last = borders[number], borders[number + 1]
        if start <= first and last <= stop:
            parts.append(FilePart(paths[number]))
            continue
        sharing = range(bisect_right(cuts, first) - 1, bisect_left(cuts, last))
        weights = [min(last, cuts[k + 1]) - max(first, cuts[k]) for k in sharing]
        parts.append(FilePart(paths[number], owners_by_weight(weights), sharing.index(index)))
    return parts


def _moved(cut: int, borders: list[int], most: int) -> int:
    """A cut, or the border of two files that is close to it."""
    after = bisect_left(borders, cut)
    nearest = min(borders[max(0, after - 1) : after + 1], key=lambda border: abs(border - cut))
    return nearest if abs(nearest - cut) <= most else cut


def owners_by_weight(weights: Sequence[int]) -> tuple[int, ...]:
    """Who gets which element in turn: after any number of elements each has its part of them, to within one."""
    if len(set(weights)) == 1:
        return tuple(range(len(weights)))
    parts = np.array(weights, dtype=np.float64) / sum(weights)
    given = np.zeros(len(weights))
    owners = []
    for dealt in range(1, max(_PATTERN, 2 * len(weights)) + 1):
        owner = int(np.argmax(parts * dealt - given))
        given[owner] += 1
        owners.append(owner)
    return tuple(owners)


def _sizes(paths: Sequence[str]) -> list[int]:
    return [stamp_of(path)[0] for path in paths]


class _OpenFile(Protocol):
    def read(self, n: int, room: Room) -> Block | None: ...
    def skip(self, n: int) -> int: ...
    def position(self) -> State: ...
    def close(self) -> None: ...


class PartOfFile:
    """The elements of an open file that belong to one of those who share it.

    What cannot be read is an element too, and somebody's: where the file ends with an error, one of them tells it.

    Args:
        file: The file, open at an element.
        part: Which elements.
        number: The number of the element that it is open at.
    """

    def __init__(self, file: _OpenFile, part: FilePart, number: int) -> None:
        assert part.owners is not None
        self._file = file
        self._is_mine = [owner == part.mine for owner in part.owners]
        self._number = number
        self._ended = False
        self._error: FormatError | None = None

    def read(self, n: int, room: Room) -> Block | None:
        rows: list[object] = []
        watched = _Watched(room)
        while len(rows) < n and not watched.is_full and self._reach_mine():
            try:
                block = self._file.read(self._run(True, n - len(rows)), watched)
            except FormatError as error:
                self._error = error
                break
            if block is None:
                self._ended = True
                break
            self._number += block.size
            # The next read may give up what these are views of.
            rows += block.rows() if block.columns is None else map(detach, block.rows())
        if rows:
            return Block.of_rows(rows)
        self._tell_error()
        return None

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n and self._reach_mine():
            try:
                passed = self._pass(self._run(True, n - skipped))
            except FormatError as error:
                self._error = error
                break
            self._ended = not passed
            skipped += passed
        if not skipped:
            self._tell_error()
        return skipped

    def position(self) -> State:
        return [self._file.position(), self._number]

    def close(self) -> None:
        self._file.close()

    def _tell_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            self._ended = True
            raise error

    def _reach_mine(self) -> bool:
        """Passes over the elements of others; False if there are no more of one's own."""
        while not self._ended and self._error is None:
            others = self._run(False, len(self._is_mine))
            if not others:
                return True
            try:
                self._ended = not self._pass(others)
            except FormatError:  # it is theirs
                self._ended = True
        return False

    def _pass(self, n: int) -> int:
        passed = self._file.skip(n)
        self._number += passed
        return passed

    def _run(self, mine: bool, most: int) -> int:
        """How many elements from here on are mine, or are not."""
        owned, at = self._is_mine, self._number % len(self._is_mine)
        count = 0
        while count < min(most, len(owned)) and owned[(at + count) % len(owned)] == mine:
            count += 1
        return count


class _Watched:
    """Room for elements that remembers when there was no more."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.is_full = False
        self.is_of_part, self.takes_all = room.is_of_part, room.takes_all

    def add(self, nbytes: int, count: int = 1) -> bool:
        self.is_full = not self._room.add(nbytes, count)
        return not self.is_full
