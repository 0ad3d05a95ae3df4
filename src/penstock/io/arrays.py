"""Arrays as a source: `from_tensor_slices` and `from_tensors`, without a copy of the data.

What can be sliced is never converted as a whole: NumPy arrays and memmaps are aliased, DLPack and `__array__` objects
are wrapped, and lazily read ones (h5py, zarr: a `shape`, a `dtype` and slicing) are read piece by piece.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._native import gather
from ..block import Allocate, Block
from ..cursor import Cursor
from ..element import (
    Failed,
    Ragged,
    Sparse,
    Structure,
    as_leaf,
    encode_strings,
    is_dataset,
    normalize,
    read_only,
    repr_nest,
)
from ..errors import BadType, PenstockError, SpecMismatch
from ..indexed import IndexCursor
from ..order import Index, RangeOrder, as_array
from ..plan.op import BlockKind, Context, Op, Reader, show
from ..plan.traits import SOURCE, Traits
from ..spec import RaggedSpec, Spec, TensorSpec, spec_of

__all__ = ["FromTensorSlices", "FromTensors"]

_NATIVE_ROW_BYTES = 512


@dataclasses.dataclass(frozen=True, eq=False)
class FromTensorSlices(Op):
    """The slices of arrays along their first axis.

    The arrays are aliased, not copied: later changes to them show. Elements that lie side by side are delivered as
    read-only views.

    Args:
        tensors: An array, or a nest of arrays with equal first dimensions. Anything that NumPy can alias works, and so
            do h5py- and zarr-like objects, which are read in slices. A list is converted to an array.

    Memory: nothing; a gathered block is as large as the elements asked for.
    State: one integer.

    >>> import numpy as np, penstock as ps
    >>> list(ps.Dataset.from_tensor_slices((np.arange(2), np.array([b"a", b"b"]))))
    [(np.int64(0), b'a'), (np.int64(1), b'b')]
    """

    tensors: Any
    _structure: Structure = dataclasses.field(init=False, repr=False)
    _columns: list[Any] = dataclasses.field(init=False, repr=False)
    _size: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        structure, leaves = _nest_of(self.tensors)
        columns = [_as_column(leaf) for leaf in leaves]
        if not columns:
            raise BadType("expected at least one array, got none: an element must hold something")
        sizes = [len(column) if isinstance(column, Ragged) else int(column.shape[0]) for column in columns]
        if len(set(sizes)) > 1:
            got = repr_nest(structure.unflatten(sizes))
            raise SpecMismatch(f"expected arrays with equal first dimensions, got {got}")
        object.__setattr__(self, "_structure", structure)
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_size", sizes[0])

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        leaves = [_slice_spec(column) for column in self._columns]
        return Spec(self._structure.unflatten(leaves), self._size)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        reader = _ColumnReader(self._structure, self._columns, context)
        if len(self._columns) == 1 and isinstance(self._columns[0], np.ndarray):
            return _OneColumnReader(self._structure, reader.reads[0])
        return reader

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(self._size))

    def block_kind(self) -> BlockKind | None:
        if all(isinstance(column, np.ndarray) for column in self._columns):
            return "view"
        return None

    def describe(self) -> str:
        columns = ", ".join(_column_text(column) for column in self._columns)
        return f"from_tensor_slices({columns})"


def _column_text(column: Any) -> str:
    if isinstance(column, np.ndarray):
        return show(column)
    return f"{type(column).__name__} {'×'.join(map(str, column.shape))} {column.dtype}"


def _slice_spec(column: Any) -> Any:
    if isinstance(column, Ragged):
        kind = RaggedSpec if isinstance(column.values, Ragged) else TensorSpec
        return kind(column.shape[1:], column.dtype)
    return TensorSpec(tuple(column.shape[1:]), column.dtype)


def _nest_of(tensors: Any) -> tuple[Structure, list[Any]]:
    """Structure and leaves of what the user gave; lists, arrays and lazy arrays are leaves."""
    structure = Structure.of(tensors)
    return structure, structure.flatten(tensors)


def _as_column(value: Any) -> Any:
    """A leaf as something with a first axis to slice: aliased where that is possible."""
    if isinstance(value, np.ndarray):
        column: Any = value
    elif isinstance(value, (Ragged, Sparse)):
        column = value
    elif is_dataset(value):
        raise BadType("expected arrays, got a dataset; use flat_map or zip to combine datasets")
    elif _is_lazy(value):
        column = value
    else:
        column = as_leaf(value)
    if isinstance(column, Sparse):
        raise BadType("expected dense arrays, got a Sparse; slice its to_dense() instead")
    if not isinstance(column, Ragged) and not getattr(column, "shape", ()):
        raise SpecMismatch(f"expected arrays with a first axis to slice, got a scalar: {value!r:.60}")
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        column = as_leaf(column)  # refuses objects that are not strings
    return column


def _is_lazy(value: Any) -> bool:
    """Whether this is an array on disk or elsewhere that reads what is sliced (h5py, zarr)."""
    if any(hasattr(value, name) for name in ("__dlpack__", "__array_interface__", "__array_struct__")):
        return False
    if not (hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")):
        return False
    if isinstance(value, np.generic) or hasattr(value, "iloc") or not isinstance(value.shape, tuple):
        return False
    try:
        np.dtype(value.dtype)
    except TypeError:
        return False
    return True


class _ColumnReader:
    """Reads rows of columns: a read-only view for a slice, one gather into a reused slot for indices."""

    def __init__(self, structure: Structure, columns: list[Any], context: Context) -> None:
        self._structure = structure
        self._columns = columns
        self._context = context
        self._arena = context.arena
        self._has_lazy = any(not isinstance(column, np.ndarray) for column in columns)
        self._by_rows = any(isinstance(column, Ragged) for column in columns)
        self.reads = [] if self._by_rows else [self._read_of(column) for column in columns]

    def read(self, index: Index) -> Block:
        size = index.stop - index.start if isinstance(index, slice) else index.size
        if self._by_rows:
            return self._rows(index)
        if self._has_lazy:
            return self._read_lazily(index, size)
        return Block.of_columns(self._structure, [read(index) for read in self.reads], size)

    def _read_lazily(self, index: Index, size: int) -> Block:
        """Reads from a store, which may fail: what cannot be read is a failure in its place, and the rest is read."""
        try:
            return Block.of_columns(self._structure, [read(index) for read in self.reads], size)
        except PenstockError:
            raise
        except Exception as error:
            if size == 1:
                return Block.of_rows([Failed(self._context.noted(error, int(as_array(index)[0])))], has_failures=True)
        rows = [row for place in as_array(index).tolist() for row in self.read(slice(place, place + 1)).rows()]
        return Block.of_rows(rows)

    def _read_of(self, column: Any) -> Callable[[Index], np.ndarray]:
        """How rows of one column are read."""
        if not isinstance(column, np.ndarray):
            return lambda index: _read_lazy(column, index, self._arena.empty)
        plain = column.view(np.ndarray)  # a memmap's own slicing is slow
        plain.flags.writeable = False
        if plain.dtype.kind in "OUST":
            return lambda index: _encoded(plain[index])
        gathered = self._gather_of(plain)
        return lambda index: plain[index] if isinstance(index, slice) else gathered(index)

    def _gather_of(self, column: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """How scattered rows of a plain column are brought into a slot."""
        make = self._arena.maker(column.shape[1:], column.dtype)
        row_bytes = column.itemsize * math.prod(column.shape[1:])
        if row_bytes < _NATIVE_ROW_BYTES or not column.flags.c_contiguous or not len(column):
            # clip: the indices are ours and in range, and any other mode makes take() go through a copy.
            return lambda index: column.take(index, 0, make(index.size), "clip")
        table = np.ndarray((len(column), row_bytes), np.uint8, column)

        def gathered(index: np.ndarray) -> np.ndarray:
            slot = make(index.size)
            gather(table, index, np.ndarray((index.size, row_bytes), np.uint8, slot))
            return slot

        return gathered

    def _rows(self, index: Index) -> Block:
        places = range(index.start, index.stop) if isinstance(index, slice) else index.tolist()
        return Block.of_rows(
            [self._structure.unflatten([as_leaf(column[i]) for column in self._columns]) for i in places],
            has_failures=False,
        )


class _OneColumnReader:
    """Reads one plain column: the same by a shorter way, which small batches feel."""

    def __init__(self, structure: Structure, read: Callable[[Index], np.ndarray]) -> None:
        self._structure = structure
        self._read = read

    def read(self, index: Index) -> Block:
        column = self._read(index)
        return Block(len(column), self._structure, [column], None, False, None)


def _encoded(array: np.ndarray) -> np.ndarray:
    return encode_strings(array) if array.dtype.kind in "UST" else array


def _read_lazy(column: Any, index: Index, allocate: Allocate) -> np.ndarray:
    """Rows of a lazily read array, in runs of neighbours and in rising order, as such stores like to be read."""
    if isinstance(index, slice):
        return _encoded(np.asarray(column[index.start : index.stop]))
    order = np.argsort(index, kind="stable")
    rising = index[order]
    out = allocate((index.size, *column.shape[1:]), np.dtype(column.dtype))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(rising) > 1]))
    for start, stop in zip(starts, [*starts[1:], rising.size], strict=True):
        first = int(rising[start])
        run = np.asarray(column[first : int(rising[stop - 1]) + 1])
        out[order[start:stop]] = run[rising[start:stop] - first]
    return _encoded(out)


@dataclasses.dataclass(frozen=True, eq=False)
class FromTensors(Op):
    """One element: what was given, as it is.

    Args:
        tensors: An array, or a nest of arrays. A list is converted to an array.

    Memory: nothing beyond the given arrays.
    State: one integer.

    >>> import numpy as np, penstock as ps
    >>> list(ps.Dataset.from_tensors({"a": np.arange(2)}))
    [{'a': array([0, 1])}]
    """

    tensors: Any
    _element: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        element = normalize(self.tensors)
        structure = Structure.of(element)
        leaves = structure.flatten(element)
        if not leaves:
            raise BadType("expected at least one array, got none: an element must hold something")
        object.__setattr__(self, "_element", structure.unflatten([read_only(leaf) for leaf in leaves]))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(spec_of(self._element), 1)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _OneElement(self._element)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(1))

    def describe(self) -> str:
        return "from_tensors"


class _OneElement:
    def __init__(self, element: Any) -> None:
        self._element = element

    def read(self, index: Index) -> Block:
        size = index.stop - index.start if isinstance(index, slice) else index.size
        return Block.of_rows([self._element] * size, has_failures=False)
