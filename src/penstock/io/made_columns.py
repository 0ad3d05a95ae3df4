"""Rows that are made as they are read: those of a store (h5py, zarr), and strings, which become `bytes`.

Numbers of a store go to a slot of the arena, by way of the array that the store gives for some of them. Strings become
objects. Either is on the ledger before it is there, and no more rows are made at a time than there is room for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..block import Block
from ..byte_strings import encode_strings, is_text
from ..element import Failed, Structure
from ..errors import OverBudget, PenstockError, SpecMismatch
from ..leaf import leaf_bytes
from ..order import Index
from ..plan.op import Context
from .columns import Column, column_of

__all__ = ["MadeReader", "is_made", "making_bytes"]

# From here on it pays to let h5py read to where rows belong: that takes it longer to prepare than a small copy takes.
_WORTH_DIRECT = 1 << 17
# Strings are made in parts of about so many bytes.
_STRINGS_BYTES = 1 << 20
# Of so little it is enough that it is counted when it is there.
_SMALL_BYTES = 4096
# What it takes to sort the indices of scattered rows and to find runs of neighbours, for each.
_INDEX_BYTES = 256
# What there is of `bytes` beside their text, with a reference to them; and of the `str` that they are made of.
_BYTES_OBJECT = leaf_bytes(b"") + 8
_STR_OBJECT = 72
# Strings of which nobody knows how long they are may be longer than those that were seen.
_GROWTH = 1.25
_NO_LIMIT = 1 << 62


def is_made(column: Any) -> bool:
    """Whether rows of a column are made as they are read. Else they are views of an array, or copies of its rows."""
    return not isinstance(column, np.ndarray) or is_text(column.dtype)


def making_bytes(column: Any, row_bytes: int | None) -> int | None:
    """What it takes to make one row of a column, beside the row before it; None where only rows can tell."""
    if not is_made(column):
        return 0
    if not _has_strings(column):
        return _Store(column, None).part_bytes
    strings = _Strings(column)
    return strings.making_bytes or (None if row_bytes is None else strings.num_copies * row_bytes)


def _has_strings(column: Any) -> bool:
    dtype = np.dtype(column.dtype)
    return dtype.hasobject or is_text(dtype)


class _Room:
    """The stage's account of what it takes to make rows."""

    def __init__(self, context: Context) -> None:
        self._share = context.share
        self.transit = context.transit
        self.charge, self.give_back = self._share.charge, self._share.discharge

    def take(self, most: int, each_bytes: int) -> int:
        """Puts as many rows on the ledger as there is room for; one at least, or it is refused."""
        count = self.try_take(most, each_bytes)
        if not count:
            self.charge(each_bytes, single=True)
        return count or 1

    def try_take(self, most: int, each_bytes: int) -> int:
        """The same, or none."""
        if most * each_bytes > self.transit.room_bytes:
            most = self.transit.room_bytes // each_bytes
        return most if most and self._share.try_charge(most * each_bytes) else 0


class _Store:
    """An array on disk or elsewhere that reads what is sliced. Without a room it is its user who counts."""

    def __init__(self, array: Any, room: _Room | None) -> None:
        self._array = array
        self._room = room
        self.dtype = np.dtype(array.dtype)
        self.row_shape = tuple(array.shape[1:])
        self.row_bytes = self.dtype.itemsize * math.prod(self.row_shape)
        self._is_direct = hasattr(array, "read_direct") and not self.dtype.hasobject
        #: What the store gives for one row, on its way to where that belongs.
        self.part_bytes = 0 if self._is_direct and self.row_bytes >= _WORTH_DIRECT else self.row_bytes
        #: What one of many rows takes, where it belongs and on its way there.
        self.each_bytes = self.row_bytes if self._is_direct else 2 * self.row_bytes

    def fill(self, out: np.ndarray, rows: Index) -> None:
        """Reads rows to an array; scattered ones in runs of neighbours, rising, as such stores like to be read."""
        if not isinstance(rows, slice) and rows.size > 1:
            self._scatter(out, rows)
            return
        start = rows.start if isinstance(rows, slice) else int(rows[0])
        if self._is_direct and out.nbytes >= _WORTH_DIRECT:
            self._array.read_direct(out, np.s_[start : start + len(out)])
            return
        count = self._take(len(out))
        try:
            for at in range(0, len(out), count):
                to = out[at : at + count]
                to[...] = self._part(start + at, start + at + len(to))
        finally:
            self._give_back(count)

    def _scatter(self, out: np.ndarray, rows: np.ndarray) -> None:
        if self._room is not None:
            self._room.charge(rows.size * _INDEX_BYTES)
        try:
            order = np.argsort(rows, kind="stable")
            rising = rows[order]
            breaks = (np.flatnonzero(np.diff(rising) > 1) + 1).tolist()
            runs = list(zip([0, *breaks], [*breaks, rising.size], strict=True))
            count = self._take(max([int(rising[end - 1] - rising[begin]) + 1 for begin, end in runs]))
            try:
                for begin, end in runs:
                    self._read_run(out, order[begin:end], rising[begin:end], count)
            finally:
                self._give_back(count)
        finally:
            if self._room is not None:
                self._room.give_back(rows.size * _INDEX_BYTES)

    def _read_run(self, out: np.ndarray, places: np.ndarray, rising: np.ndarray, count: int) -> None:
        """Reads rows without a gap between them, so many at a time, to their places."""
        start, stop = int(rising[0]), int(rising[-1]) + 1
        if stop - start <= count:
            _put(self._part(start, stop), out, places, rising - start)
            return
        for at in range(start, stop, count):
            end = min(at + count, stop)
            first, last = np.searchsorted(rising, [at, end])
            _put(self._part(at, end), out, places[first:last], rising[first:last] - at)

    def _take(self, most: int) -> int:
        """How many rows the store may give at a time, on their way to where they belong."""
        return most if self._room is None else self._room.take(most, self.row_bytes)

    def _give_back(self, num_rows: int) -> None:
        if self._room is not None:
            self._room.give_back(num_rows * self.row_bytes)

    def _part(self, start: int, stop: int) -> np.ndarray:
        part = np.asarray(self._array[start:stop])
        if not np.can_cast(part.dtype, self.dtype, "safe"):
            raise SpecMismatch(f"expected {self.dtype}, as {type(self._array).__name__} says, got {part.dtype}")
        return part


