"""rejection_resample: classes in the wanted proportions."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OutOfRange
from penstock.testing import check_op, elements_of

Dataset = ps.Dataset


def one_in_four(x: Any) -> Any:
    return np.int64(x % 4 == 0)


def share_of_class_one(dataset: Any) -> float:
    return float(np.mean([label for label, _ in dataset]))


@pytest.mark.parametrize("initial", [[0.75, 0.25], [3, 1], np.array([0.75, 0.25], np.float32), None])
def test_classes_come_in_the_wanted_proportions(initial: Any) -> None:
    for wanted in (0.5, 0.7, 0.1):
        ds = Dataset.range(8000).rejection_resample(one_in_four, [1 - wanted, wanted], initial, seed=1)
        assert abs(share_of_class_one(ds) - wanted) < 0.05


def test_pairs_of_class_and_element() -> None:
    pairs = Dataset.from_tensor_slices((np.arange(8), np.arange(8) * 10))
    for label, (x, y) in pairs.rejection_resample(lambda x, y: x % 2, [0.6, 0.4], [0.5, 0.5], seed=1):
        assert label == x % 2
        assert y == x * 10
    named = Dataset.from_tensor_slices({"a": np.arange(8)})
    for label, row in named.rejection_resample(lambda row: np.int32(row["a"] % 2), [0.6, 0.4], [0.5, 0.5], seed=1):
        assert label.dtype == np.int32
        assert label == row["a"] % 2


def test_the_same_distribution_changes_nothing() -> None:
    same = Dataset.range(8).rejection_resample(lambda x: x % 2, [0.5, 0.5], [0.5, 0.5])
    assert [(int(label), int(x)) for label, x in same] == [(x % 2, x) for x in range(8)]
    assert same.cardinality() == 8


def test_a_class_that_nobody_wants_never_comes() -> None:
    ds = Dataset.range(40).rejection_resample(lambda x: x % 2, [1.0, 0.0], [0.5, 0.5], seed=1)
    assert [int(x) for _, x in ds] == list(range(0, 40, 2))
    assert ds.cardinality() == ps.UNKNOWN


def test_iterations_repeat() -> None:
    for arguments in ({"seed": 5}, {}):
        ds = Dataset.range(100).rejection_resample(one_in_four, [0.5, 0.5], **arguments)
        first, second = ([int(x) for _, x in ds] for _ in range(2))
        assert first == second


def test_cardinality() -> None:
    endless = Dataset.range(4).repeat()
    assert Dataset.range(4).rejection_resample(one_in_four, [0.5, 0.5]).cardinality() == ps.UNKNOWN
    assert endless.rejection_resample(one_in_four, [0.5, 0.5]).cardinality() == ps.INFINITE
    assert endless.rejection_resample(one_in_four, [0.5, 0.5], [0.75, 0.25]).cardinality() == ps.INFINITE
    assert endless.rejection_resample(one_in_four, [0.0, 1.0], [0.75, 0.25]).cardinality() == ps.UNKNOWN


@pytest.mark.parametrize("initial", [[0.75, 0.25], None])
@pytest.mark.parametrize("target", [[0.5, 0.5], [0.0, 1.0], [0.75, 0.25]])
def test_laws(target: Any, initial: Any) -> None:
    check_op(Dataset.range(70).rejection_resample(one_in_four, target, initial, seed=2), most=40)
    check_op(Dataset.range(6).rejection_resample(one_in_four, target, initial))
    bad = Dataset.range(40).map(lambda x: x if x % 9 != 7 else int("seven"))
    check_op(bad.rejection_resample(one_in_four, target, initial, seed=2), most=20)
    check_op(Dataset.range(0).rejection_resample(one_in_four, target, initial, seed=2))


@pytest.mark.parametrize(
    "function, error",
    [
        (lambda x: 2, OutOfRange),
        (lambda x: -1, OutOfRange),
        (lambda x: 0.0, BadType),
        (lambda x: [0], BadType),
        (lambda x: True, BadType),
        (lambda x: {}["no"], KeyError),
    ],
)
def test_a_class_that_is_none_is_an_error_in_its_place(function: Any, error: type[Exception]) -> None:
    for initial in ([0.75, 0.25], None):
        found = elements_of(Dataset.range(5).rejection_resample(function, [0.5, 0.5], initial, seed=1).run())
        assert found
        assert {repr(x) for x in found} == {f"raised {error.__name__}"}


@pytest.mark.parametrize(
    "target, initial, error",
    [
        ([0.5, 0.5], [1.0], BadArgument),
        ([[0.5, 0.5]], None, BadArgument),
        ([], None, BadArgument),
        ([-0.5, 1.5], None, BadArgument),
        ([0.0, 0.0], None, BadArgument),
        ([0.5, np.inf], None, BadArgument),
        ("ab", None, BadType),
    ],
)
def test_misuse(target: Any, initial: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^rejection_resample at test_rejection_resample.py:\d+: .*expected"):
        Dataset.range(3).rejection_resample(one_in_four, target, initial)
