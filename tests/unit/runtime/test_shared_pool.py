"""Runs that share the pool: they give way to a smaller pool and to each other, and nothing is lost or changed."""

import re
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.process_pool import process_pool

NUM_ROWS = 50_000  # 400 kB
WAIT_S = 20


@pytest.fixture(autouse=True)
def default_pool() -> Iterator[None]:
    yield
    ps.set_memory(None)


def elements(count: int = 200) -> ps.Dataset:
    def generate() -> Iterator[np.ndarray]:
        for i in range(count):
            yield np.full(NUM_ROWS, i, np.float64)

    return ps.Dataset.from_generator(generate, ps.TensorSpec((NUM_ROWS,), np.float64))


def shuffled() -> ps.Dataset:
    calls = elements().map(lambda x: x + 1, num_parallel_calls=4)
    return calls.shuffle(100, seed=1).batch(8).prefetch(4)


def batched_calls() -> ps.Dataset:
    return elements().batch(8).map(lambda x: x + 1, num_parallel_calls=4)


PIPELINES: dict[str, Callable[[], ps.Dataset]] = {
    "shuffle": lambda: elements().shuffle(1000, seed=1).batch(8),
    "cache": lambda: elements().cache().batch(8),
    "prefetch": lambda: elements().map(lambda x: x + 1).batch(8).prefetch(8),
    "calls": batched_calls,
    "all": shuffled,
}


def first_of(run: ps.Run, count: int | None = None) -> list[float]:
    """The numbers of the next elements; batches are not kept."""
    numbers: list[float] = []
    while count is None or len(numbers) < count:
        try:
            numbers += next(run)[:, 0].tolist()
        except StopIteration:
            break
    return numbers


def minimum(dataset: ps.Dataset) -> int:
    return int(dataset.explain(sample=16).to_dict()["minimum_bytes"])


def wait_until_full(run: ps.Run, nbytes: int) -> None:
    """Until what is made ahead holds so much."""
    pause = threading.Event()
    for _ in range(WAIT_S * 100):
        if run.memory()["held_bytes"] >= nbytes:
            return
        pause.wait(0.01)
    raise AssertionError(f"holds {run.memory()['held_bytes']:,} of {nbytes:,} bytes")


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("measured", [False, True])
def test_an_open_run_gives_way_to_a_smaller_pool_and_goes_on(name: str, measured: bool) -> None:
    dataset = PIPELINES[name]()
    needs = minimum(PIPELINES[name]())
    if measured:
        minimum(dataset)
    expected = first_of(dataset.run(memory="200MB"))
    ps.set_memory("60MB")
    with dataset.run(epoch=0) as run:
        numbers = first_of(run, 16)
        ps.set_memory(needs // 2)
        assert ps.get_memory() == needs // 2
        numbers += first_of(run, 40)
        assert run.memory()["held_bytes"] < 1.5 * needs
        assert run.memory()["budget_bytes"] == needs // 2
        numbers += first_of(run)
    assert numbers == expected


def test_what_cannot_go_on_in_a_smaller_pool_names_it() -> None:
    ps.set_memory("3MB")
    with elements().map(lambda x: x + 1).batch(8).run() as run:
        ps.set_memory("2MB")  # before anything was seen of what it needs, which even the larger one had not
        with pytest.raises(ps.errors.OverBudget, match=r"the pool that runs share is 2,000,000 B") as caught:
            next(run)
    found = re.search(r"ps\.set_memory\(([0-9_]+)\)", str(caught.value))
    assert found is not None
    ps.set_memory(int(found[1]))
    with elements().map(lambda x: x + 1).batch(8).run() as run:
        assert len(first_of(run)) == 200


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("pool", [1.5, 2.0])
def test_a_second_run_opens_where_both_fit(name: str, pool: float) -> None:
    first, second = PIPELINES[name](), PIPELINES[name]()
    needs = max(minimum(first), minimum(second))
    expected = first_of(first.run(memory="200MB"))
    size = int(2 * needs * pool)
    ps.set_memory(size)
    with first.run(epoch=0) as a:
        numbers = first_of(a, 40)
        wait_until_full(a, int(needs * 0.8))
        with second.run(epoch=0) as b:
            assert a.memory()["held_bytes"] + b.memory()["floor_bytes"] <= size
            assert sorted(first_of(b)) == sorted(expected)
        assert numbers + first_of(a) == expected


def test_what_was_made_ahead_waits_on_disk_for_its_turn() -> None:
    first, second = PIPELINES["prefetch"](), PIPELINES["prefetch"]()
    needs = max(minimum(first), minimum(second))
    ps.set_memory(4 * needs)
    with first.run() as a:
        numbers = first_of(a, 8)
        wait_until_full(a, 2 * needs)
        ps.set_memory(2 * needs + 8 * 8 * NUM_ROWS)  # a batch's elements, the last that were on their way, are not back
        with second.run():
            assert a.memory()["on_disk_bytes"] > 3_000_000
        numbers += first_of(a)
        assert numbers == [float(i + 1) for i in range(200)]
    assert a.memory()["on_disk_bytes"] == 0


def test_a_run_that_is_at_work_in_another_thread_gives_way() -> None:
    first, second = shuffled(), shuffled()
    needs = max(minimum(first), minimum(second))
    ps.set_memory(3 * needs)
    numbers: list[float] = []
    begun, errors = threading.Event(), list[BaseException]()

    def train() -> None:
        try:
            with first.run() as run:
                numbers.extend(first_of(run, 16))
                begun.set()
                numbers.extend(first_of(run))
        except BaseException as error:
            errors.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=train)
    thread.start()
    assert begun.wait(WAIT_S)
    for _ in range(3):
        with second.run() as run:
            assert len(first_of(run, 24)) == 24
    thread.join(WAIT_S)
    assert not errors
    assert sorted(numbers) == [float(i + 1) for i in range(200)]


