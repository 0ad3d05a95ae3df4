"""cache(filename): one file, complete or not there, whoever else is about."""

import gc
import importlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

pytestmark = pytest.mark.timeout(60)


class Counting:
    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(int(x))
        return np.full(10, x)


def values(dataset: Any) -> list[int]:
    return [int(x[0]) for x in dataset]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_made_once_for_all_programs(tmp_path: Path) -> None:
    made = Counting()
    for _ in range(3):
        ds = ps.Dataset.range(500).map(made).cache(tmp_path / "file")
        assert values(ds) == values(ds) == list(range(500))
    assert made.calls == list(range(500))
    assert names(tmp_path) == ["file"]


def test_other_programs_can_open_it(tmp_path: Path) -> None:
    polars, pandas = importlib.import_module("polars"), importlib.import_module("pandas")
    path = str(tmp_path / "file")
    list(ps.Dataset.range(600).map(lambda x: {"number": x, "text": b"a"}).cache(path))
    assert polars.read_ipc(path)["number"].to_list() == list(range(600))
    assert pandas.read_feather(path)["number"].tolist() == list(range(600))


def test_it_is_streamed(tmp_path: Path) -> None:
    ds = ps.Dataset.range(200).map(lambda x: np.full(5000, x)).cache(tmp_path / "file")
    for _ in range(2):
        with ds.run(memory=400_000) as run:
            assert values(run) == list(range(200))
            assert run.ledger.peak_bytes <= 400_000
        assert run.ledger.charged_bytes == 0
    assert (tmp_path / "file").stat().st_size > 8_000_000


def test_a_partial_pass_is_finished_later(tmp_path: Path) -> None:
    made = Counting()
    ds = ps.Dataset.range(600).map(made).cache(tmp_path / "file")
    for stop in (3, 300, 301):
        with ds.run() as run:
            assert [int(next(run)[0]) for _ in range(stop)] == list(range(stop))
        assert names(tmp_path) == ["file.lock", "file.part"]
    again = ps.Dataset.range(600).map(made).cache(tmp_path / "file")  # the same pipeline, made anew
    assert values(again) == list(range(600))
    assert made.calls[:600] == list(range(600))
    assert len(made.calls) < 700  # and no more than what was asked for ahead
    assert names(tmp_path) == ["file"]


def test_a_partial_pass_leaves_nothing_behind(tmp_path: Path) -> None:
    ds = ps.Dataset.range(600).cache(tmp_path / "file")
    with ds.run() as run:
        next(run)
    assert names(tmp_path) == ["file.lock", "file.part"]
    del ds, run
    gc.collect()
    assert names(tmp_path) == []


def test_a_deleted_file_is_made_again(tmp_path: Path) -> None:
    made = Counting()
    ds = ps.Dataset.range(5).map(made).cache(tmp_path / "file")
    assert values(ds) == values(ds) == list(range(5))
    (tmp_path / "file").unlink()
    assert values(ds) == values(ds) == list(range(5))
    assert made.calls == [*range(5), *range(5)]


def test_the_laws(tmp_path: Path) -> None:
    check_op(ps.Dataset.range(30).map(lambda x: np.full(3, x)).cache(tmp_path / "a").repeat(2).batch(4))
    check_op(ps.Dataset.range(9).shuffle(3).cache(tmp_path / "b").repeat(2))


def test_two_readers_at_once(tmp_path: Path) -> None:
    made = Counting()
    ds = ps.Dataset.range(5).map(made).cache(tmp_path / "file")
    assert [(int(a[0]), int(b[0])) for a, b in ps.Dataset.zip((ds, ds))] == [(i, i) for i in range(5)]
    assert made.calls == list(range(5))


# --- another pipeline ---


def add(n: int) -> Any:
    return lambda x: x + n


