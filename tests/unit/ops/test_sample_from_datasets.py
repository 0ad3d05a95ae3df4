"""sample_from_datasets: random choices that a seed repeats, in the proportions of the weights."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OutOfRange, SpecMismatch
from penstock.ops import choosing
from penstock.testing import check_op

Dataset = ps.Dataset


def two() -> list[Any]:
    return [Dataset.range(6), Dataset.range(10, 14)]


def labels(*, weights: Any, count: int, seed: int = 1) -> np.ndarray:
    """Which of the datasets each element came from."""
    endless = [Dataset.from_tensors(np.int64(i)).repeat() for i in range(3)]
    return np.array(list(Dataset.sample_from_datasets(endless, weights, seed=seed).take(count)))


def test_every_element_comes_once_and_in_order() -> None:
    found = [int(x) for x in Dataset.sample_from_datasets(two(), seed=3)]
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13]
    assert [x for x in found if x < 10] == list(range(6))


@pytest.mark.parametrize("weights", [None, [0.5, 0.3, 0.2], np.array([5.0, 3.0, 2.0], np.float32)])
def test_choices_have_the_proportions_of_the_weights(weights: Any) -> None:
    shares = np.bincount(labels(weights=weights, count=20_000), minlength=3) / 20_000
    expected = [1 / 3] * 3 if weights is None else [0.5, 0.3, 0.2]
    assert np.abs(shares - expected).max() < 0.02


def test_neighbouring_choices_are_independent() -> None:
    found = labels(weights=[0.5, 0.3, 0.2], count=20_000)
    pairs = np.bincount(found[:-1] * 3 + found[1:], minlength=9) / (found.size - 1)
    assert np.abs(pairs - np.outer([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]).ravel()).max() < 0.02


def test_iterations_repeat_unless_asked_to_differ() -> None:
    again = Dataset.sample_from_datasets(two(), seed=3)
    assert list(again) == list(again)
    unseeded = Dataset.sample_from_datasets(two())
    assert list(unseeded) == list(unseeded)
    differing = Dataset.sample_from_datasets(two(), seed=3, rerandomize_each_iteration=True)
    epochs = [tuple(map(int, differing.run(epoch=k))) for k in range(5)]
    assert len(set(epochs)) > 1
    assert epochs[2] == tuple(map(int, differing.run(epoch=2)))


def test_stop_on_empty_dataset_ends_with_the_first_that_is_missed() -> None:
    for seed in range(5):
        found = [int(x) for x in Dataset.sample_from_datasets(two(), seed=seed, stop_on_empty_dataset=True)]
        assert sum(x < 10 for x in found) == 6 or sum(x >= 10 for x in found) == 4


def test_a_dataset_of_weights_gives_a_row_for_each_choice() -> None:
    rows = Dataset.from_tensor_slices(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert [int(x) for x in Dataset.sample_from_datasets(two(), rows)] == [0, 10, 11]
    assert [int(x) for x in Dataset.sample_from_datasets(two(), rows.map(lambda w: w))] == [0, 10, 11]


def test_rows_of_weights_that_do_not_fit_are_errors_in_their_places() -> None:
    rows = [[0.5, 0.5], [0.0, 0.0], [1.0], [-1.0, 2.0], [1.0, np.nan]]
    weights = Dataset.range(5).map(lambda i: np.array(rows[int(i)]))
    sampled = Dataset.sample_from_datasets(two(), weights, seed=1)
    errors = []
    with sampled.run() as run:
        next(run)
        for _ in range(4):
            with pytest.raises((OutOfRange, SpecMismatch)) as caught:
                next(run)
            errors.append(type(caught.value))
        assert list(run) == []
    assert errors == [OutOfRange, SpecMismatch, OutOfRange, OutOfRange]


@pytest.mark.parametrize(
    "arguments",
    [
        {"seed": 1},
        {"weights": [0.3, 0.7], "seed": 1},
        {"weights": [0.001, 0.999], "seed": 2},
        {"seed": 1, "stop_on_empty_dataset": True},
        {"weights": Dataset.from_tensor_slices(np.array([[0.5, 0.5], [0.9, 0.1]])).repeat(4), "seed": 1},
        {},
    ],
)
def test_laws(arguments: dict[str, Any]) -> None:
    check_op(Dataset.sample_from_datasets(two(), **arguments))
    mapped = [dataset.map(lambda x: x if x != 2 else int("two")) for dataset in two()]
    check_op(Dataset.sample_from_datasets(mapped, **arguments))


def test_datasets_without_weight_are_left_out() -> None:
    alone = Dataset.sample_from_datasets([Dataset.range(3), Dataset.from_tensors(1.5)], [1.0, 0.0])
    assert [int(x) for x in alone] == [0, 1, 2]
    assert alone.cardinality() == 3
    nothing = Dataset.sample_from_datasets(two(), [0.0, 0.0])
    assert list(nothing) == []
    assert nothing.cardinality() == 0


def test_cardinality() -> None:
    assert Dataset.sample_from_datasets(two()).cardinality() == ps.UNKNOWN
    assert Dataset.sample_from_datasets([Dataset.range(2), Dataset.range(2).repeat()]).cardinality() == ps.INFINITE
    assert Dataset.sample_from_datasets([Dataset.range(2)]).cardinality() == 2


def test_what_is_left_and_hardly_ever_chosen_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_MISSES", 10_000)
    with pytest.raises(OutOfRange, match=r"choices in a row fell on datasets that have ended.*numbers \[0\]"):
        list(Dataset.sample_from_datasets(two(), [1e-30, 1.0], seed=1))


@pytest.mark.parametrize(
    "datasets, weights, error",
    [
        ([], None, BadArgument),
        (two(), [0.5], BadArgument),
        (two(), [[0.5, 0.5]], BadArgument),
        (two(), [1, 1], BadType),
        (two(), "ab", BadType),
        (two(), 0.5, BadType),
        (two(), [-0.5, 1.5], BadArgument),
        (two(), [np.nan, 1.0], BadArgument),
        ([Dataset.range(2), 7], None, BadType),
        (two(), Dataset.from_tensor_slices(np.ones((2, 3))), SpecMismatch),
        (two(), Dataset.from_tensor_slices(np.ones(2)), SpecMismatch),
        (two(), Dataset.from_tensor_slices(np.ones((2, 2), np.int64)), BadType),
        ([Dataset.range(2), Dataset.from_tensors(1.5)], None, SpecMismatch),
    ],
)
def test_misuse_is_refused_when_it_is_written(datasets: Any, weights: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^sample_from_datasets at test_sample_from_datasets.py:\d+: .*expected"):
        Dataset.sample_from_datasets(datasets, weights)
