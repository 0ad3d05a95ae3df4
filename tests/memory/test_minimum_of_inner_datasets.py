"""Datasets that a function makes: what they could do without, such as what a cache keeps, is not in the minimum."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable

pytestmark = [pytest.mark.timeout(120)]

D = ps.Dataset
COUNT = 30
ELEMENT = 40_000


def made(i: Any, num_parallel_calls: int | None = None) -> Any:
    return D.range(COUNT).map(lambda j: np.full(ELEMENT // 8, float(i * COUNT + j)), num_parallel_calls)


# What a function makes, and how many elements of it are held at a time with four such datasets open.
INNER: dict[str, tuple[Callable[[Any], Any], int]] = {
    "cache": (lambda i: made(i).cache(), 3),
    "cache, twice": (lambda i: made(i).cache().repeat(2), 5),
    "prefetch": (lambda i: made(i).prefetch(20), 8),
    "prefetch of AUTOTUNE": (lambda i: made(i).prefetch(-1), 8),
    "threads": (lambda i: made(i, 16), 8),
    "threads, cache, prefetch": (lambda i: made(i, 8).cache().prefetch(10), 16),
    "inner interleave": (lambda i: D.range(2).interleave(lambda j: made(j).cache(), cycle_length=2), 6),
}
OUTER: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "flat_map": lambda function: D.range(4).flat_map(function),
    "interleave": lambda function: D.range(4).interleave(function, cycle_length=4),
    "interleave in threads": lambda function: D.range(4).interleave(function, cycle_length=4, num_parallel_calls=4),
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_the_minimum_is_near_what_is_needed_and_enough(outer: str, inner: str) -> None:
    function, num_held = INNER[inner]
    expected = [comparable(x) for x in OUTER[outer](function)]
    sampled = OUTER[outer](function)
    minimum = sampled.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 1.3 * num_held * ELEMENT
    for dataset in (sampled, sampled, OUTER[outer](function)):
        with dataset.run(memory=minimum) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0


def test_what_a_sample_has_put_in_a_cache_is_not_made_again() -> None:
    calls: list[int] = []
    cached = D.range(COUNT).map(lambda j: calls.append(int(j)) or np.full(ELEMENT // 8, float(j))).cache()
    dataset = D.range(3).flat_map(lambda i: cached)
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 7 * ELEMENT
    for memory in ("100MB", minimum):
        assert [int(x[0]) for x in dataset.run(memory=memory)] == 3 * list(range(COUNT))
    assert calls == list(range(COUNT))


def test_what_a_run_has_kept_is_not_taken_for_a_need() -> None:
    cached = made(0).cache()
    dataset = D.range(3).flat_map(lambda i: cached)
    list(dataset.run(memory="100MB"))
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 7 * ELEMENT
    assert len(list(dataset.run(memory=minimum))) == 3 * COUNT


def test_a_cache_of_small_elements_needs_next_to_nothing() -> None:
    """Their places on disk are remembered together."""
    dataset = D.range(2).flat_map(lambda i: D.range(5000).map(lambda j: j * 2).cache().repeat(2))
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert minimum < 40_000
    assert [int(x) for x in dataset.run(memory=minimum)] == 4 * list(range(0, 10_000, 2))


def test_a_cache_of_the_plan_itself_stays_in_memory_in_a_sample() -> None:
    dataset = made(0).cache()
    dataset.explain(sample=10**9)
    with dataset.run(memory="100MB") as run:
        assert len(list(run)) == COUNT
        assert run.stats()["spilled_bytes"] == 0


@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_what_an_inner_cache_keeps_is_not_of_the_floor_of_others(num_parallel_calls: int | None) -> None:
    """Who looks at an element keeps it in the cache, and the next dataset needs the room."""

    def twice(x: Any) -> Any:
        return D.range(2).map(lambda i: x + i).cache().repeat(2)

    stream = D.from_generator(lambda: (np.full(ELEMENT // 8, float(i)) for i in range(COUNT)))
    dataset = stream.interleave(twice, cycle_length=2, num_parallel_calls=num_parallel_calls).prefetch(3)
    expected = [comparable(x) for x in dataset]
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    with dataset.run(memory=minimum) as run:
        assert [comparable(x) for x in run] == expected
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("num_parallel_calls", [None, 3])
def test_a_position_can_be_loaded_with_the_minimum(num_parallel_calls: int | None) -> None:
    """What datasets are made of again is on the account of who reads them, as it was the first time."""
    batches = made(0).padded_batch(2)
    dataset = batches.interleave(
        lambda x: D.range(2).map(lambda i: x + i), cycle_length=3, num_parallel_calls=num_parallel_calls
    )
    expected = [comparable(x) for x in dataset]
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    found: list[Any] = []
    with dataset.run(memory=minimum) as run:
        for x in run:
            found.append(comparable(x))
            run.load_state_dict(run.state_dict())
    assert found == expected
    assert run.ledger.charged_bytes == 0


def test_an_inner_shuffle_of_few_small_elements_does_not_go_to_disk_for_others() -> None:
    """What it holds is on the floor, which is nobody else's; and the index of a file takes more than its elements."""

    def failing(x: Any) -> Any:
        if x % 5 == 2:
            raise ValueError("no")
        return x + 1

    def four(i: Any) -> Any:
        return D.range(4).map(lambda j: np.float64(i + j)).filter(lambda x: True).shuffle(3, seed=4)

    dataset = (
        D.from_generator(lambda: iter(range(20))).flat_map(four).map(failing, num_parallel_calls=2).ignore_errors()
    )
    expected = [float(x) for x in dataset]
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    for factor in (1, 1.1, 1.3):
        with dataset.run(memory=int(minimum * factor), epoch=0) as run:
            assert [float(x) for x in run] == expected
            assert run.stats()["spilled_bytes"] == 0


