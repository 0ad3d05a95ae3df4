"""Writing elements to a Parquet file, a row group at a time, which appears under its name when it is whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..block import Block
from ..element import Structure, nbytes_of
from ..errors import BadArgument, BadType, SpecMismatch
from ..leaf import Ragged, Sparse, is_dataset, string
from ..memory.allocator import trim_heap
from ..memory.arrow_library import load as load_arrow
from ..memory.ledger import Share
from ..memory.sealing import in_native_order
from ..memory.to_arrow import numbers, strings
from ..spec import UNSEEN, RaggedSpec, SparseSpec, TensorSpec, describe, spec_leaves, spec_of, structure_of_spec
from .new_file import NewFile
from .sparse_lists import list_of

__all__ = ["ParquetWriter"]

# Rows lie in memory as they came, as Arrow's columns, as encoded pages, and packed; and what pages have outgrown on the
# way is kept by Arrow's allocator: as much again. And Arrow has levels for each value of a list, a number in the
# dictionary, and four bytes in the place of one or two.
_TIMES_HELD = 8
_BYTES_A_VALUE = 16
_GROUP_BYTES = 640 << 20
# Single numbers have pages of one size, whose memory is used again. And a single row that takes more than a row group
# may is written all the same where there is room for it at least.
_TIMES_AT_LEAST = 3
# Arrow looks at the size of a page after so many values, or as many as come to this if they are long strings.
_MOST_AT_ONCE, _BYTES_AT_ONCE = 1 << 10, 1 << 18
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
# Arrow tries a dictionary for each column, and looks at its size after some rows. Of values that hardly ever come twice
# it takes about 30 times that size in memory, and readers must hold it. Of longer rows none is tried, unless there are
# few values that they can have.
_DICTIONARY_BYTES = 1 << 20
_DICTIONARY_PART = 128
# So many arrays of single rows wait at a time, of all columns together; then those of a column become one.
_MOST_SINGLE, _FEWEST_SINGLE = 1 << 12, 8


class ParquetWriter:
    """Takes blocks of elements; `finish` puts the file in its place, `abort` leaves nothing behind.

    Args:
        path: The file, or its URI.
        share: The account of the rows that wait for a row group.
        element_spec: What is known of the elements.
        row_group_size: Rows in a row group; None for as many as take a quarter of the budget, or 640 MB.
        compression: A codec.
    """

    def __init__(
        self, path: str, share: Share, element_spec: Any, row_group_size: int | None, compression: str
    ) -> None:
        if compression not in _COMPRESSIONS:
            raise BadArgument(f"compression: expected one of {', '.join(_COMPRESSIONS)}, got {compression!r}")
        self._element_spec = element_spec
        load_arrow("pyarrow.parquet", "Parquet files")
        self._most_rows = row_group_size or 1 << 62
        self._most_bytes = max(1, min(_GROUP_BYTES, share.budget_bytes // 4))
        self._compression = compression
        self._lease = share.acquire(0)
        self._waiting: list[_Rows] = []  # of each leaf
        self._num_waiting = 0
        self._nbytes = 0
        self._num_rows = 0
        self._structure: Structure | None = None
        self._specs: list[TensorSpec] = []
        self._times_held = _TIMES_HELD
        self._writer: Any = None
        self._new = NewFile(path)
        self._lease.settle(self._new.held_bytes, single=True)
        self._file: Any = self._new.open(for_arrow=True)

    def write(self, block: Block) -> None:
        """Takes the elements of a block, none of which has failed."""
        if block.columns is None:
            for row in block.rows():
                self._begin(row)
                leaves = self._leaves_of(row)
                nbytes = nbytes_of(row)
                self._make_room(1, _bytes_held(nbytes, leaves, self._times_held), _bytes_held(nbytes, leaves))
                self._wait([_stack_of_one(leaf) for leaf in self._in_columns(leaves)], 1)
            return
        self._begin(block[:1].rows()[0])
        held = _bytes_held(block.nbytes, block.columns, self._times_held)
        least = _bytes_held(block.nbytes, block.columns)
        at_once = max(1, min(self._most_rows, self._most_bytes * block.size // max(1, held)))
        for start in range(0, block.size, at_once):
            part = block[start : start + at_once]
            self._make_room(part.size, held * part.size // block.size, least * part.size // block.size)
            self._in_columns(self._leaves_of(part[:1].rows()[0]))  # the others are of the same kind
            # Copies: what the block lies in is its maker's, who will be asked for more.
            columns = zip(part.columns or (), self._specs, strict=True)
            self._wait([column.astype(spec.dtype) for column, spec in columns], part.size)

    def _make_room(self, count: int, nbytes: int, least_bytes: int) -> None:
        """Reserves what is to wait; what waits is written first if it would be too much."""
        waiting = self._num_waiting
        if waiting and (waiting + count > self._most_rows or self._nbytes + nbytes > self._most_bytes):
            self._flush()
        self._nbytes += max(least_bytes, min(nbytes, self._most_bytes))
        self._lease.settle(self._nbytes + self._new.held_bytes, single=True)

    def _wait(self, leaves: list[np.ndarray], count: int) -> None:
        for i, (more, spec) in enumerate(zip(leaves, self._specs, strict=True)):
            if spec.dtype.kind in "mM" and np.isnat(more).any():
                raise self._not_a_time(more, i)
        for rows, more in zip(self._waiting, leaves, strict=True):
            rows.add(more)
        self._num_waiting += count

    def _not_a_time(self, leaf: np.ndarray, number: int) -> BadArgument:
        """Why a NaT is not written: it would be a null, and a row with one is refused when it is read."""
        assert self._structure is not None
        row = self._num_rows + self._num_waiting + int(np.argwhere(np.isnat(leaf))[0][0])
        name = list(_names(_named(self._structure)))[number]
        return BadArgument(
            f"element {row:,}: expected a time in column {name}, got NaT, which in Parquet is a null: no element has "
            "one. Put another value in its place in a map, or leave such elements out with a filter"
        )

    def _leaves_of(self, row: Any) -> list[Any]:
        """The leaves of an element, one for each column."""
        assert self._structure is not None
        try:
            return self._structure.flatten(row)
        except SpecMismatch as error:
            raise SpecMismatch(f"element {self._num_rows + self._num_waiting:,}: {error}") from None

    def _in_columns(self, leaves: list[Any]) -> list[Any]:
        """The leaves of an element as their columns have them."""
        number = self._num_rows + self._num_waiting
        leaves = [leaf if isinstance(leaf, (bytes, np.generic)) else in_native_order(leaf) for leaf in leaves]
        leaves = [list_of(leaf, f"element {number:,}") if isinstance(leaf, Sparse) else leaf for leaf in leaves]
        for leaf, spec in zip(leaves, self._specs, strict=True):
            if isinstance(leaf, Ragged) or is_dataset(leaf) or not spec.holds(leaf):
                got = describe(spec_of(leaf))
                raise SpecMismatch(f"element {number:,}: expected {spec}, as in the first, got {got}")
        return leaves

    def finish(self) -> None:
        """Writes the rest, and puts the file in its place."""
        if not self._num_waiting and self._writer is None and self._element_spec is UNSEEN:
            raise BadArgument("expected one element or more, got none: there are no columns without one")
        self._begin(None)
        self._flush()
        with self._new.writing():
            self._writer.close()
            self._file.close()
        self._new.publish(sync=True)
        self._file = None

    def abort(self) -> None:
        """Removes what was not finished; after `finish` it does nothing."""
        file, self._file = self._file, None
        if file is not None:
            try:
                with contextlib.suppress(OSError):  # it is thrown away; what was refused first is what matters
                    if self._writer is not None and self._writer.is_open:
                        self._writer.close()
                    file.close()
            finally:
                self._new.discard()
        self._waiting = []
        self._lease.release()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self._structure is not None
        columns = [rows.column() for rows in self._waiting]
        nest = _named(self._structure)
        names, arrays = _nested(nest, iter(columns))
        table = pa.table(dict(zip(names, arrays, strict=True)))
        trim_heap()  # Arrow will take several times what the rows do: what others have freed should not stand beside it
        with self._new.writing():
            if self._writer is None:
                most = max(1, min(_DICTIONARY_BYTES, self._most_bytes // _DICTIONARY_PART))
                waiting = zip(_names(nest), self._waiting, strict=True)
                self._writer = pq.ParquetWriter(
                    self._file,
                    table.schema,
                    compression=self._compression,
                    use_dictionary=[rows.path(name) for name, rows in waiting if rows.suit_a_dictionary(most)],
                    dictionary_pagesize_limit=most,
                    write_batch_size=min(rows.num_at_once for rows in self._waiting),
                )
            if self._num_waiting:
                self._writer.write_table(table, row_group_size=self._num_waiting)
        del table, arrays, columns
        pa.default_memory_pool().release_unused()  # Arrow's allocator would keep several times what it was asked for
        self._num_rows += self._num_waiting
        self._wait_for_none()
        self._num_waiting = self._nbytes = 0
        self._lease.settle(self._new.held_bytes)

    def _begin(self, first: Any) -> None:
        """Finds the columns, from what is known of the elements or else from the first one."""
        if self._structure is not None:
            return
        known = self._element_spec is not UNSEEN
        spec = self._element_spec if known else spec_of(first)
        structure, leaves = structure_of_spec(spec), spec_leaves(spec)
        for leaf in leaves:
            if type(leaf) is SparseSpec:
                leaf = TensorSpec((None,), leaf.dtype)  # a vector's values; `list_of` refuses what is none
            if type(leaf) is RaggedSpec:
                raise BadType(
                    f"expected arrays of numbers or strings, got rows of unequal length in {describe(spec)}; unbatch() "
                    "batches first, or write `values` and `row_splits` as two columns"
                )
            if type(leaf) is not TensorSpec or not _has_arrow_type(leaf.dtype):
                raise BadType(f"expected arrays of numbers or strings that Arrow has a type for, got {describe(spec)}")
            leaf = TensorSpec(leaf.shape, leaf.dtype.newbyteorder("="))
            if not known and leaf.shape is not None and len(leaf.shape) == 1:
                leaf = leaf.with_shape((None,))  # another element may have another length
            if leaf.shape is None or None in leaf.shape[1:]:
                raise BadType(f"expected arrays whose inner dimensions are known, got {describe(spec)}")
            self._specs.append(leaf)
        _named(structure)
        if all(leaf.shape == () and leaf.dtype != string for leaf in self._specs):
            self._times_held = _TIMES_AT_LEAST
        self._wait_for_none()
        self._structure = structure

    def _wait_for_none(self) -> None:
        most_single = max(_FEWEST_SINGLE, _MOST_SINGLE // max(1, len(self._specs)))
        self._waiting = [_Rows(spec, most_single) for spec in self._specs]


def _bytes_held(nbytes: int, leaves: Iterable[Any], times: int = _TIMES_AT_LEAST) -> int:
    """What it takes to write values, of so many bytes."""
    num_values = sum(leaf.size if isinstance(leaf, np.ndarray) else 1 for leaf in leaves)
    return times * nbytes + _BYTES_A_VALUE * num_values


def _has_arrow_type(dtype: np.dtype[Any]) -> bool:
    import pyarrow as pa

    try:
        return dtype == string or pa.from_numpy_dtype(dtype.newbyteorder("=")) is not None
    except pa.ArrowNotImplementedError:
        return False


def _stack_of_one(leaf: Any) -> np.ndarray:
    if isinstance(leaf, np.ndarray):
        return leaf[None]
    stack = np.empty(1, string if isinstance(leaf, bytes) else np.asarray(leaf).dtype)
    stack[0] = leaf
    return stack


class _Rows:
    """The rows of one leaf that wait for a row group: their values, and how many each has where that varies.

    Of small rows the array around each would take many times its values: they are put together as they come.
    """

    def __init__(self, spec: TensorSpec, most_single: int) -> None:
        self._spec = spec
        self._most_single = most_single
        self._varies = (spec.shape or ())[:1] == (None,)
        self._single: list[np.ndarray] = []  # the last ones, as they came
        self._joined: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._longest_bytes = 0

    def suit_a_dictionary(self, most_bytes: int) -> bool:
        """Whether Arrow would find in time that a dictionary becomes larger than this, if it does."""
        return self._longest_bytes <= most_bytes or self._spec.dtype.itemsize <= 2

    @property
    def num_at_once(self) -> int:
        """Values to write before the size of the page is looked at."""
        is_string = self._spec.dtype == string and self._spec.shape == ()
        most = _BYTES_AT_ONCE // max(1, self._longest_bytes) if is_string else _MOST_AT_ONCE
        return max(1, min(_MOST_AT_ONCE, most))

    def path(self, name: str) -> str:
        """What Parquet calls the values of the column of this name."""
        return name + ".list.element" * len(self._spec.shape or ())

    def add(self, stack: np.ndarray) -> None:
        """Takes some rows, stacked."""
        self._single.append(stack)
        if self._spec.dtype == string:  # an array of them has only where they lie
            longest = max(map(len, stack.flat), default=0) * (stack.size // max(1, len(stack)))
        else:
            longest = stack.nbytes // max(1, len(stack))
        self._longest_bytes = max(self._longest_bytes, longest)
        if len(self._single) >= self._most_single:
            self._join()

    def _join(self) -> None:
        if not self._single:
            return
        self._joined.append(np.concatenate([stack.reshape(-1) for stack in self._single]))
        if self._varies:
            sizes = [stack.shape[1] for stack in self._single]
            self._lengths.append(np.repeat(sizes, [len(stack) for stack in self._single]))
        self._single = []

    def column(self) -> Any:
        """All of them as an Arrow array."""
        import pyarrow as pa

        self._join()
        spec, shape = self._spec, self._spec.shape or ()
        values = _flat(np.concatenate([np.empty(0, spec.dtype), *self._joined]), spec.dtype)
        if not self._varies:
            return _fixed(values, shape)
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *self._lengths]))
        return pa.LargeListArray.from_arrays(numbers(ends), _fixed(values, shape[1:]))


def _flat(values: np.ndarray, dtype: np.dtype[Any]) -> Any:
    return strings(values) if dtype == string else numbers(values)


def _fixed(flat: Any, shape: tuple[Any, ...]) -> Any:
    """A flat array as fixed-size lists of this shape."""
    import pyarrow as pa

    for size in reversed(shape):
        if not size:
            raise BadType("expected arrays with values, got a dimension of 0, which a fixed-size list cannot have")
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _named(structure: Structure) -> Any:
    """A nest of dicts with the structure's names: parts of tuples are f0, f1, …, a single leaf is `value`.

    Raises:
        BadType: There is a part without columns, or there are two of one name.
    """
    if structure.is_leaf:
        return {"value": None}
    return _parts(structure)


def _parts(structure: Structure) -> Any:
    if structure.is_leaf:
        return None
    names = [f"f{key}" if isinstance(key, int) else str(key) for key in structure.keys]
    if not names:
        raise BadType("expected parts with one column or more, got an empty dict or tuple, which Parquet cannot hold")
    if twice := [name for name in names if names.count(name) > 1]:
        keys = [key for key, name in zip(structure.keys, names, strict=True) if name == twice[0]]
        raise BadType(f"expected columns with names of their own, got {twice[0]!r} for each of {keys}")
    return dict(zip(names, map(_parts, structure.children), strict=True))


def _names(nest: Any, above: str = "") -> Iterator[str]:
    """The name of each column of a nest, with those of the structs that it is in."""
    for name, part in nest.items():
        yield from [above + name] if part is None else _names(part, f"{above}{name}.")


def _nested(nest: Any, columns: Any) -> tuple[list[str], list[Any]]:
    """The columns of a nest of names: those of inner nests as structs."""
    import pyarrow as pa

    arrays = []
    for part in nest.values():
        if part is None:
            arrays.append(next(columns))
        else:
            names, inner = _nested(part, columns)
            arrays.append(pa.StructArray.from_arrays(inner, names))
    return list(nest), arrays
