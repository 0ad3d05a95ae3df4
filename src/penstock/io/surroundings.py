"""Surroundings: what a function refers to outside itself, as it was, so that a change is noticed."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

__all__ = ["MISSING", "Surroundings"]

MISSING: Any = object()


class Surroundings:
    """Names that were looked up, and dicts that were read."""

    def __init__(self) -> None:
        self._names: list[tuple[Mapping[Any, Any], Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._dicts: list[tuple[Mapping[Any, Any], list[Any]]] = []

    def look_up(self, namespace: Mapping[Any, Any], name: Any) -> Any:
        """The value of a name in a namespace, or MISSING."""
        value = namespace.get(name, MISSING)
        self._names.append((namespace, name, value))
        return value

    def contents(self, cell: types.CellType) -> Any:
        """The value of a variable of an enclosing function, or MISSING."""
        value = _contents(cell)
        self._cells.append((cell, value))
        return value

    def items(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict as it is now."""
        self._dicts.append((given, _flat(given)))
        return dict(given)

    def are_unchanged(self) -> bool:
        """Whether all of it is as it was when the function was tried."""
        for namespace, name, value in self._names:
            if namespace.get(name, MISSING) is not value:
                return False
        for cell, value in self._cells:
            if _contents(cell) is not value:
                return False
        for given, flat in self._dicts:
            now = _flat(given)
            # By identity: to compare may be to run other code, and arrays among defaults compare to arrays.
            if len(now) != len(flat) or any(a is not b for a, b in zip(now, flat, strict=True)):
                return False
        return True


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return MISSING


def _flat(given: Mapping[Any, Any]) -> list[Any]:
    return [*given, *given.values()]
