"""The arena: a slot is its holder's alone for as long as anything made from it lives, and no longer."""

import gc
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.memory.arena
from penstock.block import Block
from penstock.element import LEAF, Failed
from penstock.errors import OverBudget
from penstock.leaf import Ragged, Sparse
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger

SMALL = (100, 8)  # from the heap
LARGE = (1000, 200)  # mapped
FLOAT = np.dtype(np.float64)


def new_arena(budget: int = 100_000_000) -> tuple[Ledger, Arena]:
    ledger = Ledger(budget)
    return ledger, Arena(Slots(ledger), ledger.share("batch slots"))


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def slot_bytes(nbytes: int) -> int:
    """What is charged for an array of so many bytes."""
    ledger, arena = new_arena()
    arena.empty((nbytes,), np.dtype(np.uint8))
    return ledger.charged_bytes


SLOT = slot_bytes(6400)
LARGE_SLOT = slot_bytes(1_600_000)


@settings(derandomize=True, deadline=None)
@given(nbytes=st.integers(4096, 1 << 22))
def test_a_slot_is_little_larger_than_what_is_asked_for(nbytes: int) -> None:
    assert nbytes <= slot_bytes(nbytes) <= nbytes * 9 / 8 + 64


@pytest.mark.parametrize("shape", [(1000, 8), LARGE, (5000,), (3, 1_000_000)])
@pytest.mark.parametrize(
    "dtype", [np.uint8, np.float16, np.float64, np.complex128, "M8[s]", [("a", "i4"), ("b", "f8")]]
)
def test_arrays_are_as_asked_for_and_aligned(shape: tuple[int, ...], dtype: Any) -> None:
    _, arena = new_arena()
    array = arena.empty(shape, np.dtype(dtype))
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert address(array) % 64 == 0


def test_what_is_charged_is_what_is_held() -> None:
    ledger, arena = new_arena()
    kept = [arena.empty(SMALL, FLOAT), arena.empty(LARGE, FLOAT), arena.empty((5001,), np.dtype(np.uint8))]
    charged = SLOT + LARGE_SLOT + slot_bytes(5001)
    assert ledger.charged_bytes == charged >= sum(array.nbytes for array in kept)
    del kept
    assert ledger.charged_bytes == charged  # kept for the next time


def test_nothing_little_and_objects_need_no_slot() -> None:
    ledger, arena = new_arena()
    assert arena.empty((3,), FLOAT).base is None  # no page fault is saved by using it again
    assert arena.empty((0, 5), FLOAT).shape == (0, 5)
    strings = arena.empty((3000,), np.dtype(object))
    assert strings.dtype == object
    assert ledger.charged_bytes == 0


KEEPERS: dict[str, Callable[[np.ndarray], Any]] = {
    "the array": lambda array: array,
    "a row": lambda array: array[3],
    "a part of a row": lambda array: array[3][2:5],
    "a reshaped view": lambda array: array.reshape(-1),
    "a transposed view": lambda array: array.T,
    "a view of other type": lambda array: array.view(np.uint8),
    "a field of a view": lambda array: array.view([("a", "f4"), ("b", "f4")])["b"],
    "an iterator": lambda array: array.flat,
    "a memoryview": memoryview,
    "a memoryview of a row": lambda array: memoryview(array[3])[1:],
    "a torch tensor": torch.from_numpy,
    "a row of a torch tensor": lambda array: torch.from_numpy(array)[3],
    "a torch tensor by DLPack": torch.from_dlpack,
    "a DLPack capsule": lambda array: array.__dlpack__(),
    "an array from a tensor": lambda array: np.from_dlpack(torch.from_numpy(array)),
    "a structure": lambda array: {"batch": (array[:2], 1)},
    "a ctypes pointer": lambda array: array.ctypes.data_as(__import__("ctypes").c_void_p),
    "a read-only view": lambda array: np.broadcast_to(array[3], (2, *array[3].shape)),
    "a record": lambda array: array.view([("a", "f4"), ("b", "f4")])[0, 0],
}  # fmt: skip


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_a_slot_is_not_reused_while_anything_made_from_it_lives(
    keep: Callable[[Any], Any], shape: tuple[int, ...]
) -> None:
    ledger, arena = new_arena()
    first = arena.empty(shape, FLOAT)
    first[:] = 7
    where = address(first)
    kept = keep(first)
    del first
    other = arena.empty(shape, FLOAT)
    assert address(other) != where
    arena.slots.release_unused()
    assert address(arena.empty(shape, FLOAT)) != where
    del kept
    gc.collect()
    again = [arena.empty(shape, FLOAT) for _ in range(3)]
    assert ledger.charged_bytes <= 4 * slot_bytes(again[0].nbytes)
    assert where in map(address, again)


