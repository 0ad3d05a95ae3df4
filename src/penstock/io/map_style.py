"""Anything with a length and numbered items as a source: what `from_torch` and `from_hf` read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..block import Block
from ..cursor import Cursor
from ..element import Failed, Structure, nbytes_of, normalize
from ..ending import Ended
from ..errors import BadType
from ..indexed import IndexCursor
from ..order import Index, RangeOrder
from ..owned import owned
from ..plan.footprint import Footprint, Sizes, one_element
from ..plan.op import Context, Op, Reader
from ..plan.traits import SOURCE, Traits
from ..spec import UNSEEN, Spec

__all__ = ["FromMapStyle"]


@dataclasses.dataclass(frozen=True, eq=False)
class FromMapStyle(Op):
    """The items of a sequence that makes each when it is asked for it, in any order that is asked for.

    Memory: nothing but the items asked for.
    State: one integer.
    """

    items: Any
    num_items: int
    convert: Callable[[Any], Any] | None = dataclasses.field(default=None, kw_only=True)
    made_by: str = dataclasses.field(default="items", kw_only=True)
    #: Makes it again in another process; None: items are pickled as they are.
    remake: functools.partial[Op] | None = dataclasses.field(default=None, kw_only=True)

    internal: ClassVar[tuple[str, ...]] = ("convert", "made_by", "remake")

    @property
    def name(self) -> str:
        return self.made_by

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self.remake is None else (self.remake, ())

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN, self.num_items)

    @property
    def traits(self) -> Traits:
        return SOURCE

    @property
    def num_elements(self) -> int:
        return self.num_items

    @property
    def reading_may_fail(self) -> bool:
        return True

    def footprint(self, sizes: Sizes) -> Footprint:
        return one_element(sizes.output, "item")

    def reader(self, context: Context) -> Reader:
        return _ItemReader(self.items, self.convert, context)

    def open(self, context: Context) -> Cursor:
        return IndexCursor(self.reader(context), RangeOrder(self.num_items))

    def describe(self) -> str:
        return f"{self.name}({self.num_items:,} of {type(self.items).__name__})"


class _ItemReader:
    """Asks for items one by one: how large they are is not known, and they must fit."""

    def __init__(self, items: Any, convert: Callable[[Any], Any] | None, context: Context) -> None:
        self._items = items
        self._convert = convert
        self._context = context

    def read(self, index: Index) -> Block:
        places = range(index.start, index.stop) if isinstance(index, slice) else index.tolist()
        transit = self._context.transit
        rows = []
        ending = self._context.share.ending
        for place in places[: transit.begin(len(places))]:
            if ending.is_near:
                raise Ended
            row = self._item(place)
            rows.append(row)
            if not transit.add(nbytes_of(row)):
                break
        return Block.of_rows(rows)

    def _item(self, place: int) -> Any:
        try:
            item = self._items[place]
            element = owned(normalize(item if self._convert is None else self._convert(item)))
            if not Structure.of(element).num_leaves:
                raise BadType("expected at least one component, got none: an element must hold something")
            return element
        except Exception as error:
            return Failed(self._context.noted(error, place))
