"""Meters: what each stage did, at the cost of two clock readings a pull."""

from __future__ import annotations

import dataclasses
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State
from ..element import Failed, nbytes_of
from ..ending import Ended, Ending
from ..errors import PenstockError
from ..leaf import leaf_bytes
from ..memory.singly import FEW, num_at_once
from ..plan.node import Node, located

__all__ = ["Meter", "MeteredCursor"]


@dataclasses.dataclass(slots=True)
class Meter:
    """Counts of one stage. Times are of its own work: what its inputs took is on their meters."""

    name: str
    num_elements: int = 0
    num_bytes: int = 0
    num_pulls: int = 0
    num_failed: int = 0
    num_failed_in: int = 0
    elapsed_ns: int = 0
    inputs_ns: int = 0
    waiting_ns: int = 0
    worker_ns: int = 0
    largest_bytes: int = 0
    #: What all would take if each were as large as the largest that came with it; `num_bytes` goes by the first.
    num_bytes_at_most: int = 0
    #: How many pulls gave an element that was larger than all before; which of them was the last, and how large the
    #: largest was until then.
    num_larger: int = 0
    last_larger: int = 0
    largest_until_then: int = 0
    #: How many elements may be pulled at a time, where they come one by one: by how many objects each consists of.
    num_at_once: int = 1 << 62
    #: Whether it has said that there are no more elements.
    ended: bool = False
    #: Whether the size of every element counts, not only of some.
    looks_at_all: bool = False
    #: The most that a call of its function took beside its result; None where no sample has measured it.
    temporary_bytes: int | None = None
    chosen: dict[str, int | str] = dataclasses.field(default_factory=dict)
    #: How many elements of each file could not be read.
    failed_by_file: dict[str, int] = dataclasses.field(default_factory=dict)
    #: Of its run.
    ending: Ending = dataclasses.field(default_factory=Ending)

    def as_dict(self) -> dict[str, Any]:
        """For `stats()`."""
        return {
            "name": self.name,
            "elements": self.num_elements,
            "bytes": self.num_bytes,
            "failed": max(0, self.num_failed - self.num_failed_in),
            "failed_by_file": dict(self.failed_by_file),
            "busy_s": self.busy_s,
            "waiting_s": self.waiting_s,
            "temporary_bytes": self.temporary_bytes,
            "chosen": dict(self.chosen),
        }

    def saw_element(self, nbytes: int) -> None:
        """The largest element of a pull was so large."""
        if nbytes > self.largest_bytes:
            self.largest_until_then, self.last_larger = self.largest_bytes, self.num_pulls
            self.largest_bytes = nbytes
            self.num_larger += 1

    def saw_temporaries(self, nbytes: int) -> None:
        """A call of the stage's function took so much beside its result."""
        self.temporary_bytes = max(nbytes, self.temporary_bytes or 0)

    @property
    def typical_bytes(self) -> int:
        """What an element takes on average, of those that did not fail."""
        return self.num_bytes // max(1, self.num_made)

    def largest_before(self, num_pulls: int) -> int:
        """The largest element of all pulls but so many at the end, which may still be on their way to the consumer."""
        is_among_last = self.num_pulls - self.last_larger < num_pulls
        return self.largest_until_then if is_among_last and self.largest_until_then else self.largest_bytes

    @property
    def num_made(self) -> int:
        """How many elements it gave that did not fail."""
        return self.num_elements - self.num_failed

    @property
    def growth(self) -> float:
        """How much larger than on average elements are by now, if nearly each is larger than those before; else 1."""
        if self.num_pulls < 8 or 2 * self.num_larger < self.num_pulls:
            return 1.0
        return self.largest_bytes * self.num_made / max(1, self.num_bytes_at_most)

    @property
    def busy_s(self) -> float:
        """Seconds of work, summed over threads."""
        return max(0, self.elapsed_ns - self.inputs_ns - self.waiting_ns + self.worker_ns) / 1e9

    @property
    def waiting_s(self) -> float:
        """Seconds in which the consumer waited for this stage's threads."""
        return self.waiting_ns / 1e9


