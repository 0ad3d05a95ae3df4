"""read: a random-access source in an order. The optimizer makes it; users do not write it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..cursor import Cursor
from ..indexed import IndexCursor, close_reader
from ..memory.ledger import format_bytes
from ..order import Length, Order, RangeOrder
from ..plan.footprint import ElementSize, Footprint, Sizes, times
from ..plan.op import BlockKind, Context, Op, OrderOf
from ..plan.traits import SOURCE, Traits
from ..spec import INFINITE, Spec

__all__ = ["Read"]

# Stands for the number of elements of a source that has not looked for them yet.
_NOT_KNOWN = 1 << 62


@dataclasses.dataclass(frozen=True)
class Read(Op):
    """Reads a source in the order that some order operators, written above it, make of it.

    Args:
        source: The source.
        orders: Order operators, the one next to the source first.
        numbered_at: Keyed operators above know an element by its place after this many of the orders.

    Memory: what the orders hold: 8 bytes a slot for a window shuffle, else nothing.
    State: one integer.
    """

    source: Op
    orders: tuple[Op, ...] = ()
    numbered_at: int | None = None

    @classmethod
    def of(cls, source: Op) -> Read:
        """A source as a Read; one that is a Read already stays so."""
        return source if isinstance(source, Read) else cls(source)

    @property
    def absorbed(self) -> tuple[Op, ...]:
        return (self.source, *self.orders)

    def _spec_after(self, count: int) -> Spec:
        spec = self.source.spec([])
        for op in self.orders[:count]:
            spec = op.spec([spec])
        return spec

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self._spec_after(len(self.orders))

    @property
    def traits(self) -> Traits:
        return SOURCE

    @property
    def counts_successes(self) -> bool:
        return bool(self.orders) and self.orders[-1].counts_successes

    def with_order(self, op: Op) -> Read:
        """This source read in the order that `op` makes of the present one."""
        return dataclasses.replace(self, orders=(*self.orders, op))

    def numbered(self) -> Read:
        """This source with its elements numbered in the present order."""
        return dataclasses.replace(self, numbered_at=len(self.orders))

    def _bound(self, start: int, stop: int, found: Length | None = None) -> OrderOf:
        """The order that operators start to stop make, on places of what is below them.

        `found` is how many these are, where only a look at the source could tell.
        """
        below = self._spec_after(start).cardinality
        length: Length = float("inf") if below == INFINITE else below
        if self.source.indexes_first:
            found = self.source.found_elements if found is None else found
            length = _NOT_KNOWN if found is None else found

        def identity(epoch: int) -> Order:
            return RangeOrder(length)

        bound: OrderOf = identity
        for i in range(start, stop):
            bound = self.orders[i].bind_order(bound, self._spec_after(i).cardinality)
        return bound

    def order(self, epoch: int, found: int | None = None) -> Order:
        """The source indices of an epoch, up to the place where elements are numbered."""
        return self._bound(0, len(self.orders) if self.numbered_at is None else self.numbered_at, found)(epoch)

    def numbering(self, epoch: int, found: int | None = None) -> Order | None:
        """The order above the place where elements are numbered."""
        if self.numbered_at is None:
            return None
        below = self.order(epoch, found).length if self.source.indexes_first else None
        return self._bound(self.numbered_at, len(self.orders), below)(epoch)

    @property
    def indexes_first(self) -> bool:
        return self.source.indexes_first and not self.orders and self.numbered_at is None

    @property
    def gives_records(self) -> bool:
        return self.source.gives_records

    @property
    def is_random_access(self) -> bool:
        """Whether any place can be reached at any time: a full shuffle may be put on top."""
        upper = self.numbering(0)
        return self.order(0).random_access and (upper is None or upper.random_access)

    @property
    def is_contiguous(self) -> bool:
        """Whether neighbours in the order are neighbours in the source, so that all blocks are views.

        Not so where a source is repeated: blocks that go on with its first elements behind its last are copies.
        """
        return self.numbered_at is None and self.order(0).is_one_run

    def block_kind(self) -> BlockKind | None:
        kind = self.source.block_kind()
        return "gather" if kind == "view" and not self.is_contiguous else kind

    @property
    def element_size(self) -> ElementSize | None:
        return self.source.element_size

    @property
    def gives_views(self) -> bool:
        return self.source.gives_views and self.is_contiguous

    def footprint(self, sizes: Sizes) -> Footprint | None:
        upper = self.numbering(0)
        order = self.order(0).held_bytes + (0 if upper is None else upper.held_bytes)
        names = ", ".join(op.describe() for op in self.orders)
        on_indices = f"{names or 'in order'}: on indices, {format_bytes(order)}"
        if self.gives_views:
            return Footprint(order, f"{on_indices}; elements are views of your arrays", order)
        one = times(1, sizes.output, slots=True)
        below = self.source.footprint(sizes)
        reading = 0 if below is None else below.floor_bytes
        floor = None if one is None or reading is None else order + one + reading
        if below is None or not self.source.indexes_first:
            return Footprint(floor, f"{on_indices}; and one element on its way", floor)
        held = None if one is None or below.held_bytes is None else order + one + below.held_bytes
        return Footprint(held, f"{on_indices}; {below.reason}", floor)

    def open(self, context: Context) -> Cursor:
        reader = self.source.reader(context)
        found = self.source.found_elements  # now that there is a reader
        order, numbering = self.order(context.epoch, found), self.numbering(context.epoch, found)
        held = order.held_bytes + (0 if numbering is None else numbering.held_bytes)
        # Who makes a batch of each block gets what it asks for, or the batch could not be made at all.
        fitting = None if context.takes_whole_blocks or self.gives_views else context.transit.fitting
        try:
            lease = context.share.acquire(held)
        except BaseException:
            close_reader(reader)
            raise
        return IndexCursor(reader, order, numbering, lease, fitting)

    def describe(self) -> str:
        orders = "".join(f".{op.describe()}" for op in self.orders)
        return f"read {self.source.describe()}{f' in order {orders}' if orders else ''}"
