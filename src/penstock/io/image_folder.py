"""Folders of images, one for each class, as a source: names of files and labels, not yet the images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor
from ..element import Structure
from ..errors import BadArgument, BadType, FormatError
from ..indexed import IndexCursor
from ..leaf import string
from ..order import Index, RangeOrder
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import Spec, TensorSpec
from .folders import Folder, folders_below
from .paths import is_local, local_path, open_random, path_given, readable
from .read_file import read_file
from .remote import below

__all__ = ["IMAGE_EXTENSIONS", "FromImageFolder", "LoadImage"]

#: How the names of images end, in any case: those of the formats that `ps.image.decode_image` reads, as in Keras.
IMAGE_EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")

_PAIR = Structure.of((0, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class FromImageFolder(Op):
    """The names of the files in folders of classes, and their labels: what the images are loaded from.

    Args:
        root: A folder with a folder for each class, as a path or a URI.
        class_names: The classes to read, in the order of their labels. None: all, sorted by name.
        extensions: How the names of images end, in any case; others are left out.
        follow_links: Whether folders within those of the classes may be links.

    Memory: the names.
    State: one integer.

    >>> import pathlib, tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("dog/1.png", "cat/1.png", "cat/2.png"):
    ...         pathlib.Path(root, name).parent.mkdir(exist_ok=True)
    ...         _ = pathlib.Path(root, name).write_bytes(name.encode())
    ...     ds = ps.Dataset.from_image_folder(root, decode=False)
    ...     ds.class_names, list(ds.skip(1))
    (('cat', 'dog'), [(b'cat/2.png', np.int64(0)), (b'dog/1.png', np.int64(1))])
    """

    root: Any
    class_names: Sequence[str] | None = None
    extensions: Sequence[str] = IMAGE_EXTENSIONS
    follow_links: bool = False
    _names: np.ndarray = dataclasses.field(init=False, repr=False)
    _labels: np.ndarray = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        fields = self.__dict__
        fields["root"] = path_given(self.root, "root")
        fields["extensions"] = _checked_texts("extensions", self.extensions)
        folders = folders_below(self.root, self.follow_links)
        classes = [name for name, _ in folders if name and "/" not in name]
        chosen = classes if self.class_names is None else _checked_texts("class_names", self.class_names)
        missing = [name for name in chosen if name not in classes]
        if missing or len(set(chosen)) != len(chosen):
            wrong = f"{missing[0]!r}, which is not" if missing else "one twice"
            raise BadArgument(f"class_names: expected folders in {self.root!r} ({_few(classes)}), got {wrong}")
        fields["class_names"] = tuple(chosen)
        names, labels = self._found(folders)
        if not names:
            raise BadArgument(self._nothing(folders))
        fields["_names"] = np.empty(len(names), dtype=object)
        self._names[:] = names
        fields["_labels"] = np.array(labels, dtype=np.int64)

    def _found(self, folders: list[Folder]) -> tuple[list[bytes], list[int]]:
        """Names in Keras's order: class by class, folder by folder, sorted."""
        assert self.class_names is not None
        base = local_path(self.root).rstrip("/") if is_local(self.root) else None
        endings = tuple(ending.lower() for ending in self.extensions)
        by_class: dict[str, list[bytes]] = {name: [] for name in self.class_names}
        for folder, files in folders:
            of_class = by_class.get(folder.split("/")[0])
            if of_class is not None:
                images = [name for name in files if name.lower().endswith(endings)]
                paths = [f"{folder}/{name}" for name in images]
                paths = [below(self.root, path) if base is None else f"{base}/{path}" for path in paths]
                of_class += [path.encode(errors="surrogateescape") for path in paths]
        labels = [label for label, names in enumerate(by_class.values()) for _ in names]
        return [name for names in by_class.values() for name in names], labels

    def _nothing(self, folders: list[Folder]) -> str:
        """Why there is no image, for who named the wrong folder."""
        expected = f"root: expected a folder for each class with files ending in {', '.join(self.extensions)}"
        if not self.class_names:
            here = len(folders[0][1])
            return f"{expected}; {self.root!r} has no folders{f', but {here:,} files' if here else ''}"
        others = sum(len(files) for folder, files in folders if folder)
        had = f"{others:,} files, none of them such" if others else "no files"
        return f"{expected}; {self.root!r} has {len(self.class_names):,} folders ({_few(self.class_names)}) with {had}"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec((TensorSpec((), string), TensorSpec((), np.int64)), len(self._names))

    @property
    def traits(self) -> Traits:
        return SOURCE

    def file_shard(self, num_shards: int, index: int) -> None:
        return None  # an element is a file

    def reader(self, context: Context) -> Reader:
        return _NameReader(self._names, self._labels)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(len(self._names)))

    @property
    def file_names(self) -> Sequence[bytes]:
        names: list[bytes] = self._names.tolist()
        return names

    def describe(self) -> str:
        assert self.class_names is not None
        return f"from_image_folder({self.root!r:.60}: {len(self._names):,} files, {len(self.class_names):,} classes)"


class _NameReader:
    def __init__(self, names: np.ndarray, labels: np.ndarray) -> None:
        self._names = names
        self._labels = labels

    def read(self, index: Index) -> Block:
        names = self._names[index]
        return Block.of_columns(_PAIR, [names, self._labels[index].copy()], len(names))


@dataclasses.dataclass(frozen=True)
class LoadImage:
    """Reads a file and makes an image of it; what cannot be read or decoded is an error that names the file.

    Args:
        decode: The pixels of a file's bytes, or None to leave them as they are.
    """

    decode: Callable[[bytes], np.ndarray] | None

    def __call__(self, name: bytes, label: Any) -> tuple[Any, Any]:
        path = name.decode(errors="surrogateescape")
        try:
            contents = _contents(path)
        except FormatError as error:
            error.file = path
            raise
        if self.decode is None:
            return contents, label
        try:
            return self.decode(contents), label
        except FormatError as error:
            named = FormatError(f"{path}: {error}")
            named.file = path
            raise named from error

    @property
    def decodes_images(self) -> bool:
        return self.decode is not None

    def __str__(self) -> str:
        return "read file" if self.decode is None else "load image"


def _contents(path: str) -> bytes:
    if is_local(path):
        with readable(path):
            return read_file(path)
    file = open_random(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()


def _checked_texts(name: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(item, str) for item in given):
        raise BadType(f"{name}: expected a list of texts, got {given!r:.60}")
    return tuple(given)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, …" if len(names) > 5 else shown or "none"
