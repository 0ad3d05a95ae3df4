"""Growth: how much a stage will hold in the end that gathers for as long as its input goes on.

Nobody knows before it runs how many keys a stage will meet. When it has no more room, what it has met so far tells how
large a budget would do, so that the next try is not refused a little later.
"""

from __future__ import annotations

__all__ = ["Growth"]

# What is held has grown in proportion if the later part of the input added so much of what the earlier one did.
_STEADY = 0.9
# Else nobody knows: half as much again, to which who asks adds a quarter.
_SOME_MORE = 1.5


class Growth:
    """What was held after how many elements, noted now and then.

    Args:
        num_elements: How many elements there are; negative where that is not known.
    """

    __slots__ = ("_marks", "_num_elements")

    def __init__(self, num_elements: int) -> None:
        self._num_elements = num_elements
        self._marks = [(0, 0), (0, 0)]

    def note(self, num_read: int, held_bytes: int) -> None:
        """Remembers the state at about a half, or a quarter, of what was read so far."""
        if num_read >= 2 * self._marks[1][0]:
            self._marks = [self._marks[1], (num_read, held_bytes)]

    def expected_bytes(self, num_read: int, held_bytes: int) -> int:
        """What will be held at the end, as far as can be told.

        In proportion to the input if it grew like that so far, and the length of the input is known.
        """
        before, held_before = self._marks[1] if self._marks[1][0] <= 3 * num_read // 4 else self._marks[0]
        some_more = int(held_bytes * _SOME_MORE)
        if self._num_elements < 0 or not 0 < before < num_read:
            return some_more
        each_before, each_since = held_before / before, (held_bytes - held_before) / (num_read - before)
        if each_since < _STEADY * each_before:
            return some_more
        return held_bytes + int(each_since * max(0, self._num_elements - num_read))
