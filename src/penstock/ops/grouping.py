"""Elements collected by key until a window of them is full: what `group_by_window` and bucketing share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..cursor import State, expect_list
from ..element import Failed
from ..ending import Ended
from ..errors import BadArgument, BadType, OverBudget
from ..leaf import as_leaf
from ..memory.lease import nothing_expected
from ..plan.footprint import ElementSize, held_singly
from ..plan.op import Context
from .growth import Growth
from .supply import Pace
from .tape import Tape

__all__ = ["Group", "Grouping", "as_integer", "least_held"]


def as_integer(value: Any, what: str) -> int:
    """An integer that a user's function returned: one number of an integer type."""
    if type(value) is int and -(2**63) <= value < 2**63:  # what `len` says, for each element
        return value
    leaf: Any = value if isinstance(value, (list, tuple, dict)) else as_leaf(value)
    if isinstance(leaf, np.integer):
        return int(leaf)
    numeric = isinstance(leaf, (np.ndarray, np.generic))
    got = f"{leaf.dtype} of shape {leaf.shape}" if numeric else type(value).__name__
    raise BadType(f"{what}: expected one integer, got {got} {value!r:.60}")


# Of more groups than these it is not looked up how full each is: that would take longer than it saves. For as many room
# stays on the ledger when their windows were given: the next ones are not long in coming.
_FEW_GROUPS = 64

# A list and its place among the groups; what is remembered of a key, for as long as the run goes on.
_GROUP_BYTES = 280
_KEY_BYTES = 120

#: A held element: the number it had in the input, the element, and its bytes. A plain tuple: one is made for each.
Member = tuple[int, Any, int]


def least_held(num_keys: int, count: int, size: ElementSize | None) -> int | None:
    """Bytes of so many elements in the windows of so many keys."""
    nbytes = held_singly(count, size and size.as_copy())  # they are copied: a window may be all that is left of them
    return None if nbytes is None else nbytes + num_keys * (_GROUP_BYTES + _KEY_BYTES)


class Group(NamedTuple):
    """The elements of one window."""

    key: int
    members: list[Member]

    @property
    def rows(self) -> list[Any]:
        return [row for _, row, _ in self.members]

    @property
    def nbytes(self) -> int:
        return sum([nbytes for _, _, nbytes in self.members])

    def forget_rows(self) -> None:
        """Keeps the numbers alone, where the elements are held in another way."""
        self.members[:] = [(number, None, nbytes) for number, _, nbytes in self.members]


