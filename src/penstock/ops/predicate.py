"""Asking a user's predicate about elements: what `filter` and `take_while` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..element import Failed
from ..errors import PenstockError
from ..plan.op import Context
from .calling import call, truth

__all__ = ["Predicate"]


class Predicate:
    """A user's predicate with its mistakes as values."""

    __slots__ = ("_context", "_function")

    def __init__(self, function: Callable[..., Any], context: Context) -> None:
        self._function = function
        self._context = context

    def answer(self, row: Any, place: int) -> bool | Failed:
        """What the predicate says of an element, or why it cannot; a failed element is its own answer."""
        if type(row) is Failed:
            return row
        try:
            return truth(call(self._function, row), "predicate")
        except PenstockError as error:
            return Failed(self._context.located(error))
        except Exception as error:
            return Failed(self._context.noted(error, place))
