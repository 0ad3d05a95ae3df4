"""The inline backend: a function of blocks runs in the thread of whoever pulls."""

from __future__ import annotations

from ...block import Block
from ...cursor import Cursor, State, UnaryCursor, expect_list, replay
from ...element import Failed
from ...plan.op import ElementFunction
from ...plan.traits import Traits

__all__ = ["InlineCursor", "count_failures"]


def count_failures(block: Block) -> int:
    """How many elements of a block failed."""
    return sum(type(row) is Failed for row in block.rows()) if block.has_failures else 0


class InlineCursor(UnaryCursor):
    """Applies a function to each block as it is pulled."""

    __slots__ = ("_function", "_one_to_one", "_place", "_pure", "_tells_failures")

    def __init__(self, input: Cursor, function: ElementFunction, traits: Traits) -> None:
        super().__init__(input)
        self._function = function
        self._one_to_one = traits.one_to_one
        self._tells_failures = traits.tells_failures
        self._pure = traits.pure or traits.keyed
        self._place = 0

    def pull(self, n: int) -> Block | None:
        while True:
            block = self.input.pull(n)
            if block is None:
                return None
            result = self._function(block, self._place)
            self._place += block.size
            if result.has_failures and self._tells_failures:
                self.input.lost(count_failures(result) - count_failures(block))
            if result.size:
                return result

    def skip(self, n: int) -> int:
        # Who must tell of failures must call: they decide how far the input goes.
        if not (self._one_to_one and self._pure) or self._tells_failures:
            return super().skip(n)
        skipped = self.input.skip(n)
        self._place += skipped
        return skipped

    def lost(self, n: int) -> None:
        if self._one_to_one:
            self.input.lost(n)

    def state(self) -> State:
        return [self._place, self.input.state()]

    def restore(self, state: State) -> None:
        """Takes positions that threads saved too: how many there are may change from run to run."""
        if isinstance(state, list) and len(state) == 5 and not state[4]:
            below, place, offset, num_lost, _ = state
            self.input.restore(below)
            self.input.lost(num_lost)
            self._place = place
            replay(self, offset)
            return
        self._place, below = expect_list(state, 2)
        self.input.restore(below)
