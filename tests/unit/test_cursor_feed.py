"""Cursors and feeds: elements taken in any portions, and a position after each one."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.block import Block
from penstock.cursor import Cursor, Feed, FeedCursor, UnaryCursor, expect_list
from penstock.element import LEAF, Failed
from penstock.errors import StateError
from penstock.indexed import IndexCursor
from penstock.order import Index, Order, PermutationOrder, RangeOrder, TakeOrder, WindowOrder, as_array
from tests.unit.fakes import ListCursor, all_of


def failing_at(places: set[int], count: int) -> list[Any]:
    return [Failed(ValueError(i)) if i in places else i for i in range(count)]


def drawn(feed: Feed, steps: list[tuple[str, int]]) -> list[Any]:
    """What a feed gives for some steps; what is skipped counts as its places."""
    out: list[Any] = []
    for step, n in steps:
        if step == "next":
            row = feed.next(n)
            out += [] if row is Feed.END else [row]
        elif step == "take":
            block = feed.take(n)
            rows = [] if block is None else block.rows()
            assert not any(type(row) is Failed for row in rows[:-1]), "a failure may only be the last one"
            assert len(rows) <= n
            out += rows
        else:
            out += ["skipped"] * feed.skip(n)
    return out


def is_same(found: list[Any], expected: list[Any]) -> bool:
    return all(a == "skipped" or a is b for a, b in zip(found, expected, strict=True))


STEPS = st.lists(st.tuples(st.sampled_from(["next", "take", "skip"]), st.integers(1, 5)), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(count=st.integers(0, 20), bad=st.sets(st.integers(0, 19)), most=st.integers(1, 6), steps=STEPS)
def test_a_feed_gives_every_element_once_and_knows_where_it_is(
    count: int, bad: set[int], most: int, steps: list[tuple[str, int]]
) -> None:
    rows = failing_at(bad, count)
    feed = Feed(ListCursor(rows, most))
    out = drawn(feed, steps)
    assert is_same(out, rows[: len(out)])
    # The same position, saved and loaded into a new feed, goes on with the next element.
    again = Feed(ListCursor(rows, most))
    again.restore(feed.state())
    for resumed in (again, feed):
        rest = drawn(resumed, [("next", 1)] * count)
        assert is_same(rest, rows[len(out) :])
        assert resumed.next() is Feed.END


def test_a_feed_pulls_no_more_than_is_asked_for() -> None:
    cursor = ListCursor(list(range(10)))
    feed = Feed(cursor)
    feed.take(3)
    assert cursor.place == 3
    feed.next()
    assert cursor.place == 4
    feed.next(demand=4)
    assert cursor.place == 8
    feed.take(2)
    assert cursor.place == 8  # three still lay ready
    assert cursor.asked == [3, 1, 4]


def test_a_block_without_failures_is_given_as_it_came() -> None:
    """Columns stay columns: a batch of them is one copy, or none."""
    block = Block.of_columns(LEAF, [np.arange(4)], 4)

    class Whole(ListCursor):
        def pull(self, n: int) -> Block | None:
            return block

    assert Feed(Whole([])).take(4) is block


def test_a_failure_ends_what_is_taken() -> None:
    feed = Feed(ListCursor(failing_at({1, 2}, 5)))
    sizes = [block.size for _ in range(4) if (block := feed.take(5)) is not None]
    assert sizes == [2, 1, 2]


def test_a_feed_skips_what_lies_ready_and_then_the_cursor() -> None:
    cursor = ListCursor(list(range(10)))
    feed = Feed(cursor)
    feed.next(demand=4)
    assert feed.skip(5) == 5
    assert cursor.skipped == [2]
    assert feed.next() == 6
    assert feed.skip(100) == 3
    assert feed.skip(1) == 0


class Element:
    """Something that can be watched."""


def test_a_feed_pins_nothing_that_was_given() -> None:
    element = Element()
    alive = weakref.ref(element)
    cursor = ListCursor([element, 1])
    feed = Feed(cursor)
    del element
    feed.next(demand=2)
    feed.next()
    cursor.rows = []
    gc.collect()
    assert alive() is None


def test_a_feed_refuses_a_position_whose_elements_are_gone() -> None:
    feed = Feed(ListCursor([1, 2]))
    with pytest.raises(StateError, match="3 elements into a block that now has 2"):
        feed.restore([0, 3])


@pytest.mark.parametrize("state", [None, 3, [1], [1, 2, 3], "ab", {"a": 1, "b": 2}])
def test_a_position_of_another_kind_is_refused(state: Any) -> None:
    with pytest.raises(StateError, match="expected a saved position with 2 parts"):
        expect_list(state, 2)


def test_a_position_may_come_back_as_a_tuple() -> None:
    assert expect_list((1, [2]), 2) == [1, [2]]


def test_closing_goes_down() -> None:
    for make in (UnaryPass, FeedPass):
        cursor = ListCursor([1])
        make(cursor).close()
        assert cursor.num_closed == 1


class UnaryPass(UnaryCursor):
    def pull(self, n: int) -> Block | None:
        return self.input.pull(n)


class FeedPass(FeedCursor):
    def pull(self, n: int) -> Block | None:
        return self.feed.take(n)


@pytest.mark.parametrize("make", [UnaryPass, FeedPass])
def test_positions_of_thin_cursors_are_their_inputs(make: Any) -> None:
    cursor = make(ListCursor(list(range(6))))
    cursor.pull(2)
    again = make(ListCursor(list(range(6))))
    again.restore(cursor.state())
    assert all_of(again, 3) == [2, 3, 4, 5]


class Plain(ListCursor):
    """With the skip that every cursor has."""

    skip = Cursor.skip


def test_skipping_is_by_place_and_says_how_many_there_were() -> None:
    cursor = Plain(failing_at({1}, 3000), most=700)
    assert cursor.skip(2) == 2
    assert cursor.skip(2500) == 2500
    assert max(cursor.asked) <= 1024  # in portions: what is skipped is never held as a whole
    assert cursor.skip(1000) == 498
    assert cursor.skip(1) == 0


# --- a source read in an order ---


class Numbers:
    """A source of numbers that remembers how it was read."""

    def __init__(self) -> None:
        self.read_kinds: list[type] = []

    def read(self, index: Index) -> Block:
        self.read_kinds.append(type(index))
        numbers = as_array(index)
        return Block.of_columns(LEAF, [numbers * 10], len(numbers))


class Lease:
    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


ORDERS = [
    lambda: RangeOrder(10_000),
    lambda: PermutationOrder(RangeOrder(10_000), 5),
    lambda: WindowOrder(RangeOrder(10_000), 100, 5),
    lambda: TakeOrder(WindowOrder(RangeOrder(10**12), 7, 5), 5000),
]


@pytest.mark.parametrize("make", ORDERS)
@pytest.mark.parametrize("n", [1, 7, 4096, 5000, 20_000])
def test_a_source_is_read_in_its_order(make: Any, n: int) -> None:
    order: Order = make()
    expected = as_array(make().slice(0, int(order.length))) * 10
    assert all_of(IndexCursor(Numbers(), order), n) == expected.tolist()


@pytest.mark.parametrize("make", ORDERS)
def test_pulls_are_full_until_the_end(make: Any) -> None:
    """What takes blocks whole as batches relies on it."""
    cursor = IndexCursor(Numbers(), make())
    sizes = []
    while (block := cursor.pull(48)) is not None:
        sizes.append(block.size)
    assert set(sizes[:-1]) == {48}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(which=st.integers(0, 3), steps=st.lists(st.tuples(st.booleans(), st.integers(1, 6000)), max_size=8))
def test_skips_and_positions_of_a_source_are_exact(which: int, steps: list[tuple[bool, int]]) -> None:
    order = ORDERS[which]()
    expected = (as_array(ORDERS[which]().slice(0, int(order.length))) * 10).tolist()
    cursor, place = IndexCursor(Numbers(), order), 0
    for skip, n in steps:
        if skip:
            assert cursor.skip(n) == len(expected[place : place + n])
        else:
            block = cursor.pull(n)
            assert ([] if block is None else block.rows()) == expected[place : place + n]
        place = min(place + n, len(expected))
        assert cursor.state() == place
    again = IndexCursor(Numbers(), ORDERS[which]())
    again.restore(cursor.state())
    assert all_of(again, 1000) == expected[place:]


def test_neighbours_are_read_as_a_slice() -> None:
    source = Numbers()
    cursor = IndexCursor(source, RangeOrder(100))
    cursor.pull(10)
    cursor.pull(200)
    assert source.read_kinds == [slice, slice]


def test_elements_carry_their_numbers_where_an_order_is_cut_in_two() -> None:
    upper = PermutationOrder(RangeOrder(20), 3)
    lower = PermutationOrder(RangeOrder(20), 4)
    cursor = IndexCursor(Numbers(), lower, numbering=upper)
    block = cursor.pull(20)
    assert block is not None
    assert block.positions is not None
    assert block.positions.tolist() == as_array(upper.slice(0, 20)).tolist()
    assert block.rows() == (lower.at(block.positions) * 10).tolist()


def test_a_failure_further_down_makes_room_in_an_elastic_take_and_is_part_of_the_position() -> None:
    def cursor() -> IndexCursor:
        return IndexCursor(Numbers(), TakeOrder(RangeOrder(10), 3, elastic=True))

    first = cursor()
    first.pull(2)
    first.lost(2)
    state = first.state()
    assert all_of(first, 10) == [20, 30, 40]
    again = cursor()
    again.restore(state)
    assert all_of(again, 10) == [20, 30, 40]
    rigid = IndexCursor(Numbers(), TakeOrder(RangeOrder(10), 3))
    rigid.lost(2)
    assert all_of(rigid, 10) == [0, 10, 20]


def test_closing_gives_back_what_the_order_holds() -> None:
    lease = Lease()
    IndexCursor(Numbers(), RangeOrder(1), lease=lease).close()
    assert lease.released == 1


def test_peek_leaves_elements_to_be_taken() -> None:
    feed = Feed(ListCursor(list(range(6))))
    for n in (2, 4):
        block = feed.peek(n)
        assert block is not None
        assert block.rows() == [0, 1]  # what was pulled first is looked at first
    assert feed.skip(1) == 1
    block = feed.take(2, demand=4)
    assert block is not None
    assert block.rows() == [1]
    block = feed.take(2, demand=4)
    assert block is not None
    assert block.rows() == [2, 3]
    again = Feed(ListCursor(list(range(6))))
    again.restore(feed.state())
    assert [again.next(), again.next(), again.next()] == [4, 5, Feed.END]
    assert (feed.skip(9), feed.peek(1)) == (2, None)
