"""random_map: an element's random numbers are its own, however it comes about."""

import pickle
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType
from penstock.testing import check_op

Dataset = ps.Dataset


def drawn(x: Any, rng: np.random.Generator) -> Any:
    return rng.random()


def jittered(x: Any, rng: np.random.Generator) -> Any:
    return x + rng.integers(1000)


def values(dataset: Any, epoch: int = 0) -> list[float]:
    return [float(x) for x in dataset.run(epoch=epoch)]


REFERENCE = values(Dataset.range(50).random_map(drawn, seed=3))


def test_seed_epoch_and_place_decide() -> None:
    ds = Dataset.range(50).random_map(drawn, seed=3)
    assert values(ds) == REFERENCE
    assert values(ds, epoch=1) != REFERENCE
    assert values(Dataset.range(50).random_map(drawn, seed=4)) != REFERENCE
    assert len(set(REFERENCE)) == 50
    assert values(Dataset.range(100, 150).random_map(drawn, seed=3)) == REFERENCE


@pytest.mark.parametrize("calls", [1, 3, ps.AUTOTUNE])
def test_parallel_calls_draw_the_same(calls: int) -> None:
    assert values(Dataset.range(50).random_map(drawn, seed=3, num_parallel_calls=calls)) == REFERENCE


def test_block_sizes_do_not_matter() -> None:
    for size in (1, 7, 50):
        batches = Dataset.range(50).random_map(drawn, seed=3).batch(size).run(epoch=0)
        assert np.concatenate(list(batches)).tolist() == REFERENCE


def test_what_functions_draw_does_not_reach_their_neighbours() -> None:
    def greedy(x: Any, rng: np.random.Generator) -> Any:
        first = rng.random()
        rng.integers(2**32, size=int(x) % 5, dtype=np.uint32)
        return first

    assert values(Dataset.range(50).random_map(greedy, seed=3)) == REFERENCE


def test_a_generator_that_is_kept_stays_the_keepers_own() -> None:
    kept: list[Any] = []

    def keeping(x: Any, rng: np.random.Generator) -> Any:
        for other in kept:
            other.random()
        kept.append(rng)
        return rng.random()

    assert values(Dataset.range(20).random_map(keeping, seed=3)) == REFERENCE[:20]
    assert len(set(map(id, kept))) == 20


def test_so_does_its_bit_generator() -> None:
    kept: list[Any] = []

    def keeping(x: Any, rng: np.random.Generator) -> Any:
        for other in kept:
            other.random_raw()
        kept.append(rng.bit_generator)
        return rng.random()

    assert values(Dataset.range(20).random_map(keeping, seed=3)) == REFERENCE[:20]


def test_one_that_a_function_returns_by_way_of_an_error_too() -> None:
    def failing(x: Any, rng: np.random.Generator) -> Any:
        if x == 3:
            raise RuntimeError(rng)
        return rng.random()

    with Dataset.range(10).random_map(failing, seed=3).run(epoch=0) as run:
        first = [float(next(run)) for _ in range(3)]
        with pytest.raises(RuntimeError) as caught:
            next(run)
        assert float(caught.value.args[0].random()) == REFERENCE[3]
        assert first + [float(x) for x in run] == REFERENCE[:3] + REFERENCE[4:10]


def test_spawned_and_pickled_generators_are_the_elements_own() -> None:
    def spawning(x: Any, rng: np.random.Generator) -> Any:
        one, two = rng.spawn(2)
        (three,) = rng.spawn(1)
        return np.array([one.random(), two.random(), three.random()])

    ds = Dataset.range(8).random_map(spawning, seed=3)
    found = np.stack(list(ds.run(epoch=0)))
    assert np.unique(found).size == 24
    assert np.array_equal(found, np.stack(list(ds.run(epoch=0))))
    assert np.array_equal(found[5], next(ds.skip(5).take(1).run(epoch=0)))

    def pickled(x: Any, rng: np.random.Generator) -> Any:
        return pickle.loads(pickle.dumps(rng)).random()

    assert values(Dataset.range(50).random_map(pickled, seed=3)) == REFERENCE


def test_numbers_are_evenly_spread_and_independent() -> None:
    found = np.array(values(Dataset.range(5000).random_map(drawn, seed=9)))
    assert abs(found.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.05


def test_an_order_moved_below_does_not_change_what_an_element_gets() -> None:
    mapped = Dataset.range(20).random_map(jittered, seed=3)
    plain = [int(x) for x in mapped.run(epoch=0)]
    assert sorted(int(x) for x in mapped.shuffle(5, seed=1).run(epoch=0)) == sorted(plain)
    assert [int(x) for x in mapped.skip(4).take(3).run(epoch=0)] == plain[4:7]
    check_op(mapped.shuffle(5, seed=1).batch(3))
    check_op(mapped.skip(3).shard(2, 1))
    check_op(Dataset.range(20).shuffle(5, seed=1).random_map(jittered, seed=3))
    check_op(Dataset.range(4).random_map(jittered, seed=3).repeat(3))
    check_op(Dataset.range(20).random_map(jittered))


def test_parts_of_an_element_come_first() -> None:
    pairs = Dataset.from_tensor_slices((np.arange(6), np.arange(12.0).reshape(6, 2)))
    scaled = pairs.random_map(lambda i, x, rng: (i, x * rng.random()), seed=1)
    check_op(scaled.batch(4))
    named = Dataset.from_tensor_slices({"a": np.arange(3)}).random_map(
        lambda row, rng: [row["a"], rng.random()], seed=1
    )
    assert type(next(iter(named))) is tuple


def test_errors_are_noted_and_stay_in_their_places() -> None:
    bad = Dataset.range(5).random_map(lambda x, rng: 1 // (int(x) - 2) + rng.integers(3), seed=1)
    check_op(bad)
    with pytest.raises(ZeroDivisionError) as caught:
        list(bad)
    assert "random_map" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "arguments, error",
    [((5,), BadType), ((drawn, 1.5), BadType), ((drawn, 1, 0), BadArgument), ((drawn, 1, "x"), BadType)],
)
def test_misuse(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^random_map at test_random_map.py:\d+: .*expected"):
        Dataset.range(3).random_map(*arguments)
