"""Where the results of `map_fn` go: into the arrays given as `out`, or into new ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..block import Block, concat_blocks
from ..element import Failed, Structure
from ..errors import BadArgument, BadType, OverBudget, SpecMismatch
from ..frames import taken
from ..leaf import dtype_of, shape_of
from ..memory.ledger import format_bytes
from ..memory.limits import available_bytes
from ..spec import TensorSpec, describe, leaf_spec, spec_of
from .elems import Elems, as_tuple
from .overlap import check_apart

__all__ = ["Results"]

# So many rows, of no more than this in all, are stacked before they are written: quicker than a write for each.
_STACKED_BYTES = 1 << 16
_STACKED_ROWS = 1 << 10
# Columns are written so much at a time: pages of new arrays come into being as they are written to, and who watches the
# process grow must know of them (`written_bytes`).
_WRITTEN_BYTES = 1 << 20
# Where only a run can tell how many there will be, new arrays grow by an eighth: large ones without a copy.
_FIRST_ROWS = 1024


class Results:
    """Takes results in order, and writes them as they come.

    Args:
        out: Where to, as a nest that the results will have; None for new arrays. Whatever can be assigned to by slices
            and has a shape and a dtype will do.
        elems: What they are results of.
    """

    def __init__(self, out: Any, elems: Elems) -> None:
        self._num_elements = num_elements = elems.num_elements
        self._given = out
        self._arrays: list[Any] | None = None
        self._structure: Structure | None = None
        self._specs: list[TensorSpec] = []
        #: How many are written.
        self.count = 0
        if out is not None:
            nest = as_tuple(out)
            self._structure = Structure.of(nest)
            self._arrays = self._structure.flatten(nest)
            for array in self._arrays:
                _check_writable(array, num_elements)
            check_apart(self._arrays, elems)

    def put(self, block: Block) -> int:
        """Writes some more; the error of one that failed is raised when those before it are written.

        Returns:
            How many bytes they are.
        """
        if block.has_failures:
            rows = block.rows()
            failed = next(i for i, row in enumerate(rows) if type(row) is Failed)
            if failed:
                self.put(Block.of_rows(rows[:failed], None, False))
            raise taken(rows[failed])
        if not self._specs:
            self._begin(block[:1].rows()[0])
        self._make_room(block.size)
        nbytes, step = block.nbytes, block.size
        if block.columns is None:
            step = max(1, min(_STACKED_ROWS, block.size * _STACKED_BYTES // max(1, nbytes)))
        for start in range(0, block.size, step):
            part = block if step == block.size else block[start : start + step]
            columns = part if part.columns is not None else _joined(part) if part.size > 1 else None
            if columns is None or not self._put_columns(columns):
                for row in part.rows():
                    self._put_row(row)
        return nbytes

    def value(self) -> Any:
        """The arrays, all results written: those that were given, or new ones."""
        if self._num_elements is None and self._arrays is not None:
            if self._given is None:
                for array in self._arrays:
                    array.resize((self.count, *array.shape[1:]), refcheck=False)
            elif any(len(array) != self.count for array in self._arrays):
                raise SpecMismatch(f"out: expected a first dimension of {self.count:,}, got {len(self._arrays[0]):,}")
        if self._given is not None:
            return self._given
        assert self._structure is not None
        assert self._arrays is not None
        return self._structure.unflatten(self._arrays)

    @property
    def written_bytes(self) -> int:
        """Memory that results have filled so far, but for files."""
        if not self._specs:
            return 0
        in_memory = [array for array in self._arrays or () if type(array) is np.ndarray]
        return sum(self.count * array.nbytes // max(1, len(array)) for array in in_memory)

    def _begin(self, first: Any) -> None:
        """The first result says what all will be like."""
        structure = Structure.of(first)
        leaves = structure.flatten(first)
        specs = [leaf_spec(leaf) for leaf in leaves]
        if any(type(spec) is not TensorSpec for spec in specs):
            raise BadType(f"fn must return arrays, numbers or strings, got {describe(spec_of(first))}")
        if self._arrays is None:
            self._arrays = self._new(leaves)
        else:
            assert self._structure is not None
            self._check_out(first, structure, leaves)
        self._structure, self._specs = structure, specs

    def _new(self, leaves: list[Any]) -> list[np.ndarray]:
        rows = _FIRST_ROWS if self._num_elements is None else self._num_elements
        shapes = [np.shape(leaf) for leaf in leaves]
        sizes = [dtype_of(leaf).itemsize * math.prod(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
        _check_possible(sum(sizes), rows)
        return [np.empty((rows, *shape), dtype_of(leaf)) for leaf, shape in zip(leaves, shapes, strict=True)]

    def _check_out(self, first: Any, structure: Structure, leaves: list[Any]) -> None:
        assert self._arrays is not None
        if structure != self._structure:
            raise SpecMismatch(f"out: expected a nest like what fn returns, {structure}, got {self._structure}")
        if not structure.same_layout(self._structure):  # a dict's keys in another order
            self._arrays = structure.flatten(as_tuple(self._given))
        for array, leaf in zip(self._arrays, leaves, strict=True):
            dtype, shape = dtype_of(leaf), shape_of(leaf)
            if np.dtype(array.dtype) != dtype or tuple(array.shape[1:]) != shape:
                wanted = (array.shape[0] if self._num_elements is None else self._num_elements, *shape)
                raise SpecMismatch(
                    f"out: fn returns {describe(leaf_spec(leaf))}, so expected an array of shape {wanted} and dtype "
                    f"{dtype}, got shape {tuple(array.shape)} and dtype {array.dtype}"
                )

    def _make_room(self, size: int) -> None:
        assert self._arrays is not None
        end = self.count + size
        if self._num_elements is not None:
            return
        for i, array in enumerate(self._arrays):
            if end <= len(array):
                continue
            if self._given is not None:
                raise SpecMismatch(f"out: has room for {len(array):,} results, and there are more")
            rows = max(end, len(array) + len(array) // 8)
            _check_possible(array.nbytes // len(array), rows)
            self._arrays[i].resize((rows, *array.shape[1:]), refcheck=False)

    def _put_columns(self, block: Block) -> bool:
        """Writes a block that is like the first result; whether it was."""
        assert self._arrays is not None
        assert self._structure is not None
        assert block.columns is not None
        if not block.structure.same_layout(self._structure):
            return False
        for column, spec in zip(block.columns, self._specs, strict=True):
            if column.dtype != spec.dtype or column.shape[1:] != spec.shape:
                return False
        step = block.size
        if all(type(array) is np.ndarray for array in self._arrays):  # of files, more at a time may be quicker
            step = max(1, min(step, step * _WRITTEN_BYTES // max(1, block.nbytes)))
        for start in range(0, block.size, step):
            end = min(start + step, block.size)
            for array, column in zip(self._arrays, block.columns, strict=True):
                array[self.count : self.count + end - start] = column[start:end]
            self.count += end - start
        return True

    def _put_row(self, row: Any) -> None:
        assert self._arrays is not None
        assert self._structure is not None
        found = Structure.of(row)
        leaves = self._structure.flatten(row) if found == self._structure else []
        if not leaves or any(
            type(leaf_spec(leaf)) is not TensorSpec or dtype_of(leaf) != spec.dtype or shape_of(leaf) != spec.shape
            for leaf, spec in zip(leaves, self._specs, strict=True)
        ):
            first = describe(self._structure.unflatten(self._specs))
            raise SpecMismatch(
                f"fn returned {describe(spec_of(row))} for element {self.count:,}, and {first} for the first: results "
                "are stacked, so all must have one structure, dtype and shape"
            )
        for array, leaf in zip(self._arrays, leaves, strict=True):
            array[self.count] = leaf
        self.count += 1


def _joined(block: Block) -> Block | None:
    """The rows of a block as columns; None where they differ."""
    try:
        return concat_blocks([block], np.empty)
    except SpecMismatch:  # in structure: who looks at each will say which
        return None


def _check_writable(array: Any, num_elements: int | None) -> None:
    if not (hasattr(array, "shape") and hasattr(array, "dtype") and hasattr(array, "__setitem__")):
        raise BadType(f"out: expected an array, a memmap or a nest of them, got {type(array).__name__} {array!r:.60}")
    flags = getattr(array, "flags", None)
    if flags is not None and not flags.writeable:
        raise BadArgument("out: expected an array that can be written, got a read-only one; open memmaps with 'r+'")
    if not array.shape:
        raise SpecMismatch("out: expected arrays with a first dimension for the elements, got one of shape ()")
    if num_elements is not None and array.shape[0] != num_elements:
        raise SpecMismatch(
            f"out: expected a first dimension of {num_elements:,}, one row for each element, got {tuple(array.shape)}"
        )


def _check_possible(each_bytes: int, rows: int) -> None:
    """New arrays are the caller's and no part of the budget; but there is no point in beginning what cannot end."""
    total, available = each_bytes * rows, available_bytes()
    if total > available:
        raise OverBudget(
            f"{rows:,} results of {format_bytes(each_bytes)} take {format_bytes(total)}, and this process may use "
            f"{format_bytes(available)}: give a file for them, out=np.lib.format.open_memmap(path, 'w+', dtype, shape)"
        )
