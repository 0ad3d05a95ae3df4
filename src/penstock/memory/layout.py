"""Layout: how the elements of one structure lie in the columns of an Arrow table, and back.

The columns are those of the leaves (see `leaves`), named by their path. What Python needs to make the same nests again
stands as JSON in the schema's metadata.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..element import LEAF, Structure
from ..errors import BadType, FormatError
from .flat import Take
from .leaves import Buffers, Leaf, Views, leaf_from_json, leaf_of

__all__ = ["Layout", "class_named"]


class Layout:
    """The columns of one file: a structure, and how each leaf of it lies in them."""

    def __init__(self, structure: Structure, leaves: Sequence[Leaf]) -> None:
        self.structure = structure
        self.leaves = leaves

    @staticmethod
    def of(row: Any, keeps_order: bool = False) -> Layout:
        """The layout that holds this element; `BadType` if none can.

        Args:
            row: The element.
            keeps_order: Whether arrays come back in the order of bytes that they had: for a run's own files, which
                must not show. In those that last, numbers have the machine's, which Arrow knows.
        """
        structure = Structure.of(row)
        return Layout(structure, [leaf_of(leaf, keeps_order) for leaf in structure.flatten(row)])

    def leaves_of(self, row: Any) -> list[Any] | None:
        """The leaves of an element; None if it has another structure, keys in another order, or other dtypes."""
        leaves: list[Any] = []
        if not _take_apart(self.structure, row, leaves):
            return None
        fit = all(leaf.fits(value) for leaf, value in zip(self.leaves, leaves, strict=True))
        return leaves if fit else None

    def taken_apart(self, rows: Sequence[Any], path: str) -> list[list[Any]]:
        """The values of each leaf; `BadType`, which names the file, if an element is not like the others there."""
        by_row = []
        for row in rows:
            if (leaves := self.leaves_of(row)) is None:
                expected, got = (json.dumps(layout.to_json()) for layout in (self, Layout.of(row)))
                raise BadType(f"expected an element like those before in {path}, {expected}, got {got}")
            by_row.append(leaves)
        return [list(values) for values in zip(*by_row, strict=True)]

    def schema(self, metadata: Mapping[str, str]) -> Any:
        """The Arrow schema."""
        import pyarrow as pa

        taken: set[str] = set()
        fields = []
        for path, leaf in zip(_paths(self.structure), self.leaves, strict=True):
            name = _unused(path or "value", leaf, taken)
            fields += [pa.field(name + suffix, kind, nullable=kind == pa.null()) for suffix, kind in leaf.fields()]
        # Without a column there would be no rows: () is an element too.
        return pa.schema(fields or [pa.field("nothing", pa.null())], metadata=dict(metadata))

    def columns(self, by_leaf: Sequence[Any], num_rows: int) -> list[Any]:
        """Elements, as the values of each leaf, in Arrow arrays; arrays of a single element are not copied."""
        import pyarrow as pa

        if not self.leaves:
            return [pa.nulls(num_rows)]
        return [c for leaf, values in zip(self.leaves, by_leaf, strict=True) for c in leaf.columns(values)]

    def rows(self, columns: Sequence[Any], num_rows: int, views: Views) -> list[Any]:
        """The elements of some columns."""
        remaining = iter(columns)
        return self._rows([leaf.read(remaining, num_rows, views) for leaf in self.leaves], num_rows)

    def flat(self, by_leaf: Sequence[Any]) -> list[np.ndarray]:
        """The same as flat arrays, without Arrow."""
        return [a for leaf, values in zip(self.leaves, by_leaf, strict=True) for a in leaf.flat(values)]

    def unflat(self, take: Take, num_rows: int) -> list[Any]:
        """The elements that `flat` has laid out."""
        return self._rows([leaf.unflat(take, num_rows) for leaf in self.leaves], num_rows)

    def _rows(self, leaves: list[list[Any]], num_rows: int) -> list[Any]:
        if self.structure.is_leaf:
            return leaves[0]
        if not leaves:
            return [self.structure.unflatten([]) for _ in range(num_rows)]
        if self.structure.is_flat_tuple:
            return list(zip(*leaves, strict=True))  # as they are
        return [self.structure.unflatten(row) for row in zip(*leaves, strict=True)]

    @property
    def makes_copies(self) -> bool:
        """Whether elements are not all views of what was read: strings are made anew."""
        return self.flat_values() is None

    def value_buffers(self) -> list[int] | None:
        """Of the buffers of a batch, those with the values of each leaf; None where a leaf has none, or several."""
        return _places(leaf.buffers() for leaf in self.leaves)

    def flat_values(self) -> list[int] | None:
        """The same of flat arrays."""
        return _places(leaf.flat_values for leaf in self.leaves)

    def to_json(self) -> Any:
        return _structure_to_json(self.structure, iter(self.leaves))

    @staticmethod
    def from_json(value: Any) -> Layout:
        leaves: list[Leaf] = []
        return Layout(_structure_from_json(value, leaves), leaves)


def _places(of_leaves: Iterable[Buffers | None]) -> list[int] | None:
    found: list[int] = []
    before = 0
    for buffers in of_leaves:
        if buffers is None:
            return None
        found.append(before + buffers.values)
        before += buffers.num_all
    return found


def _take_apart(structure: Structure, value: Any, leaves: list[Any]) -> bool:
    """Appends the leaves of a value, as long as it has the structure; quicker than to find out which one it has."""
    kind = structure.kind
    if kind is None:
        leaves.append(value)  # where it is a nest, no leaf fits it
        return True
    if type(value) is not kind:
        return False
    parts: Any = value
    if issubclass(kind, Mapping):
        if tuple(parts) != structure.keys:
            return False
        parts = parts.values()
    elif not issubclass(kind, tuple):
        parts = [getattr(value, key) for key in structure.keys]
    if len(parts) != len(structure.children):
        return False
    return all(_take_apart(child, part, leaves) for child, part in zip(structure.children, parts, strict=True))


def _paths(structure: Structure, above: str = "") -> list[str]:
    if structure.is_leaf:
        return [above]
    dot = "." if above else ""
    pairs = zip(structure.keys, structure.children, strict=True)
    return [path for key, child in pairs for path in _paths(child, f"{above}{dot}{key}")]


def _unused(name: str, leaf: Leaf, taken: set[str]) -> str:
    """The name, longer by a few strokes if its columns would be called as others are."""
    while any(name + suffix in taken for suffix, _ in leaf.fields()):
        name += "'"
    taken.update(name + suffix for suffix, _ in leaf.fields())
    return name


def _structure_to_json(structure: Structure, leaves: Iterator[Leaf]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves).to_json()
    nest = "tuple" if issubclass(kind, tuple) else "dict" if issubclass(kind, Mapping) else "dataclass"
    for key in structure.keys:
        if type(key) is not str and _literal(repr(key)) != key:
            raise BadType(f"expected keys that are text or numbers, got {key!r}: it cannot be stored")
    return {
        "nest": nest,
        "class": f"{kind.__module__}:{kind.__qualname__}",
        "keys": [key if type(key) is str else {"literal": repr(key)} for key in structure.keys],
        "parts": [_structure_to_json(child, leaves) for child in structure.children],
    }


def _structure_from_json(value: Any, leaves: list[Leaf]) -> Structure:
    if "leaf" in value:
        leaves.append(leaf_from_json(value))
        return LEAF
    keys = tuple(key if isinstance(key, str) else ast.literal_eval(key["literal"]) for key in value["keys"])
    children = tuple(_structure_from_json(part, leaves) for part in value["parts"])
    if len(keys) != len(children):
        raise FormatError(f"{len(keys)} keys for {len(children)} parts")
    return Structure(class_named(value["nest"], value["class"], keys), keys, children)


def class_named(nest: str, name: str, keys: tuple[Any, ...]) -> type:
    """The class of a nest if it is loaded and fits, else one like it: a file must not decide what is imported."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    base = path.rpartition(".")[2]
    if nest == "dict":
        plain = (dict, collections.OrderedDict, collections.defaultdict)
        return found if isinstance(found, type) and issubclass(found, plain) else dict
    if nest == "tuple":
        if name == "builtins:tuple":
            return tuple
        same = isinstance(found, type) and issubclass(found, tuple) and getattr(found, "_fields", None) == keys
        return found if same else collections.namedtuple(base, keys)
    if nest != "dataclass":
        raise FormatError(f"a nest of the kind {nest!r}")
    same = isinstance(found, type) and dataclasses.is_dataclass(found)
    if same and tuple(field.name for field in dataclasses.fields(found)) == keys:
        loaded: type = found
        return loaded
    return dataclasses.make_dataclass(base, keys)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
