"""Lowering: from a plan to open cursors.

Each node becomes one stage: a cursor with a meter and a share of the ledger. Which kind of cursor it is follows from
the operator's traits alone. Datasets that users' functions return are opened here too; they count on the meter and the
share of the stage that asked for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import forked
from ..block import Block
from ..cursor import Cursor
from ..errors import PenstockError
from ..io.rows import FromRows, FromStack
from ..memory.arena import Arena, Slots
from ..memory.array_memory import ArrayMemory
from ..memory.divide import Division, divide
from ..memory.ledger import Ledger, Share
from ..memory.pressure import Pressure
from ..memory.transit import Transit
from ..order import Index, RangeOrder
from ..plan.footprint import Measured
from ..plan.node import Node, located
from ..plan.op import Op
from ..plan.seeds import seeded_by
from ..plan.settle import settled
from ..plan.traits import COLLATES, SOURCE
from ..spec import Spec
from .accounts import Account, Accounts
from .advice import advice
from .backends.ahead import AheadCursor
from .backends.crew import Crew
from .backends.filling import FillingCursor
from .backends.inline import InlineCursor
from .backends.threads import ParallelCursor
from .channel import Boundary
from .first_needs import SeenNeed, keep_first_needs
from .meter import Meter, MeteredCursor
from .order_kept import nodes_that_keep_order
from .progress import ProgressBar
from .report import memory_of, stats_of
from .settings import Settings

__all__ = ["Stages"]

_COUNTING = forked.lock()


class Stages:
    """All that the stages of one run have in common, and the stages by node."""

    def __init__(self, ledger: Ledger, settings: Settings, make_dataset: Callable[[Node], Any]) -> None:
        self.ledger = ledger
        self.slots = Slots(ledger)
        self.arrays = ArrayMemory(ledger)
        self.spill = settings.make_spill_space()
        self.deterministic = settings.deterministic
        self.optimize = settings.optimize
        self.shows_progress = settings.progress
        self.make_dataset = make_dataset
        self.pressure = Pressure(ledger.budget_bytes, lambda: ledger.charged_bytes, self.arrays.keep_some)
        self.meters: dict[int, Meter] = {}
        self.shares: dict[int, Share] = {}
        self.accounts = Accounts()
        self._keeps_order: set[int] = set()
        self._plan: Node | None = None
        self._sampled_by_node = settings.measured_by_node
        self.nodes: list[Node] = []  # keeps nodes alive, so that their ids stay theirs

    def open_plan(self, plan: Node, division: Division, epoch: int, *, keep_order: bool) -> Cursor:
        """The cursor of a whole plan; what each stage needs at least is set aside before any is opened."""
        self._plan = plan
        self._keeps_order = nodes_that_keep_order(plan, keep_order)
        stores = {id(store): store for node in plan.walk() if (store := node.op.kept) is not None}  # each once
        floor_bytes = sum(need.floor_bytes for need in division.needs)
        if not self.ledger.set_aside(floor_bytes, lambda keeper: sum(s.left_to(keeper) for s in stores.values())):
            raise division.refused_by_pool(self.ledger.aim_bytes, *self.ledger.held_by_others())
        for need in division.as_drawn:
            node = need.node
            self.shares[id(node)] = self.ledger.share(node.op.name, need.floor_bytes)
            self.shares[id(node)].num_cursors = need.num_cursors
            meter = self.meters[id(node)] = Meter(node.op.describe(), looks_at_all=self.ledger.frugal)
            meter.temporary_bytes, meter.ending = need.temporary_bytes, self.ledger.ending
            self.nodes.append(node)
        for node in self.nodes:
            if node.op.kept is not None:
                node.op.kept.count_on(self.shares[id(node)])
        self.ledger.counts_kept()
        self.pressure.begin(self.ledger.charged_bytes + self.ledger.held_by_others()[0])
        self.ledger.watch = self.pressure.watch_heap
        return self.open(plan, epoch, Boundary(None), branch=0)

    def look_at_pressure(self) -> None:
        """Lets who can do with less know whether the system is short of memory."""
        short = self.pressure.is_on()
        if short and not self.ledger.under_pressure:
            self.ledger.let_go(self.ledger.budget_bytes)
        elif self.ledger.should_give_way:
            self.ledger.give_way()
        self.ledger.under_pressure = short

    def advice(self, refused: Share, one_bytes: int) -> int | None:
        """The smallest budget that works, as far as can be told; `one_bytes` were refused for one thing."""
        if self._plan is None:
            return None
        return advice(self._plan, self.ledger, self.shares, self.meters, self._measured, refused, one_bytes)

    def needs(self) -> list[tuple[Share, int]]:
        """What each stage needs at least to go on with elements as large as were seen so far."""
        return [(need.share, need.nbytes) for need in self._needs()]

    def _needs(self) -> list[SeenNeed]:
        if self._plan is None:
            return []
        sampled_of = self._sampled_by_node(self._plan)

        def measured(node: Node) -> Measured:
            sampled, seen = sampled_of(node), self._measured(node)
            if 0 < sampled.element_bytes >= seen.element_bytes:
                return sampled  # which its floor rests on
            # By the size of elements alone: what it held so far is on the ledger, and may be more than it needs.
            return seen._replace(held_bytes=0, num_elements=None)

        division = divide(self._plan, measured)
        return [SeenNeed.of(need, self.shares[id(need.node)]) for need in division.needs]

    def keep_first_needs(self) -> None:
        """The first element is there, and tells what stages need: no less is left to each where the budget is small."""
        self.ledger.is_untried = False
        keep_first_needs(self.ledger, self._needs())

    def measured(self) -> tuple[Measured, ...]:
        """What each stage of the plan gave and held so far, sources first."""
        return () if self._plan is None else tuple(map(self._measured, self._plan.walk()))

    def _measured(self, node: Node) -> Measured:
        meter, share = self.meters[id(node)], self.shares[id(node)]
        # A sample may end before all datasets are open that may be at a time.
        peak_bytes = share.peak_of_all_bytes if self.ledger.frugal and not meter.ended else share.peak_bytes
        largest_bytes = meter.largest_bytes
        if self.ledger.frugal or not meter.num_elements:  # a branch of which little was read, or that a cache is for
            twins = [twin for twin in self.nodes if twin == node and self.meters[id(twin)].num_elements]
            if twins:
                fullest = max([self.meters[id(twin)] for twin in twins], key=lambda twin: twin.largest_bytes)
                largest_bytes = fullest.largest_bytes
            if twins and not meter.num_elements:
                meter, peak_bytes = fullest, max([self.shares[id(twin)].peak_bytes for twin in twins])
        seen = Measured(largest_bytes, peak_bytes, meter.temporary_bytes, node.op.name)
        seen = seen._replace(staying_bytes=share.staying_bytes)
        if meter.ended:
            seen = seen._replace(num_elements=meter.num_elements)
        if self.ledger.frugal:
            seen = seen._replace(typical_bytes=meter.typical_bytes, needed_bytes=peak_bytes)
        return seen

    def stats(self) -> dict[str, Any]:
        """What the stages did, and what they hold."""
        return stats_of(self)

    def memory(self) -> dict[str, Any]:
        """The ledger by stage, and the process as the system sees it."""
        return memory_of(self)

    def close(self) -> None:
        """Gives back what is on nobody's hands any more."""
        self.accounts.close()
        self.slots.close()
        self.arrays.close()
        self.spill.close()
        self.ledger.close()
        self.pressure.end()

    def may_reorder(self, node: Node) -> bool:
        """Whether a stage that is permitted to give up the order may do so and positions stay exact."""
        return id(node) not in self._keeps_order

    def open(
        self,
        node: Node,
        epoch: int,
        boundary: Boundary,
        branch: int,
        consumer: Meter | None = None,
        in_its_time: bool = True,
    ) -> Cursor:
        """The cursor of a stage and, through it, of all below it."""
        context = self._context(node, epoch, boundary, branch)
        return MeteredCursor(_cursor_of(context), node, context.meter, consumer, in_its_time)

    def open_uncounted(
        self, node: Node, epoch: int, boundary: Boundary, branch: int, arena: Arena
    ) -> tuple[Cursor, Meter]:
        """The bare cursor of a stage for who takes its blocks whole, and its meter, which is left to that one."""
        context = self._context(node, epoch, boundary, branch)
        context.takes_whole_blocks = True
        context.arena = arena  # what it makes is that one's batch
        return _cursor_of(context), context.meter

    def _context(self, node: Node, epoch: int, boundary: Boundary, branch: int) -> _Context:
        share = self.shares[id(node)]
        return _Context(self, node, epoch, share, Arena(self.slots, share), self.meters[id(node)], boundary, branch)

    def open_nested(
        self, node: Node, epoch: int, host: _Context, depth: int, account: Account, branch: int = 0
    ) -> Cursor:
        """The cursor of a dataset that the host stage works with."""
        return _cursor_of(_NestedContext(self, node, epoch, host, depth, account, branch))


