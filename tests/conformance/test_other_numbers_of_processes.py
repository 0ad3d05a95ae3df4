"""Positions of `distribute` that are loaded by other numbers of processes, saved by those, and loaded again."""

import gzip
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import StateError
from tests.moved import only_unmoved_are_restored

pytestmark = pytest.mark.timeout(60)
pa = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")

D = ps.Dataset
NUM = 100


@pytest.fixture(autouse=True)
def _only_unmoved_are_restored() -> Iterator[None]:
    with only_unmoved_are_restored():
        yield


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(NUM))


class ByNumber(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return NUM

    def __getitem__(self, i: int) -> int:
        return i


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    lines = "\n".join(map(str, range(NUM)))
    (folder / "a.txt").write_text(lines)
    (folder / "a.csv").write_text("n\n" + lines)
    with gzip.open(folder / "a.txt.gz", "wt") as file:
        file.write(lines)
    with ps.io.TFRecordWriter(folder / "a.tfrecord") as writer:
        for i in range(NUM):
            writer.write(b"%d" % i)
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"n": list(range(NUM))}), folder / "a.parquet", row_group_size=10)
    return folder


def numbers() -> Any:
    return D.from_generator(lambda: iter(range(NUM)))


def tens(i: Any) -> Any:
    return D.range(i * 10, i * 10 + 10)


