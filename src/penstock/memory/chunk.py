"""Chunks of kept elements: in memory, or on disk as a batch, or as several that lie one behind the other."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..element import Structure, arrays_in, nbytes_of
from ..errors import SpecMismatch
from .ipc import Stored
from .joint import JointAccount
from .place import Place, Stretch

__all__ = ["CHUNK_OBJECT_BYTES", "Chunk", "bytes_when_read", "cut", "idle", "in_memory", "merged", "stack"]

#: A chunk's own objects.
CHUNK_OBJECT_BYTES = 512


class Chunk:
    """Elements that follow each other.

    Attributes:
        size: How many.
        block: They, if they are in memory.
        place: Else where they lie on disk, all of them.
        nbytes: What is on the ledgers of it.
        lent: What they look at that others count, by its id.
        num_batches: As how many batches they lie there. Only the first one's place is remembered, and the others are
            looked for from there, as each says how long it is.
    """

    __slots__ = ("_recent", "block", "lent", "nbytes", "num_batches", "place", "size")

    def __init__(self, size: int, block: Block | None, place: Place | None, nbytes: int, num_batches: int = 1) -> None:
        self.size = size
        self.block = block
        self.place = place
        self.nbytes = nbytes
        self.num_batches = num_batches
        self.lent: Set[int] = frozenset()
        self._recent: tuple[int, Stored] | None = None  # the batch that was found last, and the number of its first row

    @property
    def length(self) -> int:
        """How long its elements would be on disk, about, if they are in memory."""
        return 0 if self.block is None else self.block.nbytes

    def part(self, start: int, stop: int) -> Block:
        """Some of the elements, which are in memory."""
        assert self.block is not None
        return self.block[start:stop]

    def find_on_disk(self, offset: int) -> Stretch:
        """Where one of its elements lies."""
        place = self.place
        assert place is not None
        if self.num_batches == 1:
            return Stretch(place, offset)
        reader, whole = place.reader, place.stored
        first, stored = self._recent or (0, Stored(whole.offset, 0, 0))
        if offset < first:
            first, stored = 0, Stored(whole.offset, 0, 0)
        while offset >= first + stored.num_rows:
            first += stored.num_rows
            found = reader.batch_at(stored.offset + stored.nbytes, whole.offset + whole.nbytes)
            if found is None:
                raise reader.wrong(f"it was changed: the batch at byte {stored.offset + stored.nbytes:,} is gone")
            stored = found.stored
        self._recent = first, stored
        return Stretch(Place(reader, stored), offset - first)


def merged(chunks: list[Chunk]) -> list[Chunk]:
    """The same with every two as one that follow each other on disk too."""
    result: list[Chunk] = []
    can_grow = False
    for chunk in chunks:
        if can_grow and (both := _joined(result[-1], chunk)) is not None:
            result[-1] = both
            can_grow = False
        else:
            result.append(chunk)
            can_grow = True
    return result


def _joined(one: Chunk, other: Chunk) -> Chunk | None:
    if one.place is None or other.place is None or one.place.reader is not other.place.reader:
        return None
    first, second = one.place.stored, other.place.stored
    if first.offset + first.nbytes != second.offset:
        return None
    stored = Stored(first.offset, first.nbytes + second.nbytes, first.num_rows + second.num_rows)
    place = Place(one.place.reader, stored)
    return Chunk(one.size + other.size, None, place, place.index_bytes, one.num_batches + other.num_batches)


def cut(rows: list[Any], most_bytes: int) -> list[slice]:
    """Parts of some elements, each no larger than this or of one element."""
    parts: list[slice] = []
    start = length = 0
    for stop, row in enumerate(rows):
        nbytes = nbytes_of(row)
        if stop > start and length + nbytes > most_bytes:
            parts.append(slice(start, stop))
            start, length = stop, 0
        length += nbytes
    return [*parts, slice(start, len(rows))]


def in_memory(block: Block, nbytes: int, lent: Set[int]) -> Chunk:
    """A chunk that is nowhere else."""
    chunk = Chunk(block.size, block, None, nbytes)
    chunk.lent = lent
    return chunk


def idle(chunks: list[Chunk], beside: Iterable[Chunk] = ()) -> list[Chunk]:
    """Those of which nobody holds an element, or a view of one: moved to disk the others would still be in memory.

    Chunks `beside` them, which are counted by themselves, are nobody.
    """
    busy = [chunk for chunk in chunks if not _is_idle(chunk, {})]
    if not busy:
        return chunks
    # An element may be kept more than once, as of windows that overlap: each then looks at the same memory.
    num_ours = Counter(id(held) for chunk in (*busy, *beside) for held in _held_by(chunk))
    return [chunk for chunk in chunks if chunk not in busy or _is_idle(chunk, num_ours)]


def _is_idle(chunk: Chunk, num_ours: Mapping[int, int]) -> bool:
    block = chunk.block
    assert block is not None
    count = sys.getrefcount
    if block.columns is not None:
        return all(count(block.columns[i]) <= 2 for i in range(len(block.columns)))
    rows = block.rows()
    for i in range(len(rows)):
        # From here the list and the argument refer to a row; its parent, this list and the argument to an array.
        if count(rows[i]) > 1 + num_ours.get(id(rows[i]), 1) and not _is_everybodys(rows[i]):
            return False
        arrays = arrays_in(rows[i])
        if arrays and arrays[0] is not rows[i] and any(count(arrays[j]) > 3 for j in range(len(arrays))):
            return False
        if any(_num_viewers(a) > num_ours.get(id(a.base), 1) for a in arrays if id(a.base) not in chunk.lent):
            return False
    return True


def _held_by(chunk: Chunk) -> Iterator[Any]:
    """What its rows are, and the memory that they look at, once for each look."""
    assert chunk.block is not None
    for row in chunk.block.rows() if chunk.block.columns is None else ():
        yield row
        yield from (array.base for array in arrays_in(row) if array.base is not None)


def _is_everybodys(row: Any) -> bool:
    """Whether it is one of those strings that there are only once in the process: nobody in particular has it."""
    return type(row) is bytes and len(row) <= 1


def _num_viewers(array: np.ndarray) -> int:
    """How many arrays, this one among them, look at the memory that it was made to own."""
    base = array.base
    # This name and the argument.
    return 0 if base is None else sys.getrefcount(base) - 2


def stack(chunk: Chunk, account: JointAccount, most_bytes: int) -> None:
    """Stacks elements if they are alike, and no larger on average: that takes less, and makes batches cheap."""
    block = chunk.block
    assert block is not None
    if block.columns is not None:
        return
    extra = block.nbytes
    is_small = extra <= most_bytes * chunk.size and extra + CHUNK_OBJECT_BYTES <= chunk.nbytes
    if not is_small or not account.charge(extra):
        return
    columns = _stacked(block)
    if columns is not None:
        nbytes = columns.nbytes + CHUNK_OBJECT_BYTES
        account.discharge(chunk.nbytes - nbytes)
        chunk.block, chunk.nbytes = columns, nbytes
    account.discharge(extra)


def _stacked(chunk: Block) -> Block | None:
    """The elements as columns of their own, or None if they are not alike."""
    try:
        columns = concat_blocks([chunk], np.empty)
    except SpecMismatch:
        return None
    for column in columns.columns or () if columns is not None else ():
        column.flags.writeable = False
    return columns


def bytes_when_read(row: Any) -> int:
    """What an element takes when it is read from a file: strings are there twice."""
    leaves = Structure.of(row).flatten(row)
    is_view = all(isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind not in "OSU" for leaf in leaves)
    return nbytes_of(row) if is_view else 2 * nbytes_of(row)
