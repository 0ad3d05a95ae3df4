"""Copies for the caller: in slots of their own while there is room to spare, and never at a stage's expense."""

import threading
from typing import Any

import numpy as np
import pytest

import penstock.memory.arena
from penstock.memory.arena import Arena, Slots, slot_bytes
from penstock.memory.ledger import Ledger

SHAPE, FLOAT = (100, 8), np.dtype(np.float64)
SLOT = slot_bytes(6400)


@pytest.fixture(name="made")
def _made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all memory that is asked for."""
    made: list[int] = []
    make = penstock.memory.arena.new_base
    monkeypatch.setattr(penstock.memory.arena, "new_base", lambda size, used: made.append(size) or make(size, used))
    return made


@pytest.mark.parametrize("shape", [(), (3,), (0, 5), SHAPE, (1000, 200)])
@pytest.mark.parametrize("dtype", ["u1", "f8", ">i4", "M8[s]"])
def test_a_copy_is_what_was_copied(shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    array.flags.writeable = False
    copy = Slots(Ledger(10**8)).copied(array)
    assert (copy.dtype, copy.shape) == (array.dtype, shape)
    assert np.array_equal(copy, array)
    assert copy.flags.writeable
    assert not np.may_share_memory(copy, array) or not array.size


def test_copies_use_their_slots_again(made: list[int]) -> None:
    ledger = Ledger(10**6)
    slots, array = Slots(ledger), np.ones(SHAPE)
    for _ in range(20):
        assert slots.copied(array).ctypes.data % 64 == 0
    assert made == [SLOT]
    kept = [slots.copied(array) for _ in range(3)]
    assert (slots.caller_bytes, ledger.charged_bytes, len(made)) == (3 * SLOT, 3 * SLOT, 3)
    slots.close()
    assert (len(kept), ledger.charged_bytes) == (3, 0)
    assert np.array_equal(slots.copied(array), array)
    assert ledger.charged_bytes == 0


@pytest.mark.parametrize("frugal", [False, True])
def test_without_room_to_spare_they_are_on_no_account(frugal: bool, made: list[int]) -> None:
    ledger = Ledger(10**6 if frugal else SLOT)
    ledger.frugal = frugal
    copy = Slots(ledger).copied(np.ones(SHAPE))
    assert (copy.sum(), made) == (800, [SLOT])
    assert ledger.charged_bytes == ledger.peak_bytes == 0


def test_slots_of_stages_stay_theirs_and_copies_give_way(made: list[int]) -> None:
    ledger = Ledger(3 * SLOT)
    slots = Slots(ledger)
    arena = Arena(slots, ledger.share("batch", SLOT))
    arena.empty(SHAPE, FLOAT)
    copy = slots.copied(np.ones(SHAPE))
    assert (made, ledger.charged_bytes) == ([SLOT] * 2, 2 * SLOT)
    for _ in range(3):
        arena.empty(SHAPE, FLOAT)
    assert made == [SLOT] * 2
    # Held or dropped, they are no reason to refuse a stage anything.
    ledger.share("read").charge(2 * SLOT)
    del copy
    slots.copied(np.ones(SHAPE))
    arena.empty(SHAPE, FLOAT)
    assert ledger.charged_bytes == 3 * SLOT


def test_an_array_is_alone_in_its_slot_while_nothing_else_looks_at_it() -> None:
    ledger = Ledger(10**6)
    slots = Slots(ledger)
    array = Arena(slots, ledger.share("batch")).empty(SHAPE, FLOAT)
    assert slots.is_alone(array)
    views: list[Any] = [array[3:]]
    assert not slots.is_alone(array)
    assert not slots.is_alone(views[0])
    views[0] = memoryview(array[3:])
    assert not slots.is_alone(array)
    views.clear()
    assert slots.is_alone(array)
    assert not slots.is_alone(np.ones(SHAPE))
    assert not slots.is_alone(np.ones(SHAPE)[1:])
    slots.close()
    assert not slots.is_alone(array)  # nobody counts who looks at it any more


def test_copies_while_slots_close_leave_nothing_on_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(10**6)
    slots = Slots(ledger)
    make = penstock.memory.arena.new_base

    def closes_meanwhile(size: int, used: int) -> np.ndarray:
        other = threading.Thread(target=slots.close)
        other.start()
        other.join()
        return make(size, used)

    monkeypatch.setattr(penstock.memory.arena, "new_base", closes_meanwhile)
    assert slots.copied(np.ones(SHAPE)).sum() == 800
    assert ledger.charged_bytes == 0
