"""prefetch: elements made ready before they are asked for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from ..cursor import Cursor
from ..errors import BadArgument
from ..options import AUTOTUNE
from ..plan.footprint import Footprint, Sizes, times
from ..plan.op import Context, Op, argument
from ..plan.traits import Traits
from ..spec import Spec

__all__ = ["Prefetch"]


@dataclasses.dataclass(frozen=True)
class Prefetch(Op):
    """Lets a thread make up to `buffer_size` elements ready while the caller is busy with others.

    Elements that are quicker to make than to hand from thread to thread, which is found out by measuring, are made when
    they are asked for.

    Args:
        buffer_size: Elements (batches, after `batch`) to make ready. `AUTOTUNE` or None: begins with two, and more
            whenever the caller had to wait. 0: none, as if it were not there.

    Memory: buffer_size × the bytes of an element, as far as the budget allows; one at least.
    State: one integer and its input's; what is ready and was not asked for is made again.

    >>> import penstock as ps
    >>> [int(x) for x in ps.Dataset.range(3).prefetch(2)]
    [0, 1, 2]
    """

    buffer_size: int | None

    tuning = ("buffer_size",)

    def __post_init__(self) -> None:
        size = AUTOTUNE if self.buffer_size is None else argument("buffer_size", self.buffer_size)
        if size < 0 and size != AUTOTUNE:
            raise BadArgument(f"buffer_size: expected at least 0, or AUTOTUNE ({AUTOTUNE}), got {size}")
        object.__setattr__(self, "buffer_size", size)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return inputs[0]

    @functools.cached_property
    def traits(self) -> Traits:
        return Traits(one_to_one=True, pure=True, passes_columns=True, run_ahead=self.buffer_size or 0)

    def is_noop(self, spec: Spec) -> bool:
        return self.buffer_size == 0

    def footprint(self, sizes: Sizes) -> Footprint | None:
        if not self.buffer_size:
            return None
        each = times(1, sizes.input)
        held = None if each is None or self.buffer_size == AUTOTUNE else each * self.buffer_size
        count = "a chosen number of" if self.buffer_size == AUTOTUNE else f"{self.buffer_size:,}"
        return Footprint(held, f"{count} elements made ready, one at least", each)

    def open(self, context: Context) -> Cursor:
        return context.input()