class _Places(NamedTuple):
    """Which elements of a source an order operator gives, kept for the next small dataset: most are like the last."""

    op: Op
    length: int
    num_places: int
    places: Index


# A dataset of more elements than this is not read at once in any order but its own.
_FEW_PLACES = 1024


class _Context:
    """What an operator gets when it is opened (`plan.op.Context`)."""

    detached = False
    takes_whole_blocks = False
    crew: Crew | None = None
    #: What is on its way to a thread of this stage's own, and on the same share.
    makers: Account | None = None
    _num_opened = 0  # of its readings
    _places: _Places | None = None

    def __init__(
        self,
        stages: Stages,
        node: Node,
        epoch: int,
        share: Share,
        arena: Arena,
        meter: Meter,
        boundary: Boundary,
        branch: int,
    ) -> None:
        self.stages = stages
        self.node = node
        self.epoch = epoch
        self.share = share
        self.arena = arena
        self.meter = meter
        self.boundary = boundary
        #: Which way leads here from the top of the plan: a node may be read in several places at a time.
        self.branch = branch
        self.spill = stages.spill
        self.deterministic = stages.deterministic

    @property
    def transit(self) -> Transit:
        return self.stages.accounts.of_stage(self.share, self.branch).transit(self.node, 0, self.branch)

    @property
    def may_reorder(self) -> bool:
        return self.stages.may_reorder(self.node)

    def input(self, index: int = 0, epoch: int | None = None) -> Cursor:
        epoch = self.epoch if epoch is None else epoch
        node, branch = self.node.inputs[index], self._branch_of(index)
        return self.stages.open(node, epoch, self.boundary, branch, self.meter, in_its_time=not self.detached)

    def _branch_of(self, index: int) -> int:
        num_readings, num_inputs = self.node.op.num_readings, len(self.node.inputs)
        num_ways = num_readings * num_inputs
        if num_ways == 1:
            return self.branch
        if num_readings > 1:  # each has elements on their way at a time
            index += num_inputs * (self._num_opened % num_readings)
            self._num_opened += 1
        return 1 + self.branch * num_ways + index

    def input_uncounted(self, index: int = 0) -> tuple[Cursor, Meter]:
        node, branch = self.node.inputs[index], self._branch_of(index)
        return self.stages.open_uncounted(node, self.epoch, self.boundary, branch, self.arena)

    def open_dataset(self, dataset: Any, *key: int, account: int = 0) -> Cursor:
        node = dataset.node
        if node.op.traits is SOURCE and not node.op.reading_may_fail:
            cursor: Cursor = node.op.open(self)  # needs nothing of its own
            return cursor
        if node.has_any(_is_unsettled):
            node = settled(seeded_by(node, *key))
        if self.stages.optimize is not None and node.inputs and not _is_plain(node):
            node = self.stages.optimize(node)
        return self.stages.open_nested(node, self.epoch, self, 1, self._account_of(account))

    def settle_account(self, account: int) -> None:
        self._account_of(account).settle()

    def close_accounts(self) -> None:
        pass  # those of a stage serve its next cursor

    def _account_of(self, number: int) -> Account:
        return self.stages.accounts.of_stage(self.share, self.branch, number + 1)

    def read_dataset(self, dataset: Any, most: int) -> Block | None:
        node, batch = dataset.node, None
        if node.inputs:
            batch = node.op
            traits = batch.traits
            if traits is not COLLATES:
                return self._read_in_order(node, most) if traits.runtime == "order" else None
            node, most = node.inputs[0], batch.most_at_once
        source = node.op
        if source.traits is not SOURCE:
            return None
        if not 0 < source.num_elements <= most:
            return None
        context = self
        if source.reading_may_fail:  # and then it is named
            context = _NestedContext(self.stages, node, self.epoch, self, 1, self._account_of(0))
        block: Block = source.read_all(context)
        if block.size < source.num_elements:  # there is no room for all at once
            return None
        return block if batch is None else batch.only_batch(block)

    def _read_in_order(self, node: Node, most: int) -> Block | None:
        """The same for some elements of a source (`repeat`, `take`, …)."""
        op, source = node.op, node.inputs[0].op
        if source.traits is not SOURCE or source.reading_may_fail:
            return None
        length, known = source.num_elements, self._places
        if known is None or known.length != length or known.op != op:
            if length < 0 or op.traits.draws_places:
                return None
            in_order = RangeOrder(length)
            order = op.bind_order(lambda epoch: in_order, length)(self.epoch)
            if not 0 < order.length <= min(most, _FEW_PLACES):
                return None
            known = self._places = _Places(op, length, int(order.length), order.slice(0, int(order.length)))
        if known.num_places > most:
            return None
        block: Block = source.reader(self).read(known.places)
        return block if block.size == known.num_places else None

    def dataset_of(self, rows: list[Any]) -> Any:
        node = Node(FromRows(rows), (), self.node.origin)
        node.spec  # noqa: B018  refuses what cannot be in one dataset
        return self.stages.make_dataset(node)

    def dataset_of_stack(self, column: np.ndarray, spec: Spec) -> Any:
        return self.stages.make_dataset(Node(FromStack(column, spec), (), self.node.origin, spec))

    def load(self, path: str, reader_func: Callable[[Any], Any] | None) -> Any:
        from ..io.saved import Load  # not before it is needed: neither is for most pipelines
        from .load import loaded

        return loaded(Load(path), reader_func, self.stages.make_dataset, self.node.origin)

    def run_ahead(self, cursor: Cursor, num_elements: int, account: int | None = None) -> Cursor:
        boundary = self.boundary if self.detached else Boundary(self.boundary)
        makers = self.makers if account is None else self._account_of(account)
        return AheadCursor(cursor, num_elements, self.share, self.arena, self.meter, boundary, self.spill, makers)

    def progress(self, what: str, total: int) -> ProgressBar:
        return ProgressBar(f"{self.node.op.name}: {what}", None if total < 0 else total, self.stages.shows_progress)

    def detach(self) -> None:
        """From here on inputs are pulled by a thread of this stage's own."""
        self.detached = True
        self.boundary = Boundary(self.boundary)

    def count_failed(self, file: str, num_elements: int) -> None:
        failed = self.meter.failed_by_file
        with _COUNTING:  # threads of one stage count together
            failed[file] = failed.get(file, 0) + num_elements

    def located(self, error: PenstockError) -> PenstockError:
        return located(error, self.node.op.name, self.node.origin)

    @cached_property
    def _whereabouts(self) -> str:
        """Operator and line of the user's, as errors name them; kept, because where one element fails many may."""
        return f"{self.node.op.describe()} at {self.node.origin}"

    def noted(self, error: Exception, place: int | None) -> Exception:
        if isinstance(error, PenstockError):
            self.located(error)
        element = "" if place is None else f", element {place}"
        error.add_note(f"in {self._whereabouts}{element}")
        if isinstance(error, ValueError) and "read-only" in str(error):
            error.add_note("elements in order are read-only views of your arrays: copy one before changing it")
        return error


