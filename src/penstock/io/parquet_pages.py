"""How large the pages of a Parquet column are, as the header of each says: the footer of the file does not.

Arrow takes the memory for pages from the account of the whole process, whatever pool its reader is given, and others
use that too. So pages are not measured while they are there: their sizes are read before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

__all__ = ["PageSizes", "page_sizes"]

# Enough for a header, unless its column has long strings as least and greatest values.
_HEADER_BYTES = 256
# No writer makes longer ones; where bytes are damaged, one may seem to have no end.
_MOST_HEADER_BYTES = 1 << 17
_DICTIONARY_PAGE = 2
# Thrift's numbers of types, in its compact form.
_FALSE, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
# The fields of a header that matter here.
_TYPE, _UNPACKED_BYTES, _STORED_BYTES, _DICTIONARY_HEADER, _NUM_VALUES = 1, 2, 3, 7, 1


@dataclasses.dataclass
class PageSizes:
    """The largest pages of a column in one row group."""

    unpacked_bytes: int = 0
    stored_bytes: int = 0
    dictionary_bytes: int = 0
    dictionary_values: int = 0


def page_sizes(read_at: Callable[[int, int], bytes], start: int, stop: int) -> PageSizes:
    """Reads the headers of the pages between two offsets of a file.

    At a header that is damaged it ends: Arrow reads no further either, and says what is wrong.

    Args:
        read_at: Gives so many bytes from an offset on.
        start: Where the first page begins.
        stop: Where the last one ends.
    """
    sizes = PageSizes()
    while start < stop:
        header = _read_header(read_at, start, stop)
        if header is None or header.unpacked_bytes < 0 or header.stored_bytes < 0:
            break
        sizes.unpacked_bytes = max(sizes.unpacked_bytes, header.unpacked_bytes)
        sizes.stored_bytes = max(sizes.stored_bytes, header.stored_bytes)
        if header.kind == _DICTIONARY_PAGE:
            sizes.dictionary_bytes = header.unpacked_bytes
            sizes.dictionary_values = max(0, header.dictionary_values)
        start += header.nbytes + header.stored_bytes
    return sizes


def _read_header(read_at: Callable[[int, int], bytes], start: int, stop: int) -> _Header | None:
    nbytes = _HEADER_BYTES
    while True:
        data = read_at(nbytes, start)
        try:
            return _Header(data)
        except (IndexError, RecursionError):
            if len(data) < nbytes or start + nbytes >= stop or nbytes >= _MOST_HEADER_BYTES:
                return None
        except ValueError:
            return None
        nbytes *= 8


class _Header:
    """The header of a page, in Thrift's compact form. Fields that do not matter are passed over."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.nbytes = 0
        self.kind = self.unpacked_bytes = self.stored_bytes = -1
        self.dictionary_values = 0
        field = 0
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else self._integer()
            kind &= 15
            if field == _TYPE and kind in _INTEGERS:
                self.kind = self._integer()
            elif field == _UNPACKED_BYTES and kind in _INTEGERS:
                self.unpacked_bytes = self._integer()
            elif field == _STORED_BYTES and kind in _INTEGERS:
                self.stored_bytes = self._integer()
            elif field == _DICTIONARY_HEADER and kind == _STRUCT:
                self._pass_struct(counted=True)
            else:
                self._pass(kind)

    def _byte(self) -> int:
        value = self._data[self.nbytes]
        self.nbytes += 1
        return value

    def _advance(self, nbytes: int) -> None:
        self.nbytes += nbytes
        if self.nbytes > len(self._data):
            raise IndexError("the header goes on")

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number has no end")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _pass(self, kind: int) -> None:
        if kind <= _FALSE:  # the type is the value
            return
        if kind in _INTEGERS:
            self._unsigned()
        elif kind == _BINARY:
            self._advance(self._unsigned())
        elif kind == _STRUCT:
            self._pass_struct()
        elif kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._unsigned()):
                # A truth value in a list has a byte of its own.
                self._pass(max(_BYTE, head & 15))
        elif kind == _BYTE:
            self._advance(1)
        elif kind == _DOUBLE:
            self._advance(8)
        else:
            raise ValueError(f"expected no field of type {kind} in the header of a page")

    def _pass_struct(self, counted: bool = False) -> None:
        field = 0
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else self._integer()
            kind &= 15
            if counted and field == _NUM_VALUES and kind in _INTEGERS:
                self.dictionary_values = self._integer()
            else:
                self._pass(kind)