def test_a_dropped_slot_is_used_again_at_once() -> None:
    ledger, arena = new_arena()
    where = address(arena.empty(LARGE, FLOAT))
    for dtype, shape in ((FLOAT, LARGE), (np.dtype(np.uint8), (1_600_000,)), (np.dtype(np.float32), (2, 200_000))):
        assert address(arena.empty(shape, dtype)) == where
    assert ledger.charged_bytes == ledger.peak_bytes == LARGE_SLOT


@settings(derandomize=True, deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=40))
def test_no_two_living_arrays_ever_share_memory(steps: list[tuple[int, int]]) -> None:
    ledger, arena = new_arena()
    alive: dict[int, np.ndarray] = {}
    for size, key in steps:
        alive.pop(key, None)
        if size:
            array = alive[key] = arena.empty((size * 600,), FLOAT)
            array[:] = key
        for number, array in alive.items():
            assert (array == number).all()
    assert ledger.charged_bytes >= sum(array.nbytes for array in alive.values())
    arena.slots.close()
    assert ledger.charged_bytes == 0


# --- what the caller holds ---


def test_what_was_handed_over_is_the_callers_until_dropped() -> None:
    ledger, arena = new_arena()
    batch = arena.empty(SMALL, FLOAT)
    assert arena.slots.caller_bytes == 0
    arena.slots.hand_over(batch)
    assert arena.slots.caller_bytes == SLOT
    row = batch[2]
    del batch
    assert arena.slots.caller_bytes == SLOT
    del row
    assert arena.slots.caller_bytes == 0
    assert ledger.charged_bytes == SLOT


def test_handing_over_a_part_hands_over_the_slot() -> None:
    _, arena = new_arena()
    row = arena.empty(SMALL, FLOAT)[5]
    arena.slots.hand_over(row)
    assert arena.slots.caller_bytes == SLOT


def test_handing_over_what_is_not_ours_does_nothing() -> None:
    _, arena = new_arena()
    for leaf in (np.zeros(3), np.zeros(3)[1:], np.frombuffer(b"12345678")):
        arena.slots.hand_over(leaf)
    assert arena.slots.caller_bytes == 0


def test_what_the_caller_holds_is_never_waited_for() -> None:
    """A caller that keeps every batch is not refused the next one: they are off the ledger when room is needed."""
    ledger, arena = new_arena(budget=15_000)
    kept = []
    for _ in range(20):
        kept.append(arena.empty(SMALL, FLOAT))
        arena.slots.hand_over(kept[-1])
        assert ledger.charged_bytes <= 15_000
    assert len({address(array) for array in kept}) == 20
    assert arena.slots.caller_bytes > 0


def test_a_caller_who_keeps_everything_does_not_slow_the_search_for_a_free_slot() -> None:
    """Of one size only so many are watched; the others are the caller's for good, and told of as such."""
    ledger, arena = new_arena()
    kept = []
    for _ in range(200):
        kept.append(arena.empty(SMALL, FLOAT))
        arena.slots.hand_over(kept[-1])
    assert ledger.charged_bytes <= 20 * SLOT
    assert arena.slots.caller_bytes == 200 * SLOT
    del kept[:50]
    assert arena.slots.caller_bytes == 150 * SLOT
    kept.clear()
    assert arena.slots.caller_bytes == 0
    for array in [arena.empty(SMALL, FLOAT) for _ in range(10)]:
        array[:] = 1