class _NestedContext(_Context):
    """A context below another stage: it has no meter or share of its own, and keeps the order for the other's sake.

    `depth` is how far it stands above the source of its dataset. Datasets that are read in turn, one at a time, have an
    account in common; not so what stands below threads of theirs, and datasets within them: of these there may be
    several at a time.
    """

    def __init__(
        self, stages: Stages, node: Node, epoch: int, host: _Context, depth: int, account: Account, branch: int = 0
    ) -> None:
        super().__init__(stages, node, epoch, host.share, host.arena, host.meter, host.boundary, branch)
        self.depth = depth
        self.account = account
        self._inner: dict[int, Account] = {}

    @property
    def transit(self) -> Transit:
        return self.account.transit(self.node, self.depth, self.branch)

    def _account_of(self, number: int) -> Account:
        if number not in self._inner:
            self._inner[number] = self.stages.accounts.of_cursor(self.share)
        return self._inner[number]

    def close_accounts(self) -> None:
        while self._inner:
            self.stages.accounts.forget(self._inner.popitem()[1])

    def detach(self) -> None:
        super().detach()
        accounts = self.stages.accounts
        self.account = self.makers = account = accounts.of_cursor(self.share)
        self.boundary.on_close = lambda: accounts.forget(account)

    @property
    def may_reorder(self) -> bool:
        return False

    def input(self, index: int = 0, epoch: int | None = None) -> Cursor:
        epoch = self.epoch if epoch is None else epoch
        node, branch = self.node.inputs[index], self._branch_of(index)
        return self.stages.open_nested(node, epoch, self, self.depth + 1, self.account, branch)

    def input_uncounted(self, index: int = 0) -> tuple[Cursor, Meter]:
        return self.input(index), Meter("nested")


