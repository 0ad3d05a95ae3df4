"""Boundaries between threads: who waits for memory waits for what others hold, never for what they are still to get."""

from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.cursor import Cursor
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.memory.spill import SpillSpace
from penstock.options import AUTOTUNE
from penstock.plan.traits import Traits
from penstock.runtime.backends.crew import Crew
from penstock.runtime.backends.filling import FillingCursor
from penstock.runtime.backends.threads import ParallelCursor
from penstock.runtime.channel import Boundary
from penstock.runtime.meter import Meter
from tests.unit.fakes import ListCursor, Raises

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


class Asking(ListCursor):
    """Asks, while it makes elements, whether a thread of its own might wait for memory."""

    def __init__(self, rows: list[Any], boundary: Boundary) -> None:
        super().__init__(rows)
        self.boundary = boundary
        self.answers: list[bool] = []

    def pull(self, n: int) -> Block | None:
        self.answers.append(self.boundary.may_release())
        return super().pull(n)


def opened(kind: str, rows: list[Any]) -> tuple[Cursor, Asking, Ledger]:
    """A cursor whose function the consumer calls in its own thread."""
    ledger, boundary, meter = Ledger(1_000_000), Boundary(None), Meter("map")
    source, share = Asking(rows, boundary), ledger.share("map")
    arena = Arena(Slots(ledger), share)
    if kind == "filling":  # of a live source nothing is made ahead
        crew = Crew(1, meter)
        return FillingCursor(source, crew, 2, share, arena, meter, boundary, SpillSpace(), True), source, ledger
    traits = Traits(num_parallel_calls=AUTOTUNE)
    made = ParallelCursor(lambda: source, lambda block, _: block, traits, True, share, arena, meter, boundary, True)
    return made, source, ledger


@pytest.mark.parametrize("kind", ["in threads", "filling"])
def test_what_the_consumer_waits_for_is_not_taken_for_what_it_holds(kind: str) -> None:
    cursor, source, ledger = opened(kind, [np.zeros(100) for _ in range(4)])
    for _ in range(2):
        assert cursor.pull(1) is not None
    assert source.boundary.may_release()  # what was given, until the consumer asks again
    cursor.close()
    assert source.answers == [False, False]
    assert ledger.charged_bytes == 0


@pytest.mark.parametrize("kind", ["in threads", "filling"])
def test_what_was_reserved_for_an_error_is_given_back(kind: str) -> None:
    cursor, source, ledger = opened(kind, [np.zeros(100), Raises(KeyError("bad"))])
    assert cursor.pull(1) is not None
    with pytest.raises(KeyError):
        cursor.pull(1)
    assert not source.boundary.may_release()
    assert ledger.charged_bytes == 0
    cursor.close()
