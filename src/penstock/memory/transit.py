"""Transit: elements that a stage has made and that are on their way to its consumer.

The contract between stages: a block is its maker's until the maker is asked again. Who keeps elements longer than that
puts them on his own account. So each stage that makes elements has one Transit, which decides how many to make at a
time, and counts them until the next pull. What it reserves for elements to come, others may have who would be refused
something else: those of the same thread, which cannot be making one at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, get_ident

from .ledger import Share

__all__ = ["MOST_SINGLY", "Transit"]

# What elements of unknown size are expected to take: the largest seen, and a quarter more.
_GROWTH = 1.25
# Elements that are objects of their own take about so much beside their data; of a few that is left out of account.
_OBJECT_BYTES = 128
_FEW = 256
# Of the budget, no more than this part is used to make several at once as long as nobody knows what others need.
_UNTRIED_PART = 16
#: As many single elements are on their way from a stage at most.
MOST_SINGLY = 8192


class Transit:
    """The account of the block that a stage makes and gives away.

    Args:
        share: The stage's part of the budget.
        each_bytes: The size of an element, where it is known before one is made. Else the first one is made alone, and
            later ones are expected to be as large as the largest so far.
    """

    __slots__ = ("_each", "_exact", "_handing_over", "_reserved", "_room", "_share", "_take_back", "_thread", "_used")

    is_of_part = takes_all = False

    def __init__(self, share: Share, each_bytes: int | None) -> None:
        self._share = share
        self._each = each_bytes
        self._exact = each_bytes is not None
        self._reserved = 0
        self._used = 0
        self._room = 0
        self._thread = 0  # that makes elements
        # From one thread to another. Reentrant: a garbage collection in here may close the stage.
        self._handing_over = RLock()
        self._take_back: Callable[[], None] | None = None

    def _let_go(self) -> None:
        """Somebody is short of memory: gives up what is reserved and not there."""
        with self._handing_over:
            if self._reserved > self._used and self._thread == get_ident() and self._share.would_help:
                unused, self._reserved = self._reserved - self._used, self._used
                self._share.discharge(unused)

    def begin(self, n: int) -> int:
        """The stage is asked for n elements; returns how many it should make now, one at least."""
        share = self._share
        if self._thread != get_ident():
            with self._handing_over:
                self._thread = get_ident()
        if self._used < self._reserved // 2:  # there was a large one, and it is gone
            share.discharge(self._reserved - 2 * self._used)
            self._reserved = 2 * self._used
        self._used = 0
        each = self._each
        if each is None or share.frugal:
            return 1
        # What the stage holds for itself, such as a part of a file, leaves so much of its floor to elements.
        left = max(0, share.floor_bytes + share.ahead_bytes - share.charged_bytes + self._reserved)
        floor, spare = min(share.floor_bytes // share.num_cursors, left), share.spare_bytes
        if share.is_untried:  # others are still to say what they need
            spare = min(spare, share.budget_bytes // _UNTRIED_PART)
        self._room = max(self._reserved, floor, spare)
        if not self._exact:  # the last one may be as large as any
            self._room = max(0, self._room - max(0, floor - each))
        more = each - self._reserved
        if more > 0 and share.try_charge(more):
            self._reserved += more
            if self._take_back is None:
                self._take_back = share.on_shortage(self._let_go)
        if n > _FEW:  # many small ones weigh more than their data
            n = min(n, max(_FEW, min(MOST_SINGLY, self._room // (each + _OBJECT_BYTES))))
        return n if n * each <= self._room else max(1, self._room // each)

    @property
    def room_bytes(self) -> int:
        """What may be made now, all together; less only where one alone is larger."""
        share = self._share
        return 0 if share.frugal else max(self._floor_left_bytes, share.spare_bytes)

    @property
    def _floor_left_bytes(self) -> int:
        """What is left to it of its part of the floor."""
        share = self._share
        return min(share.floor_bytes // share.num_cursors, share.floor_bytes - share.charged_bytes)

    def expect(self, each_bytes: int) -> None:
        """Says about how large elements are, where that is not known exactly and none was made yet."""
        if self._each is None:
            self._each = each_bytes

    def fitting(self, n: int) -> int:
        """How many of n elements of known size to make now, where each makes its own entry on the ledger."""
        each, share = self._each or 1, self._share
        if share.frugal:
            return 1
        room = max(self._floor_left_bytes, share.spare_bytes)
        return n if n * each <= room else max(1, room // each)

    def add(self, nbytes: int, count: int = 1) -> bool:
        """Counts some more elements; whether there is room for another one."""
        self._used = used = self._used + nbytes
        each = self._learn(nbytes, count)
        if used > self._reserved:
            self._share.charge(used - self._reserved, single=True)
            self._reserved = used
        # What was room at first may have been taken since, by another run or a smaller pool.
        return used + each <= self._room and used + each <= self._reserved + self._share.free_bytes

    def adopt(self, nbytes: int, count: int) -> None:
        """Counts elements that are on the share's account already: the stage held them until now."""
        reserved = self._reserved
        self._used += nbytes
        self._learn(nbytes, count)
        self._reserved = max(reserved, self._used)
        self._share.discharge(reserved + nbytes - self._reserved)

    def _learn(self, nbytes: int, count: int) -> int:
        """How large each of these is, which may be more than was expected."""
        each = -(-nbytes // count)
        if not self._exact and (self._each is None or int(each * _GROWTH) > self._each):
            self._each = int(each * _GROWTH)
            # One must always fit, whatever others make ahead meanwhile.
            self._share.raise_floor(self._each)
        return each

    def settle(self) -> None:
        """Nothing is on its way for now."""
        if self._reserved:
            with self._handing_over:
                reserved, self._reserved, self._used = self._reserved, 0, 0
                self._share.discharge(reserved)

    def close(self) -> None:
        """Nothing is on its way any more."""
        if self._take_back is not None:
            self._take_back()
            self._take_back = None
        self.settle()
