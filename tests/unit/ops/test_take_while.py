"""take_while: it ends at the first refusal, and an error is no refusal."""

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


@pytest.mark.parametrize("limit", [0, 1, 5, 9])
def test_ends_at_the_first_refusal(limit: int) -> None:
    ds = ps.Dataset.range(9).take_while(lambda x: x < limit)
    assert [int(x) for x in ds] == list(range(limit))
    assert ds.cardinality() == ps.UNKNOWN
    check_op(ds)
    check_op(ds.repeat(2))


def test_what_comes_later_does_not_matter() -> None:
    assert [int(x) for x in ps.Dataset.range(9).take_while(lambda x: x % 4 != 3)] == [0, 1, 2]


def test_of_an_endless_dataset() -> None:
    assert [int(x) for x in ps.Dataset.counter().take_while(lambda x: x < 300)] == list(range(300))


def test_an_error_does_not_end_it() -> None:
    def below_four(x: int) -> bool:
        if x == 2:
            raise KeyError("two")
        return x < 4

    found = all_with_errors(ps.Dataset.range(9).take_while(below_four).run())
    assert [type(x) for x in found] == [np.int64, np.int64, KeyError, np.int64]
    check_op(ps.Dataset.range(9).take_while(below_four))


def test_batches_of_arrays() -> None:
    rows = np.arange(12).reshape(6, 2)
    batches = list(ps.Dataset.from_tensor_slices(rows).take_while(lambda row: row[0] < 8).batch(3))
    assert [batch.tolist() for batch in batches] == [rows[:3].tolist(), rows[3:4].tolist()]


def test_an_answer_that_is_no_boolean_is_refused() -> None:
    with pytest.raises(ps.errors.BadType, match=r"take_while at .*: predicate: expected one boolean, got int64"):
        next(iter(ps.Dataset.range(3).take_while(lambda x: x)))