def test_an_open_run_that_needs_more_gets_it_from_one_at_work() -> None:
    """Its sizes are not known: what it needs is seen only when it runs."""
    read: list[float] = []
    begun, enough, errors = threading.Event(), threading.Event(), list[BaseException]()

    def train() -> None:
        try:
            with elements(1_000_000).shuffle(30, seed=1).run() as run:
                for element in run:
                    read.append(element[0])
                    begun.set()
                    if enough.is_set():
                        break
        except BaseException as error:
            errors.append(error)
        finally:
            begun.set()

    ps.set_memory("10MB")
    thread = threading.Thread(target=train)
    thread.start()
    try:
        assert begun.wait(WAIT_S)
        for _ in range(3):
            windows = elements(40).window(3).flat_map(lambda window: window.batch(3))
            assert [row for batch in windows for row in batch[:, 0].tolist()] == list(range(40))
    finally:
        enough.set()
        thread.join(WAIT_S)
    assert not errors
    with elements(1_000_000).shuffle(30, seed=1).run(memory="200MB") as undisturbed:
        assert read == [next(undisturbed)[0] for _ in read]


def test_a_run_that_does_not_fit_is_told_all_and_a_size_that_does() -> None:
    first, second = shuffled(), shuffled()
    needs = max(minimum(first), minimum(second))
    ps.set_memory(int(1.5 * needs))
    with first.run() as a:
        numbers = first_of(a, 40)
        with pytest.raises(ps.errors.BudgetTooSmall) as caught:
            second.run()
        text = str(caught.value)
        assert f"the pool that runs share is {int(1.5 * needs):,} B; other open runs and caches hold" in text
        for reason in ("4 elements made ready", "8 elements in one batch", "100 elements in the buffer"):
            assert reason in text
        found = re.search(r"use ps\.set_memory\(([0-9_]+)\) or more, or memory=([0-9_]+) or more", text)
        assert found is not None
        with second.run(memory=int(found[2])) as b:
            assert len(first_of(b)) == 200
        ps.set_memory(int(found[1]))
        with second.run() as b:
            assert len(first_of(b)) == 200
        assert len(numbers + first_of(a)) == 200


def test_the_pool_is_told_and_set_back() -> None:
    before = ps.get_memory()
    ps.set_memory("64MB")
    assert ps.get_memory() == 64_000_000
    ps.set_memory(None)
    assert ps.get_memory() == before


def with_all_of_the_pool(
    build: Callable[[ps.Dataset], ps.Dataset], lengths: list[int]
) -> tuple[ps.Dataset, ps.Dataset]:
    """A dataset that was measured, and another one: the pool has what both need."""

    def built() -> ps.Dataset:
        return build(ps.Dataset.from_generator(lambda: (np.full(n, float(i)) for i, n in enumerate(lengths))))

    other = ps.Dataset.from_tensor_slices(np.zeros((8, NUM_ROWS))).map(lambda x: x + 1)
    dataset, sampled = built(), built()
    needs = [one.explain(memory="100MB", sample=100).to_dict()["minimum_bytes"] for one in (sampled, other)]
    dataset._measured = sampled._measured
    del sampled
    # What caches of other tests have in the pool stays there; 1 kB is what is known of this one between its runs.
    ps.set_memory(sum(needs) + 1000 + ps.get_memory() - process_pool().free_bytes)
    return dataset, other


@pytest.mark.parametrize("length, count, before", [(300, 40, 0), (300, 40, 20), (50, 20, 19), (10_000, 12, 11)])
def test_a_cache_that_had_more_to_spare_goes_on_with_its_floor(length: int, count: int, before: int) -> None:
    """Once the other run is open it has room for one element at a time, not for a chunk as large as it could write."""
    dataset, other = with_all_of_the_pool(lambda d: d.cache().repeat(2), [length] * count)
    for _ in range(3):
        with dataset.run() as run:
            found = [next(run)[0] for _ in range(before)]
            with other.run() as beside:
                found += [x[0] for x in run]
                assert len(list(beside)) == 8
        assert found == [*range(count), *range(count)]


def test_a_cache_gives_up_what_it_keeps_for_what_it_reads() -> None:
    """What it has in memory lies on its floor, which is for elements from disk: nobody else can make room there."""
    dataset, other = with_all_of_the_pool(lambda d: d.cache(), [10_000] * 5)
    for _ in range(3):
        with dataset.run() as run, other.run() as beside:
            found = [next(run)[0]]
            assert len(list(beside)) == 8
            assert [*found, *[x[0] for x in run]] == list(range(5))
