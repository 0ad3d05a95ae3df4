"""Working ahead of what is cheaper to make than to hand over: the thread leaves it to the consumer."""

import threading
from typing import Any

import pytest

from penstock.block import Block
from penstock.runtime.backends import ahead as ahead_module
from tests.unit.fakes import ListCursor, Raises, all_of
from tests.unit.runtime.test_ahead import Bad, Watched, ahead


class Dear(ListCursor):
    """Gives elements that take long from some place on, to some other place."""

    def __init__(self, rows: list[Any], start: int, stop: int) -> None:
        super().__init__(rows)
        self._dear = range(start, stop)
        self._never = threading.Event()
        self.pulled_by: list[str] = []

    def pull(self, n: int) -> Block | None:
        self.pulled_by += [threading.current_thread().name] * n
        if self.place in self._dear:
            self._never.wait(0.005)
        return super().pull(n)


def test_what_is_cheaper_than_a_hand_over_is_made_when_it_is_asked_for() -> None:
    source = Watched(list(range(2000)), most=100)
    cursor, ledger, meter = ahead(source, 2)
    taken = 0
    while meter.chosen["buffer_size"] != "inline":
        taken += cursor.pull(1).size  # type: ignore[union-attr]
    while source.num_given > taken:
        taken += cursor.pull(1).size  # type: ignore[union-attr]
    assert ledger.charged_bytes == 0
    block = cursor.pull(50)
    assert block is not None
    assert block.size == 50  # no buffer between: the whole demand is passed on
    assert source.num_given == taken + 50
    assert all_of(cursor, 7) == list(range(taken + 50, 2000))
    assert cursor.pull(1) is None
    cursor.close()


def test_the_thread_comes_back_when_elements_become_dear() -> None:
    source = Dear(list(range(3000)), 2000, 2100)
    cursor, _, meter = ahead(source, 2)
    found, sizes = [], []
    while (block := cursor.pull(1)) is not None:
        found += block.rows()
        sizes.append(meter.chosen["buffer_size"])
    cursor.close()
    assert found == list(range(3000))
    assert sizes[1990] == "inline"
    assert sizes[2090] == 2
    here = threading.current_thread().name
    assert source.pulled_by[1990] == here
    assert source.pulled_by[2090] != here


class Clocked(ListCursor):
    """Gives elements that take as long as its clock says, which is a microsecond, or 10 milliseconds for some."""

    def __init__(self, rows: list[Any], dear: set[int], each_ns: int = 1_000) -> None:
        super().__init__(rows)
        self._dear, self._each_ns = dear, each_ns
        self.now = 0

    def pull(self, n: int) -> Block | None:
        self.now += 10_000_000 if self.place in self._dear else self._each_ns
        return super().pull(n)


@pytest.mark.parametrize("dear, comes_back", [
    ({5_000, 5_100}, False),
    (set(range(5_000, 50_000, 500)), False),  # twice as long each time, it was once, until it never left again
    ({5_000, 5_010, 5_020, 5_030, 5_040}, True),
    (set(range(5_000, 50_000, 50)), True),
])  # fmt: skip
def test_a_moment_without_the_processor_is_no_reason_for_the_thread_to_come_back(
    dear: set[int], comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Clocked(list(range(20_000)), dear)
    monkeypatch.setattr(ahead_module, "perf_counter_ns", lambda: source.now)
    cursor, _, meter = ahead(source, 2)
    chosen = set()
    for place in range(20_000):
        cursor.pull(1)
        if place > 1000:
            chosen.add(meter.chosen["buffer_size"])
    cursor.close()
    assert chosen == ({2, "inline"} if comes_back else {"inline"})
    assert meter.chosen["buffer_size"] == "inline" or 19_950 in dear


@pytest.mark.parametrize("making_ns, waited_ns, tries", [
    (40_000, 0, True),
    (60_000, 0, False),
    (60_000, 14_000, False),  # a quarter of it is little: several threads make others meanwhile
    (60_000, 16_000, True),
    (140_000, 400_000, True),
    (160_000, 400_000, False),  # that is no wait for the interpreter any more
])  # fmt: skip
def test_the_consumer_tries_for_itself_what_may_be_cheap_if_it_waits_for_it(
    making_ns: int, waited_ns: int, tries: bool
) -> None:
    cursor, _, meter = ahead(ListCursor(list(range(10))), 2)
    cursor._made, cursor._making_ns = 64, 64 * making_ns
    cursor._taken, cursor._waited_ns = 60, 60 * waited_ns
    cursor._leave_if_of_no_use()
    assert (meter.chosen["buffer_size"] == "inline") == tries
    cursor.close()


@pytest.mark.parametrize("waited_ns, inline_ns, stays", [
    (200_000, 40_000, True),
    (40_000, 45_000, True),
    (200_000, 120_000, True),
    (100_000, 120_000, False),
    (200_000, 5_000_000, False),
])  # fmt: skip
def test_the_consumer_goes_on_for_itself_if_it_waited_longer_than_that_takes(
    waited_ns: int, inline_ns: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Clocked(list(range(40)), dear=set(), each_ns=inline_ns)
    monkeypatch.setattr(ahead_module, "perf_counter_ns", lambda: source.now)
    cursor, _, meter = ahead(source, 2)
    cursor._made, cursor._making_ns = 64, 64 * 140_000
    cursor._taken, cursor._waited_ns = 60, 60 * waited_ns
    cursor._leave_if_of_no_use()
    chosen = [cursor.pull(1) and meter.chosen["buffer_size"] for _ in range(40)]
    assert chosen[:7] == ["inline"] * 7
    assert (chosen[9] == "inline") == stays
    cursor.close()


def test_what_is_dear_is_never_made_in_the_callers_thread() -> None:
    source = Dear(list(range(100)), 0, 100)
    cursor, _, _ = ahead(source, 2)
    assert all_of(cursor, 1) == list(range(100))
    cursor.close()
    assert threading.current_thread().name not in source.pulled_by


def test_an_input_that_raises_in_the_callers_thread_has_ended_too() -> None:
    source = Watched([*range(1000), Raises(Bad()), 5])
    cursor, _, meter = ahead(source, 2)
    for expected in range(1000):
        assert cursor.pull(1).rows() == [expected]  # type: ignore[union-attr]
    assert meter.chosen["buffer_size"] == "inline"
    with pytest.raises(Bad):
        cursor.pull(1)
    assert cursor.pull(1) is None
    cursor.close()


def test_a_position_is_exact_whoever_makes_the_elements() -> None:
    rows = list(range(2300))
    cursor, _, meter = ahead(Dear(rows, 1000, 1100), 2)
    seen = set()
    for i in range(2300):
        if i % 90 == 0:
            seen.add(meter.chosen["buffer_size"])
            again, _, _ = ahead(ListCursor(rows), 2)
            again.restore(cursor.state())
            assert again.pull(1).rows() == [i]  # type: ignore[union-attr]
            again.close()
        assert cursor.pull(1).rows() == [i]  # type: ignore[union-attr]
    cursor.close()
    assert seen == {2, "inline"}
