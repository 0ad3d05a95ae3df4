"""Asking a user's predicate about elements: what `filter` and `take_while` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed
from ..ending import Ended
from ..memory.singly import num_at_once
from ..plan.op import Context
from .calling import call, truth
from .failing import failed

__all__ = ["Predicate"]


class Predicate:
    """A user's predicate with its mistakes as values."""

    __slots__ = ("_context", "_function")

    def __init__(self, function: Callable[..., Any], context: Context) -> None:
        self._function = function
        self._context = context

    def answers(self, block: Block, place: int) -> list[bool | Failed]:
        """What the predicate says of each element."""
        # Rows of a table with many columns are many objects: there are never those of all.
        size = num_at_once(block[:1].rows()[0]) if block.columns is not None else block.size
        if block.size <= size:
            return self._answers(block, place)
        starts = range(0, block.size, size)
        return [answer for start in starts for answer in self._answers(block[start : start + size], place + start)]

    def _answers(self, block: Block, place: int) -> list[bool | Failed]:
        """The same in one loop, as far as nothing fails."""
        rows = block.rows()
        answers: list[bool | Failed] = []
        if not block.has_failures:
            function, append, ending = self._function, answers.append, self._context.share.ending
            try:
                for row in rows:
                    if ending.is_near:
                        raise Ended
                    value = function(*row) if type(row) is tuple else function(row)
                    append(bool(value) if type(value) is np.bool_ else truth(value, "predicate"))
            except Exception as error:
                append(failed(error, self._context, place + len(answers), block, len(answers)))
        answers += [self.answer(rows[i], place + i, block, i) for i in range(len(answers), len(rows))]
        return answers

    def answer(self, row: Any, place: int, block: Block, i: int) -> bool | Failed:
        """What the predicate says of an element, or why it cannot; a failed element is its own answer."""
        if type(row) is Failed:
            return row
        if self._context.share.ending.is_near:
            raise Ended
        try:
            return truth(call(self._function, row), "predicate")
        except Exception as error:
            return failed(error, self._context, place, block, i)
