"""Padding: elements of unequal shape brought to one shape.

Shapes and values are nested like the elements, as in tf.data: a list is always a shape, a tuple or a dict is structure
where the element has one. What is known before the run is checked against the spec; after a user's function there is
no spec, and the same checks are made on the elements.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..block import Allocate, Block, concat_blocks, stack_leaves
from ..element import Structure
from ..errors import BadArgument, BadType, SpecMismatch
from ..leaf import as_leaf, dtype_of, shape_of, string
from ..spec import (
    UNSEEN,
    DatasetSpec,
    RaggedSpec,
    Shape,
    SparseSpec,
    TensorSpec,
    describe,
    spec_leaves,
    structure_of_spec,
)

__all__ = ["Padder", "parse_shape"]


def parse_shape(name: str, value: Any, *, any_size: tuple[Any, ...] = (None, -1)) -> Shape:
    """A shape as users give it: sizes, with one of `any_size` for a dimension of any size."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = (value,)
    if hasattr(value, "as_list"):  # a tf.TensorShape
        try:
            value = value.as_list()
        except ValueError:
            raise BadArgument(f"{name}: expected a shape of known rank, got {value}") from None
    try:
        dims = [None if n in any_size else operator.index(n) for n in value]
    except TypeError:
        raise BadType(f"{name}: expected a shape such as [None, 3], got {type(value).__name__} {value!r}") from None
    if any(n is not None and n < 0 for n in dims):
        raise BadArgument(f"{name}: expected sizes >= 0, or None for any size, got {list(value)}")
    return tuple(dims)


class Padder:
    """Brings elements to the shapes a user asked for, and stacks them.

    Args:
        shapes: A nest of shapes, or None to pad each dimension to the largest of the batch.
        values: A nest of padding values, one value for all, or None for 0, False and the empty string.
        any_size: The size of dimensions that `shapes` leave open; None for the largest of the batch. Where shapes are
            not given at all it is the size of the first dimension.
    """

    def __init__(self, shapes: Any, values: Any, any_size: int | None = None) -> None:
        self._given_shapes = shapes
        self._given_values = values
        self._any_size = any_size
        self._structure: Structure | None = None
        self._shapes: list[Shape | None] = []
        self._values: list[Any] = []
        self._typed: dict[tuple[int, np.dtype[Any]], Any] = {}

    def spec(self, element: Any, size: int | None) -> Any:
        """The spec of padded batches; raises where shapes and values do not fit the elements."""
        if element is UNSEEN:
            return UNSEEN
        structure = structure_of_spec(element)
        leaves = spec_leaves(element)
        for leaf in leaves:
            if isinstance(leaf, DatasetSpec):
                raise BadType("cannot pad datasets; use flat_map to take the elements out of them first")
            if not isinstance(leaf, TensorSpec) or isinstance(leaf, (RaggedSpec, SparseSpec)):
                raise BadType(f"expected arrays or scalars, got {leaf} in {describe(element)}")
        self._bind(structure)
        batched = []
        for i, (leaf, shape) in enumerate(zip(leaves, self._shapes, strict=True)):
            self._value(i, leaf.dtype)
            if shape is None:
                if leaf.shape is None:
                    raise BadArgument(f"padded_shapes: must be given, as the rank of component {i} is not known")
                shape = leaf.shape
            elif leaf.shape is not None and not _can_hold(shape, leaf.shape):
                raise SpecMismatch(f"padded_shapes: {list(shape)} cannot hold component {i} of shape {leaf.shape}")
            batched.append(TensorSpec((size, *shape), leaf.dtype))
        return structure.unflatten(batched)

    def collate(self, blocks: list[Block], allocate: Allocate) -> Any:
        """The elements of some blocks as one batch."""
        if all(block.columns is not None for block in blocks):
            joined = concat_blocks(blocks, allocate)
            if joined is not None:
                return self._padded_columns(joined, allocate)
        return self.collate_rows([row for block in blocks for row in block.rows()], allocate)

    def collate_rows(self, rows: Sequence[Any], allocate: Allocate) -> Any:
        """Some elements as one batch."""
        structure = Structure.of(rows[0])
        self._bind(structure)
        if structure.is_leaf:  # of very many numbers, lists of one would take more than all else
            return structure.unflatten([self._padded(0, rows, allocate)])
        by_leaf = zip(*[structure.flatten(row) for row in rows], strict=True)
        return structure.unflatten([self._padded(i, leaves, allocate) for i, leaves in enumerate(by_leaf)])

    def _bind(self, structure: Structure) -> None:
        """Lays the given nests out along the leaves of an element."""
        if self._structure is not None and structure.same_layout(self._structure):
            return
        count = structure.num_leaves
        if self._given_shapes is None:
            shapes: list[Shape | None] = [None] * count
        else:
            given = _spread(structure, self._given_shapes, "padded_shapes")
            shapes = [parse_shape("padded_shapes", shape) for shape in given]
        values = self._given_values
        if _is_nest(values):
            self._values = _spread(structure, values, "padding_values", None)
        else:
            self._values = [values] * count
        self._shapes, self._structure = shapes, structure
        self._typed.clear()

    def _value(self, i: int, dtype: np.dtype[Any]) -> Any:
        """The padding value of component i, in the component's dtype."""
        value = self._typed.get((i, dtype))
        if value is None:
            value = self._typed[i, dtype] = _typed_value(self._values[i], dtype, i)
        return value

    def _padded(self, i: int, leaves: Sequence[Any], allocate: Allocate) -> np.ndarray:
        dtype = dtype_of(leaves[0])
        for k, leaf in enumerate(leaves):
            if type(leaf) is np.ndarray and leaf.dtype == dtype:
                continue
            if not isinstance(leaf, (np.ndarray, np.generic, bytes)):
                raise BadType(f"component {i}: expected arrays or scalars, got {type(leaf).__name__}")
            if dtype_of(leaf) != dtype:
                raise SpecMismatch(
                    f"component {i}: expected equal dtypes, got {dtype} for element 0 of the batch and "
                    f"{dtype_of(leaf)} for element {k}"
                )
        value = self._value(i, dtype)
        shapes = [shape_of(leaf) for leaf in leaves]
        target = self._target(i, shapes)
        if all(shape == target for shape in shapes):
            stacked = stack_leaves(leaves, allocate)
            assert stacked is not None, "leaves of equal dtype and shape can be stacked"
            return stacked
        out = allocate((len(leaves), *target), dtype)
        if len(target) == 1:
            for row, leaf in zip(out, leaves, strict=True):
                row[: len(leaf)] = leaf
                row[len(leaf) :] = value
            return out
        out[...] = value
        for row, leaf in zip(out, leaves, strict=True):
            row[tuple(map(slice, leaf.shape))] = leaf
        return out

    def _padded_columns(self, block: Block, allocate: Allocate) -> Any:
        """A batch of elements that have equal shapes: a copy only where there is something to pad."""
        self._bind(block.structure)
        batched = []
        for i, column in enumerate(block.columns or ()):
            value = self._value(i, column.dtype)
            shape = column.shape[1:]
            target = self._target(i, [shape])
            if target != shape:
                out = allocate((len(column), *target), column.dtype)
                out[...] = value
                out[(slice(None), *map(slice, shape))] = column
                column = out
            batched.append(column)
        return block.structure.unflatten(batched)

    def _target(self, i: int, shapes: Sequence[tuple[Any, ...]]) -> tuple[int, ...]:
        """The shape to which component i of a batch is brought."""
        given = self._shapes[i]
        rank = len(shapes[0]) if given is None else len(given)
        for k, shape in enumerate(shapes):
            if len(shape) != rank:
                expected = f"{rank} dimensions" if given is None else f"the rank of padded_shapes {list(given)}"
                raise SpecMismatch(f"component {i}: expected {expected}, got {shape} for element {k} of the batch")
        largest = shapes[0] if len(shapes) == 1 else tuple(map(max, zip(*shapes, strict=True)))
        sizes = [n if self._any_size is None else self._any_size for n in largest]
        if given is not None:
            target = tuple(n if m is None else m for m, n in zip(given, sizes, strict=True))
        else:
            target = (*sizes[:1], *largest[1:])
        if any(n > m for m, n in zip(target, largest, strict=True)):
            k = next(k for k, shape in enumerate(shapes) if not _can_hold(target, shape))
            raise SpecMismatch(
                f"component {i}: shape {target} is too small for element {k} of the batch, which has shape {shapes[k]}"
                "; use None for a dimension that is to be as long as the longest"
            )
        return target


