"""shuffle on streams: what does not fit waits on disk, and nobody can tell."""

import errno
import gc
import os
import re
import shutil
import subprocess
import sys
import traceback
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import OverBudget, SpillError
from penstock.leaf import Ragged
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.memory.spill import SpillSpace
from penstock.memory.transit import Transit
from penstock.ops.draws import Draws
from penstock.ops.waiting import Waiting
from penstock.ops.waiting_bytes import held_bytes
from penstock.order import PermutationOrder, RangeOrder, WindowOrder, as_array
from tests.unit.fakes import all_with_errors

D = ps.Dataset


def stream(count: int, make: Callable[[int], Any]) -> ps.Dataset:
    """Elements that can only be had one after another."""
    return D.range(count).filter(lambda x: True).map(lambda x: make(int(x)), stateful=True)


def text_of(found: list[Any]) -> list[str]:
    return [repr(x) for x in found]


def run_of(dataset: ps.Dataset, memory: Any, spill_dir: Path | None = None, **options: Any) -> Any:
    options = {"spill_dir": spill_dir, **options}
    return dataset.with_options(ps.Options(**options)).run(memory=memory, epoch=0)


def small(i: int) -> Any:
    return np.full(100, i)


def large(i: int) -> Any:
    return np.full(20_000, i)


def mixed(i: int) -> Any:
    """Of several structures and sizes; some fail, some are datasets."""
    if i % 11 == 3:
        raise ValueError(i)
    kinds: list[Callable[[], Any]] = [
        lambda: np.full(i % 7 * 40, i),
        lambda: (np.full((2, 3), i, np.float16), f"name {i}", None),
        lambda: {"a": np.full(12_000, i, np.int32), "b": np.array([b"x" * i, b"y"], object)},
        lambda: Ragged(np.full(5, i), np.array([0, 2, 5])),
        lambda: np.float32(i),
        lambda: D.range(i),
    ]
    return kinds[i % 6]()


CASES: list[tuple[Callable[[int], Any], int, int | None, int]] = [
    (small, 600, 300, 150_000),
    (small, 600, None, 200_000),
    (large, 60, 30, 700_000),
    (large, 60, None, 700_000),
    (large, 60, 10**9, 700_000),
    (large, 40, 100, 700_000),
    (mixed, 300, 120, 400_000),
    (mixed, 300, None, 500_000),
    (np.int64, 5000, 2000, 120_000),
    (lambda i: i.to_bytes(2, "big") * 50, 2000, 500, 100_000),
]


def all_of(dataset: ps.Dataset, memory: Any, **options: Any) -> tuple[list[str], int]:
    """What comes, errors in their places, and the most that was on disk."""
    run = run_of(dataset, memory, **options)
    found = text_of([len(list(x)) if isinstance(x, ps.Dataset) else x for x in all_with_errors(run)])
    assert run.ledger.charged_bytes == 0
    assert run.ledger.peak_bytes <= run.ledger.budget_bytes
    return found, run._stages.spill.peak_bytes


@pytest.mark.parametrize("make, count, size, memory", CASES)
def test_what_waits_on_disk_comes_as_if_it_had_waited_in_memory(
    make: Any, count: int, size: int | None, memory: int, tmp_path: Path
) -> None:
    dataset = stream(count, make).shuffle(size, seed=1)
    expected, none = all_of(dataset, "1GB")
    assert none == 0
    found, spilled = all_of(dataset, memory, spill_dir=tmp_path)
    assert spilled > 0
    assert found == expected
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make, count, size, memory", [case for case in CASES if case[0] is not mixed])
def test_it_resumes_anywhere(make: Any, count: int, size: int | None, memory: int, tmp_path: Path) -> None:
    dataset = stream(count, make).shuffle(size, seed=1)
    expected, _ = all_of(dataset, "1GB")
    for place in (0, 1, count // 3, count - (size or 1) % count, count - 2, count):
        with run_of(dataset, memory, tmp_path) as run:
            for _ in range(place):
                next(run)
            state = run.state_dict()
        with run_of(dataset, memory, tmp_path) as run:
            run.load_state_dict(state)
            assert text_of(list(run)) == expected[place:], place
    assert os.listdir(tmp_path) == []


def test_elements_from_disk_can_be_changed_as_others_can() -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return x

    for make in (small, large):
        found = list(run_of(stream(60, make).shuffle(30, seed=1).map(doubled), 1_500_000 if make is large else 60_000))
        assert sorted(int(x[0]) for x in found) == list(range(0, 120, 2))
        assert all((x == x[0]).all() for x in found)


def test_stopping_early_leaves_nothing(tmp_path: Path) -> None:
    run = run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path)
    next(run)
    (directory,) = os.listdir(tmp_path)
    assert len(os.listdir(tmp_path / directory)) > 1
    run.close()
    assert os.listdir(tmp_path) == []
    run = run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path)
    next(run)
    del run
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_files_go_as_their_elements_are_drawn(tmp_path: Path) -> None:
    run = run_of(stream(200, large).shuffle(100, seed=1), 1_000_000, tmp_path)
    sizes = [run._stages.spill.used_bytes for _ in run]
    # 100 elements of 160 kB, and a file of two or three stays until the last of them is drawn.
    assert max(sizes) < 2.2 * 100 * 160_000
    assert sizes[-1] == 0


