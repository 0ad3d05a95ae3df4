"""The cursor of parallel calls, on inputs and functions of its own: how pieces are cut, and what becomes of errors."""

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.cursor import Cursor
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.plan.traits import Traits
from penstock.runtime.backends.threads import ParallelCursor
from penstock.runtime.meter import Meter
from tests.unit.fakes import ListCursor, Raises, all_of, all_with_errors

D = ps.Dataset
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


class Bad(Exception):
    pass


def parallel(
    cursor: Cursor,
    num: int = 2,
    ordered: bool = True,
    function: Any = None,
    budget: int = 1_000_000,
    live: bool = False,
    tells: bool = False,
    floor: int = 0,
) -> tuple[ParallelCursor, Ledger]:
    ledger = Ledger(budget)
    arena = Arena(Slots(ledger), ledger.share("slots"))
    call = function or (lambda block, place: Block.of_rows([row * 10 for row in block.rows()]))
    traits = Traits(num_parallel_calls=num, tells_failures=tells)
    share = ledger.share("map", floor)
    return ParallelCursor(lambda: cursor, call, traits, ordered, share, arena, Meter("map"), live=live), ledger


# --- more at a time than was asked for ---


def numbers(count: int) -> list[Any]:
    return list(np.arange(count))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_cheap_function_of_small_elements_is_called_on_more_than_was_asked_for(ordered: bool) -> None:
    source = ListCursor(numbers(20_000))
    cursor, ledger = parallel(source, ordered=ordered)
    assert sorted(all_of(cursor, 1)) == [i * 10 for i in range(20_000)]
    assert max(source.asked) > 100
    cursor.close()
    assert ledger.charged_bytes == 0


def test_no_more_is_in_flight_than_was_delivered_nor_than_the_bound() -> None:
    source = ListCursor(numbers(40_000))
    cursor, _ = parallel(source)
    for taken in range(1, 40_001):
        assert cursor.pull(1) is not None
        assert source.place - taken <= max(6, min(taken, 8192))
    cursor.close()


def images(block: Block, place: int) -> Block:
    return Block.of_rows([np.zeros(40_000) for _ in block.rows()])


def sums(block: Block, place: int) -> Block:
    return Block.of_rows([row.sum() for row in block.rows()])


@pytest.mark.parametrize("rows, options", [
    (numbers(1000), {"live": True}),
    (numbers(1000), {"tells": True}),
    (numbers(1000), {"function": images}),
    ([np.zeros(40_000)] * 1000, {"function": sums}),
    (numbers(1000), {"budget": 500}),
    ([D.range(3)] * 1000, {"function": lambda block, place: Block.of_rows([np.int64(1)] * block.size)}),
])  # fmt: skip
def test_what_waits_or_counts_or_is_large_or_does_not_say_comes_as_it_was_asked_for(
    rows: list[Any], options: dict[str, Any]
) -> None:
    source = ListCursor(rows)
    cursor, _ = parallel(source, **options)
    assert len(all_of(cursor, 4)) == 1000
    assert max(source.asked) <= 2  # a fair part of what was asked for
    cursor.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_cheap_elements_that_are_large_are_joined_and_no_more_are_in_flight(ordered: bool) -> None:
    def function(block: Block, place: int) -> Block:
        return Block.of_rows([np.full(300_000, row, np.uint8) for row in block.rows()])

    source = ListCursor(numbers(1200))
    cursor, ledger = parallel(source, num=4, ordered=ordered, function=function, budget=300_000_000)
    found = []
    while (block := cursor.pull(1)) is not None:
        found.append(int(block.rows()[0][0]))
        # Eight pieces while the consumer waits; and each worker may have begun one that was allowed when it looked.
        assert source.place - len(found) <= (8 + 4) * 4
    assert sorted(found) == sorted(i % 256 for i in range(1200))
    assert max(source.asked[:64]) == 1  # a few cheap ones prove nothing
    assert max(source.asked) in (2, 3, 4)
    cursor.close()
    assert ledger.charged_bytes == 0


def test_dear_elements_are_not_joined() -> None:
    never = threading.Event()

    def function(block: Block, place: int) -> Block:
        never.wait(0.001)
        return Block.of_rows([np.full(300_000, row, np.uint8) for row in block.rows()])

    source = ListCursor(numbers(300))
    cursor, _ = parallel(source, num=4, function=function, budget=300_000_000)
    assert len(all_of(cursor, 1)) == 300
    assert max(source.asked) == 1
    cursor.close()


