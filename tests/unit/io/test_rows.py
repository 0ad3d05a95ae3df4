"""Elements in memory as a source: what `window` and `group_by_window` put into the datasets that they give."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io.rows import FromRows, FromStack
from penstock.plan.node import Node
from penstock.spec import UNSEEN, Spec
from penstock.testing import check_source

D = ps.Dataset


def rows_of(*rows: Any) -> Any:
    return D(Node(FromRows(list(rows))))


def test_rows_come_as_they_are() -> None:
    array = np.zeros(3)
    first, second = rows_of((array, b"a"), (np.ones(2), b"b"))
    assert first[0] is array
    assert second[1] == b"b"


def test_the_spec_is_one_that_all_rows_have() -> None:
    assert rows_of(np.zeros(3), np.zeros(2)).element_spec == ps.TensorSpec((None,), np.float64)
    assert rows_of().node.spec.element is UNSEEN
    assert (len(rows_of(1, 2)), len(rows_of())) == (2, 0)


def test_durations_of_several_units_have_no_spec_in_common() -> None:
    assert rows_of(np.timedelta64(1, "s"), np.timedelta64(2, "s")).element_spec == ps.TensorSpec((), "m8[s]")
    with pytest.raises(ps.errors.SpecMismatch):
        _ = rows_of(np.timedelta64(1, "s"), np.timedelta64(2, "h")).element_spec


def test_rows_keep_the_laws_of_a_source() -> None:
    check_source(rows_of(*(np.full(2, i) for i in range(9))))


def test_windows_are_made_of_rows() -> None:
    windows = [[int(x) for x in window] for window in D.range(5).window(2)]
    assert windows == [[0, 1], [2, 3], [4]]
    (window, *_) = D.range(5).window(3)
    assert sorted(int(x) for x in window.shuffle(seed=1).repeat(2)) == [0, 0, 1, 1, 2, 2]


def stack_of(column: np.ndarray) -> Any:
    return D(Node(FromStack(column, Spec(ps.TensorSpec(column.shape[1:], column.dtype), len(column)))))


def test_a_stack_keeps_the_laws_of_a_source() -> None:
    check_source(stack_of(np.arange(18).reshape(9, 2)))
    check_source(stack_of(np.array([b"a", b"bc", b""], dtype=object)))
    assert [int(x) for x in stack_of(np.arange(5)).shuffle(seed=1).repeat(2).batch(10).unbatch()]


def test_what_a_stack_gives_is_nobody_elses() -> None:
    column = np.arange(6).reshape(3, 2)
    (batch,) = stack_of(column).batch(3)
    batch[:] = 0
    assert column.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_what_lies_in_memory_is_counted() -> None:
    assert FromStack(np.zeros((3, 2)), Spec(UNSEEN)).held_bytes == 48
    assert FromRows([np.zeros(2), np.zeros(3)]).held_bytes == 40