def test_what_the_pipeline_itself_holds_is_refused_over_budget() -> None:
    ledger, arena = new_arena(budget=15_000)
    kept = [arena.empty(SMALL, FLOAT) for _ in range(2)]
    with pytest.raises(OverBudget, match=r"asked for .* kB more and holds .* kB"):
        arena.empty(SMALL, FLOAT)
    assert ledger.charged_bytes == 2 * SLOT
    kept.pop()
    kept.append(arena.empty(SMALL, FLOAT))


def test_slots_of_other_sizes_make_room() -> None:
    ledger, arena = new_arena(budget=15_000)
    arena.empty(SMALL, FLOAT)
    arena.empty((600,), FLOAT)
    kept = arena.empty((1600,), FLOAT)
    assert ledger.charged_bytes == slot_bytes(kept.nbytes)


def test_a_slot_that_comes_back_from_the_caller_is_charged_again() -> None:
    ledger, arena = new_arena(budget=15_000)
    batch = arena.empty(SMALL, FLOAT)
    arena.slots.hand_over(batch)
    arena.slots.release_unused()
    assert (ledger.charged_bytes, arena.slots.caller_bytes) == (0, SLOT)
    where = address(batch)
    del batch
    again = arena.empty(SMALL, FLOAT)
    assert address(again) == where
    assert (ledger.charged_bytes, arena.slots.caller_bytes) == (SLOT, 0)


def test_who_can_do_without_does_not_get_what_the_next_batch_will_use() -> None:
    ledger, arena = new_arena(budget=100_000)
    where = address(arena.empty(SMALL, FLOAT))
    assert arena.slots.unused_bytes == SLOT
    assert not ledger.share("map").has_room(100_000 - SLOT + 1)
    assert ledger.share("map").try_acquire(100_000 - SLOT) is None
    assert address(arena.empty(SMALL, FLOAT)) == where
    ledger.share("batch").charge(100_000 - SLOT + 1)  # who cannot does
    assert arena.slots.unused_bytes == 0


def test_who_can_do_without_gets_what_was_not_used_for_long() -> None:
    ledger, arena = new_arena(budget=100_000)
    arena.empty((600,), FLOAT)
    for _ in range(100):
        arena.empty(SMALL, FLOAT)
    assert ledger.share("map").has_room(100_000 - SLOT)
    assert ledger.charged_bytes == arena.slots.unused_bytes == SLOT


def test_slots_in_use_and_those_off_the_ledger_are_no_room() -> None:
    ledger, arena = new_arena(budget=100_000)
    batch = arena.empty(SMALL, FLOAT)
    assert arena.slots.unused_bytes == 0
    arena.slots.hand_over(batch)
    arena.slots.release_idle()
    del batch
    assert (arena.slots.unused_bytes, ledger.charged_bytes) == (0, 0)


def all_slots_bytes(slots: Slots) -> int:
    return sum(slot.nbytes for slot in slots.by_base.values())


def test_no_slot_that_the_caller_dropped_stays_off_the_ledger() -> None:
    """Batches of ever new sizes: each comes back to the ledger when the next is made, or its memory is freed."""
    ledger, arena = new_arena(budget=30_000)
    for size in range(1000, 2000, 100):
        batch = arena.empty((size,), FLOAT)
        assert all_slots_bytes(arena.slots) == ledger.charged_bytes
        arena.slots.hand_over(batch)
        arena.slots.release_idle()
        assert all_slots_bytes(arena.slots) - slot_bytes(batch.nbytes) == ledger.charged_bytes
        del batch


@pytest.mark.parametrize("room_for", [1, 2, 3])
def test_slots_that_the_caller_dropped_come_back_to_the_account_they_were_on(room_for: int) -> None:
    ledger = Ledger(room_for * SLOT)
    arena = Arena(Slots(ledger), ledger.share("batch", room_for * SLOT))
    batches = []
    for _ in range(3):
        batches.append(arena.empty(SMALL, FLOAT))
        arena.slots.hand_over(batches[-1])
    arena.slots.release_idle()
    assert (ledger.charged_bytes, arena.slots.caller_bytes) == (0, 3 * SLOT)
    batches.clear()
    arena.slots.release_idle()
    assert all_slots_bytes(arena.slots) == ledger.charged_bytes == room_for * SLOT


