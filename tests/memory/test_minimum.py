"""The smallest budget that `explain` names: with it a pipeline gives all it should, with a byte less it is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import penstock as ps
from penstock.element import arrays_in
from tests.memory.cases import CASES, COUNT, SIZE, Source, few_values
from tests.threads import our_threads

ALL = 10_000


def comparable(element: Any) -> Any:
    """What an element is made of, in numbers and bytes."""
    if isinstance(element, (tuple, dict)):
        parts = element.values() if isinstance(element, dict) else element
        return [comparable(part) for part in parts]
    arrays = arrays_in(element)
    values = [array.tolist() if array.dtype.kind == "O" else array.tobytes() for array in arrays]
    return [(a.dtype.str, a.shape, value) for a, value in zip(arrays, values, strict=True)] or element


def results(dataset: Any, memory: int | None = None) -> tuple[list[Any], int, int]:
    """All elements, the most that was on the ledger, and what was left on it."""
    run = dataset.run() if memory is None else dataset.run(memory=memory)
    found = [comparable(x) for x in run]
    return found, run.ledger.peak_bytes, run.ledger.charged_bytes


@pytest.mark.timeout(20)
@pytest.mark.parametrize("case", CASES)
def test_the_minimum_is_enough_and_no_less_is_accepted(case: str) -> None:
    expected, _, _ = results(CASES[case](Source()))
    source = Source()
    dataset = CASES[case](source)
    plan = dataset.explain(sample=ALL).to_dict()
    minimum = plan["minimum_bytes"]
    assert plan["complete"]
    found, peak, left = results(dataset, minimum)
    assert found == expected
    assert peak <= minimum
    assert left == 0
    for _ in range(3):  # later epochs have other orders, and so do batches
        results(dataset, minimum)
    source.num_read = 0
    with pytest.raises(ps.errors.BudgetTooSmall, match=f"use memory={minimum:_} or more"):
        dataset.run(memory=minimum - 1)
    assert source.num_read == 0
    assert our_threads() == []


def test_the_minimum_of_a_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = np.arange(COUNT * SIZE, dtype=np.float64).reshape(COUNT, SIZE)
    with h5py.File(tmp_path / "data.h5") as file:
        dataset = ps.Dataset.from_tensor_slices(file["x"]).shuffle(8, seed=1, reshuffle_each_iteration=False).batch(3)
        minimum = dataset.explain().to_dict()["minimum_bytes"]
        found, peak, left = results(dataset, minimum)
        assert found == results(dataset)[0]
        assert peak <= minimum
        assert left == 0
        with pytest.raises(ps.errors.BudgetTooSmall):
            dataset.run(memory=minimum - 1)


@pytest.mark.parametrize("case", ["map (known)", "map in 4 threads (known)", "shuffle (known)", "batch"])
def test_known_sizes_are_refused_without_a_sample(case: str) -> None:
    source = Source()
    dataset = CASES[case](source)
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    assert minimum >= 8 * SIZE
    with pytest.raises(ps.errors.BudgetTooSmall):
        dataset.run(memory=minimum - 1)
    assert source.num_read == 0


@pytest.mark.parametrize(
    "case", ["group_by_window (unknown)", "unique (known)", "flat_map (unknown)", "many (unknown)"]
)
def test_needs_that_only_the_data_tell_are_named_when_they_are_met(case: str) -> None:
    """After a look at two elements the budget may be too small; then each error names a larger one, until it is not."""
    expected, _, _ = results(CASES[case](Source()))
    dataset = CASES[case](Source())
    memory = dataset.explain(sample=2).to_dict()["minimum_bytes"]
    for _ in range(20):
        try:
            assert results(dataset, memory)[0] == expected
            return
        except (ps.errors.OverBudget, ps.errors.BudgetTooSmall) as error:
            named = int(str(error).split("use memory=")[1].split(" ")[0])
            assert named > memory
            memory = named
    raise AssertionError("no end of it")


def test_a_dataset_that_is_read_in_two_places_counts_twice() -> None:
    rows = Source().uneven()
    largest = max(x.nbytes for x in Source().uneven())
    run = ps.Dataset.zip((rows, rows)).run(memory=100 * largest)
    assert all((a == b).all() for a, b in run)
    assert run.ledger.peak_bytes >= 2 * largest


def test_the_minimum_of_a_stream_that_is_shuffled_on_disk() -> None:
    """What is known of hundreds of files, one for each element, is part of what it needs."""

    def images() -> Any:
        return (np.full((100, 100, 3), i % 256, np.uint8) for i in range(700))

    dataset = ps.Dataset.from_generator(images, ps.TensorSpec((100, 100, 3), np.uint8))
    dataset = dataset.shuffle(500, seed=1, reshuffle_each_iteration=False).batch(16)
    minimum = dataset.explain(sample=8).to_dict()["minimum_bytes"]
    found, peak, left = results(dataset, minimum)
    assert found == results(dataset)[0]
    assert peak <= minimum
    assert left == 0


@pytest.mark.timeout(60)
def test_no_thread_waits_for_memory_with_the_slots_in_its_hands() -> None:
    """A worker that reads from disk waits for room, which the stage above has to give: both need slots for that."""

    def images() -> Any:
        sizes = np.random.default_rng(0).integers(64, 160, (400, 2))
        return ((np.full((*size, 3), i % 256, np.uint8), i) for i, size in enumerate(sizes))

    spec = (ps.TensorSpec((None, None, 3), np.uint8), ps.TensorSpec((), np.int64))
    dataset = ps.Dataset.from_generator(images, spec).map(lambda x, i: (x.astype(np.float32) / 255, i), 8)
    dataset = dataset.shuffle(150, seed=1).padded_batch(16).prefetch(2)
    minimum = dataset.explain(sample=8).to_dict()["minimum_bytes"]
    for memory in (minimum, minimum + minimum // 50):
        assert sorted(n for _, numbers in dataset.run(memory=memory) for n in numbers.tolist()) == list(range(400))


@pytest.mark.parametrize("memory", [1, 7, 15, 100])
def test_a_budget_of_next_to_nothing_is_refused_in_words(memory: int) -> None:
    dataset = ps.Dataset.from_generator(lambda: iter([np.zeros(1000)] * 3)).shuffle(2)
    with pytest.raises(ps.errors.OverBudget, match="use memory="):
        list(dataset.run(memory=memory))


def one_large(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, 100 if x[0] == 13 else 1)


def alike(size: int) -> Any:
    """Arrays of one size, which is not known."""
    return ps.Dataset.from_generator(lambda: (np.full(size, float(i)) for i in range(COUNT)))


# Named for what they found: each was refused at the minimum that its sample had stated, or with elements of one size.
FOUND: dict[str, Callable[[], Any]] = {
    "zip of inputs that give unequal numbers at a time": lambda: ps.Dataset.zip(
        (ps.Dataset.range(40), Source().uneven().map(lambda x: x[:50].reshape(5, 10)).unbatch())
    ).batch(7),
    "shuffle of batches that are padded to a shape": lambda: (
        Source().uneven().map(lambda x: x[: 100 + int(x[0])]).padded_batch(3, padded_shapes=[13_000]).shuffle(4, seed=1)
    ),
    "flat_map to parts of elements": lambda: (
        ps.Dataset.range(40)
        .map(lambda i: np.full(150, float(i)))
        .padded_batch(2, padded_shapes=[3000])
        .rebatch(3)
        .map(lambda x: x.reshape(-1)[:3000].copy())
        .flat_map(lambda x: ps.Dataset.from_tensor_slices(x[:6].reshape(-1, 1)))
        .take(70)
    ),
    "distribute below the passes of a rejection_resample": lambda: (
        alike(500).distribute(2, 1, "keep").rejection_resample(lambda x: int(x[0]) % 2, [0.5, 0.5], seed=5)
    ),
    "interleave of tiny elements in threads": lambda: (
        Source()
        .uneven(60)
        .map(lambda x: x[:3].copy())
        .interleave(lambda x: ps.Dataset.range(2).map(lambda i: x + i), cycle_length=2, num_parallel_calls=2)
        .take(70)
    ),
    "a large element that is passed over": lambda: Source().uneven().map(one_large, stateful=True).distribute(2, 0),
}


@pytest.mark.parametrize("case", FOUND)
def test_the_minimum_of_what_was_found_to_need_more(case: str) -> None:
    plain, dataset = FOUND[case](), FOUND[case]()
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    for _ in range(2):
        found, peak, left = results(dataset, minimum)
        assert found == results(plain)[0]
        assert peak <= minimum
        assert left == 0


TWICE = lambda x: ps.Dataset.range(2).map(lambda i: x + i)  # noqa: E731
LAST: dict[str, Callable[[Any], Any]] = {
    "windows, interleave": lambda d: (
        d.window(3, 2).flat_map(lambda w: w).map(lambda x: x - 1, num_parallel_calls=ps.AUTOTUNE).interleave(TWICE, 3)
    ),
    "interleave in threads": lambda d: (
        d.interleave(TWICE, 3, num_parallel_calls=3)
        .prefetch(3)
        .map(lambda x: x + 1, num_parallel_calls=4)
        .map(lambda x: x.reshape(-1))
        .padded_batch(2)
    ),
}


def test_windows_are_read_at_once_only_where_there_is_room() -> None:
    dataset = ps.Dataset.range(60).map(lambda i: np.full(1 + i * 37 % 300, float(i)))
    dataset = dataset.group_by_window(lambda x: np.int64(x.size % 3), lambda key, window: window, window_size=3)
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    count = 0
    with dataset.run(memory=minimum) as run:
        while (block := run.pull(64)) is not None:
            count += block.size
            del block
    assert count == 60


@pytest.mark.parametrize("above", LAST.values(), ids=LAST)
def test_the_minimum_is_enough_without_a_sample_for_who_comes_last(above: Callable[[Any], Any]) -> None:
    """Others make no more than they must as long as nobody knows what an `interleave` will need."""

    def pipeline() -> Any:
        dataset = ps.Dataset.from_generator(lambda: (np.full(10, float(i)) for i in range(24)))
        return above(dataset.map(lambda x: np.repeat(x, 1000))).take(60)

    minimum = pipeline().explain(sample=ALL).to_dict()["minimum_bytes"]
    found, peak, left = results(pipeline(), minimum)
    assert found == results(pipeline())[0]
    assert peak <= minimum
    assert left == 0


def test_the_minimum_counts_elements_that_another_order_brings() -> None:
    """A shuffle took in the large ones, and in the sample gave none of them; in other epochs it does."""

    def rows() -> Any:
        return (np.full(10 if i % 6 else 300, float(i)) for i in range(24))

    dataset = ps.Dataset.from_generator(rows).shuffle(6, seed=4).map(lambda x: np.repeat(x, 2)).take(2)
    sampled = max(x.nbytes for x in dataset.run(epoch=0))
    minimum = dataset.explain(sample=ALL).to_dict()["minimum_bytes"]
    largest = 0
    for epoch in range(12):
        with dataset.run(memory=minimum, epoch=epoch) as run:
            largest = max([largest, *(x.nbytes for x in run)])
    assert largest > 2 * sampled


@pytest.mark.parametrize("above", ["interleave", "padded_batch"])
def test_the_minimum_is_enough_without_a_sample_where_all_are_of_one_size(above: str) -> None:
    """What a `rebatch` will hold nobody knows before: others leave it what it took for the first element."""

    def pipeline() -> Any:
        dataset = ps.Dataset.from_generator(lambda: (np.full(500, float(i)) for i in range(20)))
        dataset = dataset.map(lambda x: x[:50]).batch(2).rebatch(3)
        if above == "padded_batch":
            return dataset.padded_batch(2)
        return dataset.interleave(lambda x: ps.Dataset.range(2).map(lambda i: x + i), 3, num_parallel_calls=3)

    minimum = pipeline().explain(sample=ALL).to_dict()["minimum_bytes"]
    found, peak, left = results(pipeline(), minimum)
    assert found == results(pipeline())[0]
    assert peak <= minimum
    assert left == 0


def test_the_minimum_is_enough_to_resume() -> None:
    """A shuffle reads again what it held, and what comes from a cache on disk lies in one slot after the other."""

    def pipeline() -> Any:
        return Source().uneven(40).map(few_values).sparse_batch(3, [13_000]).cache().shuffle(5, seed=2)

    expected, _, _ = results(pipeline())
    dataset = pipeline()
    dataset.explain(sample=ALL)
    measured, dataset = dataset._measured, pipeline()
    dataset._measured = measured
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    results(dataset, minimum)
    for count in (3, 7):
        run = dataset.run(memory=minimum, epoch=0)
        for _ in range(count):
            next(run)
        state = run.state_dict()
        run.close()
        resumed = dataset.run(memory=minimum)
        resumed.load_state_dict(state)
        assert [comparable(x) for x in resumed] == expected[count:]
        assert resumed.ledger.charged_bytes == 0


def test_each_pass_over_one_input_counts_what_is_on_its_way() -> None:
    """All four of a rejection_resample have an element that its maker has on its account, at a time."""
    dataset = alike(500).rejection_resample(lambda x: int(x[0]) % 2, [0.3, 0.7], seed=5)
    dataset.explain(sample=ALL)
    assert dataset._measured[0].operator == "from_generator"
    assert dataset._measured[0].needed_bytes >= 3 * 500 * 8


def test_threads_of_each_pass_have_accounts_of_their_own() -> None:
    """Two threads that count on one account would lose what the other has counted."""
    dataset = alike(500).interleave(TWICE, 2, num_parallel_calls=2)
    with dataset.rejection_resample(lambda x: int(x[0]) % 2, [0.3, 0.7], seed=5).run(memory=10_000_000) as run:
        next(run)
        accounts = [key for key in run._stages.accounts._of_stages if key[-1] > 1]
    assert len(accounts) > 2


DIVIDERS: dict[str, Callable[[Any], Any]] = {
    "shard": lambda d: d.shard(2, 1),
    "distribute": lambda d: d.distribute(2, 0),
    "distribute, padded": lambda d: d.distribute(2, 1, "pad"),
}


@pytest.mark.parametrize("divided", DIVIDERS.values(), ids=DIVIDERS)
def test_own_elements_of_a_stream_are_gathered_only_where_there_is_room(divided: Callable[[Any], Any]) -> None:
    dataset = divided(alike(5_000))
    dataset.explain(sample=ALL)
    sizes = []
    for memory in (200_000, 800_000):
        with dataset.run(memory=memory) as run:
            while (block := run.pull(64)) is not None:
                assert block.nbytes <= run.ledger.charged_bytes
                sizes.append(block.size)
    assert sum(sizes) == COUNT
    assert max(sizes) > 1


@pytest.mark.parametrize("kept", ["cache", "snapshot"])
def test_the_minimum_of_what_four_passes_read_from_files(tmp_path: Path, kept: str) -> None:
    """A rejection_resample has four cursors over its input, and each reads batches of the file that the first wrote."""

    def pipeline(name: str) -> Any:
        path = str(tmp_path / name)
        dataset = alike(500).cache(path) if kept == "cache" else alike(500).snapshot(path)
        return dataset.map(np.copy).rejection_resample(lambda x: int(x[0]) % 2, [0.5, 0.5], seed=5)

    plain, sampled, dataset = pipeline("plain"), pipeline("sampled"), pipeline("new")
    sampled.explain(sample=ALL)
    dataset._measured = sampled._measured
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    for _ in range(2):
        found, peak, left = results(dataset, minimum)
        assert found == results(plain)[0]
        assert peak <= minimum
        assert left == 0
