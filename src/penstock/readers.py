"""tf.data's classes for files: `ps.TextLineDataset` and its like.

Each is a source from `io/`; with `num_parallel_reads` it is an `interleave` of one such source for each file, and with
a dataset of names a `flat_map` or `interleave` of that dataset.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .dataset import Dataset
from .errors import BadArgument, PenstockError
from .io.csv_records import CsvRecords
from .io.file_shares import FilePart, share_of
from .io.fixed_length import FixedLengthRecords
from .io.paths import expand_paths
from .io.reading import FileShard, StreamsFiles
from .io.text import TextLines
from .io.tfrecord import TFRecords
from .leaf import is_dataset
from .options import AUTOTUNE
from .plan.node import Node, Origin, caller_origin, located
from .plan.op import Op, argument

__all__ = ["CsvDataset", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset", "files_dataset"]


class _OpenFile:
    """Makes the dataset of one file, for `flat_map` and `interleave`.

    Args:
        make: The source for a file.
        origin: Where the user wrote it.
        gives_records: Whether elements are records that a function is likely to parse.
        paths: All files, where they are known; None where a dataset tells them.
    """

    __name__ = "open_file"

    def __init__(
        self, make: Callable[[Any], Op], origin: Origin, gives_records: bool, paths: Sequence[str] | None = None
    ) -> None:
        self._make = make
        self._origin = origin
        self._paths = paths
        self.gives_records = gives_records

    def __call__(self, file: Any) -> Dataset:
        return Dataset(Node(self._make(file), (), self._origin))

    def file_shard(self, num_shards: int, index: int) -> tuple[Node, _OpenPart]:
        """The numbers of one's files, and what opens them."""
        if self._paths is None:
            raise BadArgument("by='file': expected a source of files below, got a dataset of names; shard that dataset")
        parts = share_of(self._paths, num_shards, index)
        return Dataset.range(len(parts)).node, _OpenPart(self, num_shards, index, parts)


class _OpenPart:
    """Makes the dataset of a file, or of one's part of it, by its number."""

    __name__ = "open_file"

    def __init__(self, opener: _OpenFile, num_shards: int, index: int, parts: list[FilePart]) -> None:
        self._opener = opener
        self._num_shards = num_shards
        self._index = index
        self._parts = parts
        self.gives_records = opener.gives_records

    def __call__(self, number: Any) -> Dataset:
        part = self._parts[number]
        whole = self._opener(part.path)
        if part.owners is None:
            return whole
        source = whole.node.op
        assert isinstance(source, StreamsFiles)
        return Dataset(whole.node.with_op(FileShard(source.as_stream(), self._num_shards, self._index, (part,))))


def files_dataset(
    name: str, filenames: Any, num_parallel_reads: int | None, make: Callable[[Any], Op], gives_records: bool = False
) -> tuple[Node, Any]:
    """The plan of a dataset of files, and the dataset of which it is made (None if it is a source).

    Args:
        name: The class, for errors.
        filenames: Paths, or a dataset of them.
        num_parallel_reads: How many files are read in turn; None for one after the other.
        make: The source for some files.
        gives_records: Whether elements are records that a function is likely to parse.
    """
    origin = caller_origin()
    try:
        if num_parallel_reads is None and not is_dataset(filenames):
            return Node(make(filenames), (), origin), None
        paths = None if is_dataset(filenames) else expand_paths(filenames)
        names = filenames if paths is None else Dataset.from_tensor_slices(_as_bytes(paths))
        open_file = _OpenFile(make, origin, gives_records, paths)
        if num_parallel_reads is None:
            made = names.flat_map(open_file)
        else:
            number = argument("num_parallel_reads", num_parallel_reads)
            if number < 1 and number != AUTOTUNE:
                raise BadArgument(f"num_parallel_reads: expected at least 1, or AUTOTUNE ({AUTOTUNE}), got {number}")
            if not is_dataset(filenames):
                make(filenames)  # a mistake in the other arguments is found here, not at the first file
            made = names.interleave(open_file, cycle_length=number, block_length=1, num_parallel_calls=number)
        return made.node, made
    except PenstockError as error:
        raise located(error, name, origin) from None


