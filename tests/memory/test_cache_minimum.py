"""What `explain` names for caches and snapshots is enough for the epochs that read what was kept, too.

What comes from arrays is a view as long as nobody has kept it, and takes memory once it is read from disk.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_minimum import comparable

D = ps.Dataset
COUNT = 40
ARRAY = np.arange(COUNT * 30_000, dtype=np.uint8).reshape(COUNT, 30_000)
SMALL = np.arange(COUNT * 6, dtype=np.int32).reshape(COUNT, 6)


def uneven() -> Iterator[np.ndarray]:
    for i in range(COUNT):
        yield np.full(1 + 900 * (i * 7 % 11), i, np.float32)


SOURCES: dict[str, Callable[[], Any]] = {
    "array": lambda: D.from_tensor_slices(ARRAY),
    "small array": lambda: D.from_tensor_slices(SMALL),
    "dict of arrays": lambda: D.from_tensor_slices({"a": ARRAY, "b": SMALL}),
    "generator": lambda: D.from_generator(uneven),
    "small generator": lambda: D.from_generator(lambda: (np.full(50, i, np.float32) for i in range(120))),
    "map": lambda: D.from_tensor_slices(ARRAY).map(lambda x: x + 1),
    "map of numbers": lambda: D.range(300).map(lambda i: i * 2),
    "strings": lambda: D.range(300).map(lambda i: b"x" * int(i)),
}
KEEPERS: dict[str, Callable[[Any, str], Any]] = {
    "cache": lambda d, path: d.cache(),
    "cache(filename)": lambda d, path: d.cache(path),
    "snapshot": lambda d, path: d.snapshot(path),
}
AFTER: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda d: d,
    "prefetch": lambda d: d.prefetch(2),
    "shuffle": lambda d: d.shuffle(5, seed=1, reshuffle_each_iteration=False),
    "ragged_batch": lambda d: d.ragged_batch(8),
    "map in threads": lambda d: d.map(lambda x: x, num_parallel_calls=2),
}


def three_epochs(dataset: Any, minimum: int, expected: list[Any]) -> None:
    for _ in range(3):
        with dataset.run(memory=minimum) as run:
            assert [comparable(x) for x in run] == expected
            assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0


def can_be_ragged(source: str) -> bool:
    return source != "dict of arrays"


CASES = [(s, k, a) for s in SOURCES for k in KEEPERS for a in AFTER if a != "ragged_batch" or can_be_ragged(s)]


@pytest.mark.parametrize(("source", "keeper", "after"), CASES)
def test_the_minimum_is_enough_for_every_epoch(tmp_path: Path, source: str, keeper: str, after: str) -> None:
    expected = [comparable(x) for x in AFTER[after](SOURCES[source]())]
    dataset = AFTER[after](KEEPERS[keeper](SOURCES[source](), str(tmp_path / "kept")))
    plan = dataset.explain(sample=10_000).to_dict()
    assert plan["complete"]
    three_epochs(dataset, plan["minimum_bytes"], expected)


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("source", ["array", "small array", "dict of arrays"])
def test_it_is_known_without_a_sample_where_sizes_are(tmp_path: Path, source: str, keeper: str) -> None:
    expected = [comparable(x) for x in SOURCES[source]()]
    dataset = KEEPERS[keeper](SOURCES[source](), str(tmp_path / "kept"))
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    assert minimum > next(iter(SOURCES[source]().map(ps.element.nbytes_of)))
    three_epochs(dataset, minimum, expected)


@pytest.mark.parametrize("compression", ["GZIP", "SNAPPY"])
def test_a_compressed_snapshot(tmp_path: Path, compression: str) -> None:
    dataset = D.from_tensor_slices(ARRAY).snapshot(str(tmp_path), compression)
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    three_epochs(dataset, minimum, [comparable(x) for x in ARRAY])


def drawn(least: int, most: int, seed: int) -> Any:
    """Elements of unequal length, of which a file has several in a batch."""

    def elements() -> Iterator[np.ndarray]:
        numbers = np.random.default_rng(seed)
        for _ in range(60):
            yield numbers.random(int(numbers.integers(least, most)), np.float32)

    return D.from_generator(elements)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("least", "most"), [(100, 900), (1000, 9000), (10_000, 90_000)])
@pytest.mark.parametrize(
    "gather",
    [lambda d: d.padded_batch(4), lambda d: d.ragged_batch(5), lambda d: d.repeat(2).padded_batch(3)],
    ids=["padded", "ragged", "repeated"],
)
@pytest.mark.parametrize(
    "keep",
    [
        lambda d, path: d.cache(path),
        lambda d, path: d.snapshot(path),
        lambda d, path: d.snapshot(path, compression="GZIP"),
        lambda d, path: d.snapshot(path, compression="SNAPPY"),
    ],
    ids=["cache", "snapshot", "zstd", "lz4"],
)
def test_who_gathers_from_a_file_may_look_at_the_batch_before(
    tmp_path: Path, keep: Any, gather: Any, least: int, most: int, seed: int
) -> None:
    """A sample has written the file, in batches for a large budget; what is held of one keeps all of it."""
    expected = [comparable(x) for x in gather(drawn(least, most, seed))]
    dataset = gather(keep(drawn(least, most, seed), str(tmp_path / "kept")))
    three_epochs(dataset, dataset.explain(memory="200MB", sample=10_000).to_dict()["minimum_bytes"], expected)


@pytest.mark.parametrize(("size", "count", "memory"), [(2000, 3000, 200_000), (100_000, 300, 1_000_000)])
def test_a_file_is_served_whole_with_any_budget(tmp_path: Path, size: int, count: int, memory: int) -> None:
    calls: list[int] = []
    made = D.range(count).map(lambda i: calls.append(int(i)) or np.full(size, i % 251, np.uint8))
    dataset = made.cache(str(tmp_path / "file"))
    for _ in range(3):
        with dataset.run(memory=memory) as run:
            assert [int(x[-1]) for x in run] == [i % 251 for i in range(count)]
            assert run.ledger.peak_bytes <= memory
    assert len(calls) == count


def test_a_file_that_a_large_budget_wrote_is_served_whole_with_a_small_one(tmp_path: Path) -> None:
    calls: list[int] = []
    made = D.range(3000).map(lambda i: calls.append(int(i)) or np.full(2000, i % 251, np.uint8))
    dataset = made.cache(str(tmp_path / "file"))
    list(dataset.run(memory="1GB"))
    minimum = dataset.explain().to_dict()["minimum_bytes"]
    assert minimum < 200_000
    with dataset.run(memory=minimum) as run:
        assert [int(x[0]) for x in run] == [i % 251 for i in range(3000)]
    assert len(calls) == 3000
    with pytest.raises(ps.errors.BudgetTooSmall, match=f"use memory={minimum:_} or more"):
        dataset.run(memory=minimum - 1)


def test_a_run_with_less_goes_on_with_a_file_and_writes_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "file"
    dataset = D.range(3000).map(lambda i: np.full(2000, i % 251, np.uint8)).cache(str(path))
    for count, memory in ((1000, "100MB"), (1100, "200kB"), (1200, "1MB"), (3000, "200kB")):
        with dataset.run(memory=memory) as run:
            assert [int(next(run)[0]) for _ in range(count)] == [i % 251 for i in range(count)]
            if count == 3000:
                assert next(run, None) is None
    assert [int(x[0]) for x in dataset.run(memory="200kB")] == [i % 251 for i in range(3000)]
    again = D.range(3000).map(lambda i: np.full(2000, i % 251, np.uint8))
    assert ps.memory.ipc.IpcReader(path).num_rows == again.cardinality()


@pytest.mark.parametrize("memory", [500_000, 700_000, 1_000_000, 1_300_000, 1_600_000])
def test_what_a_cache_keeps_gives_way_to_a_batch(memory: int) -> None:
    """In later epochs nothing comes into the cache, and nobody tells what an element of it takes but those it gives."""

    def rows() -> Iterator[np.ndarray]:
        return (np.full(600, float(i)) for i in range(200))

    dataset = D.from_generator(rows).map(lambda x: x + 1).cache().shuffle(10_000, seed=1).batch(16).prefetch(-1)
    for _ in range(4):
        with dataset.run(memory=memory) as run:
            found = [next(run)[:, 0].tolist()]
            floors = {stage["name"]: stage["floor_bytes"] for stage in run.memory()["stages"]}
            assert floors["cache('')"] <= memory // 8  # it is not told to keep what it has
            found += [batch[:, 0].tolist() for batch in run]
        assert sorted(x for batch in found for x in batch) == [i + 1.0 for i in range(200)]


def uneven_map(seed: int) -> Any:
    lengths = np.random.default_rng(seed).lognormal(6, 1.3, COUNT).astype(int) + 1
    return D.range(COUNT).map(lambda i: np.full(lengths[i], i, np.float32))


# The sample has kept some elements, which lie together as a large budget has them.
BEGUN: dict[str, Callable[[str], Any]] = {
    "the begin of a file": lambda path: uneven_map(0).cache(path).take(13),
    "the begin of a file, its last elements in memory": lambda path: uneven_map(13).cache(path).take(13),
    "the end of a cache": lambda path: uneven_map(5).padded_batch(5).unbatch().cache().skip(7),
}


@pytest.mark.parametrize("name", BEGUN)
def test_what_a_sample_has_kept_can_be_read_with_what_it_named(tmp_path: Path, name: str) -> None:
    expected = [comparable(x) for x in BEGUN[name](str(tmp_path / "other"))]
    dataset = BEGUN[name](str(tmp_path / "kept"))
    three_epochs(dataset, dataset.explain(sample=10_000).to_dict()["minimum_bytes"], expected)


def test_what_another_dataset_has_kept_can_be_read_with_what_a_sample_named() -> None:
    """The sample finds all elements in the cache, and does not see what it takes to make one."""
    calls: list[int] = []
    cached = D.range(10).map(lambda i: calls.append(int(i)) or np.full(10 + i * 400, i)).cache()
    assert len(list(cached.batch(1))) == 10
    dataset = D.sample_from_datasets([cached, cached], seed=1)
    expected = [comparable(x) for x in dataset.run(epoch=0)]
    minimum = dataset.explain(sample=10_000).to_dict()["minimum_bytes"]
    assert minimum < 10 * 4000 * 8 * 6 // 10  # less than they take together
    for _ in range(2):
        assert [comparable(x) for x in dataset.run(memory=minimum, epoch=0)] == expected
    assert len(calls) == 10


@pytest.mark.parametrize("keeper", KEEPERS)
def test_the_minimum_is_enough_where_there_is_no_element(tmp_path: Path, keeper: str) -> None:
    stream = D.range(9).map(lambda i: np.zeros(i)).filter(lambda x: False).map(lambda x: x)
    dataset = KEEPERS[keeper](stream, str(tmp_path / "kept"))
    minimum = dataset.explain(sample=10).to_dict()["minimum_bytes"]
    three_epochs(dataset, minimum, [])


def equal_rows(count: int = 100, size: int = 2500) -> Any:
    return D.from_generator(lambda: (np.full(size, i, np.float32) for i in range(count)))


@pytest.mark.parametrize(
    "program",
    [
        lambda data: data.map(lambda x: x * 2, num_parallel_calls=4).shuffle(50, seed=1).cache().padded_batch(8),
        lambda data: data.shuffle(50, seed=1).cache().batch(2),
        lambda data: data.shuffle(50, seed=1).cache().map(lambda x: x + 1).cache().batch(2),
        lambda data: (
            data.group_by_window(lambda x: int(x[0]) % 4, lambda _, w: w.batch(20), 20).map(lambda b: b[0]).cache()
        ),
    ],
    ids=["padded", "batch", "two caches", "groups"],
)
@pytest.mark.parametrize("before", ["a sample", "a run that stops"])
def test_a_sample_sees_what_lies_below_a_cache_that_is_not_full(program: Callable[[Any], Any], before: str) -> None:
    first = program(equal_rows()).explain(sample=8).to_dict()
    dataset = program(equal_rows())
    if before == "a sample":
        dataset.explain(sample=8)
    else:
        with dataset.run(memory="64MB") as run:
            for _ in range(4):
                next(run)
    again = dataset.explain(sample=8, memory="64MB").to_dict()
    assert (again["minimum_bytes"], again["fits"]) == (first["minimum_bytes"], True)
    expected = [x.tobytes() for x in program(equal_rows())]
    with dataset.run(memory=again["minimum_bytes"], epoch=0) as run:
        assert [x.tobytes() for x in run] == expected


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_datasets_of_cached_elements_are_read_with_what_there_is(batch_size: int) -> None:
    """Two copies of each array at once would be quicker, and one more than were set aside for."""

    def program() -> Any:
        rows = equal_rows(40, 20_000).cache()
        return rows.flat_map(lambda x: D.from_tensors(x).repeat(2)).batch(batch_size)

    expected = [x.tobytes() for x in program()]
    dataset = program()
    minimum = dataset.explain(sample=8).to_dict()["minimum_bytes"]
    with dataset.run(memory=minimum) as run:
        assert [x.tobytes() for x in run] == expected
