"""Tar archives in the layout of WebDataset: files of one sample follow each other, with one name but for the ending.

Headers are read here, and not by `tarfile`, so that a size is never more than a number until its bytes have come: each
piece of a file is on the ledger before it is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tarfile
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ..block import Block
from ..cursor import Cursor, State
from ..element import Failed, nbytes_of
from ..errors import BadType, FormatError
from ..leaf import leaf_bytes, string
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, Room, argument
from ..spec import UNSEEN, Spec, TensorSpec
from .file_window import FileWindow, closed_on_error, of_stream
from .paths import (
    compressed_bytes,
    expand_paths,
    found_compression,
    is_local,
    likes_bytes,
    open_stream,
    shown_paths,
    stored_compression,
)
from .reading import FilesCursor, StreamsFiles, check_on_error

__all__ = ["FromTar"]

_KEY = "__key__"
# `folder/sample.seg.png` is the file `seg.png` of the sample `folder/sample`; what has no ending is of no sample.
_NAME = re.compile(r"((?:.*/|)[^./][^/.]*)\.([^/]+)", re.DOTALL)
_BLOCK = 512
_LONG_NAME, _LONG_LINK, _PAX = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE
# Where headers of sparse files, and the lists of their pieces that go on behind, say that more of the list follows.
_SPARSE_GOES_ON, _LIST_GOES_ON = 482, 504
# No name is longer, and no list of attributes.
_MOST_EXTRA_BYTES = 1 << 20
# No size has more: that is 2 ** 63.
_MOST_DIGITS = 19


@dataclasses.dataclass(frozen=True, eq=False)
class FromTar(StreamsFiles, Op):
    """The samples of tar archives as dicts of byte strings.

    Files that follow each other and whose names are equal up to the first dot are one sample:
    `{"__key__": b"folder/name", "jpg": b"…", "cls": b"…"}`. Names are lower case behind the dot. Folders
    and files without an ending are passed over. A sample with a link, of which the bytes are elsewhere, or with a
    sparse file is an error in its place. A damaged archive is one, too, and the next archive follows. An archive ends
    with two blocks of zeros or with its file; of a compressed one the checksum is looked at there.

    Args:
        paths: A path, a pattern, a URI, or a list of them; `s-{000..127}.tar` and `{a,b}.tar` are many. Files in
            gzip's format are inflated.
        columns: The endings to read, which each sample must have; all others are passed over. None: what there is.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, the sample being read, twice its largest file, and the samples asked for.
    State: the number of the archive and an offset in it; a compressed one is inflated again up to there.

    >>> import io, tarfile, tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with tarfile.open(folder + "/a.tar", "w") as archive:
    ...         for name, data in (("1.txt", b"one"), ("1.cls", b"0"), ("2.txt", b"two"), ("2.cls", b"1")):
    ...             info = tarfile.TarInfo(name)
    ...             info.size = len(data)
    ...             archive.addfile(info, io.BytesIO(data))
    ...     list(ps.Dataset.from_tar(folder + "/a.tar"))
    [{'__key__': b'1', 'txt': b'one', 'cls': b'0'}, {'__key__': b'2', 'txt': b'two', 'cls': b'1'}]
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    paths: Any
    columns: Sequence[str] | None = None
    buffer_size: int | None = dataclasses.field(default=None, kw_only=True)
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        fields = self.__dict__
        if self.buffer_size is not None:
            fields["buffer_size"] = argument("buffer_size", self.buffer_size, at_least=0)
        if self.columns is not None:
            if isinstance(self.columns, str) or not all(isinstance(name, str) for name in self.columns):
                raise BadType(f"columns: expected a list of endings, got {self.columns!r:.60}")
            fields["columns"] = tuple(name.lower() for name in self.columns)
        fields["_paths"] = tuple(expand_paths(self.paths, "paths", braces=True))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        if self.columns is None:
            return Spec(UNSEEN)
        return Spec({name: TensorSpec((), string) for name in (_KEY, *self.columns)})

    def footprint(self, sizes: Sizes) -> Footprint:
        inflating = compressed_bytes(self._paths) if self._may_inflate else 0
        return of_stream(sizes, likes_bytes(self.buffer_size, self._paths), inflating)

    @functools.cached_property
    def _may_inflate(self) -> bool:
        """Whether an archive is compressed; of one that is far away and has not been looked at, it may be."""
        return any(map(stored_compression, self._paths)) or any(map(_may_be_compressed, self._paths))

    def open(self, context: Context) -> Cursor:
        def open_samples(path: str, position: State) -> _Samples:
            return _Samples(path, context, self.columns, self.buffer_size, position or 0)

        return FilesCursor(context, self._paths, open_samples, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        return f"from_tar({shown_paths(self._paths)}{columns})"


def _may_be_compressed(path: str) -> bool:
    try:
        return not is_local(path) or found_compression(path) is not None
    except FormatError:  # which comes in its place
        return False


class _Member(NamedTuple):
    """A file in the archive: where its headers begin, its sample, ending and size, and what it is instead of bytes."""

    offset: int
    key: str
    ending: str
    size: int
    instead: str = ""


class _Samples:
    """The samples of one archive from an offset on."""

    def __init__(
        self, path: str, context: Context, columns: Sequence[str] | None, buffer_size: int | None, offset: int
    ) -> None:
        self._path = path
        self._columns = columns
        compression = found_compression(path)
        self._is_compressed = compression is not None
        begin = 0 if compression else offset
        self._window = FileWindow(open_stream(path, compression, begin), context.share, buffer_size, begin)
        self._lease = context.share.acquire(0)  # of the sample being read
        self._ahead: _Member | None = None  # the first of the next sample, of which the header was read
        self._ended = False
        self._broken: tuple[FormatError, int] | None = None  # why nothing more can be read, and the sample where
        with closed_on_error(self):
            self._pass_over(offset - begin, "the saved position")

    def read(self, n: int, room: Room) -> Block | None:
        rows: list[Any] = []
        try:
            while len(rows) < n and (row := self._sample()) is not None:
                rows.append(row)
                more = room.add(nbytes_of(row))
                self._lease.release()
                if not more:
                    break
        except FormatError:
            if not rows:
                raise
        return Block.of_rows(rows) if rows else None

    def skip(self, n: int) -> int:
        skipped = 0
        try:
            while skipped < n and self._sample() is not None:
                self._lease.release()
                skipped += 1
        except FormatError:
            if not skipped:
                raise
        return skipped

    def _sample(self) -> Any:
        """The next sample, or a failure in its place; None at the end."""
        if self._broken is not None:
            raise self._broken[0]
        start = self.position()
        try:
            return self._collected()
        except FormatError as error:
            self._broken = error, start
            raise

    def _collected(self) -> Any:
        first = self._ahead or self._member()
        self._ahead = None
        if first is None:
            self._check_rest()
            return None
        sample: dict[str, Any] = {_KEY: first.key.encode(errors="surrogateescape")}
        twice = wrong = ""
        member: _Member | None = first
        while member is not None and member.key == first.key:
            wanted = self._columns is None or member.ending in self._columns
            if wanted and not member.instead:
                twice = twice or (member.ending if member.ending in sample else "")
                sample[member.ending] = self._payload(member)
            else:
                if wanted:
                    wrong = wrong or f"expected the bytes of {member.key}.{member.ending}, got {member.instead}"
                self._pass_over(member.size, member.key)
            self._pass_over(-member.size % _BLOCK, member.key)
            member = self._member()
        self._ahead = member
        if wrong:
            return Failed(FormatError(f"{self._path}, sample {first.key}: {wrong}"))
        if twice:
            return Failed(FormatError(f"{self._path}, sample {first.key}: expected one file {twice}, got two"))
        if self._columns is None:
            return sample
        missing = [name for name in self._columns if name not in sample]
        if missing:
            got = ", ".join(name for name in sample if name != _KEY) or "none of the others"
            return Failed(
                FormatError(f"{self._path}, sample {first.key}: expected a file {missing[0]}, got {got:.200}")
            )
        return {name: sample[name] for name in (_KEY, *self._columns)}

    def _check_rest(self) -> None:
        """Reads a compressed archive to its end, behind that of the tar: there its checksum is, and may be wrong."""
        if self._is_compressed:
            window = self._window
            window.drop(len(window))
            while window.more():
                window.drop(len(window))

    def _payload(self, member: _Member) -> bytes:
        """The bytes of a file. They come in pieces, and are joined at the end."""
        window, pieces, left = self._window, [], member.size
        held = self._lease.nbytes
        while left:
            if not len(window) and not window.more():
                raise self._cut(f"{member.size:,} bytes of {member.key}.{member.ending}", member.size - left)
            count = min(left, len(window))
            self._lease.settle(self._lease.nbytes + 2 * count, single=True)
            pieces.append(window.take(count))
            left -= count
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._lease.settle(held + leaf_bytes(data), single=True)
        return data

    def _member(self) -> _Member | None:
        """The next file that is part of a sample; None at the end."""
        if self._ended:
            return None
        window, offset = self._window, self._window.offset
        said: dict[bytes, bytes] = {}  # what headers before a file's own say of it
        while (info := self._header()) is not None:
            if info.type in (_LONG_NAME, _LONG_LINK, _PAX):
                extra = self._extra(info)
                key = b"path" if info.type == _LONG_NAME else b"linkpath"
                said |= _attributes(extra) if info.type == _PAX else {key: extra.rstrip(b"\0")}
                continue
            size, name, instead = self._size(info, said), *_described(info, said)
            match = _NAME.fullmatch(name) if info.isreg() or info.islnk() or info.issym() else None
            if match is not None:
                return _Member(offset, match[1], match[2].lower(), size, instead)
            self._pass_over(size + -size % _BLOCK, name)
            said, offset = {}, window.offset
        self._ended = True
        return None

    def _size(self, info: tarfile.TarInfo, said: dict[bytes, bytes]) -> int:
        """How many bytes follow the header of a file; of links and folders none do, whatever it says."""
        if not info.isreg() and info.type in tarfile.SUPPORTED_TYPES:
            return 0
        size = said.get(b"size", b"")
        if not size.isdigit():
            return info.size
        if len(size.lstrip(b"0")) > _MOST_DIGITS:
            at = self._window.offset
            raise FormatError(f"{self._path}: expected the size of a file at byte {at:,}, got {len(size):,} digits")
        return int(size)

    def _header(self) -> tarfile.TarInfo | None:
        window = self._window
        offset = window.offset
        if not window.need(_BLOCK):
            if len(window):
                raise self._cut("a header of 512 bytes", len(window))
            return None
        if self._is_end():
            return None
        block = window.take(_BLOCK)
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise FormatError(f"{self._path}: expected a tar header at byte {offset:,}, got: {error}") from None
        if info.size < 0:
            raise FormatError(f"{self._path}: expected a size at byte {offset:,}, got {info.size:,}")
        goes_on = info.type == tarfile.GNUTYPE_SPARSE and block[_SPARSE_GOES_ON]
        while goes_on:
            if not window.need(_BLOCK):
                raise self._cut(f"a list of the pieces of {info.name}", len(window))
            goes_on = window.take(_BLOCK)[_LIST_GOES_ON]
        return info

    def _is_end(self) -> bool:
        """Whether two blocks of zeros come next, or one and the file's end. They stay: positions are before them."""
        window = self._window
        if window.peek(_BLOCK).strip(b"\0"):
            return False
        window.need(2 * _BLOCK)
        if window.peek(2 * _BLOCK).strip(b"\0"):
            at = window.offset
            raise FormatError(f"{self._path}: expected a tar header at byte {at:,}, got zeros, and then other data")
        return True

    def _extra(self, info: tarfile.TarInfo) -> bytes:
        if info.size > _MOST_EXTRA_BYTES:
            at = self._window.offset
            raise FormatError(f"{self._path}: expected a name or attributes at byte {at:,}, got {info.size:,} bytes")
        padded = info.size + -info.size % _BLOCK
        if not self._window.need(padded):
            raise self._cut(f"{padded:,} bytes of a name or attributes", len(self._window))
        return self._window.take(padded)[: info.size]

    def _pass_over(self, nbytes: int, what: str) -> None:
        if (passed := self._window.pass_over(nbytes)) < nbytes:
            raise self._cut(f"{nbytes:,} bytes of {what}", passed)

    def _cut(self, expected: str, got: int) -> FormatError:
        return FormatError(f"{self._path}: expected {expected}, got {got:,}: the archive ends at byte {self._end:,}")

    @property
    def _end(self) -> int:
        return self._window.offset + len(self._window)

    def position(self) -> State:
        if self._broken is not None:
            return self._broken[1]
        return self._window.offset if self._ahead is None else self._ahead.offset

    def close(self) -> None:
        self._window.close()
        self._lease.release()


def _attributes(extra: bytes) -> dict[bytes, bytes]:
    """A file's attributes, as far as they can be read: lines of `length key=value`."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(extra):
        length = extra[at : at + 20].partition(b" ")[0]
        if not length.isdigit() or not int(length):
            break
        key, _, value = extra[at + len(length) + 1 : at + int(length)].partition(b"=")
        found[key] = value.removesuffix(b"\n")
        at += int(length)
    return found


def _described(info: tarfile.TarInfo, said: dict[bytes, bytes]) -> tuple[str, str]:
    """The name of a file in the archive, and what it is instead of plain bytes."""

    def text(given: str, *keys: bytes) -> str:
        return next((said[key].decode(errors="surrogateescape") for key in keys if key in said), given)

    if info.islnk() or info.issym():
        kind, advice = ("hard", "--hard-dereference") if info.islnk() else ("symbolic", "--dereference")
        link = text(info.linkname, b"linkpath")
        return text(info.name, b"path"), f"a {kind} link to {link:.200}: write the archive with {advice}"
    is_sparse = info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith(b"GNU.sparse.") for key in said)
    instead = "a sparse file: write the archive without --sparse" if is_sparse else ""
    return text(info.name, b"GNU.sparse.name", b"path"), instead