def _as_bytes(paths: Sequence[str]) -> Any:
    import numpy as np

    from .leaf import string

    names = np.empty(len(paths), string)
    names[:] = [path.encode(errors="surrogateescape") for path in paths]
    return names


class _FilesDataset(Dataset):
    #: What `Op.gives_records` asks: this class itself may be what `interleave` calls.
    gives_records: ClassVar[bool] = False

    def _build(self, filenames: Any, num_parallel_reads: int | None, source: Callable[..., Op], **rest: Any) -> None:
        make = functools.partial(source, **rest)
        node, made = files_dataset(type(self).__name__, filenames, num_parallel_reads, make, self.gives_records)
        if made is None:
            super().__init__(node)
        else:
            super().__init__(node, made._options, made._epochs)


class TFRecordDataset(_FilesDataset):
    """The records of TFRecord files, as byte strings.

    Both checksums of every record are compared. One whose data are damaged is an error in its place, and the next
    record follows; where a length is damaged, or the file ends within a record, or is missing, that is an error in its
    place, and the next file follows.

    Files of this machine that are not compressed are read at any place: `shuffle` and `shard` work on indices, for
    which the first run goes through the files once, from length to length. With `index="saved"` the first program does,
    and later ones read what it found, unless size or time of a file have changed. How many records there are is
    `UNKNOWN` all the same, as in tf.data: use `assert_cardinality` to say it.

    A `map` whose function does nothing but call `ps.io.parse_single_example`, and pick from what it returns, is
    recognised: records are parsed a block at a time. To find out, a copy of the function is tried on a stand-in for a
    record when a run begins. A function that does anything else is called on each record.

    Args:
        filenames: A path, a pattern, a URI, a list of them, or a dataset of paths.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        num_parallel_reads: Files that are read in turn, a record of each, and ahead by a thread each. None: one file
            after the other, which alone has an index.
        name: Accepted for tf.data's sake.
        index: Where it is kept: "memory"; "saved" beside each file too, as `.NAME.penstock-index`, if its folder can be
            written; None: in memory, and remote files have none, but are read as they come.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file. Then there is no index:
            to have one, put `ignore_errors` behind the `shuffle`.

    Memory: the buffer, which grows for a longer record, and the records asked for; under `shuffle` and `shard` an index
        of 8 bytes a record.
    State: the number of the file, an offset in it (after decompression), and the number of the record; with an index,
        one integer.

    >>> import tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ps.io.TFRecordWriter(folder + "/a.tfrecord") as writer:
    ...         for record in (b"one", b"two", b"three"):
    ...             writer.write(record)
    ...     list(ps.TFRecordDataset(folder + "/a.tfrecord").skip(1))
    [b'two', b'three']
    """

    gives_records = True

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        index: str | None = None,
        on_error: str = "raise",
    ) -> None:
        rest = {"compression_type": compression_type, "buffer_size": buffer_size, "index": index, "on_error": on_error}
        self._build(filenames, num_parallel_reads, TFRecords, **rest)


