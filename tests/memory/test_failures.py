"""Errors that wait are on the ledger, and in the budget that a sample says is enough."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
COUNT = 60
# What an error with a short text takes, its place in a buffer left out.
LEAST_BYTES = 500


class Bad(Exception):
    pass


def often(x: Any) -> Any:
    if x % 5 < 3:
        raise Bad(f"no label for {x}")
    return np.full(3, x)


def failing() -> Any:
    return D.range(COUNT).map(often)


def read(dataset: Any, memory: int | str) -> tuple[int, int, Any]:
    """How many elements there were, how many errors, and the run."""
    found = failed = 0
    with dataset.run(memory=memory) as run:
        while True:
            try:
                next(run)
                found += 1
            except StopIteration:
                return found, failed, run
            except Bad:
                failed += 1


def test_errors_in_a_shuffle_are_counted() -> None:
    _, failed, run = read(failing().filter(lambda x: True).shuffle(COUNT, seed=1), "1MB")
    assert failed == 36
    assert run.ledger.peak_bytes >= failed * LEAST_BYTES
    assert run.ledger.charged_bytes == 0


def test_errors_that_cannot_go_to_disk_are_refused_in_words() -> None:
    with pytest.raises(ps.errors.OverBudget, match="are errors, which cannot go to disk"):
        read(D.range(500).map(often).filter(lambda x: True).shuffle(500, seed=1), 50_000)


def test_errors_in_windows_that_overlap_are_counted() -> None:
    _, _, run = read(failing().window(20, 5), "1MB")
    assert run.ledger.peak_bytes >= 12 * LEAST_BYTES
    assert run.ledger.charged_bytes == 0


def test_a_window_that_fails_keeps_the_first_error_alone() -> None:
    peaks = [read(failing().window(size), "1MB")[2].ledger.peak_bytes for size in (10, 30)]
    good_bytes = 24 + 128 + 112
    assert peaks[1] - peaks[0] <= 8 * good_bytes + 2000


@pytest.mark.parametrize("window", [(7, 7, 1), (4, 2, 1), (3, 5, 1), (3, 8, 2), (4, 3, 2)])
def test_windows_fail_with_the_first_error_of_their_own(window: tuple[int, int, int]) -> None:
    size, shift, stride = window
    errors, expected = [], []
    with D.range(COUNT).map(often).window(size, shift, stride, drop_remainder=True).run() as run:
        for start in range(0, COUNT - (size - 1) * stride, shift):
            inside = range(start, start + size * stride, stride)
            expected.append(next((f"no label for {x}" for x in inside if x % 5 < 3), ""))
            try:
                next(run)
                errors.append("")
            except Bad as error:
                errors.append(str(error))
    assert errors == expected


def test_errors_made_ahead_are_counted() -> None:
    made = []

    def fail(x: Any) -> None:
        made.append(x)
        raise Bad(x)

    with D.range(40).map(fail, num_parallel_calls=2).prefetch(40).run(memory="1MB") as run:
        for _ in range(20):
            with pytest.raises(Bad):
                next(run)
        assert run.ledger.peak_bytes >= LEAST_BYTES


def test_few_errors_are_made_at_once() -> None:
    sizes = []
    with D.range(2000).map(often).run(memory=320_000) as run:
        while (block := run.pull(1000)) is not None:
            sizes.append(sum(isinstance(getattr(row, "error", None), Bad) for row in block.rows()))
    assert sum(sizes) == 1200
    assert max(sizes) * LEAST_BYTES <= 320_000 // 64 + 2 * LEAST_BYTES


PIPELINES: dict[str, Callable[[], Any]] = {
    "map": failing,
    "map in threads": lambda: D.range(COUNT).map(often, num_parallel_calls=4),
    "prefetch": lambda: D.range(COUNT).map(often, num_parallel_calls=4).prefetch(8),
    "shuffle": lambda: failing().filter(lambda x: True).shuffle(8, seed=1),
    "shuffle of all": lambda: failing().filter(lambda x: True).shuffle(COUNT, seed=1),
    "batch": lambda: failing().batch(2),
    "padded_batch": lambda: failing().padded_batch(2),
    "window": lambda: failing().window(4).flat_map(lambda w: w),
    "windows that overlap": lambda: failing().window(4, 2).flat_map(lambda w: w),
    "group_by_window": lambda: failing().group_by_window(lambda x: int(x[0]) % 3, lambda key, w: w, window_size=3),
    "interleave": lambda: D.range(COUNT).interleave(lambda x: D.range(2).map(lambda i: often(x)), cycle_length=4),
    "zip": lambda: D.zip((failing(), D.range(COUNT))),
    "cache": lambda: failing().cache(),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_minimum_has_room_for_errors_that_a_sample_saw(name: str) -> None:
    expected = read(PIPELINES[name]().ignore_errors(), "1MB")[:2]
    dataset = PIPELINES[name]().ignore_errors()
    minimum = dataset.explain(sample=10_000).to_dict()["minimum_bytes"]
    for _ in range(2):
        *found, run = read(dataset, minimum)
        assert tuple(found) == expected
        assert run.ledger.peak_bytes <= minimum
        assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in ("shuffle of all", "windows that overlap")])
def test_errors_on_their_way_need_no_room(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that saw none of them says what is enough all the same, but for who must hold many errors at once."""
    expected = read(PIPELINES[name](), "1MB")[:2]
    dataset = PIPELINES[name]()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "often", lambda x: np.full(3, x))
        minimum = PIPELINES[name]().explain(sample=10_000).to_dict()["minimum_bytes"]
    *found, run = read(dataset, minimum)
    assert tuple(found) == expected
    assert run.ledger.charged_bytes == 0


def test_a_shuffle_takes_in_no_more_errors_than_it_has_room_for_whatever_is_asked_of_it() -> None:
    """For each element that is drawn another comes, and it may be an error where that one was small."""
    dataset = PIPELINES["shuffle"]()
    num_rows = 0
    with dataset.run(memory=11_500) as run:
        while (block := run.pull(64)) is not None:
            num_rows += block.size
    assert num_rows == COUNT
    assert run.ledger.charged_bytes == 0


def test_a_spill_file_that_somebody_has_emptied_ends_the_run_in_words(tmp_path: Path) -> None:
    """A file that is written on to has zeros where its batches were."""
    made = ps.Dataset.range(60).map(lambda i: np.full(25_000, float(i))).filter(lambda x: True)
    run = made.cache().repeat(2).with_options(ps.Options(spill_dir=tmp_path)).run(memory="2MB")
    for _ in range(30):
        next(run)
    for path in tmp_path.glob("*/*.arrow"):
        os.truncate(path, 0)
    for _ in range(30):
        next(run)
    for _ in range(2):  # the second time, too: it is not the end of the data
        with pytest.raises(ps.errors.SpillError, match="somebody else has changed what this run has on disk"):
            list(run)


def test_an_error_of_another_library_is_not_taken_for_the_end_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError(5, "the disk is broken")

    run = (
        ps.Dataset.range(40)
        .map(lambda i: np.full(2_500, float(i)))
        .filter(lambda x: True)
        .shuffle(30)
        .run(memory="100kB")
    )
    monkeypatch.setattr("penstock.memory.batches.BatchFiles.read", broken)
    with pytest.raises(OSError, match="the disk is broken"):
        list(run)
    with pytest.raises(ps.errors.RunError, match="ended with an error: OSError"):
        next(run)
