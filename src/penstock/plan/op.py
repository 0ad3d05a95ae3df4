"""Op: one operator with the user's arguments.

An Op is a frozen dataclass, one file each. It answers `spec` (what comes out, given what goes in), `traits` (what rules
may ask), `footprint` (what it holds), and runs in exactly one way: as a random-access source (`reader`), as arithmetic
on an Order (`bind_order`), as a function of blocks (`element_function`), or as a cursor (`open`).

The smallest operator::

    @dataclass(frozen=True)
    class Negate(Op):
        def spec(self, inputs):
            return inputs[0]

        @property
        def traits(self):
            return Traits(runtime="elementwise", one_to_one=True, pure=True)

        def element_function(self, context):
            return lambda block, place: Block.of_rows([-row for row in block.rows()])
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from ..block import Block
from ..cursor import Cursor
from ..errors import BadArgument, BadType, PenstockError
from ..options import AUTOTUNE
from ..order import Index, Order
from ..spec import Spec
from .footprint import ElementSize, Footprint, Sizes
from .traits import CURSOR, Traits

if TYPE_CHECKING:
    from ..memory.arena import Arena
    from ..memory.joint import Kept
    from ..memory.ledger import Share
    from ..memory.spill import SpillSpace
    from ..memory.transit import Transit
    from .node import Node, Origin

__all__ = [
    "BlockKind",
    "Context",
    "ElementFunction",
    "Op",
    "OrderOf",
    "Progress",
    "Reader",
    "Room",
    "argument",
    "call_with_room",
    "show",
]

#: How a source makes many elements at once: a view of the user's arrays, one gather, or from nothing.
BlockKind = Literal["view", "gather", "computed"]

#: The order of one epoch.
OrderOf = Callable[[int], Order]


class ElementFunction(Protocol):
    """A function of blocks; `place` is the place of the first element in the operator's input."""

    def __call__(self, block: Block, place: int) -> Block: ...


class Room(Protocol):
    """Counts the bytes of what a function makes, one element after the other."""

    is_of_part: bool  # whether the block is likely a part of a batch only, and is copied there
    takes_all: bool  # whether all of it is to be made: nobody asks for the rest

    def add(self, nbytes: int, count: int = 1) -> bool:
        """Puts some elements on the account; whether there is room for more."""


def call_with_room(function: ElementFunction, block: Block, place: int, room: Room | None) -> Block:
    """Calls a function of blocks. One that makes elements one by one may stop when there is no more room for them."""
    stopping = getattr(function, "until_full", None)
    return function(block, place) if stopping is None or room is None else stopping(block, place, room)


class Reader(Protocol):
    """Random access to a source."""

    def read(self, index: Index) -> Block:
        """The elements at these indices, as columns: a view where the index is a slice and the source allows it."""


class Crew(Protocol):
    """Threads that share the work on one block."""

    def each(self, make: Callable[[int], bool], count: int) -> int:
        """Calls `make` with 0, 1, … until one call says no; returns how many there were, each of which is done."""


class Counts(Protocol):
    """What a stage counts, for `stats()`."""

    num_elements: int
    num_bytes: int
    #: Of one element, the largest so far.
    largest_bytes: int


class Progress(Protocol):
    """Shows how far something is that takes long."""

    def advance(self, n: int) -> None:
        """n more elements are done."""

    def close(self) -> None:
        """It is over; a second call does nothing."""