def _cursor_of(context: _Context) -> Cursor:
    op = context.node.op
    if context.stages.ledger.frugal:
        from .temporaries import measuring  # not before it is needed: few runs are samples

        op = measuring(op, context.meter)
    traits = op.traits
    if traits.run_ahead:
        context.detach()
        return context.run_ahead(context.input(), traits.run_ahead)
    if traits.runtime != "elementwise":
        try:
            return op.open(context)
        except PenstockError as error:  # what it needs at once has no room
            context.located(error)
            raise
    if traits.fills:
        context.crew = Crew(traits.num_parallel_calls, context.meter)
    function = op.element_function(context)
    if not traits.num_parallel_calls:
        return InlineCursor(context.input(), function, traits, context.transit)
    ordered = context.deterministic if traits.deterministic is None else traits.deterministic
    ordered = ordered or not context.may_reorder
    context.detach()
    live = any(node.op.traits.live for node in context.node.walk())
    share, arena, meter = context.share, context.arena, context.meter
    if context.crew is not None:
        inner = InlineCursor(context.input(), function, traits, context.transit)
        boundary, spill = context.boundary, context.spill
        return FillingCursor(inner, context.crew, traits.fills, share, arena, meter, boundary, spill, live)
    boundary, spill, makers = context.boundary, context.spill, context.makers
    num_elements = context.node.input.spec.cardinality
    return ParallelCursor(
        context.input, function, traits, ordered, share, arena, meter, boundary, live, spill, num_elements, makers
    )


def _is_unsettled(op: Op) -> bool:
    """Whether a plan with this operator may have to be seeded or settled."""
    return hasattr(op, "drawn") or op.traits.draws_places


def _is_plain(node: Node) -> bool:
    """Whether there is nothing to gain by rewriting a small plan: a function of a source's elements, or some of them.

    Asking the rules would take longer than reading it. An order that draws places is worth a rewrite: it would hold
    elements.
    """
    traits = node.op.traits
    is_one_step = len(node.inputs) == 1 and node.inputs[0].op.traits is SOURCE
    return is_one_step and (traits.runtime == "elementwise" or (traits.runtime == "order" and not traits.draws_places))
