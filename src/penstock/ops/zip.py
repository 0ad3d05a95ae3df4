"""zip: elements of several datasets side by side."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed, Structure
from ..errors import BadArgument, BadType, StateError
from ..leaf import is_dataset
from ..plan.footprint import ElementSize
from ..plan.op import Context, Op
from ..spec import INFINITE, UNKNOWN, UNSEEN, Spec

__all__ = ["Zip"]


@dataclasses.dataclass(frozen=True)
class Zip(Op):
    """Combines datasets element by element: element i has the i-th element of each, in the nest the datasets came in.

    It ends with the shortest. Inputs stay side by side whatever happens: where an element of one fails, its row fails,
    and the next row has the next element of each.

    Args:
        *args: Datasets, or nests of them; several are a tuple. A list is no nest: use a tuple.
        datasets: The same as one argument.

    Memory: nothing; where inputs give unequal numbers of elements at a time, what some gave beyond the others.
    State: one bit, and for each input an integer and its own.

    >>> import penstock as ps
    >>> ds = ps.Dataset.zip({"a": ps.Dataset.range(3), "b": ps.Dataset.range(7, 9)})
    >>> [{name: int(x) for name, x in row.items()} for row in ds]
    [{'a': 0, 'b': 7}, {'a': 1, 'b': 8}]
    """

    structure: Structure

    @classmethod
    def of(cls, *args: Any, datasets: Any = None) -> tuple[Zip, list[Any]]:
        """The operator, and the datasets it reads from."""
        if args and datasets is not None:
            raise BadType(f"expected datasets either as arguments or as datasets=, got {len(args)} arguments and both")
        if not args and datasets is None:
            raise BadType("expected at least one dataset, got none")
        nest = datasets if not args else args[0] if len(args) == 1 else args
        structure = Structure.of(nest)
        leaves = structure.flatten(nest)
        for leaf in leaves:
            if isinstance(leaf, list):
                raise BadType(f"expected datasets in tuples or dicts, got a list of {len(leaf)}; use a tuple")
            if not is_dataset(leaf):
                raise BadType(f"expected datasets in tuples or dicts, got {type(leaf).__name__} {leaf!r:.60}")
        if not leaves:
            raise BadArgument("expected at least one dataset, got an empty nest")
        return cls(structure), leaves

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        counts = [spec.cardinality for spec in inputs]
        if UNKNOWN in counts:
            cardinality = UNKNOWN
        else:
            cardinality = min((count for count in counts if count != INFINITE), default=INFINITE)
        seen = all(spec.seen for spec in inputs)
        return Spec(self.structure.unflatten([s.element for s in inputs]) if seen else UNSEEN, cardinality)

    def output_size(self, inputs: list[ElementSize]) -> ElementSize:
        leaves = tuple(leaf for size in inputs for leaf in size.leaves)
        return ElementSize(leaves, all(size.exact for size in inputs))

    def open(self, context: Context) -> Cursor:
        return _ZipCursor(context, self.structure)


class _Part:
    """One input, and what of its last block was not given yet."""

    __slots__ = ("_before", "_charged", "_context", "_offset", "block", "cursor")

    def __init__(self, context: Context, index: int) -> None:
        self._context = context
        self.cursor = context.input(index)
        self.block: Block | None = None
        self._offset = 0
        self._charged = 0
        self._before: State = None

    def ready(self, n: int) -> int:
        """How many of n elements lie ready; pulls them where there are none, so that 0 is the end."""
        if self.block is None:
            before = self.cursor.state() if n > 1 else None
            self.block = self.cursor.pull(n)
            if self.block is None:
                return 0
            self._before = before
        return min(n, self.block.size - self._offset)

    def head(self) -> Any:
        """The first element that lies ready, if it failed."""
        if self.block is None or not self.block.has_failures:
            return None
        row = self.block.rows()[self._offset]
        return row if type(row) is Failed else None

    def take(self, n: int) -> Block:
        """The next n elements, which lie ready."""
        block = self.block
        assert block is not None
        start, self._offset = self._offset, self._offset + n
        if self._offset == block.size:
            self.forget()
        elif not self._charged:
            # Where there is no room it stays on its maker's account alone, as it does until that one is asked again.
            nbytes = self._context.arena.unaccounted_bytes(block)
            self._charged = nbytes if self._context.share.try_charge(nbytes) else 0
        return block if n == block.size else block[start : start + n]

    def forget(self) -> None:
        self.block, self._offset, self._before = None, 0, None
        self._context.share.discharge(self._charged)
        self._charged = 0

    def state(self) -> State:
        return [self.cursor.state(), 0] if self.block is None else [self._before, self._offset]

    def restore(self, state: State) -> None:
        before, offset = expect_list(state, 2)
        self.cursor.restore(before)
        if self.cursor.skip(offset) != offset:
            raise StateError(f"the saved position is {offset} elements into a block that no longer has them")


class _ZipCursor(Cursor):
    __slots__ = ("_ended", "_is_flat_tuple", "_joined", "_parts", "_seen", "_structure")

    def __init__(self, context: Context, structure: Structure) -> None:
        self._structure = structure
        self._is_flat_tuple = structure.is_flat_tuple
        self._parts = [_Part(context, i) for i in range(structure.num_leaves)]
        self._ended = False
        self._seen: list[Structure] = []
        self._joined = structure

    def pull(self, n: int) -> Block | None:
        if self._ended:
            return None
        size = n
        for i, part in enumerate(self._parts):
            size = part.ready(size)
            if not size:
                return self._end(i)
        blocks = [part.take(size) for part in self._parts]
        columns = [block.columns for block in blocks]
        if None in columns:
            return self._of_rows(blocks)
        together = [column for some in columns for column in some or ()]
        return Block.of_columns(self._structure_of(blocks), together, size)

    def _end(self, index: int) -> Block | None:
        """The end of one input is the end of all; a failure that was read for this row is told before."""
        self._ended = True
        heads = [part.head() for part in self._parts[:index]]
        self._forget()
        failed = next((head for head in heads if head is not None), None)
        return None if failed is None else Block.of_rows([failed], None, True)

    def _structure_of(self, blocks: list[Block]) -> Structure:
        found = [block.structure for block in blocks]
        # By identity: structures are equal whatever the order of a dict's keys, and columns follow that order.
        if not self._seen or any(map(operator.is_not, found, self._seen)):
            self._seen = found
            self._joined = _nested(self._structure, iter(found))
        return self._joined

    def _of_rows(self, blocks: list[Block]) -> Block:
        rows: list[Any] = list(zip(*[block.rows() for block in blocks], strict=True))
        has_failures = any(block.has_failures for block in blocks)
        if has_failures:
            return Block.of_rows([self._row(parts) for parts in rows])
        if not self._is_flat_tuple:
            rows = [self._structure.unflatten(parts) for parts in rows]
        return Block.of_rows(rows, None, False)

    def _row(self, parts: tuple[Any, ...]) -> Any:
        for part in parts:
            if type(part) is Failed:
                return part
        return self._structure.unflatten(parts)

    def state(self) -> State:
        return [int(self._ended), *(part.state() for part in self._parts)]

    def restore(self, state: State) -> None:
        ended, *below = expect_list(state, 1 + len(self._parts))
        self._ended = bool(ended)
        for part, one in zip(self._parts, below, strict=True):
            part.restore(one)

    def _forget(self) -> None:
        for part in self._parts:
            part.forget()

    def close(self) -> None:
        self._forget()
        for part in self._parts:
            part.cursor.close()


def _nested(outer: Structure, inner: Iterator[Structure]) -> Structure:
    """`outer` with each of its leaves a nest of its own."""
    if outer.is_leaf:
        return next(inner)
    return Structure(outer.kind, outer.keys, tuple(_nested(child, inner) for child in outer.children))