def test_slots_that_the_caller_dropped_leave_the_headroom_to_others() -> None:
    ledger, arena = new_arena(budget=2 * SLOT)
    batches = [arena.empty(SMALL, FLOAT) for _ in range(2)]
    for batch in batches:
        arena.slots.hand_over(batch)
    arena.slots.release_idle()
    del batch
    batches.clear()
    arena.slots.release_idle()
    assert all_slots_bytes(arena.slots) == ledger.charged_bytes == SLOT


def test_at_the_smallest_budget_slots_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller has a batch, on either account, while the next is made: neither is made anew."""
    made: list[int] = []
    make = penstock.memory.arena.new_base
    monkeypatch.setattr(penstock.memory.arena, "new_base", lambda size, used: made.append(size) or make(size, used))
    ledger = Ledger(2 * SLOT)
    slots = Slots(ledger)
    batch, ahead = Arena(slots, ledger.share("batch", SLOT)), Arena(slots, ledger.share("prefetch", SLOT))
    callers = None
    for _ in range(20):
        ready = batch.empty(SMALL, FLOAT)
        ahead.take_over(Block.of_columns(LEAF, [ready], len(ready)))
        slots.hand_over(ready)
        callers, ready = ready, None
    assert callers is not None
    assert made == [SLOT, SLOT]


def test_a_slot_on_the_floor_of_another_is_not_freed_for_who_gains_nothing_by_it() -> None:
    ledger = Ledger(3 * SLOT)
    arena = Arena(Slots(ledger), ledger.share("batch", SLOT))
    reader = ledger.share("read")
    arena.empty(SMALL, FLOAT)
    with pytest.raises(OverBudget):
        reader.charge(2 * SLOT + 1)
    assert arena.slots.unused_bytes == SLOT
    kept = [arena.empty(SMALL, FLOAT) for _ in range(2)]
    kept.clear()
    reader.charge(2 * SLOT)
    assert arena.slots.unused_bytes == SLOT  # one was on the slack
    arena.empty((600,), FLOAT)  # its own share gets it
    assert arena.slots.unused_bytes == slot_bytes(4800)
    ledger.let_go()
    assert arena.slots.unused_bytes == 0


# --- closing ---


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("handed_over", [True, False])
def test_arrays_outlive_their_arena(shape: tuple[int, ...], handed_over: bool) -> None:
    ledger, arena = new_arena()
    array = arena.empty(shape, FLOAT)
    array[:] = 5
    if handed_over:
        arena.slots.hand_over(array)
    arena.slots.close()
    assert ledger.charged_bytes == 0
    assert (arena.slots.caller_bytes >= array.nbytes) if handed_over else (arena.slots.caller_bytes == 0)
    others = [arena.empty(shape, FLOAT) for _ in range(3)]
    for other in others:
        other[:] = 0
    assert (array == 5).all()
    assert ledger.charged_bytes == 0
    arena.slots.close()


def test_memory_goes_back_when_the_last_view_is_dropped_after_closing() -> None:
    _, arena = new_arena()
    array = arena.empty(LARGE, FLOAT)
    base = array.base
    arena.slots.close()
    assert sys.getrefcount(base) == 3  # this name, the array, and the call itself
    del array
    assert sys.getrefcount(base) == 2


# --- what is not in slots ---


def test_bytes_that_no_slot_holds() -> None:
    _, arena = new_arena()
    users = np.zeros((10, 4))
    users.flags.writeable = False
    slot = arena.empty((1000, 4), FLOAT)
    fresh = np.zeros((10, 4))

    def unaccounted(*rows: Any) -> int:
        return arena.unaccounted_bytes(Block.of_rows(list(rows)))

    assert arena.unaccounted_bytes(Block.of_columns(LEAF, [slot], 1000)) == 0
    assert arena.unaccounted_bytes(Block.of_columns(LEAF, [users[2:]], 8)) == 0
    assert arena.unaccounted_bytes(Block.of_columns(LEAF, [fresh], 10)) == 320
    assert unaccounted(slot[1], users[1], Failed(ValueError())) == 0
    assert unaccounted(fresh[1], (fresh[2], slot[3])) == 64
    assert unaccounted(np.float32(1), {"a": np.zeros(3), "b": users[0]}) == 28
    splits = np.array([0, 400, 1000])
    assert unaccounted(Ragged(slot, splits), Ragged(fresh, splits)) == 24 + 24 + 320
    assert unaccounted(Sparse(np.zeros((10, 1), np.int64), slot[:10, 0], np.array([99]))) == 88


def pages_present(array: np.ndarray) -> float:
    """Which part of an array's memory is there."""
    start, end = array.ctypes.data, array.ctypes.data + array.nbytes
    first, last = start // mmap.PAGESIZE, -(-end // mmap.PAGESIZE)
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        entries = np.frombuffer(os.pread(file.fileno(), 8 * (last - first), 8 * first), np.uint64)
    return float((entries >> np.uint64(63)).mean())