@pytest.mark.parametrize("case", INNER)
@pytest.mark.parametrize("num_sampled", [1, 3, 8])
def test_a_sample_that_ends_before_all_are_open_tells_what_all_need(case: str, num_sampled: int) -> None:
    inner, _ = INNER[case]

    def outer() -> Any:
        return D.range(4).interleave(inner, cycle_length=4, block_length=4)

    expected = [comparable(x) for x in outer()]
    sampled = outer()
    minimum = sampled.explain(sample=num_sampled).to_dict()["minimum_bytes"]
    with sampled.run(memory=minimum, epoch=0) as run:
        assert [comparable(x) for x in run] == expected
        assert run.ledger.peak_bytes <= minimum


@pytest.mark.parametrize("calls", [None, 2])
def test_files_whose_columns_are_open_at_a_time_leave_room_for_each_other(tmp_path: Path, calls: int | None) -> None:
    """The first opened all of its columns on what was set aside for the others, which found no room."""
    rows = 10_000
    for i in range(3):
        columns = {f"x{j}": np.random.default_rng(j).random(rows) + i for j in range(20)}
        ids = [f"row number {i + 3 * j} of all".encode() * 3 for j in range(rows)]
        pq.write_table(pa.table({**columns, "id": ids}), tmp_path / f"{i}", row_group_size=5000)

    def of_file(i: Any) -> Any:
        return D.from_parquet(str(tmp_path / f"{i}"))

    dataset = D.range(3).interleave(of_file, cycle_length=3, num_parallel_calls=calls).batch(100)
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    for factor in (1, 1.7, 3):
        with dataset.run(memory=int(minimum * factor)) as run:
            found = [int(name.split()[2]) for batch in run for name in batch["id"]]
        assert found == list(range(3 * rows))


@pytest.mark.parametrize("cycle_length", [1, 3])
@pytest.mark.parametrize(
    "element", [lambda j: b"s" * int(j * 7 % 3000), lambda j: np.full(300, j)], ids=["text", "array"]
)
def test_a_sample_that_has_written_files_tells_what_reading_them_takes(
    tmp_path: Path, element: Callable[[Any], Any], cycle_length: int
) -> None:
    def cached(i: Any) -> Any:
        return D.range(500).map(element).cache(str(tmp_path / f"{i}"))

    dataset = D.range(4).interleave(cached, cycle_length=cycle_length)
    minimum = dataset.explain(sample=10**9).to_dict()["minimum_bytes"]
    assert len(list(tmp_path.iterdir())) == 4
    for _ in range(2):
        assert len(list(dataset.run(memory=minimum))) == 2000
        for path in tmp_path.iterdir():  # and what making them anew does
            path.unlink()
