"""filter: which elements stay, and what a predicate's mistakes become."""

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


def test_keeps_what_the_predicate_wants() -> None:
    ds = ps.Dataset.range(10).filter(lambda x: x % 3 == 0)
    assert list(ds) == [0, 3, 6, 9]
    assert ds.cardinality() == ps.UNKNOWN
    check_op(ds)


def test_a_tuple_is_unpacked_and_structure_stays() -> None:
    ds = ps.Dataset.from_tensor_slices((np.arange(4), {"a": np.arange(8.0).reshape(4, 2)}))
    kept = list(ds.filter(lambda i, d: d["a"][0] > 1))
    assert [int(i) for i, _ in kept] == [1, 2, 3]
    assert kept[0][1]["a"].tolist() == [2.0, 3.0]
    check_op(ds.filter(lambda i, d: i != 2))


@pytest.mark.parametrize("width", [1, 1000])
def test_small_and_large_rows_alike(width: int) -> None:
    rows = np.repeat(np.arange(20), width).reshape(20, width)
    batches = list(ps.Dataset.from_tensor_slices(rows).filter(lambda row: row[0] % 2 == 1).batch(4))
    assert np.array_equal(np.concatenate(batches), rows[1::2])


def test_an_error_stands_in_its_place_and_the_next_element_follows() -> None:
    def even(x: int) -> bool:
        if x == 3:
            raise KeyError("three")
        return x % 2 == 0

    found = all_with_errors(ps.Dataset.range(7).filter(even).run())
    assert [x if isinstance(x, Exception) else int(x) for x in found] == [0, 2, found[2], 4, 6]
    assert isinstance(found[2], KeyError)
    assert "element 3" in found[2].__notes__[0]
    check_op(ps.Dataset.range(7).filter(even))


def test_one_that_fails_in_the_middle_is_asked_once_and_so_are_all_others() -> None:
    asked: list[int] = []

    def even(x: int) -> bool:
        asked.append(int(x))
        if x == 5:
            raise KeyError("five")
        return x % 2 == 0

    batches = all_with_errors(ps.Dataset.range(64).filter(even).ignore_errors().batch(64).run())
    assert batches[0].tolist() == list(range(0, 64, 2))
    assert asked == list(range(64))


def test_a_failed_element_is_not_asked_about() -> None:
    asked: list[int] = []

    def wanted(x: int) -> bool:
        asked.append(int(x))
        return True

    ds = ps.Dataset.range(3).map(lambda x: 1 // (x - 1) if x - 1 else int("x")).filter(wanted)
    assert [type(x) for x in all_with_errors(ds.run(optimize=False))] == [np.int64, ValueError, np.int64]
    assert asked == [-1, 1]


@pytest.mark.parametrize("answer", [1, None, np.array([True]), 0.0, "yes"])
def test_an_answer_that_is_no_boolean_is_refused(answer: object) -> None:
    with pytest.raises(ps.errors.BadType, match=r"filter at test_filter.py:\d+: predicate: expected one boolean"):
        next(iter(ps.Dataset.range(3).filter(lambda x: answer)))


def test_not_a_function() -> None:
    with pytest.raises(ps.errors.BadType, match="predicate: expected a function, got int 3"):
        ps.Dataset.range(3).filter(3)