KILLED = """
import sys, numpy as np, penstock as ps
numbers = ps.Dataset.range(100).filter(lambda x: True).map(lambda x: np.full(20_000, x), stateful=True)
run = numbers.shuffle(50, seed=1).with_options(ps.Options(spill_dir=sys.argv[1])).run(memory=700_000)
next(run)
print("spilled", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "spilled\n"
        killed.kill()
        killed.wait(timeout=60)
    (directory,) = os.listdir(tmp_path)
    assert len(os.listdir(tmp_path / directory)) > 10
    assert len(list(run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path))) == 100
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", [small, large])
def test_threads_around_it_change_nothing(make: Any, tmp_path: Path) -> None:
    dataset = stream(300, make).shuffle(150, seed=1).map(lambda x: x + 1, num_parallel_calls=3).batch(4).prefetch(2)
    expected, _ = all_of(dataset, "1GB")
    found, spilled = all_of(dataset, 4_500_000 if make is large else 130_000, spill_dir=tmp_path)
    assert spilled > 0
    assert found == expected


def test_batches_are_drawn_at_once_though_the_buffer_is_most_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    draw = Waiting.draw

    def counting(waiting: Waiting, *args: Any) -> list[Any]:
        sizes.append(len(rows := draw(waiting, *args)))
        return rows

    monkeypatch.setattr(Waiting, "draw", counting)
    dataset = stream(400, large).shuffle(64, seed=1).batch(4)
    expected, _ = all_of(dataset, "1GB")
    sizes.clear()
    found, spilled = all_of(dataset, int(large(0).nbytes * 64 * 1.5))
    assert found == expected
    assert spilled == 0
    assert sizes.count(4) > 60


def test_when_nothing_can_be_written_for_others_nothing_is_lost(tmp_path: Path) -> None:
    ledger = Ledger(1_000_000)
    draws = Draws(None, 1, lambda: 100)
    space = SpillSpace(str(tmp_path), limit_bytes=1000)
    share = ledger.share("shuffle")
    waiting, transit = Waiting(share, space, Arena(Slots(ledger), ledger.share("slots")), draws), Transit(share, None)
    rows = [small(i) for i in range(200)]
    waiting.keep(0, rows, list(map(held_bytes, rows)))
    assert not ledger.share("another").try_charge(900_000)
    waiting.end(200)
    assert sorted(int(row[0]) for row in waiting.draw(200, 200, transit)) == list(range(200))
    waiting.close()
    transit.close()
    space.close()
    assert (ledger.charged_bytes, space.used_bytes, os.listdir(tmp_path)) == (0, 0, [])


def is_kept(waiting: Waiting, number: int) -> bool:
    try:
        waiting.keep(number, [np.zeros(30_000)], [240_000])
    except OverBudget:
        return False
    return True


def test_what_is_known_of_elements_on_disk_is_on_the_ledger_or_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(1_000_000)
    share, space = ledger.share("shuffle"), SpillSpace(str(tmp_path))
    waiting = Waiting(share, space, Arena(Slots(ledger), share), Draws(None, 1, lambda: 100))
    ledger.share("others").charge(1_000_000 - 20_000)
    num_kept = 0
    while num_kept < 100 and is_kept(waiting, num_kept):  # each larger than what is free, so written as it comes
        num_kept += 1
    assert 10 <= num_kept <= 30
    assert share.charged_bytes >= 600 * num_kept
    waiting.close()
    space.close()
    assert ledger.charged_bytes == 1_000_000 - 20_000


def test_a_limit_on_the_disk_is_an_error_that_says_so(tmp_path: Path) -> None:
    run = run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path, spill_limit="1MB")
    with pytest.raises(SpillError, match=r"shuffle at test_shuffle.py:\d+: asked for .* of the limit of 1 MB"):
        next(run)
    assert (run.ledger.charged_bytes, os.listdir(tmp_path)) == (0, [])


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.ipc.open_new", lambda _: open("/dev/full", "wb", 0))  # noqa: SIM115
    run = run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path)
    with pytest.raises(SpillError, match=r"shuffle at .*no room to write .*: No space left on device"):
        next(run)
    assert (run.ledger.charged_bytes, os.listdir(tmp_path)) == (0, [])


def spill_directory(parent: Path) -> Path:
    (found,) = parent.iterdir()
    return found


def truncate_files(directory: Path) -> None:
    for file in directory.glob("*.arrow"):
        os.truncate(file, 100)


@pytest.mark.parametrize(
    "harm, text",
    [
        (shutil.rmtree, r"the spill directory \S+ was removed by somebody else, with \S+ MB that this run had there"),
        (truncate_files, r"penstock-spill-\S+arrow: \S+ bytes are missing .*somebody else has changed"),
    ],
)
def test_what_others_do_to_files_on_disk_is_told_and_nothing_delivered_is_lost(
    tmp_path: Path, harm: Callable[[Path], None], text: str
) -> None:
    dataset = stream(100, large).shuffle(50, seed=1, reshuffle_each_iteration=False)
    expected = [int(x[0]) for x in run_of(dataset, "1GB")]
    run = run_of(dataset, 700_000, tmp_path)
    found = [int(next(run)[0]) for _ in range(3)]
    harm(spill_directory(tmp_path))
    with pytest.raises(SpillError, match=rf"shuffle at .*{text}"):
        found.extend(int(x[0]) for x in run)
    assert run.ledger.charged_bytes == 0
    with dataset.run(memory="1GB") as more:
        more.load_state_dict(run.state_dict())
        assert found + [int(x[0]) for x in more] == expected


def test_a_disk_that_can_no_longer_be_written_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr("penstock.memory.ipc.open_new", refuse)
    run = run_of(stream(100, large).shuffle(50, seed=1), 700_000, tmp_path)
    with pytest.raises(SpillError, match=r"shuffle at .*cannot write .* to \S+penstock-spill-\S+: Read-only file"):
        next(run)
    assert (run.ledger.charged_bytes, os.listdir(tmp_path)) == (0, [])


def test_the_limit_that_a_refusal_names_is_enough(tmp_path: Path) -> None:
    """Where the buffer's size is known by then, in one step; the sizes of these are not known before."""
    dataset = stream(100, large).shuffle(50, seed=1)
    with pytest.raises(SpillError, match=r"for all that its stages may have there") as caught:
        list(run_of(dataset, 700_000, tmp_path, spill_limit="100kB"))
    found = re.search(r"spill_limit=([\d_]+)", str(caught.value))
    assert found
    assert len(list(run_of(dataset, 700_000, tmp_path, spill_limit=int(found[1])))) == 100