# Each gives the numbers below NUM once, in some order. They are made anew for each run, as after a restart.
STREAMS: dict[str, Callable[[Path], Any]] = {
    "assert_cardinality": lambda files: numbers().assert_cardinality(NUM),
    "cache": lambda files: numbers().cache(),
    "cache of numbers": lambda files: D.range(NUM).map(lambda x: x).cache(),
    "choose_from_datasets": lambda files: D.choose_from_datasets(
        [D.range(0, NUM, 2), numbers().filter(lambda x: x % 2 > 0)], D.range(2).repeat()
    ),
    "concatenate": lambda files: numbers().take(30).concatenate(numbers().skip(30)),
    "filter": lambda files: D.range(NUM).filter(lambda x: True),
    "flat_map": lambda files: D.range(10).flat_map(tens),
    "from_csv": lambda files: D.from_csv(files / "a.csv").map(lambda row: row["n"]),
    "from_generator": lambda files: numbers(),
    "from_parquet": lambda files: D.from_parquet(files / "a.parquet").map(lambda row: row["n"]),
    "from_torch": lambda files: ps.from_torch(Numbers()),
    "group_by_window": lambda files: D.range(NUM).group_by_window(lambda x: x % 3, lambda key, d: d, window_size=4),
    "ignore_errors": lambda files: D.range(-1, NUM).map(lambda x: x + 0 // (x + 1)).ignore_errors(),
    "interleave": lambda files: D.range(10).interleave(tens, cycle_length=3, block_length=2),
    "interleave of generators": lambda files: D.range(4).interleave(
        lambda i: D.from_generator(lambda: iter(range(int(i), NUM, 4))), cycle_length=2
    ),
    "map": lambda files: numbers().map(lambda x: x, num_parallel_calls=2),
    "prefetch": lambda files: numbers().prefetch(3),
    "rebatch": lambda files: numbers().batch(7).rebatch(3).unbatch(),
    "rejection_resample": lambda files: D.range(NUM).rejection_resample(lambda x: 0, [1.0], seed=1).map(lambda c, x: x),
    "sample_from_datasets": lambda files: D.sample_from_datasets(
        [numbers().take(40), numbers().skip(40)], seed=3, stop_on_empty_dataset=False
    ),
    "scan": lambda files: numbers().scan(np.int64(0), lambda count, x: (count + 1, x)),
    "shard and skip": lambda files: numbers().shard(2, 0).concatenate(numbers().skip(1).shard(2, 0)),
    "shuffle": lambda files: numbers().shuffle(10, seed=3),
    "take_while": lambda files: numbers().take_while(lambda x: True),
    "text": lambda files: ps.TextLineDataset(files / "a.txt").map(int),
    "text, compressed": lambda files: ps.TextLineDataset(files / "a.txt.gz", compression_type="GZIP").map(int),
    "unique": lambda files: D.range(2 * NUM).map(lambda x: x // 2).unique(),
    "window": lambda files: D.range(NUM).window(5).flat_map(lambda w: w),
    "window of a generator": lambda files: numbers().window(3, shift=2).flat_map(lambda w: w.take(2)),
    "zip": lambda files: D.zip((numbers(), numbers().map(lambda x: -x))).map(lambda a, b: a),
}
INDEXED: dict[str, Callable[[Path], Any]] = {
    "range": lambda files: D.range(NUM),
    "shuffle all": lambda files: D.range(NUM).shuffle(seed=3),
    "shuffle in a window": lambda files: D.range(NUM).shuffle(9, seed=3).map(lambda x: x),
    "from_torch, by number": lambda files: ps.from_torch(ByNumber()),
    "tfrecord": lambda files: ps.TFRecordDataset(files / "a.tfrecord").map(int),
}
SOURCES = STREAMS | INDEXED

# Numbers of processes, each with how many batches they take before they save.
CHAINS = {
    "2, 1, 1, 3": [(2, 1), (1, 1), (1, 2), (3, 99)],
    "2, 3, 3": [(2, 2), (3, 1), (3, 99)],
    "1, 2, 2, 4, 1": [(1, 2), (2, 1), (2, 0), (4, 1), (1, 99)],
    "3, 1, 1, 1": [(3, 0), (1, 0), (1, 1), (1, 99)],
    "4, 2, 2, to the end, 3": [(4, 2), (2, 1), (2, 99), (3, 99)],
}


def go_through(
    chain: list[tuple[int, int]], open_part: Callable[[int, int], Any], whole: list[int], size: int, remainder: str
) -> None:
    """Runs a chain, and checks what all of its processes get."""
    state: Any = None
    had: list[int] = []
    start = 0
    num_padded = 0
    for num_parts, steps in chain:
        runs = [open_part(num_parts, i) for i in range(num_parts)]
        for run in runs:
            if state is not None:
                run.load_state_dict(state)
        given = [[batch.tolist() for batch in itertools.islice(run, steps)] for run in runs]
        assert len({len(batches) for batches in given}) == 1 or remainder == "keep", "unequally many steps"
        had += [x for batches in given for batch in batches for x in batch]
        # Full batches of all are the beginning of what was left.
        for i, batches in enumerate(given):
            for step, batch in enumerate(batches):
                first = start + step * size * num_parts + i
                expected = whole[first : first + size * num_parts : num_parts]
                assert batch == expected or len(expected) < size
        start += num_parts * steps * size
        num_padded += num_parts if remainder == "pad" and start >= len(whole) else 0
        states = [json.loads(json.dumps(run.state_dict())) for run in runs]
        for run in runs:
            run.close()
            assert run.ledger.charged_bytes == 0
        state = states[steps % num_parts]
    left_out = set(whole) - set(had)
    num_twice = len(had) - len(set(had))
    assert num_twice <= num_padded, "given twice"
    assert len(left_out) < (max(n for n, _ in chain) if remainder == "drop" else 1), "lost"


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("source", SOURCES)
def test_no_element_is_lost_or_given_twice(source: str, chain: str, files: Path) -> None:
    whole = [int(x) for x in SOURCES[source](files).run(epoch=0)]
    assert sorted(whole) == list(range(NUM))
    turn = [*SOURCES].index(source) + [*CHAINS].index(chain)
    remainder, size = [("drop", 8), ("pad", 4), ("keep", 1), ("drop", 1), ("pad", 8), ("keep", 4)][turn % 6]

    def open_part(num_parts: int, i: int) -> Any:
        return SOURCES[source](files).distribute(num_parts, i, remainder).batch(size).run(epoch=0)  # type: ignore[arg-type]

    go_through(CHAINS[chain], open_part, whole, size, remainder)


ABOVE: dict[str, Callable[[Any, int], Any]] = {
    "batch": lambda part, size: part.batch(size),
    "map": lambda part, size: part.map(lambda x: x, num_parallel_calls=2).batch(size).prefetch(1),
    "padded_batch": lambda part, size: part.prefetch(2).padded_batch(size),
    "batches of batches": lambda part, size: part.batch(1).batch(size).map(lambda batch: batch[:, 0]),
}


@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(
    source=st.sampled_from(sorted(SOURCES)),
    above=st.sampled_from(sorted(ABOVE)),
    chain=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=2, max_size=6),
    size=st.sampled_from([1, 4, 8]),
    remainder=st.sampled_from(["drop", "pad"]),
    optimize=st.booleans(),
)
def test_any_chain(
    source: str,
    above: str,
    chain: list[tuple[int, int]],
    size: int,
    remainder: Any,
    optimize: bool,
    files: Path,
) -> None:
    whole = [int(x) for x in SOURCES[source](files).run(epoch=0, optimize=optimize)]

    def open_part(num_parts: int, i: int) -> Any:
        part = SOURCES[source](files).distribute(num_parts, i, remainder)
        return ABOVE[above](part, size).run(epoch=0, optimize=optimize)

    go_through([*chain, (chain[-1][0], 999)], open_part, whole, size, remainder)


def test_a_dataset_that_goes_on_has_all_elements_in_its_next_epoch() -> None:
    first = numbers().distribute(2, 0).batch(8).run()
    next(first)
    alone = numbers().distribute(1, 0).batch(8).to_torch()
    reading = iter(alone)
    reading.load_state_dict(first.state_dict())
    assert [int(x) for batch in reading for x in batch] == list(range(16, NUM))
    assert [int(x) for batch in alone for x in batch] == list(range(NUM))


@pytest.mark.parametrize("source", ["from_generator", "range"])
def test_a_run_can_load_one_position_after_another(source: str, files: Path) -> None:
    def opened(num_parts: int) -> Any:
        return SOURCES[source](files).distribute(num_parts, 0).batch(8).run(epoch=0)

    of_two, of_one = opened(2), opened(1)
    beginning = of_one.state_dict()
    next(of_two)
    next(of_one)
    for state, first in ((of_two.state_dict(), 16), (of_one.state_dict(), 8), (beginning, 0)):
        run = opened(1)
        for other in (beginning, of_two.state_dict(), state):
            run.load_state_dict(other)
        assert next(run).tolist() == list(range(first, first + 8))


@pytest.mark.parametrize("at", [9, 16, 30])
def test_an_interrupt_after_another_number_loses_nothing(at: int) -> None:
    interrupts: list[int] = []

    def generate() -> Iterator[int]:
        for i in range(NUM):
            if i in interrupts:
                interrupts.remove(i)
                raise KeyboardInterrupt
            yield i

    def opened(num_parts: int) -> Any:
        return D.from_generator(generate).distribute(num_parts, 0).batch(8).run()

    before, resumed = opened(2), opened(1)
    next(before)
    resumed.load_state_dict(before.state_dict())
    interrupts.append(at)
    had: list[int] = []
    num_interrupts = 0
    while len(had) < NUM - 16:
        try:
            had += next(resumed).tolist()
        except KeyboardInterrupt:
            num_interrupts += 1
    assert had == list(range(16, NUM))
    assert num_interrupts == 1


def test_a_state_that_each_process_has_of_its_own_is_refused() -> None:
    def opened(num_parts: int) -> Any:
        return D.range(NUM).distribute(num_parts, 0).scan(np.int64(0), lambda sum, x: (sum + x, sum)).batch(8).run()

    run = opened(2)
    next(run)
    with pytest.raises(StateError, match=r"scan.* at test_other.* follows from all that its own process had before"):
        opened(3).load_state_dict(run.state_dict())
    opened(2).load_state_dict(run.state_dict())


@pytest.mark.parametrize("is_behind", [True, False])
@pytest.mark.parametrize("before, after", [(2, 3), (2, 2), (3, 2)])
def test_maps_that_may_give_up_the_order_keep_it(is_behind: bool, before: int, after: int) -> None:
    """A position says of one process how far it came, and the others are as far only if all go in the same order."""

    def uneven(x: Any) -> Any:
        time.sleep(0.0005 * (int(x) * 7 % 5))
        return x

    def part(num_parts: int, index: int) -> Any:
        numbers = D.range(101).shuffle(seed=3)
        if is_behind:
            numbers = numbers.distribute(num_parts, index).map(uneven, num_parallel_calls=4, deterministic=False)
        else:
            numbers = numbers.map(uneven, num_parallel_calls=4, deterministic=False).distribute(num_parts, index)
        return numbers.batch(8).run(epoch=0)

    had: list[int] = []
    for index in range(before):
        with part(before, index) as run:
            for _ in range(2):
                had += next(run).tolist()
            state = run.state_dict()
    for index in range(after):
        with part(after, index) as run:
            run.load_state_dict(state)
            had += [int(x) for batch in run for x in batch]
    assert sorted(had) == list(range(101))
