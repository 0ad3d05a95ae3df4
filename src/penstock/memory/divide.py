"""How a budget is divided: what each stage of a plan needs, and whether the budget has it.

Floors are summed before anything runs. What they leave is slack, for which stages that can use more may try while they
run (`memory/ledger.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

from ..errors import BudgetTooSmall, PenstockError
from ..plan.footprint import ElementSize, Footprint, Measured, Sizes
from ..plan.labels import Branch, stage_labels
from ..plan.node import Node, located
from ..plan.seeds import is_random
from ..spec import UNKNOWN
from .ledger import format_bytes

__all__ = ["Division", "Need", "divide"]

_NOTHING = Footprint(0, "")


@dataclasses.dataclass(frozen=True)
class Need:
    """What one stage needs."""

    node: Node
    footprint: Footprint
    #: Whether sizes were measured on a sample, or are not known at all.
    estimated: bool
    #: What a call of its function was seen to take beside its result; None where that was not measured.
    temporary_bytes: int | None = None
    #: What one element takes that goes into it; 0 where that is not known.
    input_bytes: int = 0
    #: How many cursors of it are open at a time.
    num_cursors: int = 1
    #: Its line in the plan as that is drawn, and the branch that it is on.
    line: int = 0
    branch: Branch = ()

    @property
    def name(self) -> str:
        return self.node.op.name

    @property
    def floor_bytes(self) -> int:
        """What is set aside for it: no more than is known where the size of its elements is not."""
        floor = self.footprint.floor_bytes
        return self.footprint.known_bytes if floor is None else floor


@dataclasses.dataclass(frozen=True)
class Division:
    """What the stages of a plan need, sources first."""

    needs: tuple[Need, ...]

    @property
    def minimum_bytes(self) -> int:
        """The smallest budget that works, as far as sizes are known."""
        return max(1, sum(need.floor_bytes for need in self.needs))

    @property
    def complete(self) -> bool:
        """Whether the size of everything is known, or was measured."""
        return all(need.footprint.floor_bytes is not None for need in self.needs)

    @property
    def estimated(self) -> bool:
        """Whether anything rests on a sample, or is not known."""
        return any(need.estimated for need in self.needs)

    @functools.cached_property
    def as_drawn(self) -> tuple[Need, ...]:
        """The same in the order of a plan that is drawn: who reads before what is read, the first input first."""
        return tuple(sorted(self.needs, key=lambda need: need.line))

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """What to call the stages, in the order as drawn: no two of them the same."""
        return tuple(stage_labels([(need.node, need.branch) for need in self.as_drawn]))

    def check(self, budget_bytes: int) -> None:
        """Refuses a budget that the floors do not fit in."""
        if self.minimum_bytes <= budget_bytes:
            return
        need, budget = format_bytes(self.minimum_bytes), format_bytes(budget_bytes)
        if need == budget:
            need, budget = f"{self.minimum_bytes:,} B", f"{budget_bytes:,} B"
        raise BudgetTooSmall(
            f"the stages need at least {need} and the budget is {budget}:\n{self._table()}\n"
            f"use memory={self.minimum_bytes:_} or more"
        )

    def refused_by_pool(self, total_bytes: int, others_bytes: int, others_floor_bytes: int) -> BudgetTooSmall:
        """Why a pool has no room for the floors: its size, and what other open runs hold and need of it."""
        need = self.minimum_bytes
        others = "no other run is open"
        if others_bytes:
            others = f"other open runs and caches hold {others_bytes:,} B, of which runs need {others_floor_bytes:,} B"
        return BudgetTooSmall(
            f"the stages need at least {need:,} B, and the pool that runs share is {total_bytes:,} B; {others}:\n"
            f"{self._table()}\n"
            f"use ps.set_memory({others_bytes + need:_}) or more, or memory={need:_} or more for this run alone"
            f"{', or close another run first' if others_bytes else ''}"
        )

    def _table(self) -> str:
        rows = [row for row in zip(self.labels, self.as_drawn, strict=True) if row[1].floor_bytes]
        width = max(len(label) for label, _ in rows)
        return "\n".join(
            f"  {label:<{width}}  {format_bytes(need.floor_bytes):>8}  {need.footprint.reason}" for label, need in rows
        )


def divide(plan: Node, measured: Callable[[Node], Measured] = lambda node: Measured()) -> Division:
    """What each stage of a plan needs.

    `measured(node)` is what a stage was seen to give and to hold; it is asked where specs leave a size open.
    """
    return Division(tuple(_Dividing(measured).needs_of(plan, 1, ())))


class _Dividing:
    """What was found out of the stages of a plan so far.

    No functions in a function: those that know themselves stay until garbage is collected, with all that was measured.
    """

    def __init__(self, measured: Callable[[Node], Measured]) -> None:
        self._measured = measured
        self._sizes_by_node: dict[int, ElementSize | None] = {}
        self._lines = itertools.count()

    def needs_of(self, node: Node, num_cursors: int, branch: Branch) -> Iterator[Need]:
        line = next(self._lines)
        for i, child in enumerate(node.inputs, 1):
            below = (*branch, i) if len(node.inputs) > 1 else branch
            yield from self.needs_of(child, num_cursors * node.op.num_readings, below)
        yield self._need_of(node, num_cursors, line, branch)

    def _size_of(self, node: Node) -> ElementSize | None:
        if id(node) not in self._sizes_by_node:
            inputs, seen = list(map(self._size_of, node.inputs)), self._measured(node)
            self._sizes_by_node[id(node)] = (
                _size_from_inputs(node, inputs, seen)
                or node.op.element_size
                or ElementSize.of_spec(node.spec.element)
                or _size_as_seen(node, inputs, seen, list(map(self._measured, node.inputs)))
            )
        return self._sizes_by_node[id(node)]

    def _count_of(self, node: Node) -> int:
        known, seen = node.spec.cardinality, self._measured(node).num_elements
        return seen if known == UNKNOWN and seen is not None else known

    def _need_of(self, node: Node, num_cursors: int, line: int, branch: Branch) -> Need:
        sizes = Sizes(
            tuple(map(self._size_of, node.inputs)),
            self._size_of(node),
            tuple(map(self._count_of, node.inputs)),
            tuple(child.spec.element for child in node.inputs),
            self._measured(node).held_bytes,
            tuple(child.op.block_kind() is not None for child in node.inputs),
            self._measured(node).needed_bytes,
            all(self._measured(child).num_elements is not None and not is_random(child) for child in node.inputs),
            self._measured(node).staying_bytes,
        )
        try:
            footprint = node.op.footprint(sizes)
        except PenstockError as error:  # of files that it looks at
            raise located(error, node.op.name, node.origin) from error.__cause__
        if footprint is not None and num_cursors > 1:
            footprint = footprint.multiplied(num_cursors)
        around: Sequence[ElementSize | None] = (*sizes.inputs, sizes.output)
        estimated = footprint is not None and not all(size is not None and size.exact for size in around)
        input_bytes = max([size.nbytes for size in sizes.inputs if size is not None], default=0)
        temporary_bytes = self._measured(node).temporary_bytes
        return Need(node, footprint or _NOTHING, estimated, temporary_bytes, input_bytes, num_cursors, line, branch)


def _size_as_seen(
    node: Node, inputs: list[ElementSize | None], seen: Measured, inputs_seen: list[Measured]
) -> ElementSize | None:
    """What was seen of it; more where another order brings larger elements to it than those that came."""
    if not seen.element_bytes:
        return None
    largest = seen.element_bytes
    if is_random(node):
        pairs = [(sum(size.leaves), of.element_bytes) for size, of in zip(inputs, inputs_seen, strict=True) if size]
        if node.op.spec_is_hidden:  # nobody knows what a function makes of a larger one; as much of each byte, say
            growth = [largest * nbytes // came for nbytes, came in pairs if 0 < came < nbytes]
        else:  # elements as they came: of a shuffle that was not read to its end some are still to come
            is_ended = all(of.num_elements is not None for of in [seen, *inputs_seen])
            is_ended = is_ended and node.op.traits.runtime != "order"  # another order may bring what was passed over
            growth = [nbytes for nbytes, came in pairs if not is_ended or nbytes > came]
        largest = max([largest, *growth])
    return ElementSize((largest,), exact=False, typical_bytes=seen.typical_bytes)


def _size_from_inputs(node: Node, inputs: list[ElementSize | None], seen: Measured) -> ElementSize | None:
    """What follows from the sizes of what goes in, which may say more than the spec."""
    if node.op.gives_views:
        known = ElementSize.of_spec(node.spec.element)
        return None if known is None else dataclasses.replace(known, is_view=True)
    sizes = [size for size in inputs if size is not None]
    if not sizes or len(sizes) < len(inputs) or node.op.spec_is_hidden:
        return None
    if node.op.output_size is not None:
        size = node.op.output_size(sizes)
        if seen.element_bytes > size.nbytes and not size.exact:  # padded to a shape, with elements of an unknown type
            return ElementSize((seen.element_bytes,), exact=False, typical_bytes=seen.typical_bytes)
        # It is for the worst of all batches: one in which all elements are as large as any. In the next epoch of a
        # shuffle there may be such a one.
        is_sampled = seen.needed_bytes and seen.element_bytes and not size.exact and not is_random(node)
        return size.at_most(seen.element_bytes) if is_sampled else size
    # Elements as they came; of those that no spec tells anything of, what was seen tells more.
    is_better_seen = seen.element_bytes and not node.spec.seen
    if not is_better_seen and all(child.spec.element == node.spec.element for child in node.inputs):
        joined = functools.reduce(ElementSize.joined, sizes)
        return joined.as_copy() if node.op.gives_copies else joined
    return None
