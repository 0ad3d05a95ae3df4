"""Lowering: from a plan to open cursors.

Each node becomes one stage: a cursor with a meter and a share of the ledger. Which kind of cursor it is follows from
the operator's traits alone. Datasets that users' functions return are opened here too; they count on the meter and the
share of the stage that asked for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cursor import Cursor
from ..errors import PenstockError
from ..io.rows import FromRows
from ..memory.arena import Arena
from ..memory.ledger import Ledger, Share
from ..plan.node import Node, located
from ..plan.settle import settled
from .backends.ahead import AheadCursor
from .backends.inline import InlineCursor
from .backends.threads import ParallelCursor
from .meter import Meter, MeteredCursor

__all__ = ["Stages"]


class Stages:
    """All that the stages of one run have in common, and the stages by node."""

    def __init__(
        self,
        ledger: Ledger,
        deterministic: bool,
        optimize: Callable[[Node], Node] | None,
        make_dataset: Callable[[Node], Any],
    ) -> None:
        self.ledger = ledger
        self.arena = Arena(ledger, ledger.share("batch slots"))
        self.deterministic = deterministic
        self.optimize = optimize
        self.make_dataset = make_dataset
        self.meters: dict[int, Meter] = {}
        self._shares: dict[int, Share] = {}
        self._keeps_order: set[int] = set()
        self._nodes: list[Node] = []  # keeps nodes alive, so that their ids stay theirs

    def open_plan(self, plan: Node, epoch: int) -> Cursor:
        """The cursor of a whole plan."""
        self._keeps_order = _nodes_that_keep_order(plan, keep=False)
        return self.open(plan, epoch)

    def may_reorder(self, node: Node) -> bool:
        """Whether a stage that is permitted to give up the order may do so and positions stay exact."""
        return id(node) not in self._keeps_order

    def open(self, node: Node, epoch: int, consumer: Meter | None = None, in_its_time: bool = True) -> Cursor:
        """The cursor of a stage and, through it, of all below it."""
        cursor, meter = self.open_uncounted(node, epoch)
        return MeteredCursor(cursor, node, meter, consumer, in_its_time)

    def open_uncounted(self, node: Node, epoch: int) -> tuple[Cursor, Meter]:
        """The bare cursor of a stage, and its meter, which is left to whoever pulls."""
        meter = self.meters.get(id(node))
        if meter is None:
            meter = self.meters[id(node)] = Meter(node.op.describe())
            self._shares[id(node)] = self.ledger.share(node.op.name)
            self._nodes.append(node)
        return _cursor_of(_Context(self, node, epoch, self._shares[id(node)], meter)), meter

    def open_nested(self, node: Node, epoch: int, host: _Context) -> Cursor:
        """The cursor of a dataset that the host stage works with."""
        return _cursor_of(_NestedContext(self, node, epoch, host.share, host.meter))


class _Context:
    """What an operator gets when it is opened (`plan.op.Context`)."""

    def __init__(self, stages: Stages, node: Node, epoch: int, share: Share, meter: Meter) -> None:
        self.stages = stages
        self.node = node
        self.epoch = epoch
        self.share = share
        self.meter = meter
        self.arena = stages.arena
        self.deterministic = stages.deterministic
        self.detached = False
        self.may_reorder = stages.may_reorder(node)

    def input(self, index: int = 0, epoch: int | None = None) -> Cursor:
        epoch = self.epoch if epoch is None else epoch
        return self.stages.open(self.node.inputs[index], epoch, self.meter, in_its_time=not self.detached)

    def input_uncounted(self, index: int = 0) -> tuple[Cursor, Meter]:
        return self.stages.open_uncounted(self.node.inputs[index], self.epoch)

    def open_dataset(self, dataset: Any, epoch: int | None = None) -> Cursor:
        node = settled(dataset.node)
        if self.stages.optimize is not None:
            node = self.stages.optimize(node)
        return self.stages.open_nested(node, self.epoch if epoch is None else epoch, self)

    def dataset_of(self, rows: list[Any]) -> Any:
        return self.stages.make_dataset(Node(FromRows(rows), (), self.node.origin))

    def run_ahead(self, cursor: Cursor, num_elements: int) -> Cursor:
        return AheadCursor(cursor, num_elements, self.share, self.arena, self.meter)

    def located(self, error: PenstockError) -> PenstockError:
        return located(error, self.node.op.name, self.node.origin)

    def noted(self, error: Exception, place: int | None) -> Exception:
        element = "" if place is None else f", element {place}"
        error.add_note(f"in {self.node.op.describe()} at {self.node.origin}{element}")
        if isinstance(error, ValueError) and "read-only" in str(error):
            error.add_note("elements in order are read-only views of your arrays: copy one before changing it")
        return error


class _NestedContext(_Context):
    """A context below another stage: it has no meter or share of its own, and keeps the order for the other's sake."""

    def __init__(self, stages: Stages, node: Node, epoch: int, share: Share, meter: Meter) -> None:
        super().__init__(stages, node, epoch, share, meter)
        self.may_reorder = False

    def input(self, index: int = 0, epoch: int | None = None) -> Cursor:
        return self.stages.open_nested(self.node.inputs[index], self.epoch if epoch is None else epoch, self)

    def input_uncounted(self, index: int = 0) -> tuple[Cursor, Meter]:
        return self.input(index), Meter("nested")


def _cursor_of(context: _Context) -> Cursor:
    op = context.node.op
    traits = op.traits
    if traits.run_ahead:
        context.detached = True
        return context.run_ahead(context.input(), traits.run_ahead)
    if traits.runtime != "elementwise":
        return op.open(context)
    function = op.element_function(context)
    if not traits.num_parallel_calls:
        return InlineCursor(context.input(), function, traits)
    ordered = context.deterministic if traits.deterministic is None else traits.deterministic
    ordered = ordered or not context.may_reorder
    context.detached = True
    return ParallelCursor(context.input, function, traits, ordered, context.share, context.arena, context.meter)


def _nodes_that_keep_order(node: Node, keep: bool) -> set[int]:
    """Stages below an operator that may read its input again to resume: again must mean in the same order.

    Operators that hand blocks on as they come, or make one element of each block, never do.
    """
    traits = node.op.traits
    passes_on = traits.runtime == "elementwise" or traits.collates or bool(traits.run_ahead)
    passes_on = passes_on or (traits.runtime == "order" and not traits.draws_places)
    found = {id(node)} if keep else set()
    for child in node.inputs:
        found |= _nodes_that_keep_order(child, keep or not passes_on)
    return found