class Grouping:
    """Reads elements, collects them by key, and gives each window as soon as it is full.

    At the end of the input, windows that are not full come by ascending key. An element that failed, or whose key or
    window size could not be told, comes as a failure at once and is in no window.

    Args:
        context: The operator's context.
        key_of: The key of an element.
        size_of: How many elements make a window, for a key; asked once a key.
        least_size: The smallest window that an unknown key can have, where known: as many are sure to be read.
    """

    def __init__(
        self, context: Context, key_of: Callable[[Any], int], size_of: Callable[[int], int], least_size: int = 1
    ) -> None:
        self._context = context
        self._tape = Tape(context.input(), context.share)
        self._key_of = key_of
        self._size_of = size_of
        self._least_size = least_size
        # A source is read without more ado; what costs something to make is made when it is needed.
        self._pace = None if context.node.input.op.block_kind() is None else Pace(context.share)
        self._groups: dict[int, list[Member]] = {}
        self._sizes: dict[int, int] = {}
        self._left: list[int] | None = None  # keys of windows to come that are not full, the last first
        self._num_held = 0
        self._num_spare = 0  # lists that are on the ledger for the next groups, as others were given out
        self._last_new_key = 0  # the number of the element that brought it
        self._waiting: deque[Member] = deque()  # read, and in no window yet
        self._ended = False
        self._growth = Growth(context.node.input.spec.cardinality)
        context.share.expects = self._expected_bytes

    def _expected_bytes(self) -> int:
        """What will be held in the end: more by far where keys go on coming, and no more than all windows full."""
        tape = self._tape
        expected = self._growth.expected_bytes(tape.number, tape.charged_bytes)
        if not self._num_held or self._is_meeting_keys():
            return expected
        each = -(-tape.charged_bytes // self._num_held)
        return max(tape.charged_bytes, min(expected, sum(self._sizes.values()) * each))

    def _is_meeting_keys(self) -> bool:
        """Whether the later half of the elements brought keys that the earlier one did not have."""
        return 2 * self._last_new_key > self._tape.number

    def window_bytes(self, group: Group) -> int:
        """What a window's elements take, about, on whoever's account."""
        return max(group.nbytes, len(group.members) * self._tape.each_bytes)

    def next(self) -> Group | Failed | None:
        """The next window, a failure, or None at the end."""
        while self._waiting or self._read():
            full = self._add(self._waiting.popleft())
            if full is not None:
                return full
        if not self._groups:
            return None
        if self._left is None:
            self._left = sorted(self._groups, reverse=True)
        return self._taken(self._left.pop())

    def _read(self) -> bool:
        """Reads some elements, at least as many as are sure to be needed; whether there were any."""
        if self._ended:
            return False
        if self._tape.anchor_due(self._num_held):
            self._tape.drop_anchor(self._numbers(None))
        first, start, demand = self._tape.number, perf_counter_ns(), self._demand()
        self._growth.note(first, self._tape.charged_bytes)
        held = self._tape.next_rows(demand if self._pace is None else max(demand, self._pace.demand))
        self._waiting.extend([(number, row, nbytes) for number, (row, nbytes) in enumerate(held, first)])
        self._ended = not held
        if held and self._pace is not None:
            self._pace.adapt(perf_counter_ns() - start, len(held), held[0][1])
        return not self._ended

    def _demand(self) -> int:
        """How many elements are sure to be read before a window is full: each brings one closer by no more than one."""
        if self._least_size == 1 or len(self._groups) > _FEW_GROUPS:
            return 1
        missing = [self._sizes[key] - len(members) for key, members in self._groups.items()]
        return min(self._least_size, *missing) if missing else self._least_size

    def _add(self, member: Member) -> Group | Failed | None:
        number, row, nbytes = member
        if type(row) is Failed:
            return row
        if self._context.share.ending.is_near:
            raise Ended
        try:
            key = self._key_of(row)
            size = self._sizes.get(key)
            if size is None:
                size = self._size_of(key)
                if size < 1:
                    raise BadArgument(f"expected windows of at least 1 element, got {size} for key {key}")
                self._tape.charge(_KEY_BYTES)
                self._sizes[key] = size
                self._last_new_key = number
        except OverBudget:
            raise
        except Exception as error:
            self._tape.release(nbytes)
            return Failed(self._context.noted(error, number))
        members = self._groups.get(key)
        if members is None:
            if self._num_spare:
                self._num_spare -= 1
            else:
                self._tape.charge(_GROUP_BYTES)
            members = self._groups[key] = []
        members.append(member)
        self._num_held += 1
        return self._taken(key) if len(members) == size else None

    def _taken(self, key: int) -> Group:
        members = self._groups.pop(key)
        self._num_held -= len(members)
        if self._num_spare < _FEW_GROUPS:
            self._num_spare += 1
        else:
            self._tape.release(_GROUP_BYTES)
        return Group(key, members)

    def release(self, *groups: Group) -> None:
        """Takes windows that nobody needs any longer off the ledger."""
        if groups:
            self._tape.release(sum([group.nbytes for group in groups]))

    def _numbers(self, given_out: Group | None) -> list[int]:
        groups = [*self._groups.values(), self._waiting, *([given_out.members] if given_out else [])]
        return [number for members in groups for number, _, _ in members]

    def state(self, given_out: Group | None = None) -> State:
        """The position; `given_out` is a window that must be given again when it is restored."""
        oldest = min(self._numbers(given_out), default=None)
        groups = [[key, [number for number, _, _ in members]] for key, members in self._groups.items()]
        again = None if given_out is None else [given_out.key, [number for number, _, _ in given_out.members]]
        number = self._waiting[0][0] if self._waiting else self._tape.number
        return [number, int(self._ended), groups, again, self._tape.state(oldest)]

    def restore(self, state: State) -> Group | None:
        """Moves to a saved position; returns the window that was given out then."""
        number, ended, groups, again, below = expect_list(state, 5)
        self._ended = bool(ended)
        self._tape.restore(below)
        wanted = sorted(n for _, numbers in [*groups, *([again] if again else [])] for n in numbers)
        members: dict[int, Member] = {n: (n, *self._tape.read_again(n)) for n in wanted}
        self._tape.skip_to(number)
        self._groups = {key: [members[n] for n in numbers] for key, numbers in groups}
        self._num_held = sum(map(len, self._groups.values()))
        self._sizes = {key: self._size_of(key) for key in self._groups}
        self._tape.charge((_GROUP_BYTES + _KEY_BYTES) * len(self._groups))
        return None if again is None else Group(again[0], [members[n] for n in again[1]])

    def close(self) -> None:
        self._context.share.expects = nothing_expected
        self._groups.clear()
        self._waiting.clear()
        self._tape.close()
