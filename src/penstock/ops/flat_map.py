"""flat_map: a dataset of each element, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..cursor import Cursor
from ..order import draw_seed
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op
from ..plan.traits import NESTS, Traits
from ..spec import UNSEEN, Spec
from .calling import check_callable
from .nested import CycleCursor

__all__ = ["FlatMap"]


@dataclasses.dataclass(frozen=True)
class FlatMap(Op):
    """Makes a dataset of each element, and gives the elements of these datasets one after the other.

    Args:
        map_func: A function of an element that returns a dataset. A tuple element is unpacked into arguments.

    Memory: the element whose dataset is being read, and what that dataset holds, arrays included that nobody else has.
    State: its input's before that element, and the dataset's.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(4).flat_map(lambda x: ps.Dataset.range(x))]
    [0, 0, 1, 0, 1, 2]
    """

    map_func: Callable[..., Any]
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False, kw_only=True)
    seed: ClassVar[None] = None

    spec_is_hidden = True

    def __post_init__(self) -> None:
        check_callable("map_func", self.map_func)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN)

    @property
    def gives_records(self) -> bool:
        return getattr(self.map_func, "gives_records", False)

    @property
    def traits(self) -> Traits:
        return NESTS

    def footprint(self, sizes: Sizes) -> Footprint:
        into, one = times(1, sizes.input), times(1, sizes.output)
        held = sizes.at_least_as_seen(None if into is None or one is None else into + one)
        return Footprint(held, "the element of which a dataset was made, and one of that dataset's", held)

    def open(self, context: Context) -> Cursor:
        return CycleCursor(context, self.map_func, self.drawn)