def test_directories_that_cannot_be_used_are_found_when_a_run_begins(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"spill_dir: .*none does not exist"):
        run_of(stream(3, small), "1MB", tmp_path / "none")


def test_who_is_short_gets_what_the_buffer_holds(tmp_path: Path) -> None:
    """The batches need more than the quarter that the buffer leaves to others."""
    dataset = stream(400, small).shuffle(200, seed=1).batch(100)
    expected, _ = all_of(dataset, "1GB")
    found, spilled = all_of(dataset, 260_000, spill_dir=tmp_path)
    assert spilled > 0
    assert found == expected


def test_elements_of_the_users_own_arrays_are_not_written(tmp_path: Path) -> None:
    data = np.ones((400, 10_000))
    dataset = D.from_tensor_slices(data).take_while(lambda x: True).shuffle(300, seed=1)
    found, spilled = all_of(dataset, "2MB", spill_dir=tmp_path)
    assert (len(found), spilled) == (400, 0)


def test_no_more_is_pulled_at_a_time_than_a_part_of_the_budget() -> None:
    asked: list[int] = []

    def elements() -> Iterator[Any]:
        for i in range(100):
            asked.append(i)
            yield np.zeros(100_000)

    with run_of(D.from_generator(elements).shuffle(3, seed=1), "10MB") as run:
        next(run)
        assert len(asked) <= 6


# --- what is charged ---


