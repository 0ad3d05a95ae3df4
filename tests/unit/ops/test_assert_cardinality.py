"""assert_cardinality: a promise that a run checks."""

from typing import Any

import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OutOfRange
from penstock.testing import check_op, elements_of

Dataset = ps.Dataset


def even(size: int) -> Any:
    return Dataset.range(size).filter(lambda x: x % 2 == 0)


def failing_on_three(size: int) -> Any:
    return Dataset.range(size).map(lambda x: x if x != 3 else int("three"))


def test_gives_a_length() -> None:
    assert len(even(10).assert_cardinality(5)) == 5
    assert even(10).assert_cardinality(5).batch(2).cardinality() == 3
    assert [int(x) for x in even(10).assert_cardinality(5)] == [0, 2, 4, 6, 8]
    assert even(10).assert_cardinality(5).element_spec == Dataset.range(1).element_spec


@pytest.mark.parametrize("expected, delivered", [(3, 3), (0, 0), (7, 5)])
def test_another_number_raises_once_and_ends(expected: int, delivered: int) -> None:
    with even(10).assert_cardinality(expected).run() as run:
        found = [int(next(run)) for _ in range(delivered)]
        assert found == [0, 2, 4, 6, 8][:delivered]
        got = "got only 5" if expected > 5 else f"got at least {expected + 1}"
        with pytest.raises(OutOfRange, match=f"expected {expected} elements, {got}"):
            next(run)
        assert list(run) == []


def test_an_element_that_fails_does_not_count() -> None:
    found = elements_of(failing_on_three(5).assert_cardinality(4).run())
    assert [str(x) for x in found] == ["0", "1", "2", "raised ValueError", "4"]


def test_endless() -> None:
    assert [int(x) for x in Dataset.range(2).repeat().assert_cardinality(ps.INFINITE).take(3)] == [0, 1, 0]
    with pytest.raises(OutOfRange, match="expected endless elements, got only 2"):
        list(Dataset.range(2).assert_cardinality(ps.INFINITE))


@pytest.mark.parametrize("expected", [0, 3, 4, 9, 10])
def test_laws(expected: int) -> None:
    check_op(failing_on_three(10).assert_cardinality(expected))
    check_op(Dataset.range(10).assert_cardinality(expected).batch(2))


@pytest.mark.parametrize("expected, error", [(-2, BadArgument), (2.5, BadType), ("3", BadType)])
def test_misuse(expected: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^assert_cardinality at test_assert_cardinality.py:\d+: expected_cardinality"):
        Dataset.range(3).assert_cardinality(expected)
