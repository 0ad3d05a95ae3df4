"""cache: made once, given often, inside the budget."""

import gc
import itertools
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.ipc
import pytest

import penstock as ps
from penstock.element import normalize
from penstock.memory.ipc import IpcReader
from penstock.testing import _plain, check_op, same

from ..fakes import all_with_errors


class Counting:
    """A function that remembers what it was called with."""

    def __init__(self, function: Any = lambda x: x) -> None:
        self.function = function
        self.calls: list[int] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(int(x))
        return self.function(x)


def test_made_once() -> None:
    made = Counting()
    ds = ps.Dataset.range(600).map(made).cache()
    for _ in range(3):
        assert [int(x) for x in ds] == list(range(600))
    assert [batch.tolist() for batch in ds.batch(400)] == [list(range(400)), list(range(400, 600))]
    assert made.calls == list(range(600))
    assert ds.cardinality() == 600


def test_a_partial_pass_is_kept_and_finished_later() -> None:
    made = Counting()
    ds = ps.Dataset.range(6).map(made).cache()
    assert [int(x) for x in ds.take(2).run(optimize=False)] == [0, 1]
    assert [int(x) for x in ds.take(4).run(optimize=False)] == [0, 1, 2, 3]
    assert [int(x) for x in ds] == list(range(6))
    assert made.calls == list(range(6))


def test_two_readers_at_once() -> None:
    made = Counting()
    ds = ps.Dataset.range(5).map(made).cache()
    with ds.run() as a, ds.run() as b:
        found = [(int(next(a)), int(next(b))) for _ in range(5)]
    assert found == [(i, i) for i in range(5)]
    assert made.calls == list(range(5))


@pytest.mark.parametrize(
    "dataset",
    [
        ps.Dataset.range(7).cache(),
        ps.Dataset.range(7).cache().repeat(2),
        ps.Dataset.range(300).cache().skip(290),
        ps.Dataset.range(9).shuffle(3, seed=1).cache().repeat(2).batch(4),
        ps.Dataset.range(9).shuffle(3).cache().repeat(2),
        ps.Dataset.from_tensor_slices({"a": np.arange(3), "b": (np.array([b"x", b"", b"z"], dtype=object),)}).cache(),
        ps.Dataset.range(4).map(lambda x: np.full(x, x)).cache(),
        ps.Dataset.range(5).flat_map(ps.Dataset.range).cache().prefetch(2),
    ],
    ids=["plain", "repeat", "skip", "shuffle", "unseeded", "nest", "unequal", "prefetch"],
)
def test_the_laws(dataset: ps.Dataset) -> None:
    check_op(dataset)


def test_a_shuffle_below_keeps_the_order_of_the_first_pass() -> None:
    ds = ps.Dataset.range(50).shuffle(seed=1).cache()
    first = [int(x) for x in ds]
    assert first != list(range(50))
    assert [int(x) for x in ds] == first


def fails(x: int) -> int:
    return x if x != 2 else int("two")


def test_an_error_is_shown_once() -> None:
    ds = ps.Dataset.range(4).map(fails).cache()
    found = all_with_errors(ds.repeat(2).run())
    assert [-1 if isinstance(x, Exception) else int(x) for x in found] == [0, 1, -1, 3, 0, 1, 3]
    assert [int(x) for x in ds] == [0, 1, 3]


@pytest.mark.parametrize("done", range(8))
@pytest.mark.parametrize("again", ["the same dataset", "a new one"])
def test_errors_are_resumed_exactly(done: int, again: str) -> None:
    def make() -> ps.Dataset:
        return ps.Dataset.range(4).map(fails).cache().repeat(2)

    ds = make()
    with ds.run() as run:
        for _ in range(done):
            try:
                next(run)
            except ValueError:
                pass
        state = run.state_dict()
        rest = all_with_errors(run)
    with (ds if again == "the same dataset" else make()).run() as resumed:
        resumed.load_state_dict(state)
        assert [str(x) for x in all_with_errors(resumed)] == [str(x) for x in rest]


def test_what_is_cached_cannot_be_changed_by_the_caller() -> None:
    ds = ps.Dataset.range(2).map(lambda x: np.full(3, x)).cache()
    for array in [*ds, *ds]:
        with pytest.raises(ValueError, match="read-only"):
            array += 1