@pytest.mark.parametrize(
    "other, says",
    [
        (lambda: ps.Dataset.range(6), r"operator 0 was range\(5\) and is range\(6\)"),
        (lambda: ps.Dataset.range(5).map(add(1)), r"operator 1 was not there and is map\(λ\) with code"),
        (lambda: ps.Dataset.range(5).map(lambda x: x * 2).take(3), "operator 1 was not there and is map"),
    ],
    ids=["arguments", "operator", "two"],
)
def test_another_pipeline_is_refused(tmp_path: Path, other: Any, says: str) -> None:
    list(ps.Dataset.range(5).cache(tmp_path / "file"))
    with pytest.raises(ps.errors.CacheMismatch, match=rf"cache at .*file was written by another .*: {says}.*dele"):
        list(other().cache(tmp_path / "file"))


def test_the_part_of_another_process_is_refused(tmp_path: Path) -> None:
    first, second, of_three = (
        ps.Dataset.range(6).distribute(n, i).cache(tmp_path / "file") for n, i in ((2, 0), (2, 1), (3, 0))
    )
    assert [int(x) for x in first] == [0, 2, 4]
    for other, says in ((second, r"distribute\(2, index=1\)"), (of_three, r"distribute\(3, index=0\)")):
        with pytest.raises(
            ps.errors.CacheMismatch, match=rf"operator 1 was distribute\(2, index=0\) and is {says}; .*another name"
        ):
            list(other)
    assert [int(x) for x in ps.Dataset.range(6).distribute(2, 0).cache(tmp_path / "file")] == [0, 2, 4]


def test_a_changed_function_is_refused(tmp_path: Path) -> None:
    list(ps.Dataset.range(5).map(add(1)).cache(tmp_path / "file"))
    assert list(ps.Dataset.range(5).map(add(1)).cache(tmp_path / "file")) == [1, 2, 3, 4, 5]
    with pytest.raises(ps.errors.CacheMismatch, match=r"operator 1 is still map\(λ\), but captured n changed; del"):
        list(ps.Dataset.range(5).map(add(2)).cache(tmp_path / "file"))

    with pytest.raises(ps.errors.CacheMismatch, match=r"operator 1 was map\(λ\) with code \w+ .* and is map\(λ\)"):
        list(ps.Dataset.range(5).map(lambda x: x * 2).cache(tmp_path / "file"))


def minus(mean: Any) -> Any:
    return lambda x: x - mean


class Minus:
    def __init__(self, mean: Any) -> None:
        self.mean = mean

    def __call__(self, x: Any) -> Any:
        return x - self.mean


@pytest.mark.parametrize("make", [minus, Minus, lambda mean: Minus(mean).__call__])
def test_a_captured_array_that_changed_is_refused(tmp_path: Path, make: Any) -> None:
    def cached(mean: Any) -> list[int]:
        return [int(x[0]) for x in ps.Dataset.range(2).map(make(mean)).cache(tmp_path / "file")]

    assert cached(np.zeros(1)) == cached(np.zeros(1)) == [0, 1]
    with pytest.raises(ps.errors.CacheMismatch, match=r"operator 1 is still map\(.*\), but captured mean changed; del"):
        cached(np.ones(1))


def test_a_changed_argument_is_refused(tmp_path: Path) -> None:
    def summed(start: float) -> list[float]:
        ds = ps.Dataset.range(3).scan(np.full(1, start), lambda s, x: (s + x, s + x)).cache(tmp_path / "file")
        return [float(x[0]) for x in ds]

    assert summed(0.0) == summed(0.0) == [0, 1, 3]
    with pytest.raises(ps.errors.CacheMismatch, match="but argument initial_state changed"):
        summed(1.0)


def test_how_it_runs_does_not_matter(tmp_path: Path) -> None:
    made = ps.Dataset.range(50).map(add(1)).shuffle(7, seed=1)
    first = list(made.cache(tmp_path / "file"))
    assert list(made.cache(tmp_path / "file").run(optimize=False)) == first
    parallel = ps.Dataset.range(50).map(add(1), num_parallel_calls=3).shuffle(7, seed=1)
    assert list(parallel.cache(tmp_path / "file")) == first


# --- damage ---


def damaged(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = bytearray()
    elif how == "foreign":
        data = bytearray(b"text of somebody else's " * 100)
    else:
        half = len(data) // 2
        parts = {
            "head": (0, 8),
            "footer": (len(data) - 60, len(data) - 30),
            "middle": (300, 420),
            "one byte": (half, half + 1),
        }
        start, stop = parts[how]
        for i in range(start, min(stop, len(data))):
            data[i] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "empty", "foreign", "head", "footer", "one byte"])
