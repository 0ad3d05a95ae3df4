"""Slot: one of the datasets that are read in turn."""

from __future__ import annotations

from ..cursor import Cursor, Feed, State
from ..memory.ledger import Lease
from ..options import AUTOTUNE
from ..plan.node import Node
from ..plan.op import Context
from ..plan.traits import SOURCE
from ..spec import UNKNOWN
from .supply import Piece, is_live

__all__ = ["Slot"]


class Slot:
    """A dataset that is being read, and what it takes to open it again."""

    __slots__ = ("ahead", "before", "carried", "feed", "hold", "is_read", "left", "live", "measured", "number")

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
        self.feed = Feed(cursor)
        self.ahead = False
        self.measured = False

    def read_ahead(self, context: Context, account: int) -> None:
        """Lets a thread read on; only while nothing that was read lies ready."""
        self.feed = Feed(context.run_ahead(self.feed.cursor, AUTOTUNE, account))
        self.ahead = self.measured = True

    def state(self) -> State:
        return [self.number, self.before, int(self.ahead), self.feed.state()]

    def close(self) -> None:
        self.feed.close()
        self.hold.release()


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
