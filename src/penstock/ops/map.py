"""map: a function of each element."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block, concat_blocks
from ..element import Failed, Structure, normalize
from ..errors import SpecMismatch
from ..owned import owned
from ..plan.footprint import Footprint, Sizes, of_calls, times
from ..plan.node import Node, Origin
from ..plan.op import Context, ElementFunction, Op, Room, show
from ..plan.traits import Traits
from ..spec import UNSEEN, Spec
from .calling import Calls, as_result, call, check_callable, check_parallel_calls
from .filling import FillingCalls, decodes_images, is_worth_filling

__all__ = ["Map"]


# What most maps answer, those inside `flat_map` too.
_PLAIN = Traits(runtime="elementwise", one_to_one=True, pure=True)


@dataclasses.dataclass(frozen=True)
class Map(Op):
    """Applies `map_func` to each element.

    A tuple element is unpacked into arguments; a list that is returned becomes a tuple of components. The function is
    taken to be one of its element only, which lets shuffles and other changes of order move past it.

    Args:
        map_func: The function. Arrays that it returns are taken as they are: it must make a new one for each element,
            and not fill one of its own again.
        num_parallel_calls: Threads that call it; `AUTOTUNE` chooses from measured rates. None: the caller's thread. A
            thread is handed a millisecond's worth of elements at a time: of small ones that cost little this may be
            more than was asked for, though never more in flight than were delivered so far, or 8,192.
        deterministic: Whether parallel calls keep the order of elements. None leaves it to the options. False is a
            permission: below an operator that reads its input again to resume (a stream's shuffle) the order is kept.
        vectorized: `map_func` gets whole arrays with a leading axis, and returns such.
        stateful: The function keeps state between calls: it is called in order, one at a time, and nothing moves past.

    Memory: nothing between pulls; with parallel calls, num_parallel_calls × the elements of a call. Where images are
        decoded for a batch, the batch, and the next one in a slot that is free.
    State: its input's.

    >>> import penstock as ps
    >>> list(ps.Dataset.range(3).map(lambda x: x * 10))
    [np.int64(0), np.int64(10), np.int64(20)]
    """

    map_func: Callable[..., Any]
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    vectorized: bool = dataclasses.field(default=False, kw_only=True)
    stateful: bool = dataclasses.field(default=False, kw_only=True)
    into_slot: bool = dataclasses.field(default=False, kw_only=True)
    fills: int = dataclasses.field(default=0, kw_only=True)
    telling: bool = dataclasses.field(default=False, kw_only=True)

    spec_is_hidden = True
    internal: ClassVar[tuple[str, ...]] = ("into_slot", "fills", "telling")

    def __post_init__(self) -> None:
        check_callable("map_func", self.map_func)
        check_parallel_calls(self, self.num_parallel_calls)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN, inputs[0].cardinality)

    @functools.cached_property
    def traits(self) -> Traits:
        if self.num_parallel_calls is None and not self.stateful and not self.telling:
            return _PLAIN
        parallel = 0 if self.num_parallel_calls is None or self.stateful else self.num_parallel_calls
        return Traits(
            runtime="elementwise",
            one_to_one=True,
            pure=not self.stateful,
            num_parallel_calls=parallel,
            deterministic=self.deterministic,
            tells_failures=self.telling,
            fills=self.fills,
        )

    @property
    def element_callable(self) -> Callable[..., Any] | None:
        return None if self.vectorized or self.stateful else self.map_func

    def telling_failures(self) -> Op:
        return dataclasses.replace(self, telling=True)

    def footprint(self, sizes: Sizes) -> Footprint:
        calls = of_calls(self.traits.num_parallel_calls, sizes)
        if self.fills:
            batch, one = times(self.fills, sizes.output, slots=True), times(1, sizes.output)
            # At least the one that is being made, and the one before it, which waits.
            floor = None if calls.floor_bytes is None or one is None else calls.floor_bytes + one
            held = None if batch is None else 2 * batch
            return Footprint(held, "the batch that is being made, and the next one in a slot that is free", floor)
        stacked = times(1, sizes.input, slots=True)
        if not self.vectorized or calls.floor_bytes is None or stacked is None:
            return calls
        held = None if calls.held_bytes is None else calls.held_bytes + stacked
        return Footprint(held, f"{calls.reason}, and what goes in, stacked", calls.floor_bytes + stacked)

    def remark(self) -> str:
        if self.fills:
            return "decoded straight into the batch"
        if not self.into_slot:
            return ""
        return "small results stacked as they are made" if self.traits.num_parallel_calls else "into the batch's slot"

    def collating(self) -> Op | None:
        if self.into_slot or self.vectorized or self.fills:
            return None
        return dataclasses.replace(self, into_slot=True)

    def filling(self, size: int) -> Op | None:
        parallel = self.traits.num_parallel_calls
        if not parallel or self.vectorized or self.telling or self.into_slot or self.fills:
            return None
        if not is_worth_filling(parallel, size) or not decodes_images(self.map_func):
            return None
        return dataclasses.replace(self, fills=size)

    def merged_with(self, inner: Node) -> Op | None:
        other = inner.op
        if not isinstance(other, Map) or self.stateful or other.stateful:
            return None
        if self._manner() != other._manner():
            return None
        return dataclasses.replace(self, map_func=Composed(other.map_func, inner.origin, self.map_func))

    def _manner(self) -> tuple[Any, ...]:
        """All but the function: maps that agree in it can be one."""
        return (self.num_parallel_calls, self.deterministic, self.vectorized, self.telling)

    def element_function(self, context: Context) -> ElementFunction:
        if self.vectorized:
            return _VectorizedCall(self.map_func, context)
        if self.fills:
            return FillingCalls(self.map_func, context, self.fills)
        return Calls(self.map_func, context, self.into_slot)


@dataclasses.dataclass(frozen=True)
class Composed:
    """One function after another, as two maps would call them."""

    first: Callable[..., Any]
    origin: Origin
    then: Callable[..., Any]

    def __call__(self, *parts: Any) -> Any:
        try:
            between = self.first(*parts)
        except Exception as error:
            error.add_note(f"in map({show(self.first)}) at {self.origin}")
            raise
        return call(self.then, between if isinstance(between, np.number) else as_result(between, parts))

    @property
    def decodes_images(self) -> bool:
        return decodes_images(self.first) or decodes_images(self.then)

    def __str__(self) -> str:
        return f"{show(self.first)} then {show(self.then)}"


class _VectorizedCall:
    """Calls a function on whole columns."""

    def __init__(self, function: Callable[..., Any], context: Context) -> None:
        self._function = function
        self._context = context

    def __call__(self, block: Block, place: int) -> Block:
        if block.columns is None and not block.has_failures:
            stacked = concat_blocks([block], self._context.arena.empty)
            if stacked is not None:
                stacked.positions = block.positions
                block = stacked
        if block.columns is None:
            return self._singly(block, place)
        try:
            return self._columns(block)
        except Exception as error:
            if block.size > 1:  # which element it was must not depend on how many were asked for
                return self._singly(block, place)
            return Block.of_rows([Failed(self._context.noted(error, place))], block.positions, True)

    def until_full(self, block: Block, place: int, room: Room) -> Block:
        """The whole block: a function of arrays cannot stop half-way."""
        result = self(block, place)
        room.add(self._context.arena.unaccounted_bytes(result), result.size)
        return result

    def _columns(self, block: Block) -> Block:
        given = block.as_element()
        result = call(self._function, given)
        element = owned(normalize(tuple(result) if isinstance(result, list) else result), given)
        structure = Structure.of(element)
        columns = structure.flatten(element)
        for column in columns:
            if not isinstance(column, np.ndarray) or len(column) != block.size:
                shape = getattr(column, "shape", type(column).__name__)
                raise SpecMismatch(
                    f"a vectorized function got {block.size} elements and must return arrays with a leading axis "
                    f"of {block.size}, got {shape}"
                )
        return Block.of_columns(structure, columns, block.size, block.positions)

    def _singly(self, block: Block, place: int) -> Block:
        """Calls with one element at a time, each an array of one."""
        results: list[Any] = []
        for i, row in enumerate(block.rows()):
            if type(row) is Failed:
                results.append(row)
                continue
            structure = Structure.of(row)
            columns = [_alone(leaf) for leaf in structure.flatten(row)]
            one = self(Block.of_columns(structure, columns, 1), place + i)
            results.extend(one.rows())
        return Block.of_rows(results, block.positions)


def _alone(leaf: Any) -> np.ndarray:
    if type(leaf) is bytes:
        return np.array([leaf], dtype=object)
    return np.asarray(leaf)[np.newaxis]