class Context(Protocol):
    """What an operator gets when it is opened: its inputs, its part of the budget, and services of the run."""

    node: Node
    epoch: int
    arena: Arena
    share: Share
    spill: SpillSpace
    deterministic: bool
    #: Whether the consumer makes a batch of each block as it comes.
    takes_whole_blocks: bool

    @property
    def crew(self) -> Crew | None:
        """The threads of an operator that `fills`."""

    @property
    def transit(self) -> Transit:
        """The account of what this stage makes and gives away."""

    def input(self, index: int = 0, epoch: int | None = None) -> Cursor:
        """Opens an input; each call opens it anew."""

    def input_uncounted(self, index: int = 0) -> tuple[Cursor, Counts]:
        """Opens an input whose elements the caller counts itself: for who makes whole batches of its blocks."""

    def open_dataset(self, dataset: Any, *key: int, account: int = 0) -> Cursor:
        """Opens a dataset that a user's function returned; seeds that nobody chose follow from the key.

        What its stages make is on one account with all such datasets, which must be read in turn then, or on this one.
        """

    def settle_account(self, account: int) -> None:
        """Nothing that was made on this account is on its way any more."""

    def close_accounts(self) -> None:
        """All datasets that were opened are closed, and no other will be."""

    def read_dataset(self, dataset: Any, most: int) -> Block | None:
        """All elements of a dataset that is a source of at most so many, or some of its elements, or one batch of it.

        None if it is not, and must be opened.
        """

    def dataset_of(self, rows: list[Any]) -> Any:
        """A dataset of elements that lie in memory."""

    def dataset_of_stack(self, column: np.ndarray, spec: Spec) -> Any:
        """A dataset of elements that lie in memory stacked, each one leaf; the array must be nobody else's."""

    def load(self, path: str, reader_func: Callable[[Any], Any] | None) -> Any:
        """The dataset that was saved in a directory."""

    def run_ahead(self, cursor: Cursor, num_elements: int, account: int | None = None) -> Cursor:
        """The same elements, made ready by a thread before they are asked for; then on no `account` of their makers."""

    def progress(self, what: str, total: int) -> Progress:
        """A progress bar for something that takes long; `total` below 0 where it is not known."""

    def count_failed(self, file: str, num_elements: int) -> None:
        """Notes that so many elements of a file could not be read, for `stats()`."""

    def located(self, error: PenstockError) -> PenstockError:
        """The error with this operator's name and the user's line in front."""

    def noted(self, error: Exception, place: int | None) -> Exception:
        """A user's exception, or ours on what a function met or returned, with a note: operator, element, line."""


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """Base of all operators."""

    #: Parameters that the optimizer sets, and users do not see.
    internal: ClassVar[tuple[str, ...]] = ()
    #: Parameters that change how fast it runs, and nothing else.
    tuning: ClassVar[tuple[str, ...]] = ("num_parallel_calls", "deterministic")
    #: Whether only a run can tell what comes out, whatever goes in: it is what a user's function returns.
    spec_is_hidden: ClassVar[bool] = False

    @classmethod
    def verb(cls) -> str:
        """The operator's name as users write it: `group_by_window` for `GroupByWindow`."""
        return _verb(cls.__name__)

    @property
    def name(self) -> str:
        return self.verb()

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        """What comes out, given what goes in. Raises where the inputs do not fit."""
        raise AssertionError(f"{type(self).__name__} does not say its spec")

    def spec_of_seen(self, inputs: Sequence[Spec]) -> Spec:
        """As `spec`, where all that is known of an input is its first element: others may have other shapes."""
        return self.spec(inputs)

    @property
    def traits(self) -> Traits:
        return CURSOR

    def footprint(self, sizes: Sizes) -> Footprint | None:
        """What it holds, given the sizes of elements around it; None for nothing."""
        return None

    #: What it keeps between runs, if it keeps anything.
    kept: ClassVar[Kept | None] = None
    #: The same operator where it gets no more than so many elements; None if it would hold no less.
    cut_to: ClassVar[Callable[[Any, int], Op | None] | None] = None
    #: Whether it may give elements that it has read from disk, where its input gives views of the user's arrays.
    gives_copies: ClassVar[bool] = False
    #: The largest element it gives, from those of its inputs, where its spec may leave a dimension open.
    output_size: ClassVar[Callable[[Any, list[ElementSize]], ElementSize] | None] = None

    @property
    def num_readings(self) -> int:
        """How many cursors over its input it has open at a time: each stage below holds so many times what it says."""
        return 1

    @property
    def element_size(self) -> ElementSize | None:
        """The size of a source's elements, where it knows more than its spec says: of strings of one length."""
        return None

    @property
    def gives_views(self) -> bool:
        """Whether what it gives takes no memory: read-only views of the user's arrays."""
        return False

    def placed_on(self, input: Node, origin: Origin) -> Node:
        """The plan with this operator on top, as the user wrote it there; `PlanError` if it cannot stand there."""
        return type(input)(self, (input,), origin)

    def file_shard(self, num_shards: int, index: int) -> Op | None:
        """This source, reading one of several equal parts of its files (`PlanError` if it reads none).

        None where elements are told apart by number.
        """
        raise BadArgument(f"by='file': expected a source of files below, got {self.name}; use by='element'")

    def placed_file_shard(self, node: Node, num_shards: int, index: int) -> Node | None:
        """The plan at `node`, which this operator is on top of, reading one of several equal parts of its files."""
        source = self.file_shard(num_shards, index)
        return None if source is None else node.with_op(source)

    def open(self, context: Context) -> Cursor:
        raise AssertionError(f"{type(self).__name__} does not run as a cursor")

    def element_function(self, context: Context) -> ElementFunction:
        raise AssertionError(f"{type(self).__name__} does not run as a function of blocks")

    def bind_order(self, inner: OrderOf, length: int) -> OrderOf:
        """The order of each epoch, given the input's and the number of elements that one has."""
        raise AssertionError(f"{type(self).__name__} does not run as an order")

    def reader(self, context: Context) -> Reader:
        raise AssertionError(f"{type(self).__name__} is not a random-access source")

    def read_all(self, context: Context) -> Block:
        """All elements of a source."""
        return self.reader(context).read(slice(0, self.num_elements))

    @property
    def num_elements(self) -> int:
        """How many elements a source has, found without making a spec; below 0 as in a spec."""
        return self.spec(()).cardinality

    @property
    def indexes_first(self) -> bool:
        """Whether a source must look for its elements before it can be read in any order but its own."""
        return False

    @property
    def found_elements(self) -> int | None:
        """How many elements such a source has found; None before it has looked."""
        return None

    @property
    def gives_records(self) -> bool:
        """Whether its elements are byte strings of a format that a function is likely to parse."""
        return False

    @property
    def element_callable(self) -> Callable[..., Any] | None:
        """The user's function of one element, where the operator calls it on each and does nothing else."""
        return None

    @property
    def reading_may_fail(self) -> bool:
        """Whether a source's elements lie somewhere from where they may not come."""
        return False

    @property
    def class_names(self) -> Sequence[str] | None:
        """The names of a source's classes, in the order of their labels; None where it has no labels."""
        return None

    @property
    def held_bytes(self) -> int:
        """Bytes of elements that it carries in itself, and that are no arrays of the user's."""
        return 0

    @property
    def held_elements(self) -> Sequence[Any]:
        """Those elements, or what they are rows of: several sources may carry the same ones."""
        return ()

    #: Whether it gives those very elements: they are on the account of who holds its dataset, as long as that is read.
    gives_what_it_holds: ClassVar[bool] = False

    @property
    def array_bytes(self) -> int:
        """Bytes of the arrays that a source gives its elements of, whoever else holds them."""
        return 0

    @property
    def absorbed(self) -> tuple[Op, ...]:
        """Operators that the optimizer has put into this one."""
        return ()

    # What rules ask; most operators leave these as they are.

    @property
    def counts_successes(self) -> bool:
        """Whether how far it goes depends on which elements fail further up (a `take` that was moved)."""
        return False

    def is_noop(self, spec: Spec) -> bool:
        """Whether it gives its input as it is, for an input of this spec."""
        return False

    def merged_with(self, inner: Node) -> Op | None:
        """One operator that does what this one on top of `inner` does, or None."""
        return None

    def moves_below(self, op: Op) -> bool:
        """Whether this order operator may move below that one-to-one operator."""
        return self.traits.moves_below_map

    def moved_below(self, op: Op) -> Op:
        """This order operator as it must be below `op` to mean what it meant above."""
        return self

    def by_places(self) -> Op:
        """This operator, counting places where it would count what succeeds."""
        return self

    @property
    def batches_of(self) -> tuple[int, bool] | None:
        """How many elements it makes each batch of, its `batch_size`, and whether a last one with fewer is left out."""
        return None

    def in_batches_of(self, size: int, drop_remainder: bool) -> Op:
        """This operator, knowing that what it gives is put into such batches."""
        return self

    @property
    def part(self) -> tuple[int, int] | None:
        """Into how many parts it divides its input, and from which place on, where it gives one of several parts."""
        return None

    @property
    def part_index(self) -> int | None:
        """Which of these parts it gives."""
        return None

    def from_place(self, start: int) -> Op:
        """Such an operator, dividing what is there from a place on."""
        raise AssertionError(f"{type(self).__name__} does not divide its input")

    def telling_failures(self) -> Op:
        """This operator, telling a `take` below it how many elements failed here; itself if none ever does."""
        return self

    def numbered(self) -> Op | None:
        """This keyed operator, knowing elements by the numbers they carry; None if it does already."""
        raise AssertionError(f"{type(self).__name__} is not keyed")

    def block_kind(self) -> BlockKind | None:
        """How this source makes a block of many elements at once; None where it cannot without failures."""
        return None

    def taking_blocks(self, kind: BlockKind) -> Op | None:
        """This operator, taking its input's blocks whole as they are made; None if it does already, or cannot."""
        return None

    def collating(self) -> Op | None:
        """This operator, stacking what it makes as it makes it; None if it does already, or cannot."""
        return None

    def filling(self, size: int) -> Op | None:
        """This operator, making results in threads that share the slot of a batch of so many; None if it should not."""
        return None

    @property
    def most_at_once(self) -> int:
        """How many elements it makes one batch of; 0 if it makes no batches."""
        return 0

    @property
    def regrouping(self) -> tuple[int, bool] | None:
        """How many rows of the batches it takes apart it puts into one (0: each is an element), dropping the remainder.

        None where it does something else.
        """
        return None

    def only_batch(self, block: Block) -> Block | None:
        """The one batch it makes of an input that is all in this block; None where that takes a cursor."""
        return None

    def needs_random_access(self, spec: Spec) -> bool:
        """Whether, as an order, it must reach any place of the order below at any time."""
        return False

    def remark(self) -> str:
        """What the optimizer made of it, in few words, for the plan that runs."""
        return ""

    def fingerprint(self) -> str:
        """The operator with all that decides what it gives: two pipelines with equal ones share saved positions."""
        if type(self).describe is not Op.describe:
            return self.describe()
        return self._text(hidden=(*self.internal, *self.tuning))

    def describe(self) -> str:
        """The operator as one line of a plan: name and the arguments that were given."""
        return self._text(hidden=self.internal)

    def _text(self, hidden: tuple[str, ...]) -> str:
        shown: list[str] = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.repr and field.name not in hidden and not (value is field.default and shown):
                tuned = value == AUTOTUNE and field.name in ("num_parallel_calls", "buffer_size", "cycle_length")
                text = "AUTOTUNE" if tuned else show(value)
                shown.append(f"{field.name}={text}" if shown else text)
        return f"{self.name}({', '.join(shown)})"


