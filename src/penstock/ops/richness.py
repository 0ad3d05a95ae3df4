"""Richness: how many distinct elements a stream will have, judged by how often elements came again so far.

Nobody knows before the end. What can be told follows from the repeats among the first n elements:

- If all kinds are equally likely, repeats grow with the square of n at first, and d of n elements being distinct says
  how many kinds there are: d = k·(1 - exp(-n/k)).
- If repeats came early already (some kinds are frequent, or equal elements stand together), the number of distinct
  elements goes on as a power of n, which it was so far.
- Without a repeat there is nothing to go by: all may be distinct.
"""

from __future__ import annotations

import math

__all__ = ["Richness"]

# Nobody could tell so many kinds from endlessly many.
_MOST_KINDS = 1e12


class Richness:
    """How many of the elements so far were distinct, noted now and then.

    Args:
        num_elements: How many elements there are; negative where that is not known.
    """

    __slots__ = ("_halfway", "_num_distinct", "_num_elements", "_num_read", "_quarter")

    def __init__(self, num_elements: int) -> None:
        self._num_elements = num_elements
        self._quarter = self._halfway = (0, 0)
        self._num_read = self._num_distinct = 0

    def note(self, num_read: int, num_distinct: int) -> None:
        """Says how many elements were read, and how many of them were distinct."""
        if num_read >= 2 * self._halfway[0]:
            self._quarter, self._halfway = self._halfway, (num_read, num_distinct)
        self._num_read, self._num_distinct = num_read, num_distinct

    def expected(self) -> int | None:
        """How many distinct elements there will be; None where nobody can tell, not even an upper bound."""
        read, distinct = self._num_read, self._num_distinct
        repeats, ends = read - distinct, self._num_elements >= 0
        if repeats <= 0:
            return max(self._num_elements, distinct) if ends else None
        kinds = _num_kinds(read, distinct)
        before, distinct_before = self._earlier()
        if before and not self._as_if_drawn(kinds, before, distinct_before):
            if not ends:
                return None
            power = min(1.0, max(0.0, math.log(distinct / distinct_before) / math.log(read / before)))
            return math.ceil(distinct * math.pow(max(1.0, self._num_elements / read), power))
        # Chance may have made for more repeats than that many kinds have on average.
        kinds = _num_kinds(read, min(read - 0.5, distinct + _deviation(kinds, read)))
        found = kinds if not ends else _num_distinct(kinds, max(read, self._num_elements))
        return max(distinct, math.ceil(found))

    @property
    def summary(self) -> str:
        return f"{self._num_distinct:,} of the {self._num_read:,} elements so far were distinct"

    def _earlier(self) -> tuple[int, int]:
        """The state at about half of what was read."""
        return self._halfway if self._halfway[0] <= 3 * self._num_read // 4 else self._quarter

    def _as_if_drawn(self, kinds: float, before: int, distinct_before: int) -> bool:
        """Whether repeats came as late as they do when all kinds are equally likely; else they came all along."""
        repeats = self._num_read - self._num_distinct
        all_along = repeats * before / self._num_read
        late = before - _num_distinct(kinds, before)
        return before - distinct_before <= (all_along + late) / 2


def _num_distinct(kinds: float, num_drawn: float) -> float:
    """How many distinct ones there are on average among so many, drawn from so many kinds."""
    return -kinds * math.expm1(-num_drawn / kinds)


def _deviation(kinds: float, num_drawn: float) -> float:
    """By how much that number differs from its average, usually: the root of the repeats as long as these are few."""
    each = num_drawn / kinds
    return math.sqrt(max(0.0, kinds * math.exp(-each) * (1 - (1 + each) * math.exp(-each))))


def _num_kinds(num_drawn: float, num_distinct: float) -> float:
    """The number of kinds for which that is so."""
    low, high = max(1.0, num_distinct), _MOST_KINDS
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        if _num_distinct(middle, num_drawn) < num_distinct:
            low = middle
        else:
            high = middle
    return high
