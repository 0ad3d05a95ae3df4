"""A column that lies in a larger slot, and the array of more rows that goes on behind it."""

import numpy as np
import pytest

from penstock.errors import OverBudget
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger

FLOAT = np.dtype(np.float64)
ROWS, WIDTH = 64, 100


def two_stages(budget: int = 1_000_000) -> tuple[Ledger, Arena, Arena]:
    """The account of who makes columns, and of who goes on behind them."""
    ledger = Ledger(budget)
    slots = Slots(ledger)
    return ledger, Arena(slots, ledger.share("map")), Arena(slots, ledger.share("batch"))


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def short_column(arena: Arena, num_rows: int = 20) -> np.ndarray:
    column = arena.empty((ROWS, WIDTH), FLOAT)[:num_rows]
    column[:] = np.arange(num_rows)[:, None]
    return column


def test_the_first_rows_are_the_columns_and_nothing_more_is_charged() -> None:
    ledger, maker, batch = two_stages()
    column = short_column(maker)
    charged = ledger.charged_bytes
    wide = batch.widened(column, ROWS)
    assert wide is not None
    assert (address(wide), wide.shape, wide.dtype) == (address(column), (ROWS, WIDTH), FLOAT)
    del column
    wide[20:] = 7
    assert (wide[:20, 0] == np.arange(20)).all()
    assert ledger.charged_bytes == charged
    assert {share.name: share.charged_bytes for share in ledger.shares} == {"map": 0, "batch": charged}


def test_its_slot_is_used_again_once_and_not_before_it_is_dropped() -> None:
    ledger, maker, batch = two_stages()
    wide = batch.widened(short_column(maker), ROWS)
    assert wide is not None
    where = address(wide)
    part = wide[:20]
    del wide
    others = [maker.empty((ROWS, WIDTH), FLOAT) for _ in range(3)]
    assert where not in map(address, others)
    del part
    others += [maker.empty((ROWS, WIDTH), FLOAT) for _ in range(2)]
    assert [address(other) for other in others].count(where) == 1
    maker.slots.close()
    assert ledger.charged_bytes == 0


def test_what_is_handed_over_is_the_slot() -> None:
    _, maker, batch = two_stages()
    wide = batch.widened(short_column(maker), ROWS)
    assert wide is not None
    batch.slots.hand_over(wide[:20])
    assert batch.slots.caller_bytes == max(slot.nbytes for slot in batch.slots.by_base.values())
    del wide
    assert batch.slots.caller_bytes == 0


def test_not_where_somebody_else_looks_at_the_slot() -> None:
    _, maker, batch = two_stages()
    whole = maker.empty((ROWS, WIDTH), FLOAT)
    assert batch.widened(whole[:20], ROWS) is None
    column = short_column(maker)
    rest = whole[20:]
    del whole
    assert batch.widened(rest, ROWS) is None
    row = column[3]
    assert batch.widened(column, ROWS) is None
    del row
    assert batch.widened(column, ROWS) is not None


def test_not_where_there_is_no_room_behind_it() -> None:
    _, maker, batch = two_stages()
    assert batch.widened(maker.empty((20, WIDTH), FLOAT), ROWS) is None
    assert batch.widened(short_column(maker)[1:], ROWS) is None  # it does not begin where the slot does
    assert batch.widened(short_column(maker)[:, :50], ROWS) is None
    assert batch.widened(np.zeros((20, WIDTH)), ROWS) is None
    assert batch.widened(maker.empty((2, 2), FLOAT), ROWS) is None


def test_not_where_the_account_has_no_room_for_it() -> None:
    """It would stay on its maker's, who is asked for more."""
    ledger = Ledger(200_000)
    slots = Slots(ledger)
    maker = Arena(slots, ledger.share("map", 120_000))
    batch = Arena(slots, ledger.share("batch"))
    ledger.share("others", 60_000)
    column = short_column(maker)
    charged = ledger.charged_bytes
    assert batch.widened(column, ROWS) is None
    assert ledger.charged_bytes == charged
    with pytest.raises(OverBudget):
        batch.empty((ROWS, WIDTH), FLOAT)


def test_a_slot_lies_free_once_nobody_looks_at_it() -> None:
    ledger, maker, _ = two_stages()
    shape = (ROWS, WIDTH)
    assert not maker.lies_free(shape, FLOAT)
    array = maker.empty(shape, FLOAT)
    assert not maker.lies_free(shape, FLOAT)
    del array
    assert maker.lies_free(shape, FLOAT)
    assert maker.lies_free((2, 2), FLOAT)  # needs none
    ledger.frugal = True  # it would not be kept
    assert not maker.lies_free(shape, FLOAT)