@functools.cache
def _verb(class_name: str) -> str:
    """`GroupByWindow` as `group_by_window`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


def show(value: Any) -> str:
    """An argument in few characters."""
    if callable(value):
        kind: Any = type(value)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if not isinstance(name, str):  # what an object of others says of itself may be another in each process
            is_told = kind.__module__.startswith("penstock.") and kind.__str__ is not object.__str__
            name = str(value) if is_told else kind.__name__
        return name.rsplit("<locals>.", 1)[-1].replace("<lambda>", "λ")
    if isinstance(value, np.ndarray):
        return f"{'×'.join(map(str, value.shape))} {value.dtype}"
    text = f"{value:,}".replace(",", "_") if type(value) is int else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def argument(name: str, value: Any, *, at_least: int | None = None) -> int:
    """An integer argument, checked: Python or NumPy integers, 0-d arrays of them, nothing else."""
    if type(value) is int and (at_least is None or value >= at_least):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        numpy = getattr(value, "numpy", None)  # a framework's integer scalar
        if numpy is not None and isinstance(numpy(), (int, np.integer)):
            return argument(name, numpy(), at_least=at_least)
        raise BadType(f"{name}: expected an integer, got {type(value).__name__} {value!r}")
    if at_least is not None and value < at_least:
        raise BadArgument(f"{name}: expected at least {at_least}, got {value}")
    return int(value)
