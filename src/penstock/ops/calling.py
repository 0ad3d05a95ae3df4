"""Calling users' functions the way tf.data does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..element import as_leaf, normalize
from ..errors import BadType

__all__ = ["as_result", "call", "check_callable", "truth"]


def check_callable(name: str, function: Any) -> None:
    """Refuses what cannot be called, when the pipeline is written."""
    if not callable(function):
        raise BadType(f"{name}: expected a function, got {type(function).__name__} {function!r:.60}")


def call(function: Callable[..., Any], element: Any) -> Any:
    """Calls with an element's parts: a plain tuple is unpacked, anything else is one argument."""
    return function(*element) if type(element) is tuple else function(element)


def as_result(value: Any) -> Any:
    """What a function returned, as an element. A list is a tuple of components."""
    kind = type(value)
    if kind is np.ndarray and value.ndim and value.dtype.kind not in "OSU":
        return value
    if isinstance(value, list):
        value = tuple(value)
    element = normalize(value)
    if type(element) is tuple and not element:
        raise BadType("expected at least one component, got an empty tuple: an element must hold something")
    return element


def truth(value: Any, what: str) -> bool:
    """A predicate's answer: one boolean."""
    kind = type(value)
    if kind is bool or kind is np.bool_:
        return bool(value)
    leaf = as_leaf(value) if not isinstance(value, (tuple, dict)) else value
    if not isinstance(leaf, np.bool_):
        shape = getattr(leaf, "shape", None)
        got = f"{getattr(leaf, 'dtype', type(leaf).__name__)}{f' of shape {shape}' if shape else ''}"
        raise BadType(f"{what}: expected one boolean, got {got} {value!r:.60}")
    return bool(leaf)
