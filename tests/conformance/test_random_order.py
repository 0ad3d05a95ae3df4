"""Random order by its laws. Each is checked on tf.data too: a law of the original, not of our wishes."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from . import on_penstock, oracle_tf
from .programs.list_files import ROOT

pytestmark = pytest.mark.timeout(60)

LIBRARIES = {"tf.data": oracle_tf, "penstock": on_penstock}


@pytest.fixture(params=LIBRARIES)
def side(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def numbers(side: Any, dataset: Any, max_items: int = 2_000) -> list[Any]:
    return [item.array.tolist() for item in side.run(dataset, max_items).items]


@pytest.mark.parametrize("buffer_size", [1, 2, 3, 10, 49, 50, 51, 1000])
@pytest.mark.parametrize("upstream", ["range", "map", "filter"])
def test_an_element_leaves_at_most_buffer_size_minus_one_places_early(
    side: Any, buffer_size: int, upstream: str
) -> None:
    dataset = side.L.Dataset.range(50)
    if upstream == "map":
        dataset = dataset.map(lambda x: x + 0)
    if upstream == "filter":
        dataset = dataset.filter(lambda x: x >= 0)
    out = numbers(side, dataset.shuffle(buffer_size, seed=11))
    assert sorted(out) == list(range(50))
    assert all(output_place >= input_place - (buffer_size - 1) for output_place, input_place in enumerate(out))


@pytest.mark.parametrize("buffer_size", [2, 7, 100])
def test_same_seed_same_order(side: Any, buffer_size: int) -> None:
    first, second, other = (
        numbers(side, side.L.Dataset.range(40).shuffle(buffer_size, seed=seed)) for seed in (5, 5, 6)
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("buffer_size", [2, 7, 100])
def test_reshuffle_each_iteration(side: Any, buffer_size: int) -> None:
    again = side.L.Dataset.range(40).shuffle(buffer_size, seed=5, reshuffle_each_iteration=True)
    once = side.L.Dataset.range(40).shuffle(buffer_size, seed=5, reshuffle_each_iteration=False)
    default = side.L.Dataset.range(40).shuffle(buffer_size, seed=5)
    assert numbers(side, again) != numbers(side, again)
    assert numbers(side, default) != numbers(side, default)
    assert numbers(side, once) == numbers(side, once)


@pytest.mark.parametrize("reshuffle", [True, False])
def test_passes_of_repeat_are_iterations(side: Any, reshuffle: bool) -> None:
    out = numbers(side, side.L.Dataset.range(40).shuffle(10, seed=5, reshuffle_each_iteration=reshuffle).repeat(2))
    first, second = out[:40], out[40:]
    assert sorted(first) == sorted(second) == list(range(40))
    assert (first == second) is not reshuffle


def test_without_a_seed_orders_differ(side: Any) -> None:
    first, second = (numbers(side, side.L.Dataset.range(60).shuffle(60)) for _ in range(2))
    assert first != second


def test_unknown_size_shuffles_the_whole(side: Any) -> None:
    out = numbers(side, side.L.Dataset.range(60).shuffle(-2, seed=1))
    assert sorted(out) == list(range(60))
    assert max(element - place for place, element in enumerate(out)) > 30


@pytest.mark.parametrize("buffer_size", [4, 8])
def test_every_element_of_the_buffer_is_as_likely(buffer_size: int) -> None:
    firsts = Counter(
        int(next(iter(on_penstock.L.Dataset.range(8).shuffle(buffer_size, seed=seed).run()))) for seed in range(400)
    )
    expected = 400 / buffer_size
    assert sorted(firsts) == list(range(buffer_size))
    chi_square = sum((firsts[i] - expected) ** 2 / expected for i in range(buffer_size))
    assert chi_square < 27  # 7 degrees of freedom, p = 0.0003; the seeds are fixed


def test_whole_permutations_are_as_likely() -> None:
    orders = Counter(
        tuple(numbers(on_penstock, on_penstock.L.Dataset.range(4).shuffle(seed=seed))) for seed in range(2_400)
    )
    assert len(orders) == 24
    assert sum((count - 100) ** 2 / 100 for count in orders.values()) < 60  # 23 degrees of freedom, p = 0.00004


def test_list_files_shuffled(side: Any) -> None:
    pattern = str(ROOT / "*")
    listed = numbers(side, side.L.Dataset.list_files(pattern, shuffle=False))
    first, second = (numbers(side, side.L.Dataset.list_files(pattern, seed=3)) for _ in range(2))
    assert first == second
    assert sorted(first) == sorted(listed)
    orders = {tuple(numbers(side, side.L.Dataset.list_files(pattern, seed=seed))) for seed in range(8)}
    assert len(orders) > 1


def test_random(side: Any) -> None:
    spec = side.element_spec(side.L.Dataset.random(seed=1))
    assert spec == ((), "<i8")
    first, second, other = (numbers(side, side.L.Dataset.random(seed=seed).take(50)) for seed in (1, 1, 2))
    assert first == second != other
    assert all(0 <= value < 2**32 for value in first)
    assert int(side.L.Dataset.random().cardinality()) == -1


@pytest.mark.parametrize("rerandomize", [True, False])
def test_random_in_the_next_iteration(side: Any, rerandomize: bool) -> None:
    dataset = side.L.Dataset.random(seed=1, rerandomize_each_iteration=rerandomize).take(10)
    assert (numbers(side, dataset) == numbers(side, dataset)) is not rerandomize


def three(side: Any) -> list[Any]:
    return [side.L.Dataset.range(100 * i, 100 * i + 50) for i in range(3)]


@pytest.mark.parametrize("weights", [None, [0.2, 0.3, 0.5], [0.1, 0.0, 0.9]])
def test_sampling_keeps_the_order_within_each_dataset(side: Any, weights: list[float] | None) -> None:
    out = numbers(side, side.L.Dataset.sample_from_datasets(three(side), weights=weights, seed=3))
    for i in range(3):
        mine = [value for value in out if value // 100 == i]
        assert mine == list(range(100 * i, 100 * i + len(mine)))
        assert len(mine) == (0 if weights and weights[i] == 0 else 50)


def test_sampling_stops_at_the_first_empty(side: Any) -> None:
    out = numbers(side, side.L.Dataset.sample_from_datasets(three(side), seed=3, stop_on_empty_dataset=True))
    counts = Counter(value // 100 for value in out)
    assert max(counts.values()) == 50
    assert len(out) < 150


def test_sampling_follows_its_weights(side: Any) -> None:
    endless = [side.L.Dataset.from_tensors(np.int64(i)).repeat() for i in range(3)]
    out = numbers(side, side.L.Dataset.sample_from_datasets(endless, weights=[0.1, 0.3, 0.6], seed=3), max_items=2_000)
    counts = Counter(out)
    assert np.allclose([counts[i] / 2_000 for i in range(3)], [0.1, 0.3, 0.6], atol=0.04)


def test_weights_need_not_sum_to_one(side: Any) -> None:
    endless = [side.L.Dataset.from_tensors(np.int64(i)).repeat() for i in range(2)]
    out = numbers(side, side.L.Dataset.sample_from_datasets(endless, weights=[1.0, 3.0], seed=3), max_items=1_000)
    assert abs(sum(out) / 1_000 - 0.75) < 0.05


def test_a_dataset_of_weights(side: Any) -> None:
    weights = side.L.Dataset.from_tensor_slices(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])).repeat()
    inputs = [side.L.Dataset.range(0, 9), side.L.Dataset.range(100, 109)]
    out = numbers(side, side.L.Dataset.sample_from_datasets(inputs, weights=weights, seed=3).take(7))
    assert out == [0, 100, 101, 1, 102, 103, 2]


def test_sampling_same_seed_same_order(side: Any) -> None:
    first, second, other = (
        numbers(side, side.L.Dataset.sample_from_datasets(three(side), seed=seed)) for seed in (3, 3, 4)
    )
    assert first == second != other


@pytest.mark.parametrize("rerandomize", [True, False])
def test_sampling_in_the_next_iteration(side: Any, rerandomize: bool) -> None:
    dataset = side.L.Dataset.sample_from_datasets(three(side), seed=3, rerandomize_each_iteration=rerandomize)
    assert (numbers(side, dataset) == numbers(side, dataset)) is not rerandomize


def pairs(side: Any, dataset: Any) -> list[tuple[int, int]]:
    return [tuple(part.array.tolist() for part in item) for item in side.run(dataset, 4_000).items]


@pytest.mark.parametrize("initial", [[0.75, 0.25], None])
def test_rejection_resample(side: Any, initial: list[float] | None) -> None:
    source = side.L.Dataset.range(2_000)
    resampled = source.rejection_resample(
        lambda x: side.L.cast(x % 4 == 0, np.int32), [0.5, 0.5], initial_dist=initial, seed=3
    )
    out = pairs(side, resampled)
    assert all(label == (value % 4 == 0) for label, value in out)
    assert all(0 <= value < 2_000 for _, value in out)
    assert 500 < len(out) < 2_500
    share = sum(label for label, _ in out) / len(out)
    assert abs(share - 0.5) < 0.08


def test_rejection_resample_with_nothing_to_reject(side: Any) -> None:
    source = side.L.Dataset.range(200)
    out = pairs(
        side,
        source.rejection_resample(lambda x: side.L.cast(x % 2, np.int32), [0.5, 0.5], initial_dist=[0.5, 0.5], seed=3),
    )
    assert out == [(value % 2, value) for value in range(200)]


def test_rejection_resample_same_seed_same_choice(side: Any) -> None:
    def resampled() -> Any:
        return side.L.Dataset.range(300).rejection_resample(
            lambda x: side.L.cast(x % 4 == 0, np.int32), [0.5, 0.5], initial_dist=[0.75, 0.25], seed=3
        )

    assert pairs(side, resampled()) == pairs(side, resampled())
