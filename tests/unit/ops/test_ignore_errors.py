"""ignore_errors: failed elements are dropped, and logged if asked for."""

import json
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


def test_gives_up_when_too_many_fail_in_a_row_and_not_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that come one by one are blocks of their own: one that is good begins the count anew."""
    monkeypatch.setattr("penstock.ops.ignore_errors._MOST_IN_A_ROW", 20)
    every_second = ps.Dataset.range(100).map(lambda x: 1 // (int(x) % 2)).ignore_errors()
    assert len(list(every_second.batch(1))) == len(list(every_second)) == 50
    with pytest.raises(ps.errors.RunError, match="elements in a row failed, the last with ZeroDivisionError"):
        list(ps.Dataset.range(100).map(lambda x: 1 // 0).ignore_errors().batch(1))


def test_nothing_failed() -> None:
    assert [batch.tolist() for batch in ps.Dataset.range(5).ignore_errors().batch(3)] == [[0, 1, 2], [3, 4]]


def test_logs_what_it_drops(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="penstock"):
        list(ps.Dataset.range(5).map(one_over).filter(lambda x: True).ignore_errors(log_warning=True))
    (record,) = caplog.records
    assert "ignore_errors at test_ignore_errors.py" in record.getMessage()
    assert "element 2: ZeroDivisionError" in record.getMessage()
    assert "in map(one_over) at test_ignore_errors.py" in record.getMessage()


def test_says_nothing_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    list(ps.Dataset.range(5).map(one_over).ignore_errors())
    assert not caplog.records


def test_resumed_after_every_element_it_drops_and_logs_the_same(caplog: pytest.LogCaptureFixture) -> None:
    def build() -> ps.Dataset:
        bad_numbers = ps.Dataset.range(20).shuffle(seed=3).map(lambda x: 100 // (int(x) % 4), num_parallel_calls=2)
        return bad_numbers.ignore_errors(log_warning=True).batch(2).prefetch(2)

    def delivered(run: ps.Run) -> tuple[list[list[int]], list[str]]:
        """What comes next, and the elements that are dropped on the way to its end."""
        caplog.clear()
        batches = [batch.tolist() for batch in run]
        return batches, [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.WARNING, logger="penstock"):
        whole, dropped = delivered(build().run(epoch=0))
        assert (len(whole), len(dropped)) == (8, 5)
        for num in range(9):
            with build().run(epoch=0) as run:
                for _ in range(num):
                    next(run)
                state = json.loads(json.dumps(run.state_dict()))
            with build().run() as resumed:
                resumed.load_state_dict(state)
                rest, dropped_again = delivered(resumed)
            assert rest == whole[num:]
            assert dropped_again == dropped[len(dropped) - len(dropped_again) :]
        assert dropped_again == []  # of those before the last element
