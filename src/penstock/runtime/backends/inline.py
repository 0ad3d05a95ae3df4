"""The inline backend: a function of blocks runs in the thread of whoever pulls."""

from __future__ import annotations

from ...block import Block
from ...cursor import Cursor, State, UnaryCursor, expect_list, replay
from ...element import Failed
from ...memory.transit import MOST_SINGLY, Transit
from ...plan.op import ElementFunction, call_with_room
from ...plan.traits import Traits

__all__ = ["InlineCursor", "count_failures"]


def count_failures(block: Block) -> int:
    """How many elements of a block failed."""
    return sum(type(row) is Failed for row in block.rows()) if block.has_failures else 0


class InlineCursor(UnaryCursor):
    """Applies a function to each block as it is pulled.

    A function that makes elements makes as many as there is room for; the rest of the block waits for the next pull.
    """

    __slots__ = (
        "_before",
        "_function",
        "_one_to_one",
        "_place",
        "_pure",
        "_rest",
        "_taken",
        "_tells_failures",
        "_transit",
    )

    def __init__(self, input: Cursor, function: ElementFunction, traits: Traits, transit: Transit) -> None:
        super().__init__(input)
        self._function = function
        self._transit = transit if hasattr(function, "until_full") else None
        self._one_to_one = traits.one_to_one
        self._tells_failures = traits.tells_failures
        self._pure = traits.pure or traits.keyed
        self._place = 0
        # What is left of a block that there was no room for, the input's position before it, and how much is taken.
        self._rest: Block | None = None
        self._before: State = None
        self._taken = 0

    def pull(self, n: int) -> Block | None:
        if self._transit is not None:
            n = self._transit.begin(n)
        elif n > MOST_SINGLY:
            n = MOST_SINGLY
        while True:
            if self._rest is not None:
                return self._pull_rest(n)
            before = self.input.state() if self._transit is not None and n > 1 else None
            block = self.input.pull(n)
            if block is None:
                if self._transit is not None:
                    self._transit.close()  # what was reserved for the next one is not needed
                return None
            result = call_with_room(self._function, block, self._place, self._transit)
            if result.size < block.size and self._one_to_one:
                result = self._keep_rest(block, result, before)
            self._place += block.size if self._rest is None else result.size
            if result.has_failures and self._tells_failures:
                self.input.lost(count_failures(result) - count_failures(block))
            if result.size:
                return result
            del block, result  # or they would still be held while the next ones are made

    def _keep_rest(self, block: Block, result: Block, before: State) -> Block:
        if self._tells_failures:
            # Positions would have to say what the input has heard of: rather all of it now, if the budget has it.
            rows = list(result.rows())
            while len(rows) < block.size:
                rest, place = block[len(rows) :], self._place + len(rows)
                rows += call_with_room(self._function, rest, place, self._transit).rows()
            return Block.of_rows(rows, block.positions)
        self._rest, self._before, self._taken = block[result.size :], before, result.size
        return result

    def _pull_rest(self, n: int) -> Block:
        assert self._rest is not None
        part = self._rest[:n]
        result = call_with_room(self._function, part, self._place, self._transit)
        self._move_on(result.size)
        return result

    def _move_on(self, n: int) -> None:
        assert self._rest is not None
        self._taken += n
        self._place += n
        self._rest = self._rest[n:] if n < self._rest.size else None

    def used_up(self) -> None:
        if self._rest is None:
            self.input.used_up()

    def skip(self, n: int) -> int:
        # Who must tell of failures must call: they decide how far the input goes.
        if not (self._one_to_one and self._pure) or self._tells_failures:
            return super().skip(n)
        ready = 0
        if self._rest is not None:
            ready = min(n, self._rest.size)
            self._move_on(ready)
        skipped = self.input.skip(n - ready)
        self._place += skipped
        return ready + skipped

    def lost(self, n: int) -> None:
        if self._one_to_one:
            self.input.lost(n)

    def state(self) -> State:
        if self._rest is not None:
            return [self._place, self._before, self._taken]
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
        if isinstance(state, list) and len(state) == 3:
            self._place, below, taken = state
            self.input.restore(below)
            replay(self.input, taken)
            return
        self._place, below = expect_list(state, 2)
        self.input.restore(below)

    def close(self) -> None:
        self._rest = None
        self.input.close()
