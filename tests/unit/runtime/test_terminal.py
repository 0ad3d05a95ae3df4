"""reduce and get_single_element: what ends a pipeline in a value."""

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadType, OutOfRange, SpecMismatch

Dataset = ps.Dataset
Pair = namedtuple("Pair", "a b")


def test_reduce_folds_all_elements() -> None:
    assert Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x) == 10
    assert Dataset.range(5).reduce(0, lambda s, x: s + 1) == 5
    assert type(Dataset.range(5).reduce(np.float32(0), lambda s, x: s + np.float32(x))) is np.float32
    assert Dataset.range(0).reduce(np.int64(9), lambda s, x: s + x) == 9
    assert Dataset.from_tensor_slices([b"a", b"b"]).reduce(b"", lambda s, x: s + x) == b"ab"
    assert Dataset.range(3).reduce(np.zeros(0, np.int64), lambda s, x: np.append(s, x)).tolist() == [0, 1, 2]


def test_an_element_is_one_argument_whatever_its_structure() -> None:
    pairs = Dataset.from_tensor_slices((np.arange(4), np.arange(4)))
    assert pairs.reduce(np.int64(0), lambda s, x: s + x[0] * x[1]) == 14


def test_the_result_has_the_structure_of_the_initial_state() -> None:
    numbers = Dataset.range(3)
    assert numbers.reduce((0, 1), lambda s, x: (s[1], x)) == (1, 2)
    assert numbers.reduce((0, 1), lambda s, x: [s[1], x]) == (1, 2)
    assert numbers.reduce({"a": 0}, lambda s, x: {"a": x}) == {"a": 2}
    state = numbers.reduce(Pair(0, 1), lambda s, x: (s.b, x))
    assert type(state) is Pair
    assert state == (1, 2)
    assert numbers.reduce(np.int64(0), lambda s, x: [x]) == 2


@pytest.mark.parametrize(
    "initial, function",
    [
        (np.int32(0), lambda s, x: x),
        (0, lambda s, x: x / 2),
        ((0, 0), lambda s, x: x),
        (0, lambda s, x: (x, x)),
        ({"a": 0}, lambda s, x: {"b": x}),
        (0, lambda s, x: None),
        (0, lambda s, x: b""),
    ],
)
def test_another_structure_or_dtype_is_refused(initial: Any, function: Any) -> None:
    with pytest.raises(SpecMismatch, match=r"^reduce at test_terminal.py:\d+: reduce_func: expected a state like"):
        Dataset.range(3).reduce(initial, function)


@pytest.mark.parametrize("initial, function", [(None, lambda s, x: s), ((), lambda s, x: s), (0, 5)])
def test_misuse(initial: Any, function: Any) -> None:
    with pytest.raises(BadType, match=r"^reduce at test_terminal.py:\d+: .*expected"):
        Dataset.range(3).reduce(initial, function)


def test_errors_end_it() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        Dataset.range(3).reduce(0, lambda s, x: s + 1 // int(x != 1))
    assert "in reduce(λ) at test_terminal.py:" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith("element 1")
    with pytest.raises(ZeroDivisionError) as caught:
        Dataset.range(3).map(lambda x: 1 // int(x != 1)).reduce(0, lambda s, x: s + x)
    assert "in map(λ)" in caught.value.__notes__[0]


def test_get_single_element() -> None:
    assert Dataset.range(5).batch(9).get_single_element().tolist() == [0, 1, 2, 3, 4]
    assert Dataset.range(5).filter(lambda x: x == 3).get_single_element() == 3
    with pytest.raises(OutOfRange, match=r"^get_single_element at test_terminal.py:\d+: expected exactly 1.*got 0"):
        Dataset.range(0).get_single_element()
    with pytest.raises(OutOfRange, match="expected exactly 1 element, got at least 2"):
        Dataset.range(2).repeat().get_single_element()
    with pytest.raises(ZeroDivisionError):
        Dataset.range(2).map(lambda x: 1 // int(x != 1)).get_single_element()