def test_a_damaged_file_is_never_served(tmp_path: Path, how: str) -> None:
    path = tmp_path / "file"
    list(ps.Dataset.range(500).cache(path))
    damaged(path, how)
    with pytest.raises(ps.errors.FormatError, match=rf"cache at .*{path}.*delete the file"):
        list(ps.Dataset.range(500).cache(path))


def test_another_arrow_file_is_refused(tmp_path: Path) -> None:
    from penstock.memory.ipc import IpcWriter

    writer = IpcWriter(tmp_path / "file")
    writer.write([np.int64(1)])
    writer.close()
    with pytest.raises(ps.errors.FormatError, match="it is not the file of a cache"):
        list(ps.Dataset.range(5).cache(tmp_path / "file"))


def test_whatever_is_damaged_the_error_says_what_to_do_or_no_harm_is_done(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def dataset() -> Any:
        return ps.Dataset.range(600).map(lambda i: (np.full(2, i), b"x" * int(i % 5))).cache(path)

    def elements() -> list[Any]:
        return [(array.tolist(), text) for array, text in dataset()]

    expected, data = elements(), path.read_bytes()
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    told: set[bool] = set()
    for place in [*range(0, 1200, 17), *range(1200, footer, 1009), *range(footer, len(data), 3), len(data) - 14]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            found = elements()
        except (ps.errors.FormatError, ps.errors.CacheMismatch) as error:
            told.add(str(path) in str(error) and "delete the file" in str(error))
        else:
            told.add(found == expected)
    assert told == {True}


def test_a_footer_that_names_too_few_batches(tmp_path: Path) -> None:
    path = tmp_path / "file"
    list(ps.Dataset.range(600).cache(path))
    data = bytearray(path.read_bytes())
    count = len(data) - 10 - 3 * 24 - 4  # of 256, 256 and 88 elements
    assert data[count] == 3
    data[count] = 2
    path.write_bytes(data)
    with pytest.raises(ps.errors.FormatError, match=r"its footer does not name the batch at byte .*delete the file"):
        list(ps.Dataset.range(600).cache(path))


def test_a_directory_that_nothing_can_be_made_in() -> None:
    with pytest.raises(ps.errors.BadArgument, match=r"no file can be made in /proc for x: .*name another directory"):
        list(ps.Dataset.range(5).cache("/proc/x"))


@pytest.mark.parametrize("keep", ["cache", "cache(filename)", "snapshot"])
def test_bytes_are_in_the_order_of_the_machine_in_all_epochs(tmp_path: Path, keep: str) -> None:
    foreign = np.dtype(np.int32).newbyteorder(">" if sys.byteorder == "little" else "<")
    rows = np.arange(6, dtype=foreign).reshape(3, 2)
    made = ps.Dataset.from_tensor_slices({"a": rows, "b": np.arange(3)})
    path = str(tmp_path / "kept")
    dataset = {
        "cache": made.cache,
        "cache(filename)": lambda: made.cache(path),
        "snapshot": lambda: made.snapshot(path),
    }
    ds = dataset[keep]()
    for _ in range(3):
        found = list(ds)
        assert [x["a"].tolist() for x in found] == rows.tolist()
        assert {x["a"].dtype.isnative for x in found} == {True}


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ps.errors.BadArgument, match=r"cache at .*: filename: there is no directory .*none for file"):
        list(ps.Dataset.range(5).cache(tmp_path / "none" / "file"))
    with pytest.raises(ps.errors.BadArgument, match="is a directory"):
        list(ps.Dataset.range(5).cache(tmp_path))


def test_elements_that_no_file_can_hold(tmp_path: Path) -> None:
    with pytest.raises(ps.errors.BadType, match="cannot be stored"):
        list(ps.Dataset.range(500).window(2).cache(tmp_path / "file"))
    gc.collect()
    assert names(tmp_path) == []


def test_the_operator_can_be_sent_elsewhere(tmp_path: Path) -> None:
    ds = ps.Dataset.range(3).cache(tmp_path / "file")
    assert list(ds) == [0, 1, 2]
    sent = ps.Dataset(pickle.loads(pickle.dumps(ds.node)))
    assert list(sent) == [0, 1, 2]


