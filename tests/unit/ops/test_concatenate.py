"""concatenate: one dataset after the other, opened when its turn has come."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadType, SpecMismatch
from penstock.testing import check_op

Dataset = ps.Dataset


def fail_on_one(x: Any) -> Any:
    if x == 1:
        raise RuntimeError("told to fail")
    return x


def test_elements_of_both_in_order() -> None:
    joined = Dataset.range(2).concatenate(Dataset.range(7, 9)).concatenate(Dataset.range(1))
    assert [int(x) for x in joined] == [0, 1, 7, 8, 0]
    assert [b.tolist() for b in joined.batch(3)] == [[0, 1, 7], [8, 0]]
    check_op(joined)
    check_op(joined.skip(1).take(3))


def test_errors_stay_in_their_places() -> None:
    bad = Dataset.range(3).map(fail_on_one)
    check_op(bad.concatenate(bad))
    assert [int(x) for x in bad.concatenate(bad).ignore_errors()] == [0, 2, 0, 2]


def test_the_second_is_opened_when_the_first_has_ended() -> None:
    opened = []

    def numbers() -> Any:
        opened.append(True)
        yield 1

    later = Dataset.from_generator(numbers, output_signature=ps.TensorSpec((), np.int64))
    with Dataset.range(2).concatenate(later).run() as run:
        next(run)
        assert not opened
        assert [int(x) for x in run] == [1, 1]


def test_shapes_are_relaxed_as_far_as_they_differ() -> None:
    def of_shape(*shape: int) -> Any:
        return Dataset.from_tensors(np.zeros(shape))

    assert of_shape(2, 3).concatenate(of_shape(2, 4)).element_spec == ps.TensorSpec((2, None), np.float64)
    assert of_shape(2).concatenate(of_shape(2, 4)).element_spec == ps.TensorSpec(None, np.float64)


def test_cardinality_is_the_sum() -> None:
    some, endless, unknown = Dataset.range(2), Dataset.range(2).repeat(), Dataset.range(2).filter(lambda x: True)
    assert some.concatenate(some).cardinality() == 4
    assert some.concatenate(unknown).cardinality() == ps.UNKNOWN
    assert unknown.concatenate(endless).cardinality() == ps.INFINITE
    assert endless.concatenate(unknown).cardinality() == ps.INFINITE


def test_numbers_below_do_not_leak_to_keyed_operators_above() -> None:
    """A shuffle below a numbered random_map carries numbers; what is above counts by itself."""
    below = Dataset.range(5).random_map(lambda x, rng: x, seed=1).shuffle(3, seed=2)
    check_op(below.concatenate(Dataset.range(3)).enumerate())


@pytest.mark.parametrize(
    "other",
    [
        Dataset.from_tensors(1.5),
        Dataset.zip(Dataset.range(2), Dataset.range(2)),
        Dataset.zip({"a": Dataset.range(2)}),
    ],
)
def test_other_elements_are_refused(other: Any) -> None:
    with pytest.raises(SpecMismatch, match=r"^concatenate at test_concatenate.py:\d+: expected int64, got"):
        Dataset.range(2).concatenate(other)


def test_something_else_than_a_dataset_is_refused() -> None:
    with pytest.raises(BadType, match="expected a dataset, got int 5"):
        Dataset.range(2).concatenate(5)
