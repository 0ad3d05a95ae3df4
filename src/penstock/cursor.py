"""Cursors: the only runtime interface.

Sources, operators and thread boundaries are all Cursors. Demand travels up as `pull(n)`, blocks travel down. There are
no generators: a cursor's position is a value that can be saved and loaded at any element.

The contract:

- `pull(n)` gives a block of 1 to n elements, or None at the end. A short block is not the end. An element that could
  not be made is a `Failed` in its place; `pull` itself raises only where the run cannot go on.
- `state()` is the position after the elements given so far: small, made of ints, strings, lists and dicts wherever the
  pipeline allows, and of what `written` makes such. It is never None, which stands for no position at all, and
  `END_OF_INPUT` only where nothing comes any more.
- `restore(state)`, on a cursor just opened, moves there. So nobody moves an input before the first `pull` or `skip`: it
  may be restored until then, and who has moved one and wants it elsewhere opens another.
- `skip(n)` moves on by n elements as `pull` would, without making them where it can be avoided; it returns how many
  there were. Failed elements count: skipping is by place.
- `close()` may come at any time, more than once, and ends all that the cursor started.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .block import Block
from .element import Failed
from .errors import StateError

__all__ = [
    "END_OF_INPUT",
    "Cursor",
    "Feed",
    "FeedCursor",
    "State",
    "UnaryCursor",
    "Unwritten",
    "expect_list",
    "replay",
    "written",
]

State = Any

END_OF_INPUT: State = "end"  # the position of who has seen the end, however many elements there were


class Cursor(ABC):
    """A position in a sequence of elements."""

    __slots__ = ()

    @abstractmethod
    def pull(self, n: int) -> Block | None:
        """The next 1 to n elements, or None at the end."""

    @abstractmethod
    def state(self) -> State:
        """The position after the last element given."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Moves a newly opened cursor, of which nothing was pulled or skipped, to a saved position."""

    def skip(self, n: int) -> int:
        """Moves on by n elements; returns how many there were."""
        skipped = 0
        while skipped < n:
            block = self.pull(min(n - skipped, 1024))
            if block is None:
                break
            skipped += block.size
            del block  # or it would still be held while the next one is made
        return skipped

    def lost(self, n: int) -> None:  # noqa: B027  matters to few
        """Hears that n of the elements given failed further down; who counts only successes makes room."""

    def used_up(self) -> None:  # noqa: B027  most give what is on the account of others
        """Hears that what was given last is nobody's any more, or counted by its taker, before more is asked for."""

    def close(self) -> None:  # noqa: B027  most cursors hold nothing that needs closing
        """Ends everything that this cursor started."""


class UnaryCursor(Cursor):
    """A cursor over one input, which it closes."""

    __slots__ = ("input",)

    def __init__(self, input: Cursor) -> None:
        self.input = input

    def state(self) -> State:
        return self.input.state()

    def restore(self, state: State) -> None:
        self.input.restore(state)

    def close(self) -> None:
        self.input.close()


