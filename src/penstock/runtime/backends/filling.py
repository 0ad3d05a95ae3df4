"""A batch that threads fill: each writes what it makes to rows of the batch's slot.

Else each result would lie in memory of its own until the consumer copies it to the batch, one after the other, while
nobody else can go on. Here results are copied as soon as they are made, by who made them and has them in the
processor's cache, and what they took is used again for the next.

A *filling* is one ticket: it has a place in the order, and the position of the input before its first element, so that
saved positions, errors and early ends are those of any other piece. Its pieces are pulled one after the other and have
leases of their own, for what goes in and for one result on its way. The slot lies beside the stage's share: a floor is
for the piece that is first in turn, and a filling that finds no room in the slack is not begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from ...block import Block
from ...cursor import State
from ...element import Failed
from ...errors import OverBudget
from ...memory.arena import Arena, slot_bytes
from ...memory.ledger import Lease, Share
from ...ops.calling import Calls
from ...ops.stack import Stack
from ...plan.op import ElementFunction
from ..channel import Admission, Ready

__all__ = ["Filling", "Fillings", "InFlight", "without_fillings"]

# Smaller elements are stacked by who makes them, and copied once more.
_LARGE_BYTES = 1 << 16
# Fillings at a time: one whose last pieces are being made, and the next.
_MOST = 2


class InFlight:
    """Counts results as they are made, on the lease of their piece: there is room for all, or none at all."""

    __slots__ = ("_lease", "_made")

    is_of_part = True

    def __init__(self, lease: Lease, input_bytes: int = 0) -> None:
        self._lease = lease
        self._made = input_bytes

    def add(self, nbytes: int, count: int = 1) -> bool:
        self._made += nbytes
        if self._made > self._lease.nbytes:
            self._lease.settle(self._made, single=count == 1)
        return True


class Filling(Ready):
    """A batch in the making. All but `stack` is for who holds the stage's lock."""

    __slots__ = ("_aside", "_capacity", "_errors", "_kept", "_num_positions", "_positions", "stack", "unfinished")

    def __init__(self, before: State, place: int, lease: Lease, stack: Stack, capacity: int) -> None:
        super().__init__(before, place, lease)
        self.stack: Stack | None = stack
        #: Pieces that were begun, in order.
        self.unfinished: deque[Ready] = deque()
        self._capacity = capacity
        self._aside: dict[int, Block] = {}  # what could not be written to the slot, by its first row
        self._kept: list[Lease] = []
        self._errors: dict[int, BaseException] = {}
        self._positions: np.ndarray | None = None
        self._num_positions = 0

    @property
    def num_left(self) -> int:
        """Rows for which no piece was begun."""
        return self._capacity - self.size

    @property
    def leases(self) -> list[Lease]:
        return [self.lease, *self._kept]

    def come_first(self) -> None:
        super().come_first()
        if self.unfinished:
            self.unfinished[0].lease.come_first()

    def begin(self, piece: Ready) -> None:
        """One more piece, which was pulled, is to be made."""
        self.unfinished.append(piece)
        self.size += piece.size

    def finish(self, piece: Ready, result: Block | None, error: BaseException | None) -> None:
        """A piece is done. What it made lies in its rows, or is a list."""
        row = piece.place - self.place
        if error is not None:
            self._errors[row] = error
        elif result is not None and result.columns is None:
            self._aside[row] = result
            self._kept.append(piece.lease)
        if result is not None and result.positions is not None:
            if self._positions is None:
                self._positions = np.empty(self._capacity, result.positions.dtype)
            self._positions[row : row + result.size] = result.positions
            self._num_positions += result.size
        # Who waits for memory looks without a lock: it is released, or there to be taken, before the piece has left.
        if result is None or result.columns is not None:
            piece.lease.release()
        if not self.num_left and len(self.unfinished) == 1:
            self._complete()
        self.unfinished.remove(piece)

    def end(self) -> None:
        """No more pieces will be begun."""
        self._capacity = self.size
        if not self.unfinished:
            self._complete()

    def _complete(self) -> None:
        stack, self.stack = self.stack, None
        assert stack is not None
        if self._errors:
            self.error = self._errors[min(self._errors)]
            return
        positions = self._positions[: self.size] if self.size and self._num_positions == self.size else None  # type: ignore[index]
        self.num_lost = 0
        if not self._aside:
            self.block = stack.part(0, self.size, positions)
            return
        rows: list[object] = []
        while len(rows) < self.size:
            aside = self._aside.pop(len(rows), None)
            if aside is not None:
                rows += aside.rows()
                continue
            stop = min([row for row in self._aside if row > len(rows)], default=self.size)
            rows += stack.part(len(rows), stop - len(rows)).rows()
        self.block = Block.of_rows(rows, positions, any(type(row) is Failed for row in rows))