class TextLineDataset(_FilesDataset):
    r"""The lines of text files, as byte strings without their ends.

    A line ends with LF or CR LF; the last one of a file may do without. A missing file, or compressed data that are
    damaged, is an error in its place, and the next file follows.

    Args:
        filenames: A path, a pattern, a URI, a list of them, or a dataset of paths.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        num_parallel_reads: Files that are read in turn, a line of each, and ahead by a thread each. None: one file
            after the other.
        name: Accepted for tf.data's sake.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer line, and the lines asked for; with `num_parallel_reads` for each file.
    State: the number of the file and an offset in it; of a compressed one, which is read again up to there, the number
        of lines.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.txt").write_bytes(b"one\r\ntwo\n\nfour")
    ...     list(ps.TextLineDataset(folder + "/a.txt"))
    [b'one', b'two', b'', b'four']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        on_error: str = "raise",
    ) -> None:
        rest = {"compression_type": compression_type, "buffer_size": buffer_size, "on_error": on_error}
        self._build(filenames, num_parallel_reads, TextLines, **rest)


class FixedLengthRecordDataset(_FilesDataset):
    """Records of one length, as byte strings.

    Files that are not compressed are read at any place: a `shuffle` on top shuffles indices. A missing file is an error
    in its place, and so is one whose length does not fit: none of its records are read.

    Args:
        filenames: A path, a pattern, a URI, a list of them, or a dataset of paths.
        record_bytes: The length of a record.
        header_bytes: Bytes at the beginning of each file that are no record.
        footer_bytes: Bytes at the end of each file that are no record.
        buffer_size: Bytes to read at a time of a compressed or remote file, 256 kB or 1 MB unless given; fewer where
            the budget is short.
        compression_type: "GZIP", "ZLIB", or None.
        num_parallel_reads: Files that are read in turn, a record of each, and ahead by a thread each. None: one file
            after the other.
        name: Accepted for tf.data's sake.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file. Then files are streamed:
            to shuffle indices, put `ignore_errors` behind the `shuffle`.

    Memory: the records asked for; and of a compressed file the buffer.
    State: one integer; of a compressed file, which is read again up to there, its number and that of the record.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.bin").write_bytes(b"HEADaabbcc")
    ...     records = ps.FixedLengthRecordDataset(folder + "/a.bin", 2, header_bytes=4)
    ...     list(records), list(records.skip(2))
    ([b'aa', b'bb', b'cc'], [b'cc'])
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        on_error: str = "raise",
    ) -> None:
        sizes = {"record_bytes": record_bytes, "header_bytes": header_bytes, "footer_bytes": footer_bytes}
        rest = {"buffer_size": buffer_size, "compression_type": compression_type, "on_error": on_error}
        self._build(filenames, num_parallel_reads, FixedLengthRecords, **sizes, **rest)


class CsvDataset(_FilesDataset):
    """The records of CSV files as tuples of fields.

    A record ends with LF, CR LF or CR. One that does not fit is an error in its place, and the next follows. For dicts
    with types found in the file, and at the speed of Arrow, see `Dataset.from_csv`.

    Args:
        filenames: A path, a pattern, a URI, a list of them, or a dataset of paths.
        record_defaults: For each field a dtype, if it must be there, or what it is where it is empty, in a list.
        compression_type: "GZIP", "ZLIB", or None.
        buffer_size: Bytes to read at a time, 256 kB (1 MB of remote files) unless given; fewer if the budget is short.
        header: Whether the first record of each file is left out.
        field_delim: What stands between fields.
        use_quote_delim: Whether quotes are not part of a field: within them, delimiters and line ends are.
        na_value: Another text that stands for an empty field.
        select_cols: The numbers of the fields to read, rising. None: all.
        exclude_cols: The numbers of the fields not to read; either this or `select_cols`.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer record, and the records asked for.
    State: the number of the file, an offset in it (after decompression), and the number of the record.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.csv").write_text('name,x\\n"a, b",1\\nc,\\n')
    ...     list(ps.CsvDataset(folder + "/a.csv", [bytes, [0.5]], header=True))
    [(b'a, b', np.float64(1.0)), (b'c', np.float64(0.5))]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
        *,
        on_error: str = "raise",
    ) -> None:
        rest = {
            "record_defaults": record_defaults,
            "compression_type": compression_type,
            "buffer_size": buffer_size,
            "header": header,
            "field_delim": field_delim,
            "use_quote_delim": use_quote_delim,
            "na_value": na_value,
            "select_cols": select_cols,
            "exclude_cols": exclude_cols,
            "on_error": on_error,
        }
        self._build(filenames, None, CsvRecords, **rest)
