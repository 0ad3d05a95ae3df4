"""parse_examples: records parsed a block at a time. The optimizer makes it of a `map`; users do not write it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..block import Block
from ..element import Structure
from ..errors import OverBudget, PenstockError, RecordError
from ..plan.footprint import Footprint, Sizes, of_calls
from ..plan.op import Context, ElementFunction, Op, Room, call_with_room
from ..plan.traits import Traits
from ..spec import Spec, TensorSpec
from .example import ExampleParser
from .feature_table import Layout, Records
from .features import FixedLenFeature
from .parse_rows import RowParser
from .parse_trial import Parsing
from .surroundings import Surroundings

__all__ = ["ParseExamples"]


@dataclasses.dataclass(frozen=True, eq=False)
class ParseExamples(Op):
    """Does what a `map` does whose function parses a record and picks from it, in one native call for a block.

    A block with a record that cannot be parsed is left to the `map` as it was written: one record after the other, each
    with its own result or error. So are all blocks while anything that the function refers to is another.

    Args:
        written: The `map`.
        parser: What is parsed.
        structure: The nest of an element.
        names: The features in that nest, leaf by leaf.
        surroundings: What the function refers to, as it was.

    Memory: nothing between pulls.
    State: its input's.
    """

    written: Op
    parser: ExampleParser
    structure: Structure
    names: tuple[str, ...]
    surroundings: Surroundings
    telling: bool = False

    @classmethod
    def of(cls, parsing: Parsing, written: Op) -> ParseExamples | None:
        """None where the features are refused: the `map` will say why."""
        try:
            parser = ExampleParser(parsing.features)
        except PenstockError:
            return None
        return cls(written, parser, parsing.structure, parsing.names, parsing.surroundings)

    @property
    def name(self) -> str:
        return self.written.name

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        if not self.parser.is_dense:  # as the `map`, lest what follows take it for something else
            return self.written.spec(inputs)
        leaves = [TensorSpec(self._feature(name).shape, self._feature(name).dtype) for name in self.names]
        return Spec(self.structure.unflatten(leaves), inputs[0].cardinality)

    def _feature(self, name: str) -> FixedLenFeature:
        feature = self.parser.features[name]
        assert isinstance(feature, FixedLenFeature)
        return feature

    @property
    def traits(self) -> Traits:
        return Traits(runtime="elementwise", one_to_one=True, pure=True, tells_failures=self.telling)

    def telling_failures(self) -> Op:
        return dataclasses.replace(self, telling=True)

    def footprint(self, sizes: Sizes) -> Footprint:
        return of_calls(0, sizes)

    def element_function(self, context: Context) -> ElementFunction:
        return _ParseBlocks(self, context) if self.parser.is_dense else _ParseRows(self, context)

    def remark(self) -> str:
        return "parsed a block at a time"

    def describe(self) -> str:
        return self.written.describe()

    def fingerprint(self) -> str:
        return self.written.fingerprint()


class _Parsing(ABC):
    """Parses blocks as `_parsed` does; what that cannot parse is left to the function as it was written."""

    def __init__(self, op: ParseExamples, context: Context) -> None:
        self._as_written = op.written.element_function(context)
        self._surroundings = op.surroundings

    def __call__(self, block: Block, place: int) -> Block:
        return self.until_full(block, place, None)

    def until_full(self, block: Block, place: int, room: Room | None) -> Block:
        """The elements of a block, or of its first part where there is no room for all."""
        records = _records_of(block) if self._surroundings.are_unchanged() else None
        is_short = False
        try:
            if records is not None:
                result, nbytes = self._parsed(records, block)
                if room is not None:
                    room.add(nbytes, block.size)
                return result
        except RecordError:
            pass
        except OverBudget:
            if block.size == 1 or room is None:
                raise
            is_short = True
        # Not while an error is handled: its traceback keeps the slots that were filled before it.
        if is_short:
            return self.until_full(block[: block.size // 2], place, room)
        return call_with_room(self._as_written, block, place, room)

    @abstractmethod
    def _parsed(self, records: Records, block: Block) -> tuple[Block, int]:
        """The elements of a block, and how many bytes of them lie in no slot.

        Raises:
            RecordError: One of the records is not what was asked for.
            OverBudget: There is no room for all.
        """


def _records_of(block: Block) -> Records | None:
    """The records of a block; None where there is something else among them."""
    if block.records is not None:
        return block.records
    rows = block.rows()
    return None if block.has_failures or any(type(row) is not bytes for row in rows) else rows


class _ParseRows(_Parsing):
    """Parses blocks in which a feature has as many values as each record likes."""

    def __init__(self, op: ParseExamples, context: Context) -> None:
        super().__init__(op, context)
        self._parser = RowParser(op.parser.table, op.structure, op.names, context.arena)

    def _parsed(self, records: Records, block: Block) -> tuple[Block, int]:
        rows, nbytes = self._parser.rows(records, block.size)
        return Block.of_rows(rows, block.positions, False), nbytes


class _ParseBlocks(_Parsing):
    """Parses blocks into slots."""

    def __init__(self, op: ParseExamples, context: Context) -> None:
        super().__init__(op, context)
        self._arena = context.arena
        self._table = op.parser.table
        self._structure = op.structure
        keys = list(self._table.columns)
        self._makers = [self._arena.maker(op._feature(key).shape, op._feature(key).dtype) for key in keys]
        self._picked = [keys.index(name) for name in op.names]
        self._repeated = [j for j, i in enumerate(self._picked) if i in self._picked[:j]]

    def _parsed(self, records: Records, block: Block) -> tuple[Block, int]:
        outputs = [make(block.size) for make in self._makers]
        self._table.parse(records, Layout.SINGLE_EXAMPLE, outputs)
        columns = [outputs[i] for i in self._picked]
        for j in self._repeated:  # two leaves of a batch must not be one array
            columns[j] = columns[j].copy()
        result = Block.of_columns(self._structure, columns, block.size, block.positions)
        return result, self._arena.unaccounted_bytes(result)
