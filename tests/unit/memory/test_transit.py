"""Transit: how many elements a stage makes at a time, and that they are on the ledger while they are on their way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ElementTooLarge
from penstock.memory.ledger import Ledger
from penstock.memory.transit import Transit


def test_the_first_of_unknown_size_is_made_alone() -> None:
    ledger = Ledger(100_000)
    transit = Transit(ledger.share("map"), None)
    assert transit.begin(32) == 1
    transit.add(1000)
    assert transit.begin(8) == 8
    assert 1 < transit.begin(10_000) < 30  # a quarter of what is free
    assert ledger.charged_bytes >= 1250  # the next one, before it is made


def test_elements_of_known_size_are_made_as_many_as_are_asked_for() -> None:
    transit = Transit(Ledger(1_000_000).share("read"), 100)
    assert transit.begin(32) == 32
    # Of more than a few the objects around them count too.
    assert transit.begin(200) == 200
    assert transit.begin(100_000) == (1_000_000 - 100_000) // 4 // (100 + 128)


def test_elements_of_a_few_bytes_are_not_made_by_the_hundred_thousand() -> None:
    transit = Transit(Ledger(1_000_000_000).share("map"), 8)
    assert transit.begin(1_000_000) == 8192


def test_with_no_slack_one_is_made_at_a_time_out_of_the_floor() -> None:
    ledger = Ledger(1000)
    ledger.share("others", 900)
    transit = Transit(ledger.share("map", 100), 100)
    for _ in range(3):
        assert transit.begin(32) == 1
        assert not transit.add(100)
        assert ledger.charged_bytes == 100


def test_what_a_stage_holds_for_itself_on_its_floor_does_not_make_blocks_small() -> None:
    share = Ledger(1_000_000).share("read", 500_000)
    transit = Transit(share, None)
    transit.begin(1)
    transit.add(100)
    share.acquire(499_000)  # such as the part of a file
    assert transit.begin(256) == 256


def test_what_is_on_its_way_is_charged_until_the_next_pull() -> None:
    ledger = Ledger(100_000)
    transit = Transit(ledger.share("map"), None)
    transit.begin(1)
    transit.add(5000)
    assert ledger.charged_bytes == 5000
    transit.begin(1)
    transit.add(10)
    transit.begin(1)
    transit.begin(1)
    assert ledger.charged_bytes <= 6250  # room for one like the largest
    transit.close()
    assert ledger.charged_bytes == 0


def test_one_that_does_not_fit_is_too_large_and_says_what_would() -> None:
    transit = Transit(Ledger(1000).share("map"), None)
    transit.begin(1)
    with pytest.raises(ElementTooLarge, match="memory=1_500"):
        transit.add(1500)


def test_an_outlier_ends_the_block() -> None:
    transit = Transit(Ledger(100_000).share("map"), None)
    transit.begin(1)
    transit.add(100)
    assert transit.begin(1000) > 10
    assert transit.add(100)
    assert not transit.add(30_000)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    budget=st.integers(4000, 100_000),
    demand=st.integers(1, 50),
)
def test_whatever_the_sizes_what_is_made_is_charged(sizes: list[int], budget: int, demand: int) -> None:
    ledger = Ledger(budget)
    transit = Transit(ledger.share("map"), None)
    left = list(sizes)
    while left:
        made = 0
        for _ in range(transit.begin(demand)):
            if not left:
                break
            nbytes = left.pop(0)
            more = transit.add(nbytes)
            made += nbytes
            assert ledger.charged_bytes >= made
            if not more:
                break
        assert made <= budget
    transit.close()
    assert ledger.charged_bytes == 0


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 4)), min_size=1, max_size=20))
def test_what_a_stage_held_is_adopted_without_being_free_for_a_moment(blocks: list[tuple[int, int]]) -> None:
    ledger = Ledger(100_000)
    share, others = ledger.share("shuffle"), ledger.share("others")
    transit = Transit(share, None)
    held = sum(each * count for each, count in blocks)
    share.charge(held)
    others.charge(100_000 - held)  # from now on not one byte is free, or was ever
    for each, count in blocks:
        transit.begin(count)
        transit.adopt(each * count, count)
        held -= each * count
        assert held + each * count <= share.charged_bytes <= ledger.charged_bytes - others.charged_bytes
    transit.close()
    assert share.charged_bytes == 0


def test_what_is_reserved_and_not_there_others_may_have_who_would_be_refused() -> None:
    ledger = Ledger(2000)
    share = ledger.share("map", 2000)
    transit = Transit(share, None)
    transit.begin(1)
    transit.add(1000)
    transit.begin(1)
    assert ledger.charged_bytes == 1250
    lease = share.acquire(900)
    assert ledger.charged_bytes == 900
    transit.add(1000)
    lease.release()
    transit.close()
    assert ledger.charged_bytes == 0
