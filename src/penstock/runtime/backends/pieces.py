"""How large a piece of work for a thread should be, from what pieces cost so far.

Handing a piece from thread to thread costs tens of microseconds, and several times that where threads contend for the
interpreter. So a piece should be worth about a millisecond. Where the demand is not worth that, there are two ways:

- Small elements go beyond the demand, within bounds (`_reach`): in memory that nobody misses, never more in flight than
  were delivered so far, so that who takes ten elements does not pay for thousands.
- Large ones that are cheap all the same are *joined* (`_join`): as many as may be in flight anyway, in fewer pieces.

Where the demand is for many elements, such as a batch of images, a piece of a single one is still dear: somebody wakes
for each, and the interpreter is handed over while others want it. There some are *gathered* (`_gather`) for a few
milliseconds of work, of which the consumer waits for many in any case.
"""

from __future__ import annotations

from ...block import Block
from ...element import nbytes_of
from ...memory.ledger import Share
from .tuner import ParallelismTuner

__all__ = ["Pieces"]

_PIECE_NS = 1_000_000
# A call that took no longer than this may have spent most of it waiting for the interpreter.
_CONTENDED_NS = 20 * _PIECE_NS
# Bounds of what is in flight beyond the demand: elements in all, bytes of a piece, and the part of free memory.
_MOST_BEYOND = 8192
_PIECE_BYTES = 1 << 18
_BEYOND_FREE_PART = 4
# Joined elements are no more than there would be anyway, but must be had at once.
_JOINED_FREE_PART = 2
# Elements that take about as long as a piece should are gathered for so much work, and so small a part of the demand.
_GATHERED_NS = 5_000_000
_GATHERED_PART = 4
_GATHERED_FREE_PART = 16
# Waking a thread is worth it for so much work.
_WORTH_WAKING_NS = 250_000


class Pieces:
    """Learns what elements cost.

    Args:
        share: What is free there decides how many large elements may be made at once.
        tuner: Says how many workers there are.
        may_reach: Whether a piece may have more elements than were demanded.
    """

    def __init__(self, share: Share, tuner: ParallelismTuner, may_reach: bool) -> None:
        self._share = share
        self._tuner = tuner
        self._may_reach = may_reach
        self.num_delivered = 0
        #: What an element takes on average, of late; 0 before the first.
        self.element_ns = 0
        self._quick_ns = _PIECE_NS
        self._element_bytes = 0
        self._piece_ns = 0
        self.num_joined = 1
        self._num_gathered = 1
        self._largest_demand = 1

    @property
    def num_together(self) -> int:
        """How many large elements are made in one piece where there is memory for them."""
        return max(self.num_joined, self._num_gathered)

    def size(self, demand: int) -> int:
        """How many elements a call should take: about a millisecond's worth, shared fairly among the workers."""
        # What is left of a batch is no demand of its own: the next batch follows.
        self._largest_demand = max(self._largest_demand, demand)
        if not self.element_ns:
            return 1
        fair = -(-demand // max(1, self._tuner.level))
        size = max(1, min(max(fair, self._reach(), self.num_joined), _PIECE_NS // self.element_ns))
        return max(size, self._num_gathered)

    def most(self, starving: bool) -> int:
        """How many pieces may be in flight: two for each worker, fewer where they are of several elements."""
        most = 2 * self._tuner.level
        if self._num_gathered > 1:
            return self._tuner.level + 1
        # While the consumer waits nobody should be idle, whatever was thought of the elements.
        return most if starving else max(2, most // self.num_joined)

    def num_worth_waking(self, num_pieces: int) -> int:
        """How many workers so many pieces are worth."""
        return num_pieces * self._piece_ns // _WORTH_WAKING_NS

    def sampled_bytes(self, block: Block) -> int:
        """Bytes of an element, judged by the first: enough to tell small ones from large ones."""
        if not self._may_reach:
            return 0
        return -(-block.nbytes // block.size) if block.columns is not None else nbytes_of(block.rows()[0])

    def measure(self, size: int, goes_in: int, result: Block | None, elapsed_ns: int) -> None:
        """Learns from a piece what an element costs, in time and in bytes of what goes in or comes out."""
        each_ns = elapsed_ns // size
        # A quarter of the pieces are quicker than this: it goes down three times as fast as up.
        if each_ns < self._quick_ns:
            self._quick_ns = max(each_ns, self._quick_ns * 15 // 16)
        else:
            self._quick_ns += self._quick_ns // 48 + 1
        if self.element_ns and elapsed_ns < _CONTENDED_NS:
            each_ns = min(each_ns, 2 * self.element_ns)
        self.element_ns = (self.element_ns * 3 + each_ns) // 4 or 1
        self._piece_ns = self.element_ns * size
        if result is not None:
            comes_out = self.sampled_bytes(result)
            if goes_in and comes_out:  # a nested dataset does not say how much it holds
                self._element_bytes = max(self._element_bytes, goes_in, comes_out)
        self.num_joined = self._join()
        self._num_gathered = self._gather()

    def _reach(self) -> int:
        """How many elements a piece may have whatever the demand."""
        if not self._may_reach or not self._element_bytes:
            return 0
        pieces = 3 * self._tuner.level  # two for each worker may wait, and each may have begun another meanwhile
        nbytes = min(_PIECE_BYTES, self._share.free_bytes // (_BEYOND_FREE_PART * pieces))
        return min(min(self.num_delivered, _MOST_BEYOND) // pieces, nbytes // self._element_bytes)

    def _join(self) -> int:
        """How many elements to make one piece of, of those that may be in flight in any case.

        A piece that is worth less than waking a thread is one too many: the same elements in fewer pieces are no more
        bytes. But cheap ones must have been seen often, for those to come may be dear. The quickest quarter says what
        an element costs: others waited for the interpreter, and the more so the smaller the pieces. That some are dear
        shows in the average, and all elements of a piece wait for each other.
        """
        if not self._may_reach or not self._element_bytes:
            return 1
        level = self._tuner.level
        fitting = self._share.free_bytes // (_JOINED_FREE_PART * self._element_bytes)
        cheap = min(_WORTH_WAKING_NS // max(1, self._quick_ns), _PIECE_NS // self.element_ns)
        return max(1, min(level, cheap, self.num_delivered // (16 * level), fitting))

    def _gather(self) -> int:
        """How many elements to make one piece of where the demand is for many times as many.

        They are more bytes in flight than pieces of one would be: in memory that nobody misses, and only once many were
        delivered. With those that take long nothing is gained, and several quick ones are a piece already.
        """
        if not self._may_reach or not self._element_bytes or 2 * self._quick_ns < _PIECE_NS:
            return 1
        level = self._tuner.level
        fitting = self._share.free_bytes // (_GATHERED_FREE_PART * (level + 1) * self._element_bytes)
        part = self._largest_demand // (_GATHERED_PART * level)
        # As for joined ones: the quickest tell what an element costs on a busy machine, the average that some are dear.
        short = min(_GATHERED_NS // self._quick_ns, 4 * _GATHERED_NS // self.element_ns)
        return max(1, min(short, part, self.num_delivered // (16 * level), fitting))
