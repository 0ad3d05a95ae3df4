"""Names of files as a source: `list_files`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor
from ..element import LEAF
from ..errors import BadArgument, BadType
from ..indexed import IndexCursor
from ..leaf import string
from ..order import Index, RangeOrder
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import Spec, TensorSpec
from .patterns import matches
from .remote import is_remote, remote_matches

__all__ = ["ListFiles"]


@dataclasses.dataclass(frozen=True)
class ListFiles(Op):
    """The names of the files that match a pattern, as byte strings.

    `*` and `?` match within one part of a path, names that begin with a dot included; `[ab]`, `[a-c]` and `[!ab]` stand
    for one character, and a backslash takes a character as it is. Files are looked up once, when this is called.

    Args:
        file_pattern: A pattern or several, of this machine or URIs (`s3://`, `gs://`, …). A file that matches two of
            them comes twice. Names come sorted; the dataset's method of this name puts a `shuffle` on top unless told
            not to.

    Memory: the names.
    State: one integer.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.txt", "a.txt", "c.csv"):
    ...         pathlib.Path(folder, name).touch()
    ...     names = list(ps.Dataset.list_files(folder + "/*.txt", shuffle=False))
    >>> [name[-5:] for name in names]
    [b'a.txt', b'b.txt']
    """

    file_pattern: Any
    _names: tuple[bytes, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        patterns = _patterns(self.file_pattern)
        names = sorted(os.fsencode(name) for pattern in patterns for name in _found(pattern))
        if not names:
            shown = ", ".join(repr(pattern) for pattern in patterns)
            raise BadArgument(f"file_pattern: no file matches {shown or 'an empty list of patterns'}")
        object.__setattr__(self, "file_pattern", patterns[0] if len(patterns) == 1 else tuple(patterns))
        object.__setattr__(self, "_names", tuple(names))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(TensorSpec((), string), len(self._names))

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _NameReader(self._names)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(len(self._names)))

    @property
    def file_names(self) -> Sequence[bytes]:
        return self._names

    def describe(self) -> str:
        return f"list_files({self.file_pattern!r:.60})"


class _NameReader:
    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = np.empty(len(names), dtype=object)
        self._names[:] = names

    def read(self, index: Index) -> Block:
        names = self._names[index]
        return Block.of_columns(LEAF, [names], len(names))


def _found(pattern: str) -> list[str]:
    return remote_matches(pattern) if is_remote(pattern) else matches(pattern)


def _patterns(given: Any) -> list[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        return [os.fsdecode(given)]
    if isinstance(given, np.ndarray):
        given = given.reshape(-1).tolist() if given.ndim <= 1 else given
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, (str, bytes, os.PathLike)) for item in given):
        raise BadType(f"file_pattern: expected a pattern or a list of them, got {type(given).__name__} {given!r:.60}")
    return [os.fsdecode(item) for item in given]
