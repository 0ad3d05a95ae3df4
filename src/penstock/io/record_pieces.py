"""Files that records are read of by their places: local ones by a kernel, others in few large reads."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from .._native import read_records
from .paths import is_local, local_path, open_random, readable

__all__ = ["OpenFile", "open_file"]

# What lies between two records of a remote file is read with them where that takes no longer than a second read.
_REMOTE_GAP_BYTES = 256 << 10


class OpenFile(Protocol):
    """A file that pieces are read of."""

    def read(
        self, begins: np.ndarray, ends: np.ndarray, targets: np.ndarray, memory: np.ndarray, used_bytes: int
    ) -> tuple[list[int], int]:
        """Reads pieces of the file to their places in memory, of which what is behind `used_bytes` may be used as well.

        Returns the numbers of those that could not be read, and where the file ended, or minus the system's error.
        """

    def close(self) -> None:
        """Closes the file."""


def open_file(path: str) -> OpenFile:
    """Opens a file wherever it is."""
    return _LocalFile(path) if is_local(path) else _RemoteFile(path)


class _LocalFile:
    def __init__(self, path: str) -> None:
        with readable(path):
            self._descriptor = os.open(local_path(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(
        self, begins: np.ndarray, ends: np.ndarray, targets: np.ndarray, memory: np.ndarray, used_bytes: int
    ) -> tuple[list[int], int]:
        return read_records(self._descriptor, begins, ends, targets, memory, used_bytes)

    def close(self) -> None:
        os.close(self._descriptor)


class _RemoteFile:
    """Errors of the store are raised. Neighbours are read at once as far as there is room behind what is used."""

    def __init__(self, path: str) -> None:
        self._file = open_random(path)

    def read(
        self, begins: np.ndarray, ends: np.ndarray, targets: np.ndarray, memory: np.ndarray, used_bytes: int
    ) -> tuple[list[int], int]:
        order = np.argsort(begins, kind="stable").tolist()
        room = len(memory) - used_bytes
        first = 0
        while first < len(order):
            begin, end, last = int(begins[order[first]]), int(ends[order[first]]), first + 1
            while last < len(order):
                further = max(end, int(ends[order[last]]))
                if int(begins[order[last]]) > end + _REMOTE_GAP_BYTES or further - begin > room:
                    break
                end, last = further, last + 1
            alone = last == first + 1
            at = int(targets[order[first]]) if alone else used_bytes
            got = begin + self._read_at(begin, memory[at : at + end - begin])
            for i in order[first:last]:
                if int(ends[i]) > got:
                    return order[order.index(i) :], got
                if not alone:
                    piece = memory[at + int(begins[i]) - begin : at + int(ends[i]) - begin]
                    memory[int(targets[i]) : int(targets[i]) + piece.size] = piece
            first = last
        return [], 0

    def _read_at(self, offset: int, memory: np.ndarray) -> int:
        done = 0
        with memory.data as view:
            while done < len(view):
                count = self._file.read_into(offset + done, view[done:])
                if not count:
                    break
                done += count
        return done

    def close(self) -> None:
        self._file.close()
