"""Batches that threads fill: elements, errors and positions are as without, and all that is held is counted."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.cursor import Cursor
from penstock.element import Failed
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.ops.calling import Calls
from penstock.plan.traits import Traits
from penstock.runtime.backends.filling import Filling
from penstock.runtime.backends.threads import ParallelCursor
from penstock.runtime.meter import Meter
from tests.unit.fakes import ListCursor, Raises, all_with_errors

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)

SIDE = 128  # squared, as float32: just large enough
NBYTES = SIDE * SIDE * 4
BATCH = 4


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert not set(threading.enumerate()) - before


class Bad(Exception):
    pass


def image(x: Any) -> np.ndarray:
    return np.full((SIDE, SIDE), x, np.float32)


def filling(
    source: Cursor,
    function: Callable[..., Any] = image,
    ordered: bool = True,
    budget: int = 100_000_000,
    floor: int = 0,
    num: int = 2,
) -> tuple[ParallelCursor, Ledger]:
    ledger = Ledger(budget)
    share = ledger.share("map", floor)
    arena = Arena(Slots(ledger), share)
    context: Any = SimpleNamespace(share=share, arena=arena, noted=lambda error, place: error)
    calls = Calls(function, context, into_slot=True)
    traits = Traits(num_parallel_calls=num)
    return ParallelCursor(lambda: source, calls, traits, ordered, share, arena, Meter("map")), ledger


def batches(cursor: Cursor, size: int = BATCH) -> Iterator[Block]:
    while (block := cursor.pull(size)) is not None:
        yield block


def firsts(blocks: list[Block]) -> list[Any]:
    """The number that each element was made of; failures as their errors."""
    rows = [row for block in blocks for row in block.rows()]
    return [row.error if type(row) is Failed else int(row.flat[0]) for row in rows]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_comes_as_one_block_in_one_slot(ordered: bool) -> None:
    cursor, ledger = filling(ListCursor(list(range(400))), ordered=ordered)
    blocks = list(batches(cursor))
    found = firsts(blocks)
    assert found == list(range(400)) if ordered else sorted(found) == list(range(400))
    whole = [block for block in blocks if block.columns is not None and block.size == BATCH]
    assert len(whole) > 80  # of 100; the first are made to see what they are like
    del blocks, whole
    cursor.close()
    cursor._arena.slots.close()
    assert ledger.charged_bytes == 0


def test_nothing_is_filled_before_as_much_was_delivered() -> None:
    source = ListCursor(list(range(400)))
    cursor, _ = filling(source)
    taken = 0
    for block in batches(cursor):
        taken += block.size
        assert source.place - taken <= max(6 * 2, taken)
    cursor.close()


@pytest.mark.parametrize("count", [100, 101, 103])
def test_the_last_batch_has_what_is_left(count: int) -> None:
    cursor, _ = filling(ListCursor(list(range(count))))
    blocks = list(batches(cursor))
    assert firsts(blocks) == list(range(count))
    assert cursor.pull(BATCH) is None
    assert not cursor._tickets
    cursor.close()


def test_an_input_in_small_blocks_and_one_that_raises() -> None:
    rows: list[Any] = [*range(90), Raises(Bad()), 91]
    cursor, ledger = filling(ListCursor(rows, most=1))
    found: list[Block] = []
    with pytest.raises(Bad):
        found.extend(batches(cursor))
    assert firsts(found) == list(range(90)) or len(firsts(found)) >= 88
    cursor.close()
    del found
    cursor._arena.slots.close()
    assert ledger.charged_bytes == 0


def failing(x: Any) -> Any:
    if x % 7 == 5:
        raise Bad(int(x))
    return image(x)


def unlike(x: Any) -> Any:
    return np.full(3, x) if x % 7 == 5 else image(x)


def large_at_times(x: Any) -> Any:
    return np.full(10 * NBYTES, x % 256, np.uint8) if x == 57 else image(x)


@pytest.mark.parametrize("function", [failing, unlike, large_at_times])
def test_what_cannot_be_in_the_slot_stands_in_its_place(function: Callable[..., Any]) -> None:
    cursor, ledger = filling(ListCursor(list(range(200))), function)
    found = [x.args[0] if isinstance(x, Bad) else x for x in firsts(list(batches(cursor)))]
    assert found == list(range(200))
    cursor.close()
    cursor._arena.slots.close()
    assert ledger.charged_bytes == 0
    assert ledger.peak_bytes <= 100_000_000


def test_fillings_that_do_not_begin_with_a_batch_are_given_in_parts() -> None:
    """Who lost a batch to a failure begins the next behind it."""
    cursor, _ = filling(ListCursor(list(range(300))))
    blocks = [next(batches(cursor)) for _ in range(30)]
    place = sum(block.size for block in blocks)
    odd = cursor.pull(1)
    assert odd is not None
    assert firsts([odd]) == [place]
    rest = list(batches(cursor))
    assert firsts(rest) == list(range(place + 1, 300))
    assert sum(block.columns is not None and block.size == BATCH for block in rest[10:]) > 10  # in step again
    cursor.close()


@pytest.mark.parametrize("function", [image, failing])
def test_a_position_anywhere_is_that_of_what_was_delivered(function: Callable[..., Any]) -> None:
    cursor, _ = filling(ListCursor(list(range(100))), function)
    place = 0
    for n in [4] * 12 + [1, 3, 2, 4, 4, 1, 4, 4]:
        block = cursor.pull(n)
        assert block is not None
        place += block.size
        again, _ = filling(ListCursor(list(range(100))), function)
        again.restore(cursor.state())
        found = [x.args[0] if isinstance(x, Bad) else x for x in firsts(list(batches(again)))]
        assert found == list(range(place, 100))
        again.close()
    cursor.close()


def test_a_position_in_any_order_has_what_was_not_delivered() -> None:
    cursor, _ = filling(ListCursor(list(range(100))), ordered=False)
    taken: list[Any] = []
    for block in batches(cursor):
        taken += firsts([block])
        again, _ = filling(ListCursor(list(range(100))), ordered=False)
        again._open_input = lambda: ListCursor(list(range(100)))
        again.restore(cursor.state())
        assert sorted(taken + firsts(list(batches(again)))) == list(range(100))
        again.close()
    cursor.close()


@pytest.mark.parametrize("budget", [3 * NBYTES, 6 * NBYTES, 12 * NBYTES, 60 * NBYTES])
def test_scarce_memory(budget: int) -> None:
    """Each element is dropped when the next is asked for, as a batch does that copies them."""
    cursor, ledger = filling(ListCursor(list(range(200))), budget=budget, floor=2 * NBYTES)
    found: list[Any] = []
    num_fillings = 0
    while (block := cursor.pull(BATCH)) is not None:
        found += firsts([block])
        num_fillings += sum(isinstance(ticket, Filling) for ticket in list(cursor._tickets))
        del block
    assert found == list(range(200))
    assert bool(num_fillings) == (budget > 50 * NBYTES)
    assert ledger.peak_bytes <= budget
    cursor.close()


class Growing(ListCursor):
    """What goes in becomes large when batches are being filled."""

    def pull(self, n: int) -> Block | None:
        block = super().pull(n)
        if block is None:
            return None
        return Block.of_rows([np.full(8 * NBYTES if row > 60 else 10, row, np.uint8) for row in block.rows()])


def test_what_goes_in_becomes_large_and_nobody_waits_for_himself() -> None:
    budget = 40 * NBYTES
    cursor, ledger = filling(Growing(list(range(100))), lambda x: image(x[0]), budget=budget, floor=10 * NBYTES)
    found: list[Any] = []
    num_fillings = 0
    while (block := cursor.pull(BATCH)) is not None:
        found += firsts([block])
        num_fillings += sum(isinstance(ticket, Filling) for ticket in list(cursor._tickets))
        del block
    assert found == list(range(100))
    assert num_fillings
    assert ledger.peak_bytes <= budget
    cursor.close()


@pytest.mark.parametrize("num_taken", [1, 12, 20])
def test_who_stops_early_leaves_nothing_behind(num_taken: int) -> None:
    cursor, ledger = filling(ListCursor(list(range(1000))))
    for _ in range(num_taken):
        assert cursor.pull(BATCH) is not None
    cursor.close()
    cursor._arena.slots.close()
    assert ledger.charged_bytes == 0


@pytest.mark.parametrize("function", [image, failing, lambda x: (image(x), x), lambda x: {"a": image(x), "b": b"x"}])
@pytest.mark.parametrize("drop_remainder", [True, False])
def test_a_pipeline_gives_what_it_gives_without_threads(function: Callable[..., Any], drop_remainder: bool) -> None:
    def run(calls: int | None, start: Any = None) -> list[str]:
        dataset = D.range(90).map(function, num_parallel_calls=calls).batch(BATCH, drop_remainder).prefetch(2)
        with dataset.run(memory="64MB") as run:
            if start is not None:
                run.load_state_dict(start)
            return list(map(_shown, all_with_errors(run)))

    expected = run(None)
    assert run(2) == expected
    dataset = D.range(90).map(function, num_parallel_calls=2).batch(BATCH, drop_remainder).prefetch(2)
    with dataset.run(memory="64MB") as first:
        for i in range(1, len(expected)):
            try:
                next(first)
            except Bad:
                pass
            if i % 5 == 0:
                assert run(2, first.state_dict()) == expected[i:]


def _shown(batch: Any) -> str:
    if isinstance(batch, Exception):
        return repr(batch)
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple) else [batch]
    return str([(part.shape, part.dtype, part.reshape(len(part), -1)[:, 0].tolist()) for part in parts])


def test_slots_of_batches_that_are_filled_are_shown_with_their_stage() -> None:
    dataset = D.range(200).map(image, num_parallel_calls=2).batch(BATCH)
    with dataset.run(memory="64MB") as run:
        held: list[int] = []
        for _ in run:
            stages = run.stats()["stages"]
            held.append(max(stage["held_bytes"] for stage in stages if stage["name"].startswith("map")))
            assert run.ledger.charged_bytes <= 64_000_000
    assert max(held) >= BATCH * NBYTES