def _can_hold(shape: Shape, inner: Shape) -> bool:
    return len(shape) == len(inner) and all(m is None or n is None or n <= m for m, n in zip(shape, inner, strict=True))


def _is_nest(value: Any) -> bool:
    return isinstance(value, (tuple, Mapping)) or hasattr(type(value), "__dataclass_fields__")


_REQUIRED = object()


def _spread(structure: Structure, nest: Any, name: str, absent: Any = _REQUIRED) -> list[Any]:
    """What `nest` holds for each leaf of a structure; None for a whole branch stands for `absent` everywhere in it."""
    if structure.is_leaf:
        return [nest]
    if nest is None and absent is not _REQUIRED:
        return [absent] * structure.num_leaves
    parts = _parts(structure, nest)
    if parts is None:
        raise SpecMismatch(f"{name}: expected one for each component of {structure}, got {nest!r:.80}")
    return [
        leaf
        for child, part in zip(structure.children, parts, strict=True)
        for leaf in _spread(child, part, name, absent)
    ]


def _parts(structure: Structure, nest: Any) -> list[Any] | None:
    """The parts of `nest` in the order of the structure's keys; None where it is of another kind."""
    kind, keys = structure.kind, structure.keys
    assert kind is not None
    if issubclass(kind, Mapping):
        fits = isinstance(nest, Mapping) and set(nest) == set(keys)
        return [nest[key] for key in keys] if fits else None
    if issubclass(kind, tuple):
        return list(nest) if isinstance(nest, tuple) and len(nest) == len(keys) else None
    return [getattr(nest, key) for key in keys] if isinstance(nest, kind) else None


def _typed_value(value: Any, dtype: np.dtype[Any], i: int) -> Any:
    """A padding value as a scalar of the component's dtype. Python's own numbers take any dtype of their kind."""
    if value is None:
        return b"" if dtype == string else dtype.type(0)
    kinds = {int: "iu", float: "f", complex: "c"}.get(type(value), "")
    if dtype.kind in kinds:
        try:
            return dtype.type(value)
        except OverflowError:
            raise SpecMismatch(f"padding_values: {dtype} of component {i} cannot hold {value}") from None
    leaf = as_leaf(value)
    if shape_of(leaf) != ():
        raise SpecMismatch(f"padding_values: expected a scalar for component {i}, got shape {shape_of(leaf)}")
    if dtype_of(leaf) != dtype:
        names = ["string" if d == string else d.name for d in (dtype, dtype_of(leaf))]
        got = f"{names[1]} {value!r}"
        raise SpecMismatch(f"padding_values: expected {names[0]} for component {i}, got {got}; give one of that dtype")
    return leaf
