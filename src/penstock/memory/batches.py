"""Batches of numbered elements of any kinds: one file for each layout, written at once and read batch by batch.

Each element is written with its number beside it, so that nobody has to remember what is in a batch. It comes back as
it was, in its own order of bytes too. A file's bytes count on its space, and it goes when its last batch was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadType
from .ipc import ALONE_BYTES, Stored
from .layout import Layout
from .spill import SpillSpace
from .spill_format import SpillKind, kind_of, new_writer, reader_of

__all__ = ["Batch", "BatchFile", "BatchFiles", "Written"]


class BatchFile:
    """A file of batches."""

    __slots__ = ("kind", "nbytes", "num_left", "path")

    def __init__(self, path: str, kind: SpillKind) -> None:
        self.path = path
        self.kind = kind
        self.nbytes = 0
        self.num_left = 0

    @property
    def makes_copies(self) -> bool:
        """Whether elements are not all views of what was read: strings are made anew."""
        return self.kind.layout is not None and self.kind.layout.makes_copies


class Batch(NamedTuple):
    """A batch that was written, the number of its first element, and what its elements take in memory."""

    first: int
    stored: Stored
    nbytes: int


class Written(NamedTuple):
    """Files and what was written to them, and the numbers of those elements that cannot be stored."""

    files: list[tuple[BatchFile, list[Batch]]]
    left_out: list[int]


class BatchFiles:
    """The files that one owner has in a space."""

    def __init__(self, space: SpillSpace) -> None:
        self._space = space
        self._kinds: list[SpillKind] = []
        self._files: set[BatchFile] = set()

    def __len__(self) -> int:
        return len(self._files)

    def write(self, rows: Iterable[tuple[int, Any, int]], batch_bytes: int) -> Written:
        """Writes elements, each with its number and size, in batches of about so many bytes, in their order.

        All or none, but for those that cannot be stored: they are left out. Large ones are batches of their own. The
        elements are asked for one by one, and no more of them are kept than a batch has.
        """
        groups: dict[int, _Group] = {}
        left_out: list[int] = []
        # They come by the hundred thousand, and are mostly arrays of one dtype: one look tells where such a one goes.
        group: _Group | None = None
        dtype: np.dtype[Any] | None = None
        try:
            for number, row, nbytes in rows:
                if group is not None and type(row) is np.ndarray and row.dtype is dtype:
                    group.add(number, [row], nbytes)
                    continue
                if (found := self._taken_apart((np.int64(number), row))) is None:
                    left_out.append(number)
                    continue
                kind, leaves = found
                if id(kind) not in groups:
                    groups[id(kind)] = _Group(self._space, kind, batch_bytes)
                group, dtype = groups[id(kind)], row.dtype if type(row) is np.ndarray else None
                group.add(number, leaves[1:], nbytes)
            for group in groups.values():
                group.close()
        except BaseException:
            for group in groups.values():
                group.writer.discard()
            raise
        self._files.update(group.file for group in groups.values())
        return Written([(group.file, group.batches) for group in groups.values()], left_out)

    def _taken_apart(self, row: Any) -> tuple[SpillKind, list[Any]] | None:
        """Which kind of element it is, and its leaves; None for one that cannot be stored."""
        for kind in self._kinds:
            if kind.layout is not None and (leaves := kind.layout.leaves_of(row)) is not None:
                return kind, leaves
        try:
            layout = Layout.of(row, keeps_order=True)
            kind = kind_of(layout)
        except BadType:
            return None
        self._kinds.append(kind)
        return kind, layout.structure.flatten(row)

    def read(
        self, file: BatchFile, stored: Stored, into: Callable[[int], np.ndarray] | None = None
    ) -> tuple[list[int], list[Any]]:
        """The numbers of a batch's elements, and the elements; each batch can be read once."""
        reader = reader_of(file.path, file.kind, self._space)
        try:
            pairs = reader.read(stored, into, writeable=True)
        finally:
            reader.close()
        file.num_left -= 1
        if not file.num_left:
            self._remove(file)
        return [int(number) for number, _ in pairs], [row for _, row in pairs]

    def _remove(self, file: BatchFile) -> None:
        self._files.discard(file)
        self._space.remove(file.path, file.nbytes)

    def close(self) -> None:
        """Removes all files."""
        for file in list(self._files):
            self._remove(file)


class _Group:
    """Elements of one kind on their way into a file."""

    def __init__(self, space: SpillSpace, kind: SpillKind, batch_bytes: int) -> None:
        self.writer = new_writer(space, kind)
        self.file = BatchFile(self.writer.path, kind)
        self.batches: list[Batch] = []
        self._batch_bytes = batch_bytes
        self._numbers: list[int] = []
        self._leaves: list[list[Any]] = []  # of each element, beside its number
        self._pending_bytes = 0

    def add(self, number: int, leaves: list[Any], nbytes: int) -> None:
        if nbytes >= ALONE_BYTES:
            self._put([number], [leaves], nbytes)
            return
        self._numbers.append(number)
        self._leaves.append(leaves)
        self._pending_bytes += nbytes
        if self._pending_bytes >= self._batch_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._numbers:
            self._put(self._numbers, self._leaves, self._pending_bytes)
            self._numbers, self._leaves, self._pending_bytes = [], [], 0

    def _put(self, numbers: list[int], leaves: list[list[Any]], nbytes: int) -> None:
        by_leaf = [np.array(numbers, np.int64), *map(list, zip(*leaves, strict=True))]
        self.batches.append(Batch(numbers[0], self.writer.write_by_leaf(by_leaf, len(numbers)), nbytes))

    def close(self) -> None:
        self._flush()
        self.writer.close()
        self.file.nbytes = self.writer.bytes_written
        self.file.num_left = len(self.batches)
