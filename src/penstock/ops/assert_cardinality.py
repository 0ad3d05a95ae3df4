"""assert_cardinality: the user's word for how many elements there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed
from ..errors import BadArgument, OutOfRange
from ..plan.op import Context, Op, argument
from ..plan.traits import Traits
from ..spec import INFINITE, Spec

__all__ = ["AssertCardinality"]


_TRAITS = Traits(passes_columns=True)


@dataclasses.dataclass(frozen=True)
class AssertCardinality(Op):
    """The same elements, and the promise that there are `expected_cardinality` of them.

    Gives a length to what has none before it runs (after `filter`, `flat_map`, `from_generator`). A run that finds
    another number raises, and ends. An element that fails does not count, as in tf.data.

    Args:
        expected_cardinality: How many elements there are, or `INFINITE`.

    Memory: nothing.
    State: two integers and its input's.

    >>> import penstock as ps
    >>> len(ps.Dataset.range(10).filter(lambda x: x % 2 == 0).assert_cardinality(5))
    5
    """

    expected_cardinality: int
    counts_failed: bool = dataclasses.field(default=False, kw_only=True)  # whether elements that fail count
    internal: ClassVar[tuple[str, ...]] = ("counts_failed",)

    def __post_init__(self) -> None:
        expected = argument("expected_cardinality", self.expected_cardinality)
        if expected < 0 and expected != INFINITE:
            raise BadArgument(f"expected_cardinality: expected at least 0, or INFINITE ({INFINITE}), got {expected}")
        object.__setattr__(self, "expected_cardinality", expected)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0].with_cardinality(self.expected_cardinality)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def open(self, context: Context) -> Cursor:
        return _AssertCursor(context, self.expected_cardinality, self.counts_failed)


class _AssertCursor(UnaryCursor):
    __slots__ = ("_context", "_counts_failed", "_ended", "_expected", "_given")

    def __init__(self, context: Context, expected: int, counts_failed: bool) -> None:
        super().__init__(context.input())
        self._context = context
        self._expected = expected
        self._counts_failed = counts_failed
        self._given = 0
        self._ended = False

    def pull(self, n: int) -> Block | None:
        if self._ended:
            return None
        block = self.input.pull(n)
        if block is None:
            self._ended = True
            return None if self._given == self._expected else self._broken(f"got only {self._given}")
        good = block.size
        if block.has_failures and not self._counts_failed:
            good -= sum(type(row) is Failed for row in block.rows())
        if self._expected == INFINITE or self._given + good <= self._expected:
            self._given += good
            return block
        return self._cut(block)

    def _cut(self, block: Block) -> Block:
        """What of a block was promised; nothing of it, where the promise was kept and there is more."""
        room = self._expected - self._given
        rows = block.rows()
        stop = 0
        while room or self._is_free(rows[stop]):
            room -= not self._is_free(rows[stop])
            stop += 1
        self._ended = True
        self._given = self._expected
        refusal = self._broken(f"got at least {self._expected + 1}").rows()
        return Block.of_rows([*rows[:stop], *refusal])

    def _is_free(self, row: Any) -> bool:
        return type(row) is Failed and not self._counts_failed

    def _broken(self, got: str) -> Block:
        expected = "endless elements" if self._expected == INFINITE else f"{self._expected:_} elements"
        return Block.of_rows([Failed(self._context.located(OutOfRange(f"expected {expected}, {got}")))], None, True)

    def state(self) -> State:
        return [self._given, int(self._ended), self.input.state()]

    def restore(self, state: State) -> None:
        self._given, ended, below = expect_list(state, 3)
        self._ended = bool(ended)
        self.input.restore(below)
