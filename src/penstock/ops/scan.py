"""scan: a function of each element and of a state that it hands on."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, Unwritten, expect_list, replay
from ..element import Failed, Structure, detach, nbytes_of, normalize, read_only
from ..ending import Ended
from ..errors import BadType, SpecMismatch
from ..leaf import dtype_of, is_dataset
from ..owned import owned
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op, show
from ..plan.traits import Traits
from ..spec import UNSEEN, Spec, describe, spec_of
from .calling import check_callable
from .packing import pack, unpack

__all__ = ["Scan"]


_TRAITS = Traits(one_to_one=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Op):
    """Calls `scan_func(state, element)`, which returns the next state and what to give for the element.

    The element is one argument, whatever its structure. States must agree with the initial one in structure and dtypes;
    shapes may change. A call that raises leaves the state as it was.

    Args:
        initial_state: The state for the first element: an array, a number, a string, or a nest of them.
        scan_func: The function. It gets the state read-only.

    Memory: one state; where there is room, an earlier one for saved positions.
    State: a state, two integers and its input's. A large state is up to 64 elements old, older where there is no room
        to keep one, and the function is called again for these.

    >>> import numpy as np, penstock as ps
    >>> [int(x) for x in ps.Dataset.range(5).scan(np.int64(0), lambda total, x: (total + x, total + x))]
    [0, 1, 3, 6, 10]
    """

    initial_state: Any
    scan_func: Callable[[Any, Any], Any]
    _initial: Any = dataclasses.field(init=False, repr=False)

    spec_is_hidden = True

    def __post_init__(self) -> None:
        check_callable("scan_func", self.scan_func)
        initial = normalize(self.initial_state)
        leaves = Structure.of(initial).flatten(initial)
        if not leaves or any(leaf is None or is_dataset(leaf) for leaf in leaves):
            raise BadType(f"initial_state: expected arrays, numbers or strings, got {self.initial_state!r:.60}")
        object.__setattr__(self, "_initial", initial)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN, inputs[0].cardinality)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def footprint(self, sizes: Sizes) -> Footprint:
        state, one = nbytes_of(self._initial), times(1, sizes.output)
        held = sizes.at_least_as_seen(None if one is None else 2 * state + one)
        return Footprint(held, "one state, the next one, and one element on its way", held, known_bytes=state)

    def open(self, context: Context) -> Cursor:
        return _ScanCursor(context, self._initial, self.scan_func)

    def describe(self) -> str:
        return f"scan({describe(spec_of(self._initial))}, {show(self.scan_func)})"


# States up to this size are kept for each position that is taken; of larger ones, one in so many elements.
_SMALL_BYTES = 4096
_APART = 64


class _Anchor(Unwritten):
    """The state before an element, from which later ones can be made again."""

    __slots__ = ("__weakref__", "below", "place", "value")

    def __init__(self, value: Any, place: int, below: State) -> None:
        self.value = value
        self.place = place
        self.below = below

    def written(self) -> State:
        return pack(self.value)


class _ScanCursor(UnaryCursor):
    """Positions refer to an anchor: taking one costs nothing, and those that wait in queues have few states in common.

    The first anchor is the initial state, which is the dataset's. Others are on the ledger for as long as a position
    refers to them, and made only where that leaves room for states that grow.
    """

    __slots__ = (
        "_anchor",
        "_context",
        "_dtypes",
        "_function",
        "_held_bytes",
        "_kept",
        "_owner",
        "_place",
        "_structure",
        "_transit",
        "_value",
    )

    def __init__(self, context: Context, initial: Any, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(context.input())
        self._context = context
        self._function = function
        self._structure = Structure.of(initial)
        self._dtypes = [dtype_of(leaf) for leaf in self._structure.flatten(initial)]
        self._place = 0
        self._transit = context.transit
        self._held_bytes = 0
        # The state as the function gets it, read-only, and the same arrays as it returned them.
        self._value: Any = None
        self._owner: Any = None
        self._keep(initial)
        self._anchor = _Anchor(self._structure.map(read_only, initial), 0, self.input.state())
        self._kept: list[tuple[weakref.ref[_Anchor], int]] = []  # anchors that are on the ledger, with their bytes

    def _keep(self, value: Any) -> None:
        nbytes = nbytes_of(value)
        if nbytes > self._held_bytes:
            self._context.share.charge(nbytes - self._held_bytes)
        elif nbytes < self._held_bytes:
            self._context.share.discharge(self._held_bytes - nbytes)
        self._held_bytes = nbytes
        # Read-only: what was given for an element may be the state itself, and must not change with the next one.
        # The last one goes first: where the new one is copied there are two of them, as there were in the function.
        self._value = self._owner = None
        if isinstance(value, np.generic):
            self._value = self._owner = value
            return
        self._owner = detach(value)
        self._value = self._structure.map(read_only, self._owner)

    def pull(self, n: int) -> Block | None:
        if self._kept:
            self._release_anchors()
        block = self.input.pull(self._transit.begin(n))
        if block is None:
            return None
        rows = [row if type(row) is Failed else self._step(row, self._place + i) for i, row in enumerate(block.rows())]
        self._transit.add(sum(map(nbytes_of, rows)), len(rows))
        self._place += block.size
        return Block.of_rows(rows)

    def _step(self, row: Any, place: int) -> Any:
        if self._context.share.ending.is_near:
            raise Ended
        try:
            value, result = self._called(row)
        except Exception as error:
            return Failed(self._context.noted(error, place))
        self._keep(value)
        return result

    def _called(self, row: Any) -> tuple[Any, Any]:
        pair = self._function(self._value, row)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise BadType(f"scan_func: expected a pair of state and result, got {type(pair).__name__} {pair!r:.60}")
        # Not the read-only state: that would pass for a window on an array of the user's, and what is given of a state
        # lives by the element alone once there is the next one.
        given = self._owner, row
        value, result = owned(self._kept_as(normalize(pair[0])), given), owned(normalize(pair[1]), given)
        if type(result) in (tuple, dict) and not Structure.of(result).num_leaves:
            raise BadType("scan_func: expected a result with at least one component, got none")
        if type(value) is not type(self._value) or not isinstance(value, np.generic):
            self._check(value)
        return value, result

    def _kept_as(self, value: Any) -> Any:
        """A new state in which what stays of the last one is as it was kept, and counts as that did."""
        if isinstance(value, np.generic):
            return value
        before = zip(self._structure.flatten(self._value), self._structure.flatten(self._owner), strict=True)
        owners = {id(leaf): owner for leaf, owner in before}
        return Structure.of(value).map(lambda leaf: owners.get(id(leaf), leaf), value)

    def _check(self, value: Any) -> None:
        if [dtype_of(leaf) for leaf in self._structure.flatten(value)] != self._dtypes:
            raise SpecMismatch(
                f"scan_func: expected a state like {describe(spec_of(self._value))}, got {describe(spec_of(value))}: "
                "dtypes must stay as they are"
            )

    def state(self) -> State:
        num_since = self._place - self._anchor.place
        if num_since >= _APART or (num_since and self._held_bytes <= _SMALL_BYTES):
            self._drop_anchor()
        anchor = self._anchor
        return [anchor.place, self._place - anchor.place, anchor, anchor.below]

    def _drop_anchor(self) -> None:
        nbytes, share = self._held_bytes, self._context.share
        self._release_anchors()
        # Only if it is free as it is: positions are taken under locks of those who work ahead.
        if nbytes > _SMALL_BYTES and not (share.free_bytes >= 2 * nbytes and share.charge_free(nbytes)):
            return
        self._anchor = _Anchor(self._value, self._place, self.input.state())
        if nbytes > _SMALL_BYTES:
            self._kept.append((weakref.ref(self._anchor), nbytes))

    def _release_anchors(self) -> None:
        """Takes those off the ledger to which no position refers any more."""
        for kept in [kept for kept in self._kept if kept[0]() is None]:
            self._kept.remove(kept)
            self._context.share.discharge(kept[1])

    def restore(self, state: State) -> None:
        self._place, num_since, saved, below = expect_list(state, 4)
        value = saved.value if isinstance(saved, _Anchor) else unpack(self._structure, saved)
        self._keep(value)
        self.input.restore(below)
        # Later positions refer to it, or where there is no room for it beside the next one, to the initial state.
        self._release_anchors()
        nbytes = self._held_bytes
        if nbytes <= _SMALL_BYTES or self._context.share.try_charge(nbytes):
            self._anchor = _Anchor(self._value, self._place, below)
            if nbytes > _SMALL_BYTES:
                self._kept.append((weakref.ref(self._anchor), nbytes))
        del value, saved, state
        replay(self, num_since)

    def close(self) -> None:
        self._context.share.discharge(self._held_bytes + sum(nbytes for _, nbytes in self._kept))
        self._held_bytes = 0
        self._kept.clear()
        self.input.close()