class MeteredCursor(Cursor):
    """Counts what passes. `consumer` is the meter of the stage that pulls, in its own time or by a thread."""

    __slots__ = ("_consumer", "_cursor", "_in_its_time", "_meter", "_node")

    def __init__(
        self, cursor: Cursor, node: Node, meter: Meter, consumer: Meter | None, in_its_time: bool = True
    ) -> None:
        self._cursor = cursor
        self._node = node
        self._meter = meter
        self._consumer = consumer
        self._in_its_time = in_its_time

    def pull(self, n: int) -> Block | None:
        meter = self._meter
        if meter.ending.is_near:
            raise Ended
        if n > meter.num_at_once:
            n = meter.num_at_once
        start = perf_counter_ns()
        try:
            block = self._cursor.pull(n)
        except PenstockError as error:
            raise located(error, self._node.op.name, self._node.origin) from error.__cause__
        elapsed = perf_counter_ns() - start
        meter.elapsed_ns += elapsed
        if self._consumer is not None and self._in_its_time:
            self._consumer.inputs_ns += elapsed
        if block is None:
            meter.ended = True
            return None
        meter.num_pulls += 1
        meter.num_elements += block.size
        if block.columns is not None:
            nbytes = 0
            for column in block.columns:
                nbytes += column.nbytes if column.dtype.kind != "O" else leaf_bytes(column)
            meter.num_bytes += nbytes
            meter.num_bytes_at_most += nbytes
            if nbytes > meter.largest_bytes * block.size:
                meter.saw_element(nbytes // block.size)
        elif block.records is not None:
            self._count_records(block)
        else:
            self._count_rows(block, n)
        if block.has_failures:
            self._count_failures(block)
        return block

    def _count_records(self, block: Block) -> None:
        """Byte strings that lie together: to look at them one by one would mean to cut them out."""
        assert block.records is not None
        meter = self._meter
        meter.num_bytes += block.nbytes
        longest = int(block.records[2].max()) + leaf_bytes(b"")
        meter.num_bytes_at_most += longest * block.size
        meter.saw_element(longest)

    def _count_rows(self, block: Block, n: int) -> None:
        """Elements one by one, of which the first tells how large they are, as far as that will do."""
        rows = _made(block)
        if not rows:
            return
        meter = self._meter
        each = nbytes_of(rows[0])
        meter.num_bytes += each * len(rows)
        if n > FEW:
            meter.num_at_once = num_at_once(rows[0])
        if meter.looks_at_all:
            each = max(map(nbytes_of, rows))
        elif len(rows) > 1 and type(rows[0]) is np.ndarray:  # nests would take longer than most functions do
            each = max([getattr(row, "nbytes", 0) for row in rows])
        meter.num_bytes_at_most += each * len(rows)
        meter.saw_element(each)

    def _count_failures(self, block: Block) -> None:
        count = block.size - len(_made(block))
        self._meter.num_failed += count
        if self._consumer is not None:
            self._consumer.num_failed_in += count

    def skip(self, n: int) -> int:
        # What is passed over counts in a sample: it may be made in another epoch, or by another process.
        return super().skip(n) if self._meter.looks_at_all else self._cursor.skip(n)

    def lost(self, n: int) -> None:
        self._cursor.lost(n)

    def state(self) -> State:
        return self._cursor.state()

    def restore(self, state: State) -> None:
        self._cursor.restore(state)

    def used_up(self) -> None:
        self._cursor.used_up()

    def close(self) -> None:
        self._cursor.close()


def _made(block: Block) -> list[Any]:
    """Its elements but for those that failed."""
    rows = block.rows()
    return [row for row in rows if type(row) is not Failed] if block.has_failures else rows