@pytest.mark.parametrize("megabytes, touched", [(1, True), (1.5, True), (2, True), (3.5, True), (8, False)])
def test_new_slots_are_there_before_they_are_written(megabytes: float, touched: bool) -> None:
    ledger = Ledger(64 << 20)
    arena = Arena(Slots(ledger), ledger.share("batch"))
    slot = arena.empty((int(megabytes * (1 << 20)),), np.dtype(np.uint8))
    untouched = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        mmap.mmap(-1, 4096).madvise(23)
    except OSError:  # a kernel before 5.14: slots are as they come
        touched = False
    if pages_present(np.frombuffer(untouched, np.uint8)) > 0.5:  # here all memory is there at once
        touched = True
    assert pages_present(slot) == 1 if touched else pages_present(slot) < 0.5


@pytest.mark.parametrize("megabytes", [5.6, 16.1, 18.4, 19.5])
def test_what_an_array_leaves_of_its_slot_takes_no_pages(megabytes: float) -> None:
    """Sizes are rounded up; a huge page at the end would be there as a whole."""
    ledger = Ledger(64 << 20)
    arena = Arena(Slots(ledger), ledger.share("batch"))
    array = arena.empty((int(megabytes * (1 << 20)),), np.dtype(np.uint8))
    array[:] = 1
    (slot,) = arena.slots.by_base.values()
    untouched = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if pages_present(np.frombuffer(untouched, np.uint8)) < 0.5:  # else all memory is there at once
        assert slot.nbytes > array.nbytes + 2 * mmap.PAGESIZE
        assert pages_present(slot.base[array.nbytes + mmap.PAGESIZE :]) == 0
    assert array.all()


def test_the_rows_behind_an_array_that_was_cut_short_take_no_pages() -> None:
    ledger = Ledger(64 << 20)
    arena = Arena(Slots(ledger), ledger.share("batch"))
    array = arena.empty((8, 1 << 20), np.dtype(np.uint8))
    array[:] = 1
    where, charged = address(array), ledger.charged_bytes
    array = arena.cut_short(array, 3)
    (slot,) = arena.slots.by_base.values()
    assert array.shape == (3, 1 << 20)
    assert array.all()
    assert pages_present(array) == 1
    assert pages_present(slot.base[array.nbytes :]) == 0
    assert ledger.charged_bytes == charged  # the slot is the same, and whole again for the next
    del array
    again = arena.empty((8, 1 << 20), np.dtype(np.uint8))
    again[:] = 2
    assert address(again) == where
    assert (again == 2).all()


@pytest.mark.parametrize("shape", [(2, 10), SMALL, LARGE])
def test_small_arrays_can_be_cut_short_too(shape: tuple[int, ...]) -> None:
    _, arena = new_arena()
    array = arena.empty(shape, FLOAT)
    array[:] = 3
    assert (arena.cut_short(array, 1) == np.full((1, *shape[1:]), 3.0)).all()


def test_slots_are_made_where_the_kernel_cannot_touch_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.slot_memory._POPULATE_WRITE", 9999)
    ledger = Ledger(64 << 20)
    slot = Arena(Slots(ledger), ledger.share("batch")).empty((1 << 20,), np.dtype(np.uint8))
    slot[:] = 1
    assert slot.sum() == 1 << 20
