"""The common form in which results of tf.data and penstock are compared.

A run becomes an `Outcome`: its items in order, `ERROR` in the place of each failure, and whether it came to its end
within the bound. Every leaf becomes a `Leaf`, which is equal to another only if dtype, shape and all bits are.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_ITEMS = 40
MAX_ERRORS = 8


class Leaf:
    """One array or scalar; equality is by dtype, shape and bits."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, bytes | str):
            array = np.empty((), dtype=object)
            array[()] = bytes(value) if isinstance(value, bytes) else value
        else:
            array = np.asarray(value)
        self.array = array
        self.key: tuple[str, tuple[int, ...], object] = (
            array.dtype.str,
            array.shape,
            tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes(),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{self.array.dtype}{list(self.array.shape)}:{self.array.tolist()}"


@dataclass(frozen=True)
class Error:
    """Stands where iterating raised. Types differ between the libraries on purpose and are not compared here."""

    def __repr__(self) -> str:
        return "ERROR"


ERROR = Error()


@dataclass(frozen=True)
class Named:
    """A namedtuple or dataclass: its type's name, fields and parts."""

    name: str
    fields: tuple[str, ...]
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Mapping:
    """A dict. The order of the keys is not part of the meaning."""

    parts: frozenset[tuple[str, Any]]


@dataclass(frozen=True)
class RaggedForm:
    values: Any
    row_splits: Leaf


@dataclass(frozen=True)
class SparseForm:
    indices: Leaf
    values: Leaf
    dense_shape: Leaf


@dataclass(frozen=True)
class Outcome:
    items: tuple[Any, ...]
    ended: bool

    def without_errors(self) -> tuple[Any, ...]:
        return tuple(item for item in self.items if item != ERROR)

    def __repr__(self) -> str:
        return "\n  ".join(["Outcome:", *map(repr, self.items), "END" if self.ended else "(goes on)"])


@dataclass(frozen=True)
class Evaluation:
    """All that is compared of one program: an outcome (or a value) per pass, cardinality, element spec."""

    outcomes: list[Any]
    cardinality: int | None = None
    element_spec: Any = None


def normal_structure(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Keep tuples, namedtuples, dataclasses and dicts; hand everything else to `leaf`."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = tuple(normal_structure(part, leaf) for part in value)
        return Named(type(value).__name__, tuple(value._fields), parts)
    if isinstance(value, tuple):
        return tuple(normal_structure(part, leaf) for part in value)
    if isinstance(value, dict):
        return Mapping(frozenset((key, normal_structure(part, leaf)) for key, part in value.items()))
    if type(value).__module__.endswith("penstock_only") and dataclasses.is_dataclass(value):
        fields = tuple(field.name for field in dataclasses.fields(value))
        parts = tuple(normal_structure(getattr(value, name), leaf) for name in fields)
        return Named(type(value).__name__, fields, parts)
    return leaf(value)


def collect(
    iterator: Iterator[Any], normal: Callable[[Any], Any], max_items: int = MAX_ITEMS, max_errors: int = MAX_ERRORS
) -> Outcome:
    """Run an iterator to its end or its bound; go on after errors, as a training loop that skips bad records does."""
    items: list[Any] = []
    num_errors = 0
    while len(items) < max_items and num_errors < max_errors:
        try:
            item = next(iterator)
        except StopIteration:
            return Outcome(tuple(items), ended=True)
        except Exception:
            items.append(ERROR)
            num_errors += 1
        else:
            items.append(normal(item))
    return Outcome(tuple(items), ended=False)