def test_the_users_own_array_stays_writable() -> None:
    own = np.zeros(3)
    list(ps.Dataset.range(1).map(lambda x: own).cache())
    own += 1


def test_cached_bytes_are_on_the_ledger_while_a_run_is_open() -> None:
    ds = ps.Dataset.range(10).map(lambda x: np.zeros(1000)).cache()
    list(ds)
    with ds.run() as first, ds.run() as second:  # whether they read it or not
        assert first.ledger.charged_bytes >= 80_000
        assert second.ledger.charged_bytes >= 80_000
    assert first.ledger.charged_bytes == second.ledger.charged_bytes == 0


def test_what_does_not_fit_goes_to_disk() -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(20).map(made).cache()
    for _ in range(3):
        with ds.run(memory=100_000) as run:
            assert [int(array[0]) for array in run] == list(range(20))
        assert run.ledger.peak_bytes <= 100_000
        assert run.ledger.charged_bytes == 0
    assert made.calls == list(range(20))


@pytest.mark.parametrize("memory", [200_000, 300_000, 500_000, 2_000_000])
def test_it_gives_way_to_batches(memory: int) -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(100).map(made).cache()
    for _ in range(3):
        with ds.batch(10).run(memory=memory) as run:
            assert [batch[:, 0].tolist() for batch in run] == [list(range(i, i + 10)) for i in range(0, 100, 10)]
        assert run.ledger.peak_bytes <= memory
    assert made.calls == list(range(100))


@pytest.mark.parametrize(
    "element",
    [
        lambda x: (x, np.full(500, x), b"text" * int(x)),
        lambda x: {"a": np.full((int(x) % 7, 100), x, np.float32), "b": np.int8(1)},
        lambda x: np.array([b"x" * 300] * int(x % 5), dtype=object),
        lambda x: ps.Ragged(np.arange(int(x) * 10), np.array([0, int(x), int(x) * 10])),
        lambda x: np.full(300, x) if x % 40 < 20 else np.full(300, x, np.float32),
    ],
    ids=["tuple", "shapes", "strings", "ragged", "dtypes"],
)
def test_elements_come_back_from_disk_as_they_were(element: Any) -> None:
    made = Counting(element)
    ds = ps.Dataset.range(100).map(made).cache()
    for _ in range(3):
        count = 0
        for found in ds.run(memory=60_000):
            assert same(_plain(found), _plain(normalize(element(np.int64(count)))))
            count += 1
        assert count == 100


def test_a_partial_pass_that_overflows_is_finished_later() -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache()
    for stop in (5, 30, 31, 60, 60):
        with ds.run(memory=120_000) as run:
            assert [int(next(run)[0]) for _ in range(stop)] == list(range(stop))
    assert made.calls == list(range(60))


def scanned() -> Iterator[tuple[int, int, int, int, int]]:
    """Elements of some sizes under budgets for a few of them, stopped anywhere."""
    drawn = np.random.default_rng(7)
    for _ in range(40):
        length = int(drawn.choice([1, 30, 500, 5_000, 20_000]))
        batch = int(drawn.choice([0, 1, 2, 7]))  # 0: none
        memory = int(length * 8 * drawn.uniform(4.3, 12) * max(1, batch)) + 10_000
        yield int(drawn.choice([60, 150])), length, batch, memory, int(drawn.integers(0, 60))