def test_elements_of_which_half_are_dear_are_not_joined() -> None:
    """All that are in one piece wait for each other: four workers would have no more to do than two."""
    never = threading.Event()

    def function(block: Block, place: int) -> Block:
        for row in block.rows():
            if row % 2:
                never.wait(0.004)
        return Block.of_rows([np.full(300_000, row, np.uint8) for row in block.rows()])

    source = ListCursor(numbers(600))
    cursor, _ = parallel(source, num=4, function=function, budget=300_000_000)
    assert len(all_of(cursor, 1)) == 600
    assert sum(asked == 1 for asked in source.asked) > 550
    cursor.close()


def test_joined_elements_come_singly_where_memory_is_short() -> None:
    def function(block: Block, place: int) -> Block:
        return Block.of_rows([np.full(100_000, row, np.uint8) for row in block.rows()])

    source = ListCursor(numbers(600))
    cursor, ledger = parallel(source, num=4, function=function, budget=400_000, floor=125_000)
    assert len(all_of(cursor, 1)) == 600
    assert ledger.peak_bytes <= 400_000
    assert max(source.asked) == 1
    cursor.close()


# --- who holds what ---


class Fresh(ListCursor):
    """Elements that nobody else refers to."""

    def __init__(self, count: int) -> None:
        super().__init__(numbers(count))
        self.given: list[Any] = []

    def pull(self, n: int) -> Block | None:
        block = super().pull(n)
        if block is None:
            return None
        rows = [np.full(10, row) for row in block.rows()]
        self.given += map(weakref.ref, rows)
        return Block.of_rows(rows)


def test_what_a_function_was_called_with_is_dropped_before_its_result_can_be_taken() -> None:
    """It may lie in a slot, and that on the floor of the piece which is the first in turn then."""
    source = Fresh(50)
    cursor, _ = parallel(source, num=1, function=lambda block, place: Block.of_rows([np.int64(1)] * block.size))
    alive: list[Any] = []
    cursor._tuner.finished = lambda count: alive.extend(ref() for ref in source.given)  # type: ignore[method-assign]
    assert len(all_of(cursor, 1)) == 50
    assert len(alive) >= 50
    assert not any(array is not None for array in alive)
    cursor.close()


def test_there_is_no_moment_in_which_what_was_in_flight_is_with_nobody() -> None:
    """Who waits for memory looks without a lock: nothing held and nothing released would be a refusal."""

    class Given(list[Any]):
        def pop(self, *args: Any) -> Any:
            assert not self[-1].nbytes  # released by now
            return super().pop(*args)

    cursor, _ = parallel(ListCursor(numbers(50)), num=1, function=images)
    leave = cursor._leave

    def leaving(ticket: Any) -> None:
        assert ticket.lease in cursor._given
        leave(ticket)

    cursor._given, cursor._leave = Given(), leaving  # type: ignore[method-assign]
    assert len(all_of(cursor, 1)) == 50
    cursor.close()


def test_an_input_that_is_slow_to_come_is_not_waited_for_in_large_pieces() -> None:
    never = threading.Event()

    class Slow(ListCursor):
        def pull(self, n: int) -> Block | None:
            never.wait(0.0005 * n)
            return super().pull(n)

    source = Slow(numbers(300))
    cursor, _ = parallel(source)
    assert len(all_of(cursor, 1)) == 300
    assert max(source.asked) <= 4
    cursor.close()


def test_pieces_become_small_again_when_the_function_becomes_dear() -> None:
    never = threading.Event()

    def function(block: Block, place: int) -> Block:
        if place > 20_000:
            never.wait(0.001 * block.size)
        return block

    source = ListCursor(numbers(24_000))
    cursor, _ = parallel(source, function=function)
    assert len(all_of(cursor, 1)) == 24_000
    assert max(source.asked) > 100
    assert source.asked[-2] <= 4
    cursor.close()


def test_each_element_is_called_once_although_some_fail() -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(int(x))
        if x % 100 == 50:
            raise Bad
        return x

    with D.range(5000).map(function, num_parallel_calls=2).run() as run:
        assert sum(isinstance(x, Bad) for x in all_with_errors(run)) == 50
    assert sorted(calls) == list(range(5000))


def test_errors_and_positions_in_large_pieces() -> None:
    def function(x: Any) -> Any:
        if x % 997 == 0:
            raise Bad(int(x))
        return x

    def dataset() -> Any:
        return D.range(9000).map(function, num_parallel_calls=2)

    with dataset().run() as run:
        for i in range(8000):
            if i % 997 == 0:
                with pytest.raises(Bad) as caught:
                    next(run)
                assert caught.value.args == (i,)
                assert f"element {i}" in caught.value.__notes__[0]
            else:
                assert next(run) == i
            if i % 1500 == 1499:
                with dataset().run() as again:
                    again.load_state_dict(run.state_dict())
                    assert next(again) == i + 1


