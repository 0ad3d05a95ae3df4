"""Arrays as a source: `from_tensor_slices` and `from_tensors`, without a copy of the data.

What can be sliced is never converted as a whole: NumPy arrays and memmaps are aliased, DLPack and `__array__` objects
are wrapped, and lazily read ones (h5py, zarr: a `shape`, a `dtype` and slicing) are read piece by piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ..block import Block
from ..byte_strings import refuse_missing
from ..cursor import Cursor
from ..element import LEAF, Structure, nbytes_of, normalize, read_only, repr_nest
from ..errors import BadType, SpecMismatch
from ..inorder import InOrderCursor
from ..leaf import Ragged, Sparse, as_leaf, is_dataset, refuse_masked
from ..order import Index
from ..plan.carried import ArraySource
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import BlockKind, Context, Reader, show
from ..plan.traits import SOURCE, Traits
from ..spec import RaggedSpec, Spec, TensorSpec, spec_of
from .columns import ColumnReader
from .made_columns import MadeReader, is_made, making_bytes
from .ragged_columns import RaggedReader

__all__ = ["FromTensorSlices", "FromTensors"]

# How slices are had: as views of arrays; row by row, of ragged ones; or they are made, which takes memory and may fail.
_Access = Literal["view", "ragged", "made"]


@dataclasses.dataclass(frozen=True, eq=False)
class FromTensorSlices(ArraySource):
    """The slices of arrays along their first axis.

    The arrays are aliased, not copied: later changes to them show. Elements that lie side by side are delivered as
    read-only views.

    Args:
        tensors: An array, or a nest of arrays with equal first dimensions. Anything that NumPy can alias works, and so
            do h5py- and zarr-like objects, which are read in slices. A list is converted to an array.

    Text (`U`, `S`, `StringDType`) becomes `bytes`, a few at a time.

    Memory: nothing; a gathered block is as large as the elements asked for. Of what is read from h5py, zarr and the
        like, and of text: one element, and what it takes to make it.
    State: one integer.

    >>> import numpy as np, penstock as ps
    >>> list(ps.Dataset.from_tensor_slices((np.arange(2), np.array([b"a", b"b"]))))
    [(np.int64(0), b'a'), (np.int64(1), b'b')]
    """

    tensors: Any
    _structure: Structure = dataclasses.field(init=False, repr=False)
    _columns: list[Any] = dataclasses.field(init=False, repr=False)
    _size: int = dataclasses.field(init=False, repr=False)
    _access: _Access = dataclasses.field(init=False, repr=False)

    def __init__(self, tensors: Any) -> None:
        fields = self.__dict__
        fields["tensors"] = tensors
        if type(tensors) is np.ndarray and tensors.ndim and not tensors.dtype.hasobject:
            fields["_structure"], fields["_columns"], fields["_size"] = LEAF, [tensors], len(tensors)
            fields["_access"] = "made" if is_made(tensors) else "view"
            return
        structure, leaves = _nest_of(tensors)
        columns = [_as_column(leaf) for leaf in leaves]
        if not columns:
            raise BadType("expected at least one array, got none: an element must hold something")
        sizes = [len(column) if isinstance(column, Ragged) else int(column.shape[0]) for column in columns]
        if len(set(sizes)) > 1:
            got = repr_nest(structure.unflatten(sizes))
            raise SpecMismatch(f"expected arrays with equal first dimensions, got {got}")
        fields["_structure"], fields["_columns"], fields["_size"] = structure, columns, sizes[0]
        fields["_access"] = _access_to(columns)

    @property
    def num_elements(self) -> int:
        return self._size

    @property
    def aliased_arrays(self) -> list[np.ndarray]:
        """What is read when elements are asked for, and must not be written to before; in one order for equal dicts."""
        return [column for column in self._columns_by_key() if isinstance(column, np.ndarray)]

    def _columns_by_key(self) -> list[Any]:
        return [self._columns[place] for place in self._structure.places_by_key()]

    @property
    def array_bytes(self) -> int:
        total = 0
        for column in self._columns:
            if isinstance(column, (np.ndarray, Ragged)):
                total += column.nbytes
        return total

    @property
    def reading_may_fail(self) -> bool:
        return self._access == "made"

    def views(self, step: int = 1, start: int = 0) -> Block:
        """Each `step`th element, where these are views."""
        columns = [_read_only(column[start::step]) for column in self._columns]
        return Block.of_columns(self._structure, columns, len(columns[0]))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        leaves = [_slice_spec(column) for column in self._columns]
        return Spec(self._structure.unflatten(leaves), self._size)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        if self._access == "view":
            return ColumnReader(self._structure, self._columns, context.arena)
        if self._access == "made":
            return MadeReader(self._structure, self._columns, context)
        return RaggedReader(self._structure, self._columns, context)

    def footprint(self, sizes: Sizes) -> Footprint | None:
        if self._access != "made":
            return None
        one = times(1, sizes.output, slots=True)
        making = [making_bytes(column, one) for column in self._columns]
        known = sum(nbytes for nbytes in making if nbytes is not None)
        floor = None if one is None or None in making else one + known
        return Footprint(floor, "one element on its way, and what it takes to make it", floor, known_bytes=known)

    def read_all(self, context: Context) -> Block:
        if self._access != "view":
            return super().read_all(context)
        return self.views()

    def open(self, context: Context) -> Cursor:
        return InOrderCursor(self.reader(context), self._size)

    @property
    def gives_views(self) -> bool:
        return self._access == "view"

    def block_kind(self) -> BlockKind | None:
        return "view" if self._access == "view" else None

    def describe(self) -> str:
        return _shown(self._columns)

    def fingerprint(self) -> str:
        return _shown(self._columns_by_key())


def _access_to(columns: list[Any]) -> _Access:
    if any(isinstance(column, Ragged) for column in columns):
        return "ragged"
    return "made" if any(map(is_made, columns)) else "view"


def _shown(columns: list[Any]) -> str:
    return f"from_tensor_slices({', '.join(map(_column_text, columns))})"


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
        refuse_masked(value)
        column: Any = value
    elif isinstance(value, (Ragged, Sparse)):
        column = value
    elif is_dataset(value):
        raise BadType("expected arrays, got a dataset; use flat_map or zip to combine datasets")
    elif isinstance(value, Iterator):
        raise BadType(
            f"expected arrays, got {type(value).__name__} {value!r:.60}, which gives values one after the other: "
            "use from_generator(lambda: …)"
        )
    elif value is None:
        raise BadType("expected arrays, got None; leave it out, or put it in with map(lambda x: (x, None))")
    elif _is_lazy(value):
        column = value
    else:
        column = as_leaf(value)
    if isinstance(column, Sparse):
        raise BadType("expected dense arrays, got a Sparse; slice its to_dense() instead")
    if not isinstance(column, Ragged) and not getattr(column, "shape", ()):
        raise SpecMismatch(f"expected arrays with a first axis to slice, got a scalar: {value!r:.60}")
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            return as_leaf(column)  # refuses objects that are not strings
        refuse_missing(column)
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


@dataclasses.dataclass(frozen=True, eq=False)
class FromTensors(ArraySource):
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

    def __init__(self, tensors: Any) -> None:
        fields = self.__dict__
        fields["tensors"] = tensors
        if isinstance(tensors, np.number):  # many in `flat_map`
            fields["_element"] = tensors
            return
        element = normalize(tensors)
        structure = Structure.of(element)
        leaves = structure.flatten(element)
        if not leaves or element is None:
            raise BadType("expected at least one array, got none: an element must hold something")
        fields["_element"] = structure.unflatten([read_only(leaf) for leaf in leaves])

    @property
    def num_elements(self) -> int:
        return 1

    @property
    def aliased_arrays(self) -> list[np.ndarray]:
        """What is delivered as it is, and must not be written to before; in one order for equal dicts."""
        leaves = Structure.of(self._element).by_key().flatten(self._element)
        return [np.asarray(leaf) for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))]

    @property
    def array_bytes(self) -> int:
        element = self._element
        return int(element.nbytes) if isinstance(element, np.generic) else nbytes_of(element)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(spec_of(self._element), 1)

    @property
    def traits(self) -> Traits:
        return SOURCE

    def reader(self, context: Context) -> Reader:
        return _OneElement(self._element)

    def open(self, context: Context) -> Cursor:
        return InOrderCursor(self.reader(context), 1)

    def describe(self) -> str:
        return "from_tensors"


class _OneElement:
    __slots__ = ("_element",)

    def __init__(self, element: Any) -> None:
        self._element = element

    def read(self, index: Index) -> Block:
        size = index.stop - index.start if isinstance(index, slice) else index.size
        return Block(size, LEAF, None, [self._element] * size, False, None)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view(np.ndarray)
    view.setflags(write=False)
    return view
