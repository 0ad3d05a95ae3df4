"""The tape: elements that are held, and where to read them again."""

import numpy as np
import pytest

from penstock.errors import OverBudget, StateError
from penstock.memory.ledger import Ledger
from penstock.ops.tape import Tape

from ..fakes import ListCursor


def tape_of(size: int, budget: int = 10**9) -> tuple[Tape, ListCursor, Ledger]:
    cursor = ListCursor([np.full(10, i, np.int64) for i in range(size)])
    ledger = Ledger(budget)
    return Tape(cursor, ledger.share("a stage")), cursor, ledger


def read(tape: Tape, count: int, demand: int = 1) -> list[int]:
    found = []
    for _ in range(count):
        held = tape.next(demand)
        if held is None:
            break
        found.append(int(held[0][0]))
    return found


def test_elements_are_charged_until_they_are_released() -> None:
    tape, cursor, ledger = tape_of(5)
    assert read(tape, 9) == [0, 1, 2, 3, 4]
    each = 80 + 240  # with the objects around it
    assert ledger.charged_bytes == tape.charged_bytes == 5 * each
    tape.release(each)
    assert ledger.charged_bytes == 4 * each
    tape.close()
    tape.close()
    assert ledger.charged_bytes == 0
    assert cursor.num_closed


def test_what_does_not_fit_is_refused() -> None:
    tape, _, ledger = tape_of(5, budget=800)
    with pytest.raises(OverBudget):
        read(tape, 5)
    assert ledger.charged_bytes == 640


def test_blocks_are_as_large_as_demanded_once_the_size_of_an_element_is_known() -> None:
    tape, cursor, _ = tape_of(5000)
    read(tape, 1, demand=50)
    read(tape, 49, demand=49)
    assert cursor.asked == [1, 49]
    read(tape, 1000, demand=1000)
    assert max(cursor.asked) == 256
    large = Tape(ListCursor([np.zeros(300_000, np.uint8)] * 9), Ledger(10**9).share("a stage"))
    for _ in range(5):
        large.next(5)
    assert large._feed.cursor.asked == [1, 3, 3]  # type: ignore[attr-defined]


def test_there_are_never_many_more_anchors_than_elements_held() -> None:
    tape, _, _ = tape_of(5000)
    held = [3, 1000, 1001, 4000]
    while read(tape, 1):
        if tape.anchor_due(len(held)):
            tape.drop_anchor(n for n in held if n < tape.number)
    assert len(tape._anchors) <= len(held) + 1
    assert tape.state(3)[0] <= 3
    assert 1000 - 64 <= tape.state(1000)[0] <= 1000
    assert tape.state(None)[0] == 5000


def test_reading_again() -> None:
    tape, _, _ = tape_of(300)
    while tape.number < 200:
        read(tape, 1)
        if tape.anchor_due(2):
            tape.drop_anchor([150, 170])
    again, cursor, _ = tape_of(300)
    again.restore(tape.state(150))
    assert cursor.place == 128
    assert [int(again.read_again(n)[0][0]) for n in (150, 170)] == [150, 170]
    assert again.skip_to(200)
    assert read(again, 2) == [200, 201]
    assert not again.skip_to(900)
    with pytest.raises(StateError, match="input element 901"):
        again.read_again(901)
