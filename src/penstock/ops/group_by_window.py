"""group_by_window: elements grouped by key, each window of a group reduced to a dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import MANY_DTYPES, Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, BadType, OverBudget, PlanError, StateError
from ..leaf import is_dataset
from ..memory.ledger import Lease
from ..order import draw_seed
from ..plan.carried import carried_bytes
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, argument
from ..plan.traits import NESTS, Traits
from ..spec import INFINITE, UNKNOWN, UNSEEN, Spec, spec_of
from .calling import call, check_callable
from .carrying import Carrying
from .grouping import Group, Grouping, as_integer, least_held
from .nested import WHOLE_TURN
from .stacking import unlike
from .supply import is_live
from .weaving import joined, unnumbered

__all__ = ["GroupByWindow"]

_INT64 = np.iinfo(np.int64)


@dataclasses.dataclass(frozen=True)
class GroupByWindow(Op):
    """Groups elements by key, and gives what `reduce_func` makes of every `window_size` elements of a key.

    Windows come in the order in which they become full; at the end of the input those that did not, by ascending key.

    Args:
        key_func: The key of an element, one integer.
        reduce_func: Gets a key and a dataset of the elements of one window; returns the dataset to give instead.
        window_size: How many elements of one key make a window.
        window_size_func: How many, for a key. Exactly one of the two must be given.

    Memory: for each key that was seen up to window_size elements, and 400 bytes; about 240 for the objects around each.
    State: integers for each element held, and a position of its input from which they are read again.

    >>> import penstock as ps
    >>> ds = ps.Dataset.range(7).group_by_window(lambda x: x % 2, lambda key, window: window.batch(2), window_size=2)
    >>> [batch.tolist() for batch in ds]
    [[0, 2], [1, 3], [4, 6], [5]]
    """

    key_func: Callable[..., Any]
    reduce_func: Callable[[Any, Any], Any]
    window_size: int | None = None
    window_size_func: Callable[[Any], Any] | None = None
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False, kw_only=True)

    spec_is_hidden = True

    def __post_init__(self) -> None:
        check_callable("key_func", self.key_func)
        check_callable("reduce_func", self.reduce_func)
        if (self.window_size is None) == (self.window_size_func is None):
            which = "neither" if self.window_size is None else "both"
            raise BadArgument(f"expected either window_size or window_size_func, got {which}")
        if self.window_size is not None:
            object.__setattr__(self, "window_size", argument("window_size", self.window_size, at_least=1))
        else:
            check_callable("window_size_func", self.window_size_func)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN, INFINITE if inputs[0].cardinality == INFINITE else UNKNOWN)

    @property
    def traits(self) -> Traits:
        return NESTS

    def footprint(self, sizes: Sizes) -> Footprint | None:
        size = "window_size" if self.window_size is None else f"{self.window_size:,}"
        count = min(self.window_size or 1, max(1, sizes.count)) if sizes.count >= 0 else self.window_size or 1
        window = least_held(1, count, sizes.input)
        # What a window is reduced to lies beside it, and nobody knows how large that is before it was seen.
        floor = sizes.at_least_as_seen(window) if sizes.held_bytes else None
        return Footprint(None, f"up to {size} elements for each key", floor, known_bytes=window or 0)

    def open(self, context: Context) -> Cursor:
        return _GroupByWindowCursor(context, self)

    def key_of(self, row: Any) -> int:
        """The key of an element."""
        key = call(self.key_func, row)
        if type(key) is np.int64:
            return int(key)
        key = as_integer(key, "key_func")
        if not _INT64.min <= key <= _INT64.max:
            raise BadArgument(f"key_func: expected a key that int64 can hold, got {key}")
        return key

    def size_of(self, key: int) -> int:
        """How many elements make a window, for a key."""
        if self.window_size is not None:
            return self.window_size
        assert self.window_size_func is not None
        return as_integer(self.window_size_func(np.int64(key)), "window_size_func")


class _GroupByWindowCursor(Cursor):
    """Gives the elements of one reduced dataset after the other."""

    def __init__(self, context: Context, op: GroupByWindow) -> None:
        self._context = context
        self._reduce = op.reduce_func
        self._key = op.drawn
        self._grouping = Grouping(context, op.key_of, op.size_of, op.window_size or 1)
        self._carrying = Carrying(context, num_open=1)
        self._carried: Lease | None = None  # by the dataset that is being read
        self._group: Group | None = None
        self._num_windows = 0  # made so far, the one that is being read included
        self._inner: Cursor | None = None
        self._inner_live = False
        self._live = context.node.input.has_any(is_live)
        # Windows whose datasets were read at once: their elements may lie in what was given last.
        self._spent: list[Group] = []
        self._specs: dict[tuple[type, int], Spec] = {}

    def pull(self, n: int) -> Block | None:
        parts: list[Block] = []
        left = n
        self._release_spent()
        while left:
            if parts and (self._live if self._inner is None else self._inner_live):
                break  # the next may be long in coming, and what is here can be used
            if self._inner is not None:
                block = self._inner.pull(left if self._carried is None else self._carrying.few(left))
                if block is None:
                    self._leave()
                    continue
                if self._carried is not None:
                    block = self._carrying.owned(block)
            else:
                if self._spent and self._grouping.window_bytes(self._spent[-1]) > self._context.share.spare_bytes:
                    break  # there may be no room for another window beside those that what was gathered lies in
                group = self._grouping.next()
                if group is None:
                    break
                block = _failure(group) if isinstance(group, Failed) else self._enter(group, at_once=left)
                if block is None:
                    continue
            block = self._carrying.let_go(block)
            if block.size >= WHOLE_TURN and not parts:
                return unnumbered(block)
            parts.append(block)
            left -= block.size
        return joined(parts, self._context.arena.empty) if parts else None

    def _enter(self, group: Group, at_once: int = 0) -> Block | None:
        """Opens the dataset that a window is reduced to; a window of which none can be made is dropped.

        Gives a failure instead, or all elements of a dataset that is small enough to be read at once.
        """
        self._group = group
        self._num_windows += 1
        try:
            dataset = self._reduce(np.int64(group.key), self._window(group))
            if not is_dataset(dataset):
                raise BadType(f"reduce_func: expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
            self._carried = self._carrying.lease(carried_bytes(dataset, self._carrying.small_bytes), dataset.node)
            block = self._context.read_dataset(dataset, at_once) if at_once else None
            if block is not None and self._carried is not None and not self._carrying.has_room_to_own(block):
                block = None
            if block is not None:
                if self._carried is not None:
                    block = self._carrying.owned(block)
                    self._release_carried()
                self._spent.append(group)
                self._group = None
                return block
            self._inner = self._context.open_dataset(dataset, self._key, self._num_windows)
            self._inner_live = dataset.node.has_any(is_live)
            return None
        except OverBudget:  # no fault of the window's, which must not be dropped as if it were
            self._leave()
            raise
        except Exception as error:
            failed = Failed(self._context.noted(error, None))
        self._leave()
        return _failure(failed)

    def _window(self, group: Group) -> Any:
        rows = group.rows
        kind = type(rows[0])
        is_number = issubclass(kind, np.number) and rows[0].dtype.kind not in MANY_DTYPES
        if is_number and len(set(map(type, rows))) == 1:  # small ones: the stack is held instead
            group.forget_rows()
            spec = self._specs.get((kind, len(rows)))
            if spec is None:
                spec = self._specs[kind, len(rows)] = Spec(spec_of(rows[0]), len(rows))
            return self._context.dataset_of_stack(np.array(rows), spec)
        try:
            return self._context.dataset_of(rows)
        except PlanError:
            raise unlike(rows) from None

    def _leave(self) -> None:
        if self._inner is not None:
            self._inner.close()
        self._release_carried()
        if self._group is not None:
            self._grouping.release(self._group)
        self._group = self._inner = None

    def _release_carried(self) -> None:
        self._carrying.release(self._carried)
        self._carried = None

    def _release_spent(self) -> None:
        self._grouping.release(*self._spent)
        self._spent.clear()

    def skip(self, n: int) -> int:
        skipped = 0
        self._release_spent()
        while skipped < n:
            if self._inner is not None:
                step = self._inner.skip(n - skipped)
                skipped += step
                if skipped == n:
                    break
                self._leave()
            group = self._grouping.next()
            if group is None:
                break
            skipped += isinstance(group, Failed) or self._enter(group) is not None
        return skipped

    def state(self) -> State:
        below = None if self._inner is None else self._inner.state()
        return [self._grouping.state(self._group), self._num_windows, below]

    def restore(self, state: State) -> None:
        grouping, self._num_windows, below = expect_list(state, 3)
        group = self._grouping.restore(grouping)
        if group is None:
            return
        self._num_windows -= 1
        failed = self._enter(group)
        if failed is not None or self._inner is None:
            raise StateError(f"the window of key {group.key}, which was being read, can no longer be made")
        self._inner.restore(below)

    def close(self) -> None:
        self._leave()
        self._release_spent()
        self._carrying.close()
        self._grouping.close()
        self._context.close_accounts()


def _failure(failed: Failed) -> Block:
    return Block.of_rows([failed], has_failures=True)
