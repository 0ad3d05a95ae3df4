"""interleave: datasets made of elements, several of them in turn."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..cursor import Cursor
from ..errors import BadArgument
from ..options import AUTOTUNE
from ..order import draw_seed
from ..plan.footprint import Footprint, Sizes, several, times
from ..plan.node import Node
from ..plan.op import Context, Op, argument
from ..plan.traits import NESTS, Traits
from ..spec import UNSEEN, Spec
from .calling import check_callable
from .nested import CycleCursor

__all__ = ["Interleave"]


@dataclasses.dataclass(frozen=True)
class Interleave(Op):
    """Makes a dataset of each element, and takes `block_length` elements from each of `cycle_length` of them in turn.

    Args:
        map_func: A function of an element that returns a dataset. A tuple element is unpacked into arguments.
        cycle_length: Datasets that are read in turn. None leaves it to the number of processors, as tf.data does: give
            a number where the order must be the same on every machine.
        block_length: Elements to take from one before the next has its turn; 1 unless given.
        num_parallel_calls: Datasets that are read ahead by a thread each. `AUTOTUNE` gives a thread to every dataset
            whose elements take long to make. None: all in the caller's thread. The order is the same.
        deterministic: Accepted for tf.data's sake; the order is always that of reading without threads.

    Memory: cycle_length elements and what their datasets hold, arrays included that nobody else has; with threads also
        the elements that these made ready.
    State: for each of the cycle_length datasets its own, and its input's before the element of which it was made.

    >>> import penstock as ps
    >>> tens = ps.Dataset.range(10, 40, 10)
    >>> [int(x) for x in tens.interleave(lambda x: ps.Dataset.range(x, x + 3), cycle_length=2)]
    [10, 20, 11, 21, 12, 22, 30, 31, 32]
    """

    map_func: Callable[..., Any]
    cycle_length: int | None = None
    block_length: int | None = None
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False, kw_only=True)
    seed: ClassVar[None] = None

    spec_is_hidden = True

    def __post_init__(self) -> None:
        check_callable("map_func", self.map_func)
        if self.block_length is not None:
            object.__setattr__(self, "block_length", argument("block_length", self.block_length, at_least=1))
        for name in ("cycle_length", "num_parallel_calls"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        cycle, calls = self.cycle_length, self.num_parallel_calls
        if cycle is not None and calls is not None and AUTOTUNE not in (cycle, calls) and calls > cycle:
            raise BadArgument(
                f"num_parallel_calls: expected AUTOTUNE or at most the cycle_length of {cycle}, got {calls}: there are "
                "no more datasets to read at a time"
            )

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN)

    @property
    def gives_records(self) -> bool:
        return getattr(self.map_func, "gives_records", False)

    def placed_file_shard(self, node: Node, num_shards: int, index: int) -> Node | None:
        """Each of the files that are read in turn may be another's, or shared: their opener knows them."""
        file_shard = getattr(self.map_func, "file_shard", None)
        if file_shard is None:
            return super().placed_file_shard(node, num_shards, index)
        files, opener = file_shard(num_shards, index)
        return type(node)(dataclasses.replace(self, map_func=opener), (files,), node.origin)

    @property
    def traits(self) -> Traits:
        return NESTS

    def footprint(self, sizes: Sizes) -> Footprint:
        num_open = self._cycle() if sizes.count < 0 else min(self._cycle(), max(1, sizes.count))
        into, one = several(num_open, sizes.input), times(1, sizes.output)
        held = sizes.at_least_as_seen(None if into is None or one is None else into + one)
        return Footprint(held, f"the elements of which {num_open:,} datasets were made, and one of theirs", held)

    def open(self, context: Context) -> Cursor:
        block, calls = self.block_length or 1, self.num_parallel_calls or 0
        return CycleCursor(context, self.map_func, self.drawn, self._cycle(), block, calls)

    def _cycle(self) -> int:
        """How many datasets are read in turn: what tf.data takes where it is left open."""
        if self.cycle_length not in (None, AUTOTUNE):
            return self.cycle_length
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_parallel_calls is None:
            return processors
        if self.num_parallel_calls == AUTOTUNE:
            return -(-processors // 3)
        return min(self.num_parallel_calls, processors)


def _number(name: str, value: Any) -> int | None:
    number = None if value is None else argument(name, value)
    if number is not None and number < 1 and number != AUTOTUNE:
        raise BadArgument(f"{name}: expected at least 1, or AUTOTUNE ({AUTOTUNE}), got {number}")
    return number
