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
