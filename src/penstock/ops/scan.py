"""scan: a function of each element and of a state that it hands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed, Structure, detach, dtype_of, is_dataset, nbytes_of, normalize, read_only
from ..errors import BadType, PenstockError, SpecMismatch
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

    Memory: one state.
    State: the state itself, one integer and its input's.

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
        return Footprint(held, "one state, the next one, and one element on its way", held)

    def open(self, context: Context) -> Cursor:
        return _ScanCursor(context, self._initial, self.scan_func)

    def describe(self) -> str:
        return f"scan({describe(spec_of(self._initial))}, {show(self.scan_func)})"


class _ScanCursor(UnaryCursor):
    __slots__ = (
        "_context",
        "_dtypes",
        "_function",
        "_held_bytes",
        "_packed",
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
        self._keep(initial)

    def _keep(self, value: Any) -> None:
        nbytes = nbytes_of(value)
        if nbytes > self._held_bytes:
            self._context.share.charge(nbytes - self._held_bytes)
        elif nbytes < self._held_bytes:
            self._context.share.discharge(self._held_bytes - nbytes)
        self._held_bytes = nbytes
        # Read-only: what was given for an element may be the state itself, and must not change with the next one.
        self._value = value if isinstance(value, np.generic) else self._structure.map(read_only, detach(value))
        self._packed: list[Any] | None = None

    def pull(self, n: int) -> Block | None:
        block = self.input.pull(self._transit.begin(n))
        if block is None:
            return None
        rows = [row if type(row) is Failed else self._step(row, self._place + i) for i, row in enumerate(block.rows())]
        self._transit.add(sum(map(nbytes_of, rows)), len(rows))
        self._place += block.size
        return Block.of_rows(rows)

    def _step(self, row: Any, place: int) -> Any:
        try:
            value, result = self._called(row)
        except PenstockError as error:
            return Failed(self._context.located(error))
        except Exception as error:
            return Failed(self._context.noted(error, place))
        self._keep(value)
        return result

    def _called(self, row: Any) -> tuple[Any, Any]:
        pair = self._function(self._value, row)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise BadType(f"scan_func: expected a pair of state and result, got {type(pair).__name__} {pair!r:.60}")
        given = self._value, row
        value, result = owned(normalize(pair[0]), given), owned(normalize(pair[1]), given)
        if type(result) in (tuple, dict) and not Structure.of(result).num_leaves:
            raise BadType("scan_func: expected a result with at least one component, got none")
        if type(value) is not type(self._value) or not isinstance(value, np.generic):
            self._check(value)
        return value, result

    def _check(self, value: Any) -> None:
        if [dtype_of(leaf) for leaf in self._structure.flatten(value)] != self._dtypes:
            raise SpecMismatch(
                f"scan_func: expected a state like {describe(spec_of(self._value))}, got {describe(spec_of(value))}: "
                "dtypes must stay as they are"
            )

    def state(self) -> State:
        if self._packed is None:
            self._packed = pack(self._value)
        return [self._place, self._packed, self.input.state()]

    def restore(self, state: State) -> None:
        self._place, packed, below = expect_list(state, 3)
        self._keep(unpack(self._structure, packed))
        self.input.restore(below)

    def close(self) -> None:
        self._context.share.discharge(self._held_bytes)
        self._held_bytes = 0
        self.input.close()
