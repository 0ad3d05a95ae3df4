"""Slot: one of the datasets that are read in turn."""

from __future__ import annotations

from time import perf_counter_ns

from ..block import Block
from ..cursor import Cursor, Feed, State
from ..memory.ledger import Lease
from ..options import AUTOTUNE
from ..plan.node import Node
from ..plan.op import Context
from ..plan.traits import SOURCE
from ..spec import UNKNOWN
from .supply import Piece, is_live

__all__ = ["Slot", "is_in_memory"]

# A thread pays if an element takes longer to make than it takes to hand it over.
_WORTH_A_THREAD_NS = 100_000


class Slot:
    """A dataset that is being read, and what it takes to open it again."""

    __slots__ = (
        "_made",
        "_making_ns",
        "_num_slow",
        "ahead",
        "before",
        "carried",
        "feed",
        "hold",
        "is_in_memory",
        "is_read",
        "left",
        "live",
        "measured",
        "number",
        "tuned",
    )

    def __init__(self, piece: Piece, carried: Lease | None, node: Node, cursor: Cursor) -> None:
        self.number = piece.number
        self.before = piece.before
        self.hold = piece.hold
        #: The arrays that live by this dataset alone; None if it has none, and no cache.
        self.carried = carried
        self.live = node.has_any(is_live)
        #: How many elements are sure to come; UNKNOWN where only reading on can tell.
        self.left = _sure_size(node)
        #: Whether they are only read, and cost nothing to make.
        self.is_read = node.op.traits is SOURCE
        self.is_in_memory = is_in_memory(node)
        self.feed = Feed(cursor)
        self.ahead = False
        self.measured = False
        #: Whether a thread reads on as soon as that is seen to pay.
        self.tuned = False
        self._made = self._making_ns = self._num_slow = 0

    def take(self, n: int, demand: int = 1) -> Block | None:
        """The next 1 to n elements, cut after the first failure; None at the end."""
        if not self.tuned:
            return self.feed.take(n, demand)
        start = perf_counter_ns()
        block = self.feed.take(n, demand)
        if block is not None:
            self._took(block.size, start)
            self._made += block.size
        return block

    def peek(self, n: int) -> Block | None:
        """The next 1 to n elements, which stay to be taken or skipped; None at the end."""
        if not self.tuned:
            return self.feed.peek(n)
        start = perf_counter_ns()
        block = self.feed.peek(n)
        if block is not None:
            self._took(block.size, start)
        return block

    def skip(self, n: int) -> None:
        """Passes over what was looked at."""
        self.feed.skip(n)
        self._made += n

    def _took(self, num_elements: int, start_ns: int) -> None:
        elapsed_ns = perf_counter_ns() - start_ns
        self._making_ns += elapsed_ns
        self._num_slow += elapsed_ns > num_elements * _WORTH_A_THREAD_NS

    @property
    def is_slow(self) -> bool:
        """Whether an element takes longer to make than to hand over, by all that were made; only if they were taken.

        Once is no proof: somebody else may have had the processor.
        """
        is_known = self._num_slow > 1 and self.tuned and self.feed.is_empty
        return is_known and self._making_ns > self._made * _WORTH_A_THREAD_NS

    def read_ahead(self, context: Context, account: int) -> None:
        """Lets a thread read on; only while nothing that was read lies ready."""
        self.feed = Feed(context.run_ahead(self.feed.cursor, AUTOTUNE, account))
        self.ahead = self.measured = True
        self.tuned = False

    def state(self) -> State:
        return [self.number, self.before, int(self.ahead), self.feed.state()]

    def close(self) -> None:
        self.feed.close()
        self.hold.release()


def is_in_memory(node: Node) -> bool:
    """Whether a dataset is only read, and there is nothing to wait for: a thread would gain nothing."""
    return node.op.traits is SOURCE and not node.op.reading_may_fail


def _sure_size(node: Node) -> int:
    """How many elements a plan gives, where that is as sure as for a source, batches of it, and a function of either.

    Not for batches of what a function gives: an element that fails begins a new batch.
    """
    source, collates = node, False
    while (traits := source.op.traits) is not SOURCE:
        if not traits.collates and (collates or not traits.one_to_one):
            return UNKNOWN
        source, collates = source.input, traits.collates
    if collates and source.op.reading_may_fail:
        return UNKNOWN
    return node.spec.cardinality if node.inputs else node.op.num_elements