@pytest.mark.parametrize("n", [1, 3, 100])
@pytest.mark.parametrize("most", [1, 2, 100])
def test_blocks_of_any_size_come_out_in_order(n: int, most: int) -> None:
    cursor, ledger = parallel(ListCursor(list(range(50)), most))
    assert all_of(cursor, n) == [i * 10 for i in range(50)]
    cursor.close()
    assert ledger.charged_bytes == 0


def test_an_input_that_raises_is_told_after_what_came_before_it() -> None:
    cursor, ledger = parallel(ListCursor([1, 2, Raises(Bad()), 4], most=1))
    assert [cursor.pull(1).rows() for _ in range(2)] == [[10], [20]]  # type: ignore[union-attr]
    with pytest.raises(Bad):
        cursor.pull(1)
    cursor.close()
    assert ledger.charged_bytes == 0


class Stateless(ListCursor):
    def state(self) -> Any:
        raise Bad("no state")


@pytest.mark.timeout(10)
def test_an_input_that_cannot_tell_its_position_is_an_error_and_not_a_hang() -> None:
    cursor, _ = parallel(Stateless([1, 2, 3]))
    with pytest.raises(Bad):
        cursor.pull(1)
    cursor.close()


def test_a_function_of_blocks_that_raises_is_told_in_its_place() -> None:
    def function(block: Block, place: int) -> Block:
        if place == 2:
            raise Bad
        return block

    cursor, _ = parallel(ListCursor(list(range(5)), most=1), function=function)
    assert [cursor.pull(1).rows() for _ in range(2)] == [[0], [1]]  # type: ignore[union-attr]
    with pytest.raises(Bad):
        cursor.pull(1)
    cursor.close()


def test_places_are_counted_in_the_order_of_the_input() -> None:
    places: dict[int, int] = {}

    def function(block: Block, place: int) -> Block:
        places.update({row: place + i for i, row in enumerate(block.rows())})
        return block

    cursor, _ = parallel(ListCursor(list(range(100)), most=3), num=4, function=function)
    assert all_of(cursor, 8) == list(range(100))
    assert places == {i: i for i in range(100)}
    cursor.close()


def test_skipping_before_the_start_calls_nothing() -> None:
    source = ListCursor(list(range(10)))
    cursor, _ = parallel(source)
    assert cursor.skip(4) == 4
    assert source.asked == []
    assert all_of(cursor, 2) == [40, 50, 60, 70, 80, 90]
    assert cursor.skip(1) == 0
    cursor.close()


def test_closing_closes_the_input_and_may_come_at_any_time() -> None:
    source = ListCursor(list(range(10)))
    cursor, _ = parallel(source)
    cursor.close()
    assert source.num_closed == 1
    cursor.close()


# --- who comes first may grow ---


@pytest.mark.parametrize("ordered", [True, False])
def test_the_piece_that_is_waited_for_may_grow_to_the_floor_whatever_those_behind_it_hold(ordered: bool) -> None:
    """Later pieces end first, and take all that is to be had: the first, the largest of all, finds its floor."""
    others_hold = threading.Event()
    cursor, ledger = parallel(
        ListCursor(numbers(40)), num=4, ordered=ordered, function=lambda block, place: grown(block), budget=40_000,
        floor=16_000,
    )  # fmt: skip

    def grown(block: Block) -> Block:
        number = block.rows()[0]
        if number == 20:
            others_hold.wait(1)
            return Block.of_rows([np.zeros(2_000)] * block.size)
        if number > 20 and ledger.slack_bytes < 3_000:
            others_hold.set()
        return Block.of_rows([np.zeros(125 if number < 20 else 375) for _ in block.rows()])

    assert sorted(map(len, all_of(cursor, 1))) == [125] * 20 + [375] * 19 + [2_000]
    cursor.close()
    assert ledger.charged_bytes == 0


def test_elements_that_are_not_sure_to_fit_are_begun_one_at_a_time() -> None:
    source = ListCursor([np.zeros(1_000)] * 30)
    cursor, ledger = parallel(
        source, num=1, function=lambda block, place: Block.of_rows([row + 1 for row in block.rows()]), budget=18_000,
        floor=16_000,
    )  # fmt: skip
    assert len(all_of(cursor, 8)) == 30
    assert max(source.asked) == 1
    cursor.close()
    assert ledger.charged_bytes == 0