class Fillings:
    """Begins fillings, where elements are large, many of them make a batch, and memory is not scarce.

    Args:
        function: What makes the elements; only functions of single elements can write to rows. None where no more may
            be made than were demanded.
        tickets: What is in flight, in order.
    """

    def __init__(
        self,
        function: ElementFunction | None,
        share: Share,
        arena: Arena,
        admission: Admission,
        tickets: deque[Ready],
    ) -> None:
        self._calls = function if isinstance(function, Calls) else None
        self._tickets = tickets
        self._share = share
        self._slots = arena.slots
        self._admission = admission
        # How many elements make a batch, and where one ends: who gathers a batch asks for what is missing to it.
        self.batch_size = 1
        self.batch_end = 0
        #: The one that has rows for which no piece was begun: the last ticket.
        self.open: Filling | None = None

    @property
    def are_wanted(self) -> bool:
        """Whether elements should be cut into pieces so that batches can be filled."""
        like = None if self._calls is None else self._calls.likeness
        return like is not None and sum(like.leaf_bytes) >= _LARGE_BYTES

    def num_to_boundary(self, place: int) -> int:
        """Elements until a batch ends."""
        if self.open is not None:
            return self.open.num_left
        return self.batch_size - (place - self.batch_end) % self.batch_size

    def try_begin(self, before: State, place: int, num_delivered: int) -> Filling | None:
        """A filling for the batch that begins here, if there is room for one.

        As for other elements beyond the demand, no more are begun than were delivered.
        """
        size = self.batch_size
        if size == 1 or self._calls is None or num_delivered < _MOST * size or self.num_to_boundary(place) < size:
            return None
        like = self._calls.likeness
        if like is None:
            return None
        sizes = [leaf * size for leaf in like.leaf_bytes]
        if not self._admission.has_room_for_slots(sum(map(slot_bytes, sizes))):
            return None
        lease = self._share.try_acquire(sum(nbytes for nbytes in sizes if not slot_bytes(nbytes)), ahead=True)
        if lease is None:
            return None
        try:
            stack = like.stack(size, Arena(self._slots, self._share.beside).empty)
        except OverBudget:  # somebody else was quicker
            lease.release()
            return None
        self.open = Filling(before, place, lease, stack, size)
        self._tickets.append(self.open)
        return self.open

    def begin_piece(self, filling: Filling, piece: Ready) -> None:
        """A piece of a filling was pulled and is to be made."""
        filling.begin(piece)
        if not filling.num_left:
            self.open = None

    def make(self, filling: Filling, block: Block, place: int, room: InFlight) -> Block:
        """Makes the elements of a piece, in their rows if they are like the others."""
        assert self._calls is not None
        assert filling.stack is not None
        return self._calls.into_rows(filling.stack, place - filling.place, block, place, room)

    def end(self) -> None:
        """The input has no more."""
        filling, self.open = self.open, None
        if filling is None:
            return
        filling.end()
        if not filling.size:
            filling.lease.release()
            self._tickets.remove(filling)

    def num_open(self, most: int) -> int:
        """How many more pieces may be begun, of as many as may be in flight; a filling counts as several."""
        if self.open is not None:
            return self.open.num_left
        weight = -(-most // _MOST)
        return most - sum([weight if isinstance(ticket, Filling) else 1 for ticket in self._tickets])

    @property
    def num_in_flight(self) -> int:
        """Tickets, if there is one that can go on without another piece."""
        if self._tickets and self._tickets[0] is self.open and not self.open.unfinished:
            return 0
        return len(self._tickets)

    @property
    def something_comes_free(self) -> bool:
        """Whether what is in flight will be taken, or finished, without another piece."""
        filling = self.open
        if filling is None or filling.unfinished or filling.done:
            return bool(self._tickets)
        return len(self._tickets) > 1

    def is_first(self, ticket: Ready) -> bool:
        """Whether nothing will come free before this ticket, or piece of a filling, is finished."""
        whole = ticket.whole
        try:
            if isinstance(whole, Filling):
                return self._tickets[0] is whole and whole.unfinished[0] is ticket
            return self._tickets[0] is ticket
        except IndexError:
            return False

    def first_comes(self, begun: Ready | None) -> None:
        """What is first in turn now may use the floor; `begun` is what is being pulled."""
        first = self._tickets[0] if self._tickets else begun
        if first is None:
            return
        first.come_first()
        if begun is not None and begun.whole is first and isinstance(first, Filling) and not first.unfinished:
            begun.come_first()


def without_fillings(tickets: Iterable[Ready]) -> list[Ready]:
    """Those that can be stowed: what has come back from disk would need as much of a floor as its slot takes now."""
    return [ticket for ticket in tickets if not isinstance(ticket, Filling)]