class Feed:
    """Takes a cursor's elements a few or one at a time, and knows the position after each.

    What operators read with that look at elements, or that must stop at a failure: a block may hold failures anywhere,
    what `take` gives holds one only as its last element. Blocks are pulled as large as the caller demands, never
    larger.

    A feed that has seen the end says so in its position, and not how many elements there were: processes that share a
    dataset may have one more or less, and load each other's positions.
    """

    __slots__ = ("_before", "_block", "_has_ended", "_offset", "_rows", "cursor")

    END = object()

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._has_ended = False
        self._forget()

    def _forget(self) -> None:
        # Nothing may pin a block whose elements were all given.
        self._block: Block | None = None
        self._rows: list[Any] | None = None
        self._offset = 0
        self._before: State = None

    def next(self, demand: int = 1) -> Any:
        """The next element (perhaps `Failed`), or `Feed.END`; pulls `demand` elements where none lie ready."""
        if self._block is None and not self._pull(demand):
            return Feed.END
        block = self._block
        assert block is not None
        if self._rows is None:
            self._rows = block.rows()
        row = self._rows[self._offset]
        if type(row) is Failed:
            self._rows[self._offset] = None  # once raised, an error refers to the whole run and would keep it alive
        self._offset += 1
        if self._offset == block.size:
            self._forget()
        return row

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was pulled waits here."""
        return self._block is None

    def peek(self, n: int) -> Block | None:
        """The next 1 to n elements, which stay to be taken or skipped; None at the end."""
        if self._block is None and not self._pull(n):
            return None
        block = self._block
        assert block is not None
        return block if block.size <= n and not self._offset else block[self._offset : self._offset + n]

    def take(self, n: int, demand: int = 1) -> Block | None:
        """The next 1 to n elements, cut after the first failure; None at the end.

        Pulls `demand` elements, if that is more, where none lie ready.
        """
        if self._block is None:
            most = max(n, demand)
            block = self._pull_cursor(1) if most == 1 else self._pull_for_take(n, most)
            if block is not None:
                return block
            if self._block is None:
                return None
        block = self._block
        assert block is not None
        stop = min(block.size, self._offset + n)
        rows = block.rows() if block.has_failures else []
        if rows:
            failures = (i for i in range(self._offset, stop) if type(rows[i]) is Failed)
            stop = next(failures, stop - 1) + 1
        part = block[self._offset : stop]
        if rows and type(rows[stop - 1]) is Failed:
            rows[stop - 1] = None  # once raised, an error refers to the whole run and would keep it alive
        self._offset = stop
        if stop == block.size:
            self._forget()
        return part

    def _pull_for_take(self, n: int, demand: int) -> Block | None:
        """A whole block at once where nothing in it failed, the usual case; else keeps it to be given in parts."""
        before = self.cursor.state()
        block = self._pull_cursor(demand)
        if block is None or not (block.has_failures or block.size > n):
            return block
        self._block, self._before = block, before
        return None

    def _pull(self, demand: int) -> bool:
        before = self.cursor.state()
        self._block = self._pull_cursor(max(1, demand))
        self._before = before
        return self._block is not None

    def _pull_cursor(self, n: int) -> Block | None:
        block = None if self._has_ended else self.cursor.pull(n)
        self._has_ended = block is None
        return block

    def skip(self, n: int) -> int:
        """Moves on by n elements; returns how many there were."""
        if self._block is None:
            return 0 if self._has_ended else self.cursor.skip(n)
        ready = min(n, self._block.size - self._offset)
        self._offset += ready
        if self._offset == self._block.size:
            self._forget()
        return ready + (self.cursor.skip(n - ready) if ready < n else 0)

    def state(self) -> State:
        if self._block is not None:
            return [self._before, self._offset]
        return [END_OF_INPUT if self._has_ended else self.cursor.state(), 0]

    def restore(self, state: State) -> None:
        before, offset = expect_list(state, 2)
        self._forget()
        self._has_ended = before == END_OF_INPUT
        if self._has_ended:
            return
        self.cursor.restore(before)
        replay(self.cursor, offset)

    def close(self) -> None:
        self._forget()
        self.cursor.close()


class FeedCursor(Cursor):
    """A cursor that reads its only input through a `Feed`."""

    __slots__ = ("feed",)

    def __init__(self, input: Cursor) -> None:
        self.feed = Feed(input)

    def state(self) -> State:
        return self.feed.state()

    def restore(self, state: State) -> None:
        self.feed.restore(state)

    def close(self) -> None:
        self.feed.close()


def replay(cursor: Cursor, n: int) -> None:
    """Makes n elements again that were made after a saved position, and drops them.

    Not `skip`: an element that fails may have changed how far the cursors below go (`Cursor.lost`).
    """
    if n < 0:
        raise StateError(f"the saved position is damaged: {n} elements into a block")
    left = n
    while left:
        block = cursor.pull(left)
        if block is None:
            raise StateError(f"the saved position is {n} elements into a block that now has {n - left}")
        left -= block.size
        del block  # or it would still be held while the next one is made


class Unwritten(ABC):
    """A part of a position that is written out only when the position is saved.

    Positions are taken at every step, and almost none is ever saved: what is large or costs time waits until then.
    """

    __slots__ = ()

    @abstractmethod
    def written(self) -> State:
        """As lists, numbers and strings."""


def written(state: State) -> State:
    """A position as it can be saved."""
    if isinstance(state, Unwritten):
        return state.written()
    if isinstance(state, dict):
        return {key: written(part) for key, part in state.items()}
    return [written(part) for part in state] if isinstance(state, (list, tuple)) else state


def expect_list(state: State, length: int) -> list[Any]:
    """`state` as a list of this length, or a clear refusal."""
    if not isinstance(state, (list, tuple)) or len(state) != length:
        raise StateError(f"expected a saved position with {length} parts, got {state!r:.80}")
    return list(state)
