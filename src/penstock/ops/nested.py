"""Reading datasets that a user's function makes of elements: what `flat_map` and `interleave` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, expect_list, replay
from ..element import Failed, nbytes_of
from ..ending import Ended
from ..errors import BadType, OverBudget, StateError
from ..leaf import is_dataset
from ..memory.ledger import Lease
from ..memory.singly import num_at_once
from ..options import AUTOTUNE, MOST_THREADS
from ..plan.carried import carried_bytes
from ..plan.op import Context
from ..spec import UNKNOWN
from .carrying import Carrying
from .slot import Slot, is_in_memory
from .supply import Hold, Piece, Supply
from .weaving import SMALL_BYTES, interleaved, joined, unnumbered

__all__ = ["WHOLE_TURN", "CycleCursor"]

# A turn of at least this many elements is passed on as it comes; shorter ones are gathered.
WHOLE_TURN = 16
# Elements that are woven at a time, at most: who takes ten does not pay for thousands.
_MOST_WOVEN = 1024
_MOST_TUNED = 16


class CycleCursor(Cursor):
    """Reads `cycle_length` datasets in turn, `block_length` elements at a time, each made of one input element.

    The order is that of tf.data: a slot whose dataset has ended is left at once, and takes the next dataset when the
    cycle comes back to it; an element that fails does not count in its turn; an input element of which no dataset could
    be made is one failure, and the slot takes the next.

    Operators in these datasets to which the user gave no seed get one that follows from `key` and the place of their
    input element, so that a dataset can be made again for a saved position.

    Slots below `num_ahead` are read ahead by a thread each; with `AUTOTUNE` those are whose elements take long to make.
    Threads are a luxury: where there is no memory for what all of them may hold, the caller reads for itself.
    """

    def __init__(
        self,
        context: Context,
        function: Callable[..., Any],
        key: int,
        cycle_length: int = 1,
        block_length: int = 1 << 62,
        num_ahead: int = 0,
    ) -> None:
        self._context = context
        self._function = function
        self._key = key
        # One dataset at a time has all turns, however long they are.
        self._block_length = block_length if cycle_length > 1 else 1 << 62
        self._round_length = cycle_length * self._block_length
        self._num_ahead = min(num_ahead, MOST_THREADS)
        context.share.num_ahead = max(
            context.share.num_ahead, _MOST_TUNED if num_ahead == AUTOTUNE else self._num_ahead
        )
        self._supply = Supply(context)
        self._carrying = Carrying(context, cycle_length)
        # Of elements whose datasets were read at once: their arrays may lie in what was given last.
        self._spent: list[Hold] = []
        # Rounds that were woven and not given yet, how many of their elements were, and the position before them.
        self._woven: Block | None = None
        self._num_woven_given = 0
        self._before_woven: State = None
        # What is gathered may have no more bytes than this: what is to spare now, and may be others' later, in a pool.
        self._most_small_bytes = min(SMALL_BYTES, context.share.budget_bytes // 64)
        self._small_bytes = 0
        self._ended = False
        self._cycle_length = cycle_length
        # As many as had a turn: a cycle may be far longer than there are datasets.
        self._slots: list[Slot | None] = [None]
        self._num_open = 0
        self._turn = 0
        self._given = 0
        self._each_bytes = 0  # of the largest element, judged by some
        self._most = 1 << 62  # elements that may be given at once, by the objects that each consists of
        # Slots whose datasets have accounts of their own, and were read for what was given last.
        self._read: set[int] = set()

    def pull(self, n: int) -> Block | None:
        parts: list[Block] = []
        left = n
        self._small_bytes = min(self._most_small_bytes, self._context.share.spare_bytes)
        self._release_spent()
        while left:
            if n > self._most:
                n, left = self._most, self._most - (n - left)
                if left <= 0:
                    break
            if self._woven is not None:
                woven = self._take_woven(self._woven, left)
                if woven.size == n:
                    return woven
                parts.append(woven)
                left -= woven.size
            slot = self._slots[self._turn]
            if parts:
                if not left or (self._supply.live if slot is None else slot.live):
                    break  # the next may be long in coming, and what is here can be used
                if (n - left) * self._each_bytes > self._small_bytes:
                    break  # what was gathered is nobody's any more when its maker is asked again
                if slot is None and self._spent and self._supply.must_read and not self._has_room_beside_spent():
                    break
            if slot is None:
                if self._ended and not self._num_open:
                    break
                block = self._fill(left)
            elif not slot.left:
                self._leave(slot)
                continue
            else:
                few = self._few(left) if slot.carried is None else self._carrying.few(left)
                if few >= self._round_length and not self._given and self._weave(few):
                    continue
                block = self._take(slot, few)
                if block is None:
                    self._leave(slot)
            if block is None:
                continue
            self._measure(block)
            if block.size >= WHOLE_TURN and not parts:
                return self._carrying.let_go(unnumbered(block))
            parts.append(block)
            left -= block.size
        return self._carrying.let_go(joined(parts, self._context.arena.empty)) if parts else None

    def _has_room_beside_spent(self) -> bool:
        """Whether there is room for more elements to make datasets of, beside those that what was given lies in."""
        return self._spent[-1].nbytes <= self._context.share.spare_bytes

    def _few(self, left: int) -> int:
        """How many elements to take at a time: what is left of a part waits in its slot, and may if it is small."""
        if self._cycle_length == 1 or left * self._each_bytes <= self._small_bytes:
            return left
        return max(1, self._small_bytes // self._each_bytes)

    def _measure(self, block: Block) -> None:
        columns = block.columns
        if columns is None:
            each = nbytes_of(block.rows()[0])
        elif len(columns) == 1 and not columns[0].dtype.hasobject:
            each = -(-columns[0].nbytes // block.size)
        else:
            each = -(-block.nbytes // block.size)
        if each > self._each_bytes:
            self._each_bytes = each
            if columns is None:
                self._most = num_at_once(block.rows()[0])

    def _take(self, slot: Slot, left: int) -> Block | None:
        """The elements of a turn, or some of them; None if there are no more."""
        if self._num_ahead:
            self._read.add(self._turn)
        if not slot.measured:
            block = self._first(slot)
        elif self._cycle_length == 1 and slot.left > 0:
            return self._take_of_sure(slot, left)
        else:
            turn = min(left, self._block_length - self._given)
            block = slot.take(1) if slot.live else slot.take(turn, self._demand(left, turn))
            if slot.is_slow:
                self._read_ahead(slot)
        if block is not None:
            if slot.carried is not None:
                block = self._carrying.owned(block)
            if slot.left > 0:
                slot.left -= block.size
            self._count(block.size - int(block.has_failures))
        return block

    def _take_of_sure(self, slot: Slot, left: int) -> Block | None:
        """Elements of the only dataset at a time, which is left with its last one: small ones end as soon as begun."""
        block = slot.feed.cursor.pull(min(left, slot.left))
        if block is not None:
            if slot.carried is not None:
                block = self._carrying.owned(block)
            slot.left -= block.size
            if not slot.left:
                self._leave(slot)
        return block

    def _demand(self, left: int, turn: int) -> int:
        """How many of the next `left` elements come from the slot whose turn it is, if none ends before."""
        if turn == left:
            return turn
        others = self._round_length - self._block_length
        rounds, rest = divmod(left - turn, self._round_length)
        return turn + rounds * self._block_length + max(0, rest - others)

    def _weave(self, left: int) -> bool:
        """Makes some whole rounds ready, where every slot has its part of them; else nothing is taken.

        Empty slots are filled first: each would have its turn in the next round. Of datasets that are only read, and
        cost nothing to make, as many rounds as are small: then one step serves many demands.
        """
        if self._num_open < self._cycle_length and not self._ended and not self._fill_round():
            return False
        slots = [slot for slot in (*self._slots[self._turn :], *self._slots[: self._turn]) if slot is not None]
        if self._each_bytes and all(slot.is_read and slot.left > 0 for slot in slots):
            left = max(left, min(_MOST_WOVEN, self._small_bytes // self._each_bytes))
        num_rounds = left // (len(slots) * self._block_length)
        parts: list[Block] = []
        for slot in slots:
            if slot.live or not slot.measured:
                return False
            part = slot.peek(num_rounds * self._block_length)
            if part is None or part.has_failures:
                return False
            num_rounds = min(num_rounds, part.size // self._block_length)
            if not num_rounds:
                return False
            parts.append(part)
        self._num_woven_given, self._before_woven = 0, self.state()
        taken = num_rounds * self._block_length
        for slot in slots:
            slot.skip(taken)
            if slot.left > 0:
                slot.left -= taken
            if slot.is_slow:
                self._read_ahead(slot)
        parts = [part if part.size == taken else part[:taken] for part in parts]
        woven = interleaved(parts, self._block_length, self._context.arena.empty)
        self._woven = self._carrying.owned(woven) if self._carrying.has_any else woven
        return True

    def _take_woven(self, woven: Block, n: int) -> Block:
        start = self._num_woven_given
        self._num_woven_given = min(woven.size, start + n)
        if self._num_woven_given == woven.size:
            self._woven = self._before_woven = None
        return woven if not start and n >= woven.size else woven[start : start + n]

    def _first(self, slot: Slot) -> Block | None:
        """The first element of a dataset, which tells how large they are; if that is wished for, a thread reads on.

        How long it took tells nothing: a file was opened for it.
        """
        block = slot.feed.take(1)
        slot.measured, slot.tuned = True, self._num_ahead == AUTOTUNE
        slot.left = UNKNOWN
        if block is not None:
            self._measure(block)
            if self._turn < self._num_ahead and not slot.is_in_memory:
                self._read_ahead(slot)
        return block

    def _read_ahead(self, slot: Slot) -> None:
        if self._may_read_ahead():
            slot.read_ahead(self._context, self._slots.index(slot) + 1)

    def _may_read_ahead(self) -> bool:
        """Whether one more thread may read ahead, and there is memory for what all of them may hold."""
        share = self._context.share
        # Of each: one that is being made, of another one, and two that wait.
        held = 4 * self._cycle_length * max(self._each_bytes, share.planned_bytes)
        if share.frugal or not self._each_bytes or held > 4 * share.spare_bytes or not share.may_work_ahead(held):
            return False
        return self._num_ahead != AUTOTUNE or sum(s is not None and s.ahead for s in self._slots) < _MOST_TUNED

    def _count(self, num_elements: int) -> None:
        self._given += num_elements
        if self._given == self._block_length:
            self._next_turn()

    def _next_turn(self) -> None:
        self._given = 0
        self._turn += 1
        if self._turn == len(self._slots):
            if self._ended or self._turn == self._cycle_length:
                self._turn = 0
            else:
                self._slots.append(None)

    def _leave(self, slot: Slot) -> None:
        self._slots[self._turn] = None
        self._num_open -= 1
        slot.close()
        self._carrying.release(slot.carried)
        if self._num_ahead:
            self._context.settle_account(self._turn + 1)
        self._next_turn()

    def _fill(self, at_once: int) -> Block | None:
        """Opens the next dataset in the slot whose turn it is; moves on if there is none.

        Gives a failure instead, or the whole dataset if it is the only one at a time and has few elements: small ones
        are read in less time than it takes to open them.
        """
        if self._ended:
            self._next_turn()
            return None
        supply = self._supply
        row = supply.next()
        if row is Supply.END:
            self._ended = True
            self._carrying.opened()
            return None
        made = self._made_of(row, self._turn, at_once if self._cycle_length == 1 else 0)
        if isinstance(made, Failed):
            return Block.of_rows([made], has_failures=True)
        if made is not None and (not self._spent or self._spent[-1] is not supply.hold):
            self._spent.append(supply.hold.share())
        return made

    def _fill_round(self) -> bool:
        """Opens datasets in all empty slots, in the order of their turns; whether none must wait for its turn.

        One that fails waits. So do all as long as nobody knows how large elements are, and so how many to read.
        """
        if self._num_ahead or self._supply.live or not self._each_bytes:
            return False
        self._slots += [None] * (self._cycle_length - len(self._slots))
        for index in (*range(self._turn, self._cycle_length), *range(self._turn)):
            if self._slots[index] is None:
                row = self._supply.next()
                if row is Supply.END:
                    self._ended = True
                    self._carrying.opened()
                    break
                failed = self._made_of(row, index, at_once=0)
                if failed is not None:
                    self._supply.put_back(failed)
                    return False
        return True

    def _made_of(self, row: Any, index: int, at_once: int) -> Block | Failed | None:
        """Opens the dataset that is made of the element given last; a failure if there is none.

        A dataset of no more than `at_once` elements is read instead: its arrays are free then.
        """
        number = self._supply.number - 1
        dataset = self._dataset_of(row, number)
        if type(dataset) is Failed:
            return dataset
        carried = self._carrying.lease(carried_bytes(dataset, self._carrying.small_bytes, row), dataset.node)
        if at_once:
            try:
                block = self._context.read_dataset(dataset, at_once)
                if block is not None and carried is not None:
                    block = self._carrying.owned(block) if self._carrying.has_room_to_own(block) else None
                if block is not None:
                    self._carrying.release(carried)
            except BaseException:
                self._carrying.release(carried)
                raise
            if block is not None:
                return block
        ahead = index < self._num_ahead and self._may_read_ahead() and not is_in_memory(dataset.node)
        return self._enter(index, dataset, self._supply.piece(row), carried, ahead)

    def _dataset_of(self, row: Any, number: int) -> Any:
        """What the function makes of an element: a dataset, or a failure."""
        if type(row) is Failed:
            return row
        if self._context.share.ending.is_near:
            raise Ended
        try:
            dataset = self._function(*row) if type(row) is tuple else self._function(row)
            if not is_dataset(dataset):
                raise BadType(f"map_func: expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
            return dataset
        except Exception as error:
            return self._failed(error, number)

    def _enter(self, index: int, dataset: Any, piece: Piece, carried: Lease | None, ahead: bool) -> Failed | None:
        """Opens a dataset in a slot; a failure if that cannot be, and what it was made of is let go."""
        try:
            account = index + 1 if self._num_ahead else 0
            cursor = self._context.open_dataset(dataset, self._key, piece.number, account=account)
        except BaseException as error:
            piece.hold.release()
            self._carrying.release(carried)
            if not isinstance(error, Exception):
                raise
            return self._failed(error, piece.number)
        # The dataset may keep the element that it was made of for as long as it is read.
        slot = Slot(piece, carried, dataset.node, cursor)
        slot.measured = not self._num_ahead
        self._slots[index] = slot
        self._num_open += 1
        self._carrying.opened(self._num_open)
        if ahead:
            slot.read_ahead(self._context, index + 1)
        return None

    def _failed(self, error: Exception, number: int) -> Failed:
        if isinstance(error, OverBudget):
            try:
                raise error  # no fault of the element's, which must not be dropped as if it were
            finally:
                del error  # its traceback has this frame
        return Failed(self._context.noted(error, number))

    def _release_spent(self) -> None:
        for hold in self._spent:
            hold.release()
        self._spent.clear()
        self.used_up()

    def used_up(self) -> None:
        for index in self._read:
            slot = self._slots[index]
            if slot is not None and slot.feed.is_empty:
                slot.feed.cursor.used_up()
            if slot is None or (slot.feed.is_empty and not slot.ahead):  # else its thread settles the account
                self._context.settle_account(index + 1)
        self._read.clear()

    def skip(self, n: int) -> int:
        if self._cycle_length > 1:
            return super().skip(n)  # which elements failed, and so did not count, shows only when they are made
        self._release_spent()
        skipped = 0
        while skipped < n:
            slot = self._slots[0]
            if slot is not None:
                slot.left = UNKNOWN
                skipped += slot.feed.skip(n - skipped)
                if skipped < n:
                    self._leave(slot)
            elif self._fill(at_once=0) is not None:
                skipped += 1
            elif self._ended:
                break
        return skipped

    def state(self) -> State:
        """[turn, elements given in it, elements of the input, whether it ended, its position, slots, elements since].

        The last are of rounds that were woven after all the others were noted.
        """
        if self._woven is not None:
            return [*self._before_woven[:-1], self._num_woven_given]
        slots = [None if slot is None else slot.state() for slot in self._slots]
        return [self._turn, self._given, self._supply.number, int(self._ended), self._supply.state(), slots, 0]

    def restore(self, state: State) -> None:
        self._turn, self._given, number, ended, below, slots, num_woven = expect_list(state, 7)
        self._ended = bool(ended)
        self._close_slots()  # as many are open as are counted, or the end would never be found
        self._slots = [None] * len(slots)
        if not (0 <= self._turn < len(slots) <= self._cycle_length and 0 <= self._given < self._block_length):
            raise StateError(f"the saved position is damaged: {self._given} elements into turn {self._turn}")
        for i, saved in enumerate(slots):
            if saved is not None:
                self._reopen(i, *expect_list(saved, 4))
        self._supply.restore(below, number)
        replay(self, num_woven)

    def _reopen(self, index: int, number: int, before: State, ahead: int, below: State) -> None:
        """Makes a dataset again that was being read, and moves to where that was."""
        piece = self._supply.again(number, before)
        try:
            dataset = self._dataset_of(piece.row, number)
            if type(dataset) is Failed:
                raise self._is_gone(number)
            nbytes = carried_bytes(dataset, self._carrying.small_bytes, piece.row)
            carried = self._carrying.lease(nbytes, dataset.node)
        except BaseException:
            piece.hold.release()
            raise
        if self._enter(index, dataset, piece, carried, bool(ahead)) is not None:
            raise self._is_gone(number)
        slot = self._slots[index]
        assert slot is not None
        slot.left = UNKNOWN
        slot.feed.restore(below)

    def _is_gone(self, number: int) -> StateError:
        return StateError(f"input element {number}, of which a dataset was being read, is no longer there")

    def _close_slots(self) -> None:
        for slot in self._slots:
            if slot is not None:
                slot.close()
                self._carrying.release(slot.carried)
        self._slots, self._num_open = [None] * len(self._slots), 0

    def close(self) -> None:
        self._close_slots()
        self._ended = True
        self._woven = None
        self._release_spent()
        self._carrying.close()
        self._supply.close()
        self._context.close_accounts()
