"""prefetch: the same elements, made ready by a thread."""

import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


@pytest.mark.parametrize("size", [0, 1, 2, 50, ps.AUTOTUNE, None, np.int64(2), np.array(3)])
def test_same_elements(size: Any) -> None:
    ds = ps.Dataset.range(9).map(lambda x: x * 2).prefetch(size)
    assert [int(x) for x in ds] == list(range(0, 18, 2))
    assert ds.cardinality() == 9
    check_op(ds)


@pytest.mark.parametrize("size", [-2, -7])
def test_a_negative_size_is_refused(size: int) -> None:
    with pytest.raises(ps.errors.BadArgument, match=f"buffer_size: expected at least 0, or AUTOTUNE .-1., got {size}"):
        ps.Dataset.range(3).prefetch(size)


@pytest.mark.parametrize("size", [2.0, "2", True])
def test_a_size_that_is_no_integer_is_refused(size: Any) -> None:
    with pytest.raises(ps.errors.BadType, match="buffer_size: expected an integer"):
        ps.Dataset.range(3).prefetch(size)


def test_works_ahead_of_the_caller() -> None:
    third = threading.Event()

    def seen(x: int) -> int:
        if x == 2:
            third.set()
        return x

    with ps.Dataset.range(9).map(seen).prefetch(2).run() as run:
        next(run)
        assert third.wait(timeout=30)


def test_errors_keep_their_places() -> None:
    ds = ps.Dataset.range(4).map(lambda x: 6 // int(x - 2)).prefetch(2)
    assert [type(x) for x in all_with_errors(ds.run())] == [np.int64, np.int64, ZeroDivisionError, np.int64]


def test_a_prefetch_of_nothing_is_left_out() -> None:
    assert "prefetch" not in str(ps.Dataset.range(3).prefetch(0).run().plan)
