"""range and counter: numbers that are computed."""

from collections.abc import Callable

import pytest

import penstock as ps

D = ps.Dataset


def test_numbers_up_to_the_largest_that_int64_holds() -> None:
    assert [int(x) for x in D.range(2**63 - 3, 2**63 - 1)] == [2**63 - 3, 2**63 - 2]
    assert [int(x) for x in D.range(2**63 - 1).skip(2**63 - 3)] == [2**63 - 3, 2**63 - 2]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: D.range(2**63), r"range at test_numbers.py:\d+: stop: expected a number that int64 holds, got 9223"),
        (lambda: D.range(-(2**63) - 1, 0), "start: expected a number that int64 holds"),
        (lambda: D.range(0, 9, 2**64), "step: expected a number that int64 holds"),
        (lambda: D.counter(2**63), r"counter at test_numbers.py:\d+: start: expected a number that int64 holds"),
        (lambda: D.counter(0, 2**63), "step: expected a number that int64 holds"),
    ],
)
def test_numbers_that_int64_does_not_hold_are_refused(make: Callable[[], ps.Dataset], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_a_counter_goes_on_with_the_smallest_number_as_in_tf_data() -> None:
    largest, smallest = 2**63 - 1, -(2**63)
    assert list(D.counter(largest - 1).take(3)) == [largest - 1, largest, smallest]
    assert list(D.counter(smallest + 1, -1).take(3)) == [smallest + 1, smallest, largest]
    assert list(D.counter(0, 2**62).take(4)) == [0, 2**62, smallest, -(2**62)]


def test_a_range_of_all_numbers_has_more_than_can_be_counted() -> None:
    numbers = D.range(-(2**63), 2**63 - 1)
    assert numbers.cardinality() == ps.INFINITE
    assert list(numbers.skip(2**63 + 5).take(2)) == [5, 6]
    assert list(D.range(0, 2**63 - 1, 2**62)) == [0, 2**62]
    for arguments in [(5,), (-5,), (2, 9), (9, 2), (2, 9, 3), (9, 2, -3), (2, 3, 5), (3, 3)]:
        assert D.range(*arguments).cardinality() == len(range(*arguments))
