"""Kept elements: a sequence that grows, in memory as far as there is room, and beyond that on disk.

The contract:

1. Elements are appended in order and read by number, as often as anybody likes, by cursors of any run.
2. They lie in *chunks*: in memory, in columns where they are small, or on disk, as one batch of an Arrow file. A chunk
   has no more than a 16th of the smallest budget that it met, or one element; in a file that is to last, no more than
   every run can read again. Where each chunk lies on disk is on the ledger as well, and where that has no room, chunks
   that follow each other on disk are remembered together; in a file that is to last, so little is remembered that it
   does not grow (`batch_index`). So what was appended is not lost.
3. What lies in memory is on the ledger of every run that has joined, before it is there and until that run is over.
4. Memory is taken only while each of these runs keeps a quarter of its budget beyond all floors, or where the place on
   disk would take more. When one of them is short, the newest chunks move to disk; those that somebody looks at stay,
   as nothing would be gained. The first elements stay longest: who reads everything from the beginning, again and
   again, could not do better with any other rule. What goes to disk while somebody looks at it is *pinned*: on the
   ledgers that it was on until nobody does. For who holds them, read-only elements are somebody else's.
5. The lock is a leaf. Under it only the disk is waited for, and nobody is asked to let go; so it may be waited for by a
   stage that is short of memory, whatever locks that one holds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..block import Block
from ..element import Structure
from ..errors import PenstockError
from .arena import slot_bytes
from .batch_index import BATCH_INDEX_BYTES, BatchIndex
from .chunk import Chunk, bytes_when_read, cut, idle, stack
from .chunk_limits import SPARING_CHUNK_BYTES, chunk_limits, file_chunk_limits
from .chunk_list import ChunkList
from .joint import JointAccount, has_room
from .ledger import Share
from .movable import Movable
from .pinned import Pinned
from .place import BATCH_HEAD_BYTES, Files, Place, Stretch, most_index_bytes
from .sealing import Sealed
from .tail import Tail, columns_for

__all__ = ["KeptElements"]

# Where no more stays in memory than must, so many places are remembered one by one.
_SPARING_PLACES = 32


class KeptElements:
    """The first elements of a pass.

    Args:
        files: Where to store what does not stay in memory; None to keep no more than there is.
        in_memory: Whether more than a chunk that is being filled may lie in memory.
        copies: Whether elements may be what others keep, too: who moves his to disk is to see that nobody has them.
        index: Finds elements of a complete file, which are all there are.
    """

    def __init__(
        self, files: Files | None, in_memory: bool = True, copies: bool = False, index: BatchIndex | None = None
    ) -> None:
        # The first elements are those of the index; then come the chunks, then the tail.
        self._index = index if files is None else files.index
        self.num_kept = 0 if index is None else index.num_rows
        self.stored_bytes = 0
        self._largest_bytes = 0  # of what was stored at once
        self._account = JointAccount()
        self._files = files
        self._in_memory = in_memory
        self.copies = copies
        self._stopped = files is None
        self._chunks = ChunkList()
        self._movable = Movable()
        self._pinned = Pinned(self._account)
        self._tail = Tail()
        self._are_alike = True
        self._lacking_bytes = 0  # for the place of what could not be appended
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def leave_to_parent(self) -> bool:
        """In a forked child: who has joined is the parent's. Whether a thread of the parent's was at work on it."""
        is_torn = not self._lock.acquire(blocking=False)
        self._lock = threading.RLock()
        self._account.forget_all()
        self._pinned.leave_to_parent()
        return is_torn

    @property
    def nbytes(self) -> int:
        """What is on the ledger of each run that has joined."""
        return self._account.nbytes

    @property
    def index_bytes(self) -> int:
        """What each who joins has to hold, beside what is on its ledger here, to find elements in a file."""
        return 0 if self._index is None else BATCH_INDEX_BYTES

    @property
    def is_in_file(self) -> bool:
        """Whether what is on disk is never made again."""
        return self._index is not None

    @property
    def to_read_bytes(self) -> int | None:
        """What reading a batch takes at most; None where nobody knows."""
        if self._index is None:
            return slot_bytes(self._largest_bytes)
        if not self.num_kept:
            return None
        nbytes = self._index.largest_bytes
        stored = slot_bytes(nbytes) + (nbytes if self._index.reader.makes_copies else 0)
        # The tail will be a batch as well; its length is that of copies, too.
        return max(stored, slot_bytes(self._tail.length + BATCH_HEAD_BYTES) if self._tail.size else 0)

    @property
    def failed(self) -> bool:
        """Whether the disk had no room for an element, so that none after it can be kept."""
        return self._files is not None and self._files.failed

    def find(self, number: int, n: int) -> Block | Stretch | None:
        """Up to n elements from this one on, or where they lie on disk; None if it is not kept."""
        with self._lock:
            if self._index is not None and (found := self._index.find(number)) is not None:
                return Stretch(Place(self._index.reader, found[0]), found[1])
            if (in_chunk := self._chunks.find(number)) is not None:
                chunk, offset = in_chunk
                if chunk.place is not None:
                    return chunk.find_on_disk(offset)
                return chunk.part(offset, offset + n)
            offset = number - (self.num_kept - self._tail.size)
            return self._tail.part(offset, offset + n) if 0 <= offset < self._tail.size else None

    def shorten_index(self) -> bool:
        """Has fewer places on disk to remember, which then take longer to find; whether that was possible."""
        with self._lock:
            return self._merge_places()

    # Growing.

    def num_together(self, each_bytes: int) -> int:
        """How many elements of this size `append_alike` has room for together, one at least."""
        with self._lock:
            columns = self._tail.columns
            if columns is not None:
                return columns.capacity - columns.size
            most_rows, most_bytes = self._chunk_limits()
            return max(1, min(most_rows, most_bytes // max(1, each_bytes)))

    def append_alike(self, number: int, block: Block) -> Block | None:
        """Keeps elements, of which the first has this number, and gives them as they are kept: in columns.

        None where they are not alike, or large, or not those that come next, or have no room: `append` takes any.
        """
        with self._lock:
            self._pinned.release()
            is_next = number == self.num_kept and not block.has_failures and self._owner == os.getpid()
            if not is_next or self._stopped or not self._in_memory or not self._are_alike:
                return None
            if not self._tail.size:
                # As many as there are: then chunks begin at powers of two, and batches of such sizes lie in one.
                num_more = max(block.size, self.num_kept)
                made = columns_for(block, num_more, self.num_together, self._account, self.copies)
                self._tail = made or self._tail
            columns = self._tail.columns
            if columns is None or block.size > columns.capacity - columns.size:
                return None
            kept = columns.add(block)
            if kept is None:
                self._are_alike = False
                self._close_tail()
                return None
            self.num_kept += block.size
            if columns.size == columns.capacity:
                self._close_tail()
            return kept

    def append(self, new: list[Sealed]) -> list[bool]:
        """Keeps elements that come next. The caller is one who has joined.

        Tells of each whether it is on the ledger as what is kept; it is the caller's otherwise. Of fewer than there are
        where the others have no room before `make_room` was called.
        """
        ours: list[bool] = []
        with self._lock:
            self._pinned.release()
            if self._owner != os.getpid():
                self._stopped = True  # a forked child must not write into its parent's files
            most_rows, most_bytes = self._chunk_limits()
            if self._tail.columns is not None:
                self._close_tail()
            is_read = self._index is not None
            lengths = [max(one.nbytes, bytes_when_read(one.element)) if is_read else one.length for one in new]
            start = 0
            while start < len(new) and not self._stopped:
                if self._tail.length + lengths[start] > most_bytes and self._is_worth_moving(self._tail):
                    self._close_tail()
                    continue
                stop, length = self._tail.fitting(lengths, start, most_rows, most_bytes)
                is_ours = self._append(new[start:stop], length)
                if is_ours is None:
                    break
                ours += [is_ours] * (stop - start)
                # What is not worth moving grows on: many small chunks would fill memory, and none could leave it.
                is_full = self._tail.length >= most_bytes and self._is_worth_moving(self._tail)
                if is_full or self._tail.size >= most_rows:
                    self._close_tail()
                start = stop
            return ours + [False] * (len(new) - len(ours)) if self._stopped else ours

    def make_room(self) -> None:
        """Makes room for the place of elements on disk. Without a lock: others are asked to let go of what they hold.

        Where nobody has any and nothing can be remembered together, what comes from here on is not kept.
        """
        with self._lock:
            shares, nbytes = self._account.shares, self._lacking_bytes
        if not has_room(shares, nbytes):
            with self._lock:
                self._stopped = not self._merge_places()

    def _merge_places(self) -> bool:
        """Remembers chunks together that follow each other on disk too; whether there were any."""
        saved = self._chunks.merge()
        self._account.discharge(saved)
        return saved > 0

    def _chunk_limits(self) -> tuple[int, int]:
        """How many elements a chunk has, and how many bytes."""
        if self._index is not None:
            return file_chunk_limits(self._account)
        return chunk_limits(self._account, self.stored_bytes)

    def _append(self, new: list[Sealed], length: int) -> bool | None:
        """Keeps some elements; whether they are on the ledger, or None where not even their place has room."""
        rows, nbytes = [one.element for one in new], sum(one.nbytes for one in new)
        index_bytes = self._most_index_bytes(rows)
        may_stay = length <= SPARING_CHUNK_BYTES or not self._account.is_sparing
        # Of next to nothing the place on disk would take more than it takes here.
        is_little = self._tail.nbytes + nbytes <= index_bytes
        if may_stay and (self._account.charge(nbytes, not is_little) or self._charge_after_moving(nbytes)):
            self._tail.add(new, nbytes, length)
            self.num_kept += len(rows)
            return True
        if not self._tail.size or self._is_worth_moving(self._tail):
            self._close_tail()
        little = self._tail.as_chunk()  # it goes with them
        rows = [*little.part(0, little.size).rows(), *rows]
        if self._stopped or not (self._account.charge(index_bytes) or self._charge_after_moving(index_bytes, 0)):
            self._lacking_bytes = index_bytes
            return None
        place = None
        try:
            place = self._store(rows)
        finally:
            self._account.discharge(index_bytes - (0 if place is None else self._index_bytes_of(place)))
        if place is None:
            self._stopped = True
            return False
        size, rows = len(rows), []  # or somebody would look at them
        self._tail = Tail()
        self.num_kept -= little.size
        self._pinned.let_go(little, little.nbytes)
        self._add(Chunk(size, None, place, self._index_bytes_of(place)))
        self._keep_plenty()
        return False

    def _most_index_bytes(self, rows: list[Any]) -> int:
        """What the place of some elements on disk takes at most."""
        if self._index is not None:
            return 0
        return most_index_bytes(len(Structure.of(rows[0]).flatten(rows[0])))

    def _index_bytes_of(self, place: Place) -> int:
        return 0 if self._index is not None else place.index_bytes

    def _close_tail(self) -> None:
        """Makes a chunk of the tail: in memory if there is room, else on disk."""
        if not self._tail.size:
            self._account.discharge(self._tail.nbytes)
            self._tail = Tail()
            return
        chunk = self._tail.as_chunk()
        has_plenty = self._account.has_plenty
        if self._in_memory and (has_plenty or not self._is_worth_moving(chunk)):
            stack(chunk, self._account, self._tail.stacked_bytes)
            self._movable.append(chunk)
        else:
            self._move(chunk)
            # No file can hold it, and it fills what others need.
            self._stopped = self._stopped or chunk.block is not None
            self._keep_plenty()
        self._tail = Tail()
        self.num_kept -= chunk.size
        self._add(chunk)

    def _add(self, chunk: Chunk) -> None:
        if self._index is not None and chunk.place is not None:
            self._index.add(chunk.place.stored)
        else:
            self._chunks.append(self.num_kept, chunk)
        self.num_kept += chunk.size
        if len(self._chunks) % _SPARING_PLACES == 0 and self._account.is_sparing:
            self._merge_places()

    def finish(self) -> None:
        """The pass has come to its end, and all of it is kept."""
        with self._lock:
            if self._owner == os.getpid() and self._files is not None:
                self._close_tail()
                self._files.finish()

    # Giving way.

    def _store(self, rows: list[Any]) -> Place | None:
        assert self._files is not None
        place = self._files.store(rows)
        if place is not None:
            self.stored_bytes += place.stored.nbytes
            self._largest_bytes = max(self._largest_bytes, place.stored.nbytes)
            for share in self._account.shares if not self.is_in_file else ():  # a file of the user's is no overflow
                share.spilled_bytes += place.stored.nbytes
        return place

    def _move(self, chunk: Chunk) -> bool:
        """Moves a chunk to disk; whether it can be stored at all."""
        assert chunk.block is not None
        chunk.place = self._store(chunk.block.rows())
        if chunk.place is not None:
            index_bytes = self._index_bytes_of(chunk.place)
            self._pinned.let_go(chunk, chunk.nbytes - index_bytes)
            chunk.nbytes = index_bytes
        return chunk.place is not None

    def _move_in_pieces(self, chunk: Chunk, most_bytes: int) -> None:
        """The same for a chunk of which a run has no room to read all at once: as several."""
        assert chunk.block is not None
        rows, pieces = chunk.block.rows(), []
        for part in cut(rows, max(most_bytes, 2 * self._most_index_bytes(rows))):
            place = self._store(rows[part])
            if place is None:
                return
            pieces.append(Chunk(part.stop - part.start, None, place, self._index_bytes_of(place)))
        del rows  # or somebody would look at it
        self._chunks.replace(chunk, pieces)
        self._pinned.let_go(chunk, chunk.nbytes - sum(piece.nbytes for piece in pieces))

    def _move_if_worth(self, chunk: Chunk) -> bool:
        """The same if anything is gained by it."""
        return self._is_worth_moving(chunk) and self._move(chunk)

    def _move_newest(self, is_short: Callable[[], bool]) -> None:
        """Moves chunks to disk as long as somebody is short."""
        if self._owner == os.getpid():
            self._movable.move_newest(self._move_if_worth, is_short, self._pinned.chunks)

    def _move_if_idle(self, is_short: Callable[[], bool]) -> None:
        """The same where nobody has asked."""
        if self._owner == os.getpid():
            self._movable.move_if_idle(self._move_if_worth, is_short, self._pinned.chunks, self.num_kept)

    def _is_worth_moving(self, chunk: Chunk | Tail) -> bool:
        """Whether its place on disk takes less than it does here; in the user's file that takes nothing."""
        return chunk.size > 0 and chunk.nbytes > self._most_index_bytes(chunk.part(0, 1).rows())

    def _keep_plenty(self) -> None:
        """The index has grown, at the expense of what is left to others."""
        self._move_if_idle(lambda: not self._account.has_plenty)

    def _charge_after_moving(self, nbytes: int, part: int = 4) -> bool:
        """Charges what has room once chunks were moved, and leaves a part of the budget; 0: none."""
        shares = self._account.shares
        left = {id(share): share.budget_bytes // part if part else 0 for share in shares}
        move = self._move_if_idle if part else self._move_newest
        move(lambda: any(share.free_bytes < nbytes + left[id(share)] for share in shares))
        return self._account.charge(nbytes, leaves_plenty=part > 0)

    def _give_way(self, share: Share) -> None:
        with self._lock:
            self._pinned.release(self._movable)
            # Its own stage may need what lies on its floor, too, which nobody else can have.
            enough = share.free_bytes + share.lacking_bytes if share.is_short else 0

            def is_short() -> bool:
                return share.free_bytes < enough or (share.lacking_bytes > 0 and share.slack_used_bytes > 0)

            with suppress(OSError, PenstockError):  # nothing was lost; who asked is told that there is no room
                self._move_newest(is_short)
                if self._owner == os.getpid() and self._is_worth_moving(self._tail) and is_short():
                    self._close_tail()
                    self._move_newest(is_short)
            while is_short() and self._merge_places():
                pass
            while self._owner != os.getpid() and share.lacking_bytes > 0 and (self._tail.size or self._chunks):
                self._drop_last()  # a forked child has no place on disk for it, and makes it again

    # What is kept outlives a run, but while a run is open it is on its ledger: once, however many cursors read it, and
    # in however many places of the plan. Between runs that share a pool it is on the account of the pool's keeper.

    def join(self, share: Share) -> None:
        """Begins to count on a share what is kept, if its run does not count it yet: until the run is over."""
        with self._lock:
            if not self._account.has(share):
                keeper = share.keeper
                if keeper is not None and self._account.has(keeper):
                    self._remove(keeper)
                try:
                    self._put_on(share)
                except BaseException:  # the disk has no room: it is the pool's again
                    self._leave_to(keeper)
                    raise
            self._stopped = self._files is None  # this run may have more room than the last one

    def _put_on(self, share: Share) -> None:
        """Counts all that is kept on a share; what that has no room for goes to disk."""
        self._make_fit(share)
        self._pinned.release(self._movable)
        while not share.charge_to_keep(self.nbytes, share.budget_bytes // 4):
            if self._merge_places() or self._move_last():
                continue
            # The index alone: the run before had come to this too; and the pool's keeper gives it up for others.
            if share.charge_free(self.nbytes, 0 if share is share.keeper else share.budget_bytes // 8):
                break
            self._drop_last()
        self._account.add(share, self._give_way, self._leave)

    def _make_fit(self, share: Share) -> None:
        """Moves to disk what a new run has no room for, and chunks that are too large for it to get rid of later."""

        def is_short() -> bool:
            return share.is_sparing or share.to_keep_bytes < self.nbytes + share.budget_bytes // 4

        if self._owner == os.getpid() and is_short():
            self._close_tail()
        for chunk in self._movable if self._owner == os.getpid() else ():
            if chunk.length > share.budget_bytes // 8 and self._is_worth_moving(chunk) and idle([chunk]):
                self._move_in_pieces(chunk, share.budget_bytes // 16)
        self._move_newest(is_short)

    def _leave(self, share: Share) -> None:
        """Its run is over."""
        with self._lock:
            self._remove(share)
            self._leave_to(share.keeper)

    def _leave_to(self, keeper: Share | None) -> None:
        """What no run of a pool counts any more is its keeper's."""
        if keeper is None or any(other.keeper is keeper for other in self._account.shares):
            return
        try:
            self._put_on(keeper)
        except (OSError, PenstockError):  # the disk has no room either: some elements will be made again
            while not keeper.charge_free(self.nbytes, keeper.budget_bytes // 4):
                self._drop_last()
            self._account.add(keeper, self._give_way, self._leave)
        self._account.forgets(keeper, self._forget)

    def left_to(self, keeper: Share) -> int:
        """What the keeper counts, for a run that is about to join: others are to forget theirs before this one."""
        with self._lock:
            if is_there := self._account.has(keeper):
                self._account.forgets(keeper, self._forget)
            return self.nbytes if is_there else 0

    def _forget(self, keeper: Share, most_bytes: int) -> None:
        """Somebody would be refused what the place of elements on disk takes: the last ones will be made again."""
        with self._lock:
            while keeper.charged_bytes > most_bytes:
                last = self._chunks.last
                if not self._tail.size and (last is None or (last.block is not None and self._is_worth_moving(last))):
                    break  # somebody looks at it, and nothing would be gained
                if not self._merge_places():
                    self._drop_last()

    def _remove(self, share: Share) -> None:
        self._account.remove(share)
        self._pinned.forget(share)

    def __del__(self) -> None:
        for share in self._account.shares:
            self._remove(share)

    def _move_last(self) -> bool:
        """Moves a chunk to disk though somebody may look at it, in another run; whether one could be moved."""
        return self._owner == os.getpid() and any(map(self._move_if_worth, reversed(self._movable)))

    def _drop_last(self) -> None:
        """Forgets the last elements: a run has no room for them, and no file can hold them."""
        if self._tail.size:
            chunk, self._tail = self._tail.as_chunk(), Tail()
        else:
            chunk = self._chunks.pop()
            self._movable.remove(chunk)
        self.num_kept -= chunk.size
        self._pinned.let_go(chunk, chunk.nbytes)
