"""choose_from_datasets: the order of another dataset's numbers."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OutOfRange, SpecMismatch
from penstock.ops import choosing
from penstock.testing import check_op

Dataset = ps.Dataset


def three() -> list[Any]:
    return [Dataset.range(3), Dataset.range(10, 14), Dataset.range(20, 21)]


def choices(*numbers: int) -> Any:
    return Dataset.from_tensor_slices(np.array(numbers, np.int64))


def delivered(dataset: Any) -> list[Any]:
    found: list[Any] = []
    with dataset.run() as run:
        while True:
            try:
                found.append(int(next(run)))
            except StopIteration:
                return found
            except OutOfRange:
                found.append("error")


@pytest.mark.parametrize(
    "numbers, stop, expected",
    [
        ((0, 1, 2, 0, 1), True, [0, 10, 20, 1, 11]),
        ((2, 2, 0), True, [20]),
        ((2, 2, 0), False, [20, 0]),
        ((0,) * 5 + (2,) * 2 + (1,) * 9, False, [0, 1, 2, 20, 10, 11, 12, 13]),
        ((0, 7, -1, 1), True, [0, "error", "error", 10]),
        ((2, 0, 0, 0, 0, 2, 1, 1, 1, 1, 9, 1, 9), False, [20, 0, 1, 2, 10, 11, 12, 13, "error"]),
        ((), True, []),
    ],
)
def test_elements_come_as_chosen(numbers: tuple[int, ...], stop: bool, expected: list[Any]) -> None:
    chosen = Dataset.choose_from_datasets(three(), choices(*numbers), stop_on_empty_dataset=stop)
    assert delivered(chosen) == expected
    check_op(chosen)


def test_columns_are_put_together_whole_and_rows_one_by_one() -> None:
    images = np.arange(20.0).reshape(10, 2)
    whole = [Dataset.from_tensor_slices((images, np.arange(10))), Dataset.from_tensor_slices((-images, np.arange(10)))]
    singly = [dataset.map(lambda x, y: (x, y)) for dataset in whole]
    turns = choices(0, 0, 1, 0, 1, 1, 1, 0)
    for a, b in zip(
        Dataset.choose_from_datasets(whole, turns).batch(3),
        Dataset.choose_from_datasets(singly, turns).batch(3),
        strict=True,
    ):
        assert a[0].tolist() == b[0].tolist()
        assert a[1].tolist() == b[1].tolist()


def test_dicts_with_other_orders_of_keys_stay_apart() -> None:
    first = Dataset.from_tensor_slices({"a": np.arange(3), "b": np.arange(3) + 10})
    second = Dataset.from_tensor_slices({"b": np.arange(3) + 100, "a": np.arange(3) + 1000})
    rows = list(Dataset.choose_from_datasets([first, second], choices(0, 1, 1, 0)))
    assert [int(row["a"]) for row in rows] == [0, 1000, 1001, 1]


def test_inputs_of_other_shapes_and_failing_ones() -> None:
    rows = Dataset.range(9).map(lambda x: np.full(1 // (3 - int(x)) + 3, x))  # fails on 3
    chosen = Dataset.choose_from_datasets(
        [rows, Dataset.from_tensor_slices(np.zeros((5, 2), np.int64))], choices(0, 1).repeat()
    )
    check_op(chosen)
    check_op(
        Dataset.choose_from_datasets(three(), Dataset.range(3).map(lambda x: x if x != 1 else int("one")).repeat(3))
    )


def test_spec_and_cardinality() -> None:
    chosen = Dataset.choose_from_datasets([Dataset.range(3), Dataset.range(3).batch(2)], choices(0))
    assert chosen.element_spec == ps.TensorSpec(None, np.int64)
    assert chosen.cardinality() == ps.UNKNOWN
    assert (
        Dataset.choose_from_datasets([Dataset.range(3).repeat(), Dataset.range(3)], choices(0)).cardinality()
        == ps.INFINITE
    )


def test_a_choice_that_never_falls_on_what_is_left_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_MISSES", 1000)
    chosen = Dataset.choose_from_datasets(three(), choices(0).repeat(), stop_on_empty_dataset=False)
    with pytest.raises(OutOfRange, match=r"numbers \[1, 2\].*stop_on_empty_dataset"):
        list(chosen)
    finite = Dataset.choose_from_datasets(three(), choices(0).repeat(5000), stop_on_empty_dataset=False)
    assert delivered(finite) == [0, 1, 2]


@pytest.mark.parametrize(
    "datasets, choice, error",
    [
        ([], choices(0), BadArgument),
        (5, choices(0), BadType),
        (Dataset.range(2), choices(0), BadType),
        ([Dataset.range(2), 5], choices(0), BadType),
        ([Dataset.range(2)], [0], BadType),
        ([Dataset.range(2)], choices(0).batch(1), BadType),
        ([Dataset.range(2)], Dataset.from_tensors(np.int32(0)), BadType),
        ([Dataset.range(2), Dataset.from_tensors(1.5)], choices(0), SpecMismatch),
    ],
)
def test_misuse_is_refused_when_it_is_written(datasets: Any, choice: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^choose_from_datasets at test_choose_from_datasets.py:\d+: .*expected"):
        Dataset.choose_from_datasets(datasets, choice)


def test_choices_of_another_dtype_behind_a_function_are_found_when_they_run() -> None:
    chosen = Dataset.choose_from_datasets(three(), Dataset.range(2).map(lambda x: np.int32(x)))
    with pytest.raises(BadType, match="expected int64 numbers, got int32"):
        list(chosen)