def _put(part: np.ndarray, out: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    """Copies rows of a part to their places."""
    if len(part) == 1 == len(places):
        out[places[0]] = part[0]
    elif len(part) == len(places):
        out[places] = part
    else:  # some are wanted twice
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            out[place] = part[row]


class _Strings:
    """Text, or objects, in memory or in a store."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._store = None if isinstance(array, np.ndarray) else _Store(array, None)
        dtype = np.dtype(array.dtype)
        self._row_shape, self._dtype = tuple(array.shape[1:]), dtype
        count = math.prod(self._row_shape)
        nbytes = count * dtype.itemsize
        is_known = dtype.kind in "SU"
        #: The most that a row may take; 0 where nothing tells.
        self.row_bytes = nbytes + count * _BYTES_OBJECT if is_known else 0
        # Scattered rows, or what a store gives, first; and what text is before it is encoded.
        before = nbytes * (1 if self._store is None else 2) + (nbytes + count * _STR_OBJECT if dtype.kind == "U" else 0)
        #: The same with all that it takes to make one.
        self.making_bytes = self.row_bytes + before if is_known else 0
        #: How often text is there while rows are made of which nothing tells how long they are.
        self.num_copies = 1 if dtype.hasobject and dtype.kind != "T" else 3

    def make(self, rows: Index) -> np.ndarray:
        """Some rows, as objects."""
        if self._store is None:
            raw = self._array[rows]
        else:
            size = rows.stop - rows.start if isinstance(rows, slice) else rows.size
            raw = np.empty((size, *self._row_shape), self._dtype)
            self._store.fill(raw, rows)
        if raw.dtype.kind == "S":
            return np.asarray(raw, object)
        is_encoded = not is_text(raw.dtype) and not (raw.size > 0 and isinstance(raw.flat[0], str))
        return raw if is_encoded else encode_strings(raw)


def _objects_bytes(column: np.ndarray) -> int:
    """Bytes of objects, which may be arrays of any length."""
    if not column.size or type(column.flat[0]) is bytes:
        return leaf_bytes(column)
    return column.nbytes + sum(map(leaf_bytes, column.reshape(-1).tolist()))


class MadeReader:
    """Reads rows of columns of which some are made: as many as there is room for, whatever is asked for.

    A store may fail to read, and text to be encoded: what cannot be read is a failure in its place.
    """

    def __init__(self, structure: Structure, columns: list[Any], context: Context) -> None:
        self._structure = structure
        self._context = context
        self._room = room = _Room(context)
        self._strings: list[tuple[int, _Strings]] = []
        self._stores: list[tuple[int, _Store]] = []
        self._plain: list[tuple[int, Column]] = []
        # What one of many rows takes in slots, and on its way there.
        self._in_order_bytes, self._scattered_bytes = 0, 0
        # What it takes to make the strings of a row, as far as that is known, and what they take then.
        self._making_bytes, expected = 0, 0
        self._has_unknown = False
        for i, column in enumerate(columns):  # small datasets are opened by the thousand
            if not is_made(column):
                self._plain.append((i, column_of(column, context.arena)))
                self._scattered_bytes += column.dtype.itemsize * math.prod(column.shape[1:])
            elif _has_strings(column):
                strings = _Strings(column)
                self._strings.append((i, strings))
                self._making_bytes += strings.making_bytes
                expected += strings.row_bytes
                self._has_unknown = self._has_unknown or not strings.making_bytes
            else:
                store = _Store(column, room)
                self._stores.append((i, store))
                self._in_order_bytes += store.each_bytes
        self._scattered_bytes += self._in_order_bytes + _INDEX_BYTES
        if expected and not self._has_unknown:
            room.transit.expect(expected)
        self._most = _NO_LIMIT  # at a time: fewer where some could not be read

    def read(self, index: Index) -> Block:
        return self.gather(index, 0, index.stop - index.start if isinstance(index, slice) else index.size)

    def gather(self, index: Index, start: int, size: int) -> Block:
        """The elements `index[start : start + size]`, or the first of them."""
        while True:
            count = self._fitting(min(size, self._most), isinstance(index, slice))
            try:
                block = self._made(index, start, count)
            except OverBudget:
                if count == 1:
                    raise
            except PenstockError:
                raise
            except Exception as error:
                if count == 1:
                    self._most = 1
                    place = index.start + start if isinstance(index, slice) else int(index[start])
                    return Block.of_rows([Failed(self._context.noted(error, place))], has_failures=True)
            else:
                self._most = min(2 * self._most, _NO_LIMIT)
                return block
            self._most = count // 2

    def _fitting(self, size: int, in_order: bool) -> int:
        if self._strings:
            size = self._room.transit.begin(size)
        each = self._in_order_bytes if in_order else self._scattered_bytes
        room = self._room.transit.room_bytes if each else 0
        if size * each <= room:
            return size
        # A power of two: most times the same, so that slots can be used again.
        return 1 << max(0, (room // each).bit_length() - 1)

    def _made(self, index: Index, start: int, count: int) -> Block:
        columns: list[Any] = [None] * self._structure.num_leaves
        if self._strings:
            made = self._made_strings(index, start, count)
            count = len(made[0])
            for (i, _), column in zip(self._strings, made, strict=True):
                columns[i] = column
        rows = _rows(index, start, count)
        for i, store in self._stores:
            columns[i] = self._context.arena.empty((count, *store.row_shape), store.dtype)
            store.fill(columns[i], rows)
        for i, plain in self._plain:
            if isinstance(index, slice):
                columns[i] = plain.view(_slice(index, start, count))
            else:
                columns[i] = plain.pick(index, start, count)
        return Block(count, self._structure, columns, None, False, None)

    def _made_strings(self, index: Index, start: int, count: int) -> list[np.ndarray]:
        """The strings of so many rows, or of as many of them as there was room for."""
        if 0 < count * self._making_bytes < _SMALL_BYTES:
            made, sizes = self._make_strings(_rows(index, start, count))
            self._room.transit.add(sum(sizes), count)
            return made
        parts: list[list[np.ndarray]] = []
        done = 0
        while done < count:
            each = self._making_bytes
            most = min(count - done, max(1, _STRINGS_BYTES // each)) if each else 1
            num_rows = (self._room.try_take if done else self._room.take)(most, each)
            if not num_rows:
                break
            parts.append(self._count_strings(_rows(index, start + done, num_rows), num_rows, num_rows * each))
            done += num_rows
        return [column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True)]

    def _make_strings(self, rows: Index) -> tuple[list[np.ndarray], list[int]]:
        """Some strings of each column, and their bytes."""
        made = [strings.make(rows) for _, strings in self._strings]
        return made, list(map(_objects_bytes, made))

    def _count_strings(self, rows: Index, num_rows: int, charged: int) -> list[np.ndarray]:
        """Makes strings, for which so many bytes are on the ledger, and counts what they take."""
        room = self._room
        try:
            made, sizes = self._make_strings(rows)
            nbytes = sum(sizes)
            if nbytes > charged:
                room.charge(nbytes - charged, single=True)
                charged = nbytes
        except BaseException:
            room.give_back(charged)
            raise
        room.give_back(charged - nbytes)
        room.transit.adopt(nbytes, num_rows)  # no byte is free in between that another thread could take
        if self._has_unknown:
            self._learn(sizes, num_rows)
        return made

    def _learn(self, sizes: list[int], num_rows: int) -> None:
        """What it takes to make strings of which nothing tells how long they are is judged by the longest so far."""
        each = 0
        for (_, strings), nbytes in zip(self._strings, sizes, strict=True):
            each += strings.making_bytes or int(_GROWTH * strings.num_copies * nbytes / num_rows)
        self._making_bytes = max(self._making_bytes, each)


def _rows(index: Index, start: int, count: int) -> Index:
    return _slice(index, start, count) if isinstance(index, slice) else index[start : start + count]


def _slice(index: slice, start: int, count: int) -> slice:
    return slice(index.start + start, index.start + start + count)