# --- other processes ---

CHILD = """
    import sys, penstock as ps
    path = sys.argv[1]
    run = ps.Dataset.range(300).cache(path).run()
    for _ in range(100):
        next(run)
    print("half", flush=True)
    sys.stdin.readline()
    rest = [int(x) for x in run]
    print(rest == list(range(100, 300)), flush=True)
"""


def child(path: Path) -> subprocess.Popen[str]:
    """A process that has written a part of the file, and writes the rest when told to."""
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    return process


def test_while_another_process_writes_elements_are_made_here(tmp_path: Path) -> None:
    path = tmp_path / "file"
    process = child(path)
    ds = ps.Dataset.range(300).cache(path)
    for _ in range(2):
        assert list(ds) == list(range(300))
    assert names(tmp_path) == ["file.lock", "file.part"]
    out, _ = process.communicate("\n")
    assert out == "True\n"
    assert names(tmp_path) == ["file"]
    before = path.stat()
    assert list(ds) == list(range(300))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_killed_writer_leaves_nothing_that_is_served(tmp_path: Path) -> None:
    path = tmp_path / "file"
    process = child(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(tmp_path) == ["file.lock", "file.part"]
    assert list(ps.Dataset.range(300).cache(path)) == list(range(300))
    assert names(tmp_path) == ["file"]
    process.communicate()


def test_a_child_by_fork_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    ds = ps.Dataset.range(300).cache(path)
    run = ds.run()
    first = [int(next(run)) for _ in range(100)]
    pid = os.fork()
    if not pid:
        os._exit(0 if list(ds) == list(range(300)) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert first + [int(x) for x in run] == list(range(300))
    assert list(ds) == list(range(300))
    assert names(tmp_path) == ["file"]


# --- positions ---


@pytest.mark.parametrize("done", [0, 3, 19])
def test_a_position_in_a_pass_that_is_not_the_files(tmp_path: Path, done: int) -> None:
    """Another process has completed the file meanwhile, in an order of its own: that is not the order to go on in."""
    first = ps.Dataset.range(20).shuffle(20).cache(tmp_path / "file")
    with first.run() as run:
        for _ in range(done):
            next(run)
        state = run.state_dict()
        rest = [int(x) for x in run]
    (tmp_path / "file").unlink()
    del first, run
    gc.collect()
    other = ps.Dataset.range(20).shuffle(20).cache(tmp_path / "file")
    order = [int(x) for x in other]
    with other.run() as resumed:
        resumed.load_state_dict(state)
        assert [int(x) for x in resumed] == rest
    assert [int(x) for x in other] == order


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("done", range(5))
def test_a_position_in_a_complete_file(tmp_path: Path, done: int, gone: bool) -> None:
    def make() -> ps.Dataset:
        return ps.Dataset.range(6).map(lambda x: x if x not in (1, 4) else int("x")).cache(tmp_path / "file")

    list(make().ignore_errors())
    with make().run() as run:
        for _ in range(done):
            next(run)
        state = run.state_dict()
        rest = [int(x) for x in run]
    if gone:
        (tmp_path / "file").unlink()
    with make().run() as resumed:
        resumed.load_state_dict(state)
        assert [int(x) for x in resumed] == rest == [0, 2, 3, 5][done:]


def test_a_pass_that_was_resumed_before_it_began_is_completed_by_the_next(tmp_path: Path) -> None:
    made = Counting()

    def cached(name: str) -> ps.Dataset:
        return ps.Dataset.range(20).map(made).cache(tmp_path / name)

    with cached("first").run() as first:
        for _ in range(5):
            next(first)
        position = first.state_dict()
    ds = cached("second")
    with ds.run() as run:
        run.load_state_dict(position)
        assert values(run) == list(range(5, 20))
    assert not (tmp_path / "second").exists()
    assert values(cached("second")) == list(range(20))
    assert (tmp_path / "second").exists()
    made.calls.clear()
    assert values(cached("second")) == values(ds) == list(range(20))
    assert made.calls == []
