"""Where penstock differs from tf.data on purpose: what each of the two does, row by row of docs/differences.md."""

from typing import Any

import numpy as np
import pytest

from . import on_penstock, oracle_tf
from .normal import ERROR, Leaf
from .on_penstock import ps

pytestmark = pytest.mark.timeout(60)


def both(build: Any) -> list[list[Any]]:
    """What tf.data and penstock deliver, as plain Python values."""
    return [[plain(item) for item in side.run(build(side.L)).items] for side in (oracle_tf, on_penstock)]


def plain(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(plain(part) for part in item)
    return item.array.tolist() if isinstance(item, Leaf) else item


def bad(L: Any, n: int, *values: int) -> Any:
    return L.Dataset.range(n).map(lambda x: L.fail_on(x, *values))


def test_python_numbers() -> None:
    def dtypes(side: Any) -> list[Any]:
        made = [side.L.Dataset.from_tensor_slices(values) for values in ([1, 2], [0.5, 1.5])]
        return [side.run(dataset).items[0].array.dtype for dataset in made]

    assert dtypes(oracle_tf) == [np.int32, np.float32]
    assert dtypes(on_penstock) == [np.int64, np.float64]


def test_source_arrays_are_aliased() -> None:
    array = np.arange(3)
    datasets = [side.L.Dataset.from_tensor_slices(array) for side in (oracle_tf, on_penstock)]
    array[1] = 10
    theirs, ours = (
        [int(leaf.array) for leaf in side.run(dataset).items]
        for side, dataset in zip((oracle_tf, on_penstock), datasets, strict=True)
    )
    assert theirs == [0, 1, 2]
    assert ours == [0, 10, 2]


def test_views_of_source_arrays_are_read_only() -> None:
    array = np.arange(6).reshape(3, 2)
    for element in [*ps.Dataset.from_tensor_slices(array), *ps.Dataset.from_tensor_slices(array).batch(2)]:
        if np.shares_memory(element, array):
            assert not element.flags.writeable


def test_a_float_for_an_int_is_refused() -> None:
    def floats(L: Any) -> Any:
        return L.Dataset.from_generator(lambda: iter([1, 2.7, 3]), output_signature=L.spec((), np.int64))

    assert both(floats) == [[1, 2, 3], [1, ERROR, 3]]


def test_a_generator_needs_no_signature() -> None:
    made = ps.Dataset.from_generator(lambda: iter([(np.int8(1), b"a"), (np.int8(2), b"b")]))
    assert [plain(item) for item in on_penstock.run(made).items] == [(1, b"a"), (2, b"b")]
    with pytest.raises(TypeError):
        oracle_tf.L.Dataset.from_generator(lambda: iter([1]))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 5, 9])
def test_skip_goes_by_place(place: int) -> None:
    """tf.data runs the function on what is skipped, raises, and starts counting anew; penstock does neither."""
    theirs, ours = both(lambda L: bad(L, 10, place).skip(3))
    assert ours == [ERROR if i == place else i for i in range(3, 10)]
    assert theirs == (ours if place >= 3 else [ERROR, *range(place + 4, 10)])


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 1, 2, 5, 9])
def test_shard_goes_by_place(place: int, index: int) -> None:
    theirs, ours = both(lambda L: bad(L, 10, place).shard(3, index))
    assert ours == [ERROR if i == place else i for i in range(index, 10, 3)]
    assert ERROR in theirs


def test_functions_do_not_run_on_what_is_passed_over() -> None:
    seen = []

    def remember(x: Any) -> Any:
        seen.append(int(x))
        return x

    assert list(ps.Dataset.range(12).map(remember).skip(2).shard(3, 1)) == [3, 6, 9]
    assert sorted(set(seen)) == [3, 6, 9]


@pytest.mark.parametrize("buffer_size", [2, 4, 10])
def test_a_failure_takes_a_slot_of_a_shuffle(buffer_size: int) -> None:
    """So the order of the others is what it would be without the failure. tf.data raises while it fills."""
    whole = on_penstock.run(ps.Dataset.range(10).shuffle(buffer_size, seed=3), epoch=0).items
    failing = on_penstock.run(bad(on_penstock.L, 10, 4).shuffle(buffer_size, seed=3), epoch=0).items
    assert failing == tuple(ERROR if plain(item) == 4 else item for item in whole)


def test_epochs_of_a_seeded_shuffle_are_reproducible() -> None:
    dataset = ps.Dataset.range(30).shuffle(10, seed=3)
    first = [on_penstock.run(dataset) for _ in range(3)]
    assert [on_penstock.run(dataset, epoch=epoch) for epoch in range(3)] == first
    assert first[0] != first[1] != first[2]


def test_prefetch_takes_a_numpy_integer() -> None:
    assert list(ps.Dataset.range(3).prefetch(np.int64(2))) == [0, 1, 2]
    with pytest.raises(TypeError):
        oracle_tf.L.Dataset.range(3).prefetch(np.int64(2))


def test_unbatch_of_an_empty_inner_dimension() -> None:
    """This ends the process that runs tf.data."""
    made = ps.Dataset.from_tensors(np.zeros((3, 0), np.float32)).unbatch()
    assert [item.array.shape for item in on_penstock.run(made).items] == [(0,)] * 3


def test_unique_of_anything() -> None:
    floats = np.array([0.5, 0.5, 1.5])
    assert list(ps.Dataset.from_tensor_slices(floats).unique()) == [0.5, 1.5]
    with pytest.raises(TypeError):
        oracle_tf.L.Dataset.from_tensor_slices(floats).unique()


def test_endless_repetition_of_failures() -> None:
    theirs, ours = both(lambda L: bad(L, 1, 0).repeat())
    assert theirs == [ERROR]
    assert len(ours) > 1
    assert set(ours) == {ERROR}


def test_switches_are_true_or_false() -> None:
    def refuses(side: Any, build: Any) -> bool:
        try:
            build(side.L.Dataset.range(5))
        except (TypeError, ValueError):
            return True
        return False

    for build, theirs in [
        (lambda dataset: dataset.batch(2, drop_remainder=4), True),
        (lambda dataset: dataset.shuffle(2, reshuffle_each_iteration=4), True),
        (lambda dataset: dataset.map(lambda x: x, 2, deterministic="no"), False),
    ]:
        assert [refuses(oracle_tf, build), refuses(on_penstock, build)] == [theirs, True]


def test_none_is_not_sliced() -> None:
    assert [e[1] for e in oracle_tf.L.Dataset.from_tensor_slices((np.arange(2), None))] == [None, None]
    with pytest.raises(TypeError, match="got None"):
        ps.Dataset.from_tensor_slices((np.arange(2), None))


def test_options_are_given_at_once() -> None:
    with pytest.raises(AttributeError):
        ps.Options().deterministic = False  # type: ignore[misc]
    assert ps.Dataset.range(3).with_options(ps.Options(deterministic=False)).options().deterministic is False


def test_negative_weights_are_refused() -> None:
    def sampled(L: Any) -> Any:
        parts = [L.Dataset.range(3), L.Dataset.range(7, 9)]
        return L.Dataset.sample_from_datasets(parts, weights=[1.0, -1.0])

    assert [int(x) for x in sampled(oracle_tf.L)] == [0, 1, 2]
    with pytest.raises(ValueError, match="at least 0"):
        sampled(on_penstock.L)


def test_cardinality_of_all_is_that_of_the_dataset() -> None:
    counts = [int(side.L.Dataset.range(5).take(-5).cardinality()) for side in (oracle_tf, on_penstock)]
    assert counts == [-5, 5]