@pytest.mark.parametrize(("count", "length", "batch", "memory", "stop"), list(scanned()))
def test_every_element_is_made_once_wherever_a_pass_stops(
    count: int, length: int, batch: int, memory: int, stop: int
) -> None:
    made = Counting(lambda x: np.full(length, np.random.random()))
    ds = ps.Dataset.range(count).map(made).cache()
    ds = ds.batch(batch) if batch else ds
    epochs: list[list[float]] = []
    for stop_in_epoch in (stop // max(1, batch), count, count, count):
        with ds.run(memory=memory) as run:
            taken = itertools.islice(run, stop_in_epoch)
            epochs.append([float(row[0]) for x in taken for row in x.reshape(-1, length)])
    assert made.calls == list(range(count))
    assert epochs[0] == epochs[1][: len(epochs[0])]
    assert epochs[1] == epochs[2] == epochs[3]


@pytest.mark.parametrize(("length", "memory", "batch"), [(500_000, 25_000_000, 2), (50_000, 1_750_000, 1)])
def test_it_is_completed_where_batches_fill_the_budget(length: int, memory: int, batch: int) -> None:
    """What nobody uses any more makes room for the place of an element on disk."""
    made = Counting(lambda x: np.full(length, np.random.random()))
    ds = ps.Dataset.range(40).map(made).cache()
    ds = ds.batch(2) if batch > 1 else ds
    for stop in (21 // batch, 40, 40):
        with ds.run(memory=memory) as run:
            assert sum(1 for _ in itertools.islice(run, stop)) == min(stop, 40 // batch)
    assert made.calls == list(range(40))


def test_the_laws_hold_with_overflow() -> None:
    ds = ps.Dataset.range(40).map(lambda x: np.full(1000, x)).cache().repeat(2).batch(3)
    check_op(ds.with_options(ps.Options(memory=130_000)))


def test_skipping_reads_nothing_again() -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache().with_options(ps.Options(memory=120_000))
    list(ds)
    assert [int(x[0]) for x in ds.skip(55)] == list(range(55, 60))
    assert [int(x[0]) for x in ds.shard(10, 3)] == list(range(3, 60, 10))
    assert sorted(int(x[0]) for x in ds.shuffle(4, seed=1)) == list(range(60))
    assert made.calls == list(range(60))


def test_a_limit_on_the_disk_is_a_clear_error_and_nothing_is_lost(tmp_path: Path) -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache()
    small = ds.with_options(ps.Options(memory=100_000, spill_dir=tmp_path, spill_limit=50_000))
    run = small.run()
    found: list[int] = []
    with pytest.raises(ps.errors.SpillError, match=r"cache at .*: asked for .* kB.*limit of 50 kB.*spill_limit="):
        found.extend(int(x[0]) for x in run)
    assert 10 < len(found) < 30
    assert run.ledger.charged_bytes == 0
    with ds.run(memory=1_000_000) as more:
        more.load_state_dict(run.state_dict())
        assert found + [int(x[0]) for x in more] == list(range(60))


def test_a_cache_whose_directory_was_removed_goes_on_in_another(tmp_path: Path) -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache().with_options(ps.Options(memory=100_000, spill_dir=tmp_path))
    with ds.run() as run:
        found = [int(next(run)[0]) for _ in range(30)]
        (before,) = tmp_path.iterdir()
        shutil.rmtree(before)
        found += [int(x[0]) for x in run]
    assert found == [int(x[0]) for x in ds] == list(range(60))
    assert made.calls == list(range(60))
    assert before not in tmp_path.iterdir()


def test_files_of_a_cache_that_somebody_has_cut_are_told_and_their_elements_made_again(tmp_path: Path) -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache()
    ds = ds.with_options(ps.Options(memory=100_000, spill_dir=tmp_path))
    list(ds)
    for file in tmp_path.rglob("*.arrow"):
        os.truncate(file, 100)
    found: list[int] = []
    with ds.run() as run:
        with pytest.raises(ps.errors.SpillError, match=r"cache at .*bytes are missing.*somebody else has changed"):
            found.extend(int(x[0]) for x in run)
        position = run.state_dict()
    with ds.run() as more:
        more.load_state_dict(position)
        assert found + [int(x[0]) for x in more] == list(range(60))
    made.calls.clear()
    assert [int(x[0]) for x in ds] == [int(x[0]) for x in ds] == list(range(60))
    assert made.calls == list(range(60))


def on_disk(folder: Path) -> int:
    """Bytes of all spill files."""
    return sum(path.stat().st_size for path in folder.rglob("*.arrow"))


def test_the_limit_is_on_a_run_and_its_cache_together(tmp_path: Path) -> None:
    """480 kB go through a cache and a shuffle, neither of which has room for much."""
    made = Counting(lambda x: np.full(1000, x))
    cached = ps.Dataset.range(60).map(made).cache()
    ds = cached.filter(lambda x: True).shuffle(50, seed=1, reshuffle_each_iteration=False)

    def limited(spill_limit: int) -> ps.Dataset:
        return ds.with_options(ps.Options(memory=200_000, spill_dir=tmp_path, spill_limit=spill_limit, progress=False))

    for limit in (300_000, 450_000):
        run = limited(limit).run(epoch=0)
        found: list[int] = []

        def watched(run: ps.Run = run, found: list[int] = found, limit: int = limit) -> None:
            for x in run:
                found.append(int(x[0]))
                assert on_disk(tmp_path) <= run.stats()["on_disk_bytes"] <= limit

        with pytest.raises(ps.errors.SpillError, match=rf"of the limit of {limit // 1000} kB are in use in {tmp_path}"):
            watched()
        with limited(2_000_000).run(epoch=0) as more:
            more.load_state_dict(run.state_dict())
            found += [int(x[0]) for x in more]
        assert sorted(found) == list(range(60))
    assert made.calls == list(range(60))


def test_what_a_cache_left_on_disk_counts_in_the_next_run(tmp_path: Path) -> None:
    cached = ps.Dataset.range(60).map(lambda x: np.full(1000, x)).cache()
    options = ps.Options(memory=100_000, spill_dir=tmp_path, spill_limit=600_000, progress=False)
    assert len(list(cached.with_options(options))) == 60
    left = on_disk(tmp_path)
    assert left > 350_000
    with cached.with_options(options).run() as again:
        next(again)
        assert again.stats()["on_disk_bytes"] >= left
        assert again.memory()["on_disk_bytes"] >= left
    shuffled = cached.filter(lambda x: True).shuffle(60, seed=1)
    with pytest.raises(ps.errors.SpillError, match=r"shuffle at .*limit of 600 kB.* kB by caches"):
        list(shuffled.with_options(options))
    del cached, shuffled, again
    gc.collect()
    assert on_disk(tmp_path) == 0


def test_a_cache_goes_on_in_the_directory_that_the_next_run_names(tmp_path: Path) -> None:
    made = Counting(lambda x: np.full(1000, x))
    ds = ps.Dataset.range(60).map(made).cache()
    folders = [tmp_path / name for name in "ab"]
    for folder, count in zip(folders, (30, 60), strict=True):
        folder.mkdir()
        options = ps.Options(memory=100_000, spill_dir=folder)
        assert [int(x[0]) for x in ds.take(count).with_options(options)] == list(range(count))
        assert on_disk(folder) > 100_000
    assert [int(x[0]) for x in ds] == list(range(60))
    assert made.calls == list(range(60))
    for path in tmp_path.rglob("*.arrow"):  # the file that was left is complete, so that others can open it
        assert path.parent.parent == folders[1] or pyarrow.ipc.open_file(path).num_record_batches


def spill_directories(parent: Path) -> list[str]:
    return [path.name for path in parent.iterdir()]


def test_files_go_with_the_dataset(tmp_path: Path) -> None:
    ds = ps.Dataset.range(60).map(lambda x: np.full(1000, x)).cache()
    run = ds.with_options(ps.Options(memory=100_000, spill_dir=tmp_path)).run()
    list(run)
    assert len(spill_directories(tmp_path)) == 1
    del ds, run
    gc.collect()
    assert spill_directories(tmp_path) == []


def test_what_no_file_can_hold_is_made_again() -> None:
    """Datasets as elements: kept in memory as far as that goes."""
    ds = ps.Dataset.range(1000).map(lambda x: np.full(10, x)).window(10).cache()
    for _ in range(2):
        with ds.flat_map(lambda window: window).run(memory=60_000) as run:
            assert [int(x[0]) for x in run] == list(range(1000))


def test_a_smaller_budget_moves_what_it_cannot_hold() -> None:
    ds = ps.Dataset.range(600).map(lambda x: np.full(100, x)).cache()
    list(ds)
    with ds.run(memory=300_000) as run:
        assert [int(array[0]) for array in run] == list(range(600))
        assert run.ledger.peak_bytes <= 300_000
    assert [int(array[0]) for array in ds] == list(range(600))


def test_small_elements_are_stacked() -> None:
    ds = ps.Dataset.range(10 * 256).map(lambda x: (x, b"a")).cache()
    list(ds)
    with ds.run() as run:
        assert next(run) == (0, b"a")
        assert run.ledger.charged_bytes < 10 * 256 * 64


def test_arrays_of_the_user_cost_nothing() -> None:
    ds = ps.Dataset.from_tensor_slices(np.zeros((100, 1000))).cache()
    list(ds)
    with ds.run() as run:
        next(run)
        assert run.ledger.charged_bytes < 100 * 400  # their objects alone


def test_a_name_must_be_text() -> None:
    with pytest.raises(ps.errors.BadType, match="filename: expected the path of a file"):
        ps.Dataset.range(3).cache(3)


def test_the_operator_can_be_sent_elsewhere_without_what_it_keeps() -> None:
    ds = ps.Dataset.range(3).cache()
    list(ds)
    assert pickle.loads(pickle.dumps(ds.node.op)).store.kept is None


# --- rows read to where they are wanted ---


@pytest.mark.parametrize("batch", [4, 7, 12])
def test_a_batch_is_read_from_disk_in_one_go(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.Dataset.range(600).map(lambda x: (np.full(20_000, x % 256, np.uint8), x)).cache()
    with dataset.batch(6).run(memory=2_000_000) as run:
        assert len(list(run)) == 100
    assert run.stats()["spilled_bytes"] > 8_000_000
    whole: list[int] = []
    read = IpcReader.read
    monkeypatch.setattr(IpcReader, "read", lambda *args, **named: whole.append(1) or read(*args, **named))
    seen = 0
    with dataset.batch(batch).run(memory=2_000_000) as run:
        for images, labels in run:
            assert labels.tolist() == list(range(seen, seen + len(labels)))
            assert (images == labels[:, None] % 256).all()
            seen += len(labels)
            assert run.ledger.charged_bytes <= 2_000_000
    assert seen == 600
    assert len(whole) < 20  # of about a hundred batches on disk


def test_little_at_a_time_is_read_with_its_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.Dataset.range(1000).map(lambda x: np.full(5000, x % 251, np.uint8)).cache()
    with dataset.batch(25).run(memory=2_000_000) as run:
        list(run)
    reads: list[int] = []
    fill = IpcReader.fill
    monkeypatch.setattr(IpcReader, "fill", lambda *args: reads.append(args[1].nbytes) or fill(*args))
    with dataset.batch(1).run(memory=2_000_000) as run:
        assert [int(x[0, 0]) for x in run] == [i % 251 for i in range(1000)]
    assert 10 < len(reads) < 200


def test_a_run_with_too_little_memory_reads_row_by_row() -> None:
    """It need not make again what a run with more memory wrote in larger batches."""
    calls: list[int] = []
    made = ps.Dataset.range(60).map(lambda x: calls.append(int(x)) or np.full(40_000, x, np.uint8)).cache()
    with made.run(memory=3_000_000) as run:
        list(run)
    assert len(calls) == 60
    with made.run(memory=300_000) as run:
        assert [int(x[0]) for x in run] == list(range(60))
    assert len(calls) == 60


@pytest.mark.parametrize("between", [lambda d: d, lambda d: d.take(5), lambda d: d.window(2, 1).flat_map(lambda w: w)])
@pytest.mark.parametrize("size", [10, 5000])
def test_caches_one_above_the_other_have_nothing_in_common(between: Any, size: int) -> None:
    """Or neither could let go of it, and what one has put on disk would be on nobody's account after the run."""
    below = ps.Dataset.range(5).map(lambda i: np.full(size, float(i))).cache()
    above = between(below).cache()
    expected = [x[0] for x in between(below)]
    assert [x[0] for x in above] == expected
    kept_below, kept_above = list(below), list(above)
    assert not any(np.shares_memory(x, y) for x in kept_below for y in kept_above)
    assert not any(x.flags.writeable for x in kept_above)


def test_strings_in_caches_one_above_the_other() -> None:
    below = ps.Dataset.range(5).map(lambda i: b"x" * (2 + int(i))).cache()
    above = below.cache()
    assert list(above) == list(below)
    assert not any(x is y for x, y in zip(below, above, strict=True))


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("is_batch", [False, True])
def test_the_order_of_bytes_is_the_same_in_every_epoch(size: int, is_batch: bool) -> None:
    array = np.arange(4 * size, dtype=">f8").reshape(4, size)
    source = ps.Dataset.from_tensor_slices(array) if is_batch else ps.Dataset.range(4).map(lambda i: array[int(i)] + 0)
    twice = source.cache().cache()
    for _ in range(2):
        found = list(twice)
        assert [x.dtype.isnative for x in found] == [True] * 4
        assert np.array_equal(np.stack(found), array)
