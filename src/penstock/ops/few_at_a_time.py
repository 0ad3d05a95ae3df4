"""The input of operators that look at each element by itself."""

from __future__ import annotations

from ..block import Block
from ..cursor import Cursor, UnaryCursor
from ..memory.singly import FEW, num_at_once

__all__ = ["FewAtATime"]


class FewAtATime(UnaryCursor):
    """The input of who looks at each element: no more at a time than may be objects at once, where they lie stacked."""

    __slots__ = ("_most",)

    def __init__(self, input: Cursor) -> None:
        super().__init__(input)
        self._most = FEW

    def pull(self, n: int) -> Block | None:
        block = self.input.pull(min(n, self._most))
        if n > FEW and block is not None:
            self._most = num_at_once(block[:1].rows()[0])
        return block

    def skip(self, n: int) -> int:
        return self.input.skip(n)

    def lost(self, n: int) -> None:
        self.input.lost(n)