@pytest.mark.parametrize("make", [
    np.int64,
    np.float16,
    lambda i: np.arange(4) + i,
    lambda i: (np.arange(4) + i, np.int64(i)),
    lambda i: {"a": np.arange(4) + i, "b": b"x" * 20},
    lambda i: np.arange(1000) + i,
    lambda i: bytes(30),
    lambda i: np.array([b"x%d" % i] * 3, object),
])  # fmt: skip
def test_what_is_charged_is_what_the_interpreter_allocates(make: Callable[[int], Any]) -> None:
    ledger = Ledger(10**9)
    share = ledger.share("shuffle")
    waiting = Waiting(share, SpillSpace(), Arena(Slots(ledger), ledger.share("slots")), Draws(10**6, 1, lambda: 1000))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for first in range(0, 10_000, 100):
            rows = [make(i) for i in range(first, first + 100)]
            waiting.keep(first, rows, list(map(held_bytes, rows)))
        del rows
        real = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.9 * real <= share.charged_bytes <= 1.8 * real
    waiting.close()
    assert ledger.charged_bytes == 0


# --- draws ---


@settings(deadline=None, max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    length=st.integers(0, 60),
    size=st.one_of(st.none(), st.integers(1, 80)),
    most_ahead=st.integers(1, 100),
    look_at=st.sets(st.integers(0, 60)),
    data=st.data(),
)
def test_draws_are_those_of_the_order_however_far_they_are_known(
    length: int, size: int | None, most_ahead: int, look_at: set[int], data: Any
) -> None:
    order = PermutationOrder(RangeOrder(length), 7) if size is None else WindowOrder(RangeOrder(length), size, 7)
    expected = as_array(order.slice(0, length)).tolist()
    draws = Draws(size, 7, lambda: most_ahead)
    read, found = 0, []
    while True:
        while draws.wanted(1, read):
            if read == length:
                draws.end(length)
            else:
                read += 1
        waiting = sorted(set(range(read)) - set(found))
        assert draws.oldest(read) <= (waiting[0] if waiting else read)
        if len(found) in look_at and waiting:
            due = draws.due(np.array(waiting)).tolist()
            if draws.length is not None:
                known = [number for number, when in zip(waiting, due, strict=True) if when < min(due) + most_ahead]
                assert all(
                    expected[when] == number for number, when in zip(waiting, due, strict=True) if when < max(due)
                )
                assert known
        if not draws.next(1).size:
            break
        found += draws.next(1).tolist()
        draws.drop(1)
        if data.draw(st.booleans()):
            again = Draws(size, 7, lambda: most_ahead)
            if draws.length is not None:
                again.end(length)
            again.move_to(draws.drawn)
            assert again.waiting(read).tolist() == sorted(set(range(read)) - set(found))
            draws = again
    assert found == expected


def test_errors_that_wait_keep_nothing_alive_but_themselves() -> None:
    made: list[weakref.ref[np.ndarray]] = []

    def make(i: Any) -> np.ndarray:
        if i % 5 == 3:
            raise ValueError(f"no {i}")
        array = np.full(1000, i)
        made.append(weakref.ref(array))
        return array

    dataset = D.range(400).map(make).filter(lambda x: True).shuffle(100, seed=1)
    with dataset.run(memory="400kB") as run:
        errors = []
        for _ in range(200):
            try:
                next(run)
            except ValueError as error:
                errors.append(error)
        held = run.ledger.charged_bytes
        assert sum(array() is not None for array in made) * 8000 <= held
    # Where they came from can still be read.
    assert errors
    assert all("in make" in "".join(traceback.format_exception(error)) for error in errors)


@pytest.mark.parametrize("rows_per_group", [1000, 20_000])
def test_the_stated_minimum_has_room_for_what_is_known_of_draws(tmp_path: Path, rows_per_group: int) -> None:
    count = 20_000
    table = pa.table({"x": np.arange(count), "y": np.arange(count) * 0.5})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=rows_per_group)
    dataset = ps.Dataset.from_parquet(tmp_path / "t.parquet").shuffle(1000, seed=1).batch(32)
    with dataset.run(memory=dataset.explain().to_dict()["minimum_bytes"]) as run:
        found = np.concatenate([batch["x"] for batch in run])
    assert sorted(found.tolist()) == list(range(count))


@pytest.mark.parametrize("memory", ["1GB", "100kB"])
def test_arrays_keep_their_order_of_bytes_whether_they_were_on_disk_or_not(memory: str) -> None:
    def made(i: Any) -> np.ndarray:
        return np.full(1000, i, ">i4" if i % 2 else "<i4")

    dataset = ps.Dataset.range(300).map(made).filter(lambda x: True).shuffle(100, seed=1)
    with dataset.run(memory=memory) as run:
        found = {int(x[0]): x for x in run}
        assert (run.memory()["spilled_bytes"] > 0) == (memory == "100kB")
    assert all(found[i].dtype == made(i).dtype and (found[i] == i).all() for i in range(300))
