"""ignore_errors: failed elements are dropped, and logged if asked for."""

import logging

import pytest

import penstock as ps
from penstock.testing import check_op


def one_over(x: int) -> int:
    return 12 // int(x - 2)


def test_drops_what_failed() -> None:
    ds = ps.Dataset.range(5).map(one_over).ignore_errors()
    assert [int(x) for x in ds] == [-6, -12, 12, 6]
    assert ds.cardinality() == ps.UNKNOWN
    check_op(ds)
    check_op(ds.batch(3))


def test_all_failed() -> None:
    assert list(ps.Dataset.range(300).map(lambda x: int("x")).ignore_errors()) == []


def test_nothing_failed() -> None:
    assert [batch.tolist() for batch in ps.Dataset.range(5).ignore_errors().batch(3)] == [[0, 1, 2], [3, 4]]


def test_logs_what_it_drops(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="penstock"):
        list(ps.Dataset.range(5).map(one_over).ignore_errors(log_warning=True))
    (record,) = caplog.records
    assert "ignore_errors at test_ignore_errors.py" in record.getMessage()
    assert "element 2: ZeroDivisionError" in record.getMessage()


def test_says_nothing_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    list(ps.Dataset.range(5).map(one_over).ignore_errors())
    assert not caplog.records
