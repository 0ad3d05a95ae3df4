"""A run that nobody holds is closed, whichever thread finds it, and nobody waits for ever."""

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.lower import Stages
from tests.threads import our_threads

D = ps.Dataset
DEADLINE_S = 20.0
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


@pytest.fixture(autouse=True)
def collected_on_request() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    ps.set_memory(None)


class Cycle:
    """Holds a run, and itself: dropped, only the garbage collector finds it."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.itself = self


def assert_all_ended(ledger: Any) -> None:
    deadline = monotonic() + DEADLINE_S
    while (threads := our_threads()) and monotonic() < deadline:
        if threads[0].ident is not None:  # one that is just being started cannot be joined
            threads[0].join(deadline - monotonic())
    assert our_threads() == []
    assert ledger.charged_bytes == 0


class Gate:
    """A function that stops before one element until the gate is opened."""

    def __init__(self, before: int) -> None:
        self._before = before
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.in_time = True

    def __call__(self, x: Any) -> Any:
        if x == self._before:
            self.reached.set()
            self.in_time &= self.opened.wait(DEADLINE_S)
        return np.full(5000, x)  # large, so that elements are asked for one at a time


@pytest.mark.parametrize("calls", [1, 2])
def test_a_collection_in_a_thread_that_the_other_threads_of_the_run_wait_for(calls: int) -> None:
    gate, collected = Gate(before=4), threading.Event()

    def collect(x: Any) -> Any:
        made = gate(x)
        if gate.opened.is_set():
            gc.collect()
            collected.set()
        return made

    run = D.range(100).map(collect, num_parallel_calls=calls).prefetch(2).run()
    for _ in range(3):
        next(run)
    ledger, cycle = run.ledger, Cycle(run)
    assert gate.reached.wait(DEADLINE_S)
    del run, cycle
    gate.opened.set()
    assert collected.wait(DEADLINE_S)
    assert_all_ended(ledger)


def test_a_collection_by_who_has_what_the_run_waits_for() -> None:
    gate = Gate(before=4)
    run = D.range(100).map(gate, num_parallel_calls=2).run()
    for _ in range(3):
        next(run)
    ledger, cycle = run.ledger, Cycle(run)
    assert gate.reached.wait(DEADLINE_S)
    del run, cycle
    gc.collect()
    gate.opened.set()
    assert_all_ended(ledger)
    assert gate.in_time


@pytest.mark.parametrize("feed", [lambda d: d.run(), lambda d: iter(d.to_torch())], ids=["run", "feed"])
def test_the_last_reference_closes_at_once(feed: Any) -> None:
    iterator = feed(D.range(100).map(lambda x: x + 1, num_parallel_calls=2).batch(2).prefetch(2))
    next(iterator)
    assert our_threads()
    del iterator
    assert our_threads() == []


def test_a_run_that_opens_waits_for_the_memory_of_one_that_is_being_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.closing._WAIT_S", DEADLINE_S)
    dataset = D.range(100).map(lambda x: np.full(5000, x), num_parallel_calls=2).batch(10).prefetch(1)
    ps.set_memory(dataset.explain(sample=4).to_dict()["minimum_bytes"] * 3 // 2)  # for one run, not for two
    first = dataset.run()
    next(first)
    may_close, close = threading.Event(), Stages.close

    def close_late(stages: Stages) -> None:
        assert may_close.wait(DEADLINE_S)
        close(stages)

    monkeypatch.setattr(Stages, "close", close_late)
    cycle = Cycle(first)
    del first, cycle
    gc.collect()
    timer = threading.Timer(0.05, may_close.set)
    timer.start()
    try:
        with dataset.run():  # and is not refused
            pass
    finally:
        timer.join()


def test_no_thread_is_started_for_a_run_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    run = D.range(100).map(lambda x: x + 1, num_parallel_calls=2).run()
    next(run)
    run.close()
    monkeypatch.setattr("penstock.runtime.run.close_dropped", lambda *_: pytest.fail("nothing is left to close"))
    cycle = Cycle(run)
    del run, cycle
    gc.collect()


LEFT_OPEN = """
import numpy as np, penstock as ps
rows = np.zeros((20_000, 1000), np.uint8)
dataset = ps.Dataset.from_tensor_slices(rows).shuffle(seed=1).batch(1000).repeat().prefetch(500)
runs = [dataset.run(memory="100MB") for _ in range(3)]
for run in runs:
    next(run)
"""

LEFT_IN_A_CYCLE = f"""{LEFT_OPEN}
runs.append(runs)
del runs, run
"""

READ_BY_A_DAEMON = """
import threading, time
import penstock as ps
run = ps.Dataset.range(10**9).map(lambda i: i + 1, num_parallel_calls=2).batch(8).run(memory="16MB")
threading.Thread(target=lambda: list(run), daemon=True).start()
time.sleep(0.2)
"""

ENDLESS = """
import threading
import penstock as ps
asleep = threading.Event()

def sleep(i):
    if i:
        asleep.set()
        threading.Event().wait()
    return i

run = ps.Dataset.range(10).map(sleep, num_parallel_calls=2).prefetch(1).run(memory="16MB")
next(run)
asleep.wait()
"""


@pytest.mark.parametrize("program", [LEFT_OPEN, LEFT_IN_A_CYCLE, READ_BY_A_DAEMON, ENDLESS])
def test_a_process_that_leaves_runs_open_ends_well(program: str) -> None:
    """Python ends threads on their way back from native code in a way that aborts the process: 10 of 10 did."""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
        assert (done.returncode, done.stderr) == (0, "")


SPILLING = """
import sys, threading, time
import numpy as np, penstock as ps
dataset = ps.Dataset.range(10**6).map(lambda i: np.full(50_000, i), num_parallel_calls=4).shuffle(200, seed=1).batch(4)
run = dataset.prefetch(4).with_options(ps.Options(spill_dir=sys.argv[1])).run(memory="16MB")
"""

# No thread of the run is at rest: they write what has no room.
SPILLING_AT_EXIT = SPILLING + "next(run)"

# Others than the caller's, which in the first is at it all the time, and in the second does something else as well.
READ_ELSEWHERE = f"""{SPILLING}
few = threading.Semaphore(0)

def read():
    for batch in run:
        few.release()
        time.sleep(PAUSE)

threading.Thread(target=read, daemon=True).start()
for _ in range(20):
    few.acquire()
"""

CACHED = """
import sys, numpy as np, penstock as ps
dataset = ps.Dataset.range(200).map(lambda i: np.full(50_000, i)).cache()
for _ in dataset.with_options(ps.Options(spill_dir=sys.argv[1])).run(memory="16MB"):
    pass
"""

# By a thread that makes the cache, or (`MADE`) reads what was made; in a file of its own, or in the run's.
CACHED_ELSEWHERE = """
import sys, threading, numpy as np, penstock as ps
dataset = ps.Dataset.range(MADE or 10**6).map(lambda i: np.full(50_000, i)).cache(FILE)
dataset = dataset.with_options(ps.Options(spill_dir=sys.argv[1]))
few = threading.Semaphore(0)

def read():
    while True:
        for _ in dataset.run(memory="16MB"):
            few.release()

threading.Thread(target=read, daemon=True).start()
for _ in range(100 + 3 * MADE):
    few.acquire()
"""


def cached_elsewhere(made: int, file: str) -> str:
    return CACHED_ELSEWHERE.replace("MADE", str(made)).replace("FILE", file)


@pytest.mark.parametrize(
    "program",
    [
        SPILLING_AT_EXIT,
        READ_ELSEWHERE.replace("PAUSE", "0"),
        READ_ELSEWHERE.replace("PAUSE", "0.003"),
        CACHED,
        cached_elsewhere(0, ""),
        cached_elsewhere(100, ""),
        cached_elsewhere(0, "sys.argv[1] + '/file'"),
    ],
    ids=["open", "being read", "read elsewhere", "cached", "making a cache", "reading a cache", "writing a cache"],
)
def test_a_process_that_ends_leaves_nothing_on_disk_and_says_nothing(program: str, tmp_path: Path) -> None:
    """Directories were removed while threads wrote to them, and were still there after; who read from one was told."""
    for _ in range(4):
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


@pytest.mark.parametrize("ahead", ["", ".prefetch(1)"])
def test_who_reads_a_batch_of_slow_elements_at_the_end_leaves_the_rest(ahead: str) -> None:
    program = f"""
import atexit, threading
atexit.register(lambda: print(num_calls - num_before))  # and called last

import penstock as ps
num_calls, reading, never = 0, threading.Event(), threading.Event()

def slow(x):
    global num_calls
    num_calls += 1
    never.wait(0.01)
    if x == 5:
        reading.set()
    return x

def end():
    global num_before
    num_before = num_calls

run = ps.Dataset.range(10**6).map(slow).batch(1000){ahead}.run(memory="16MB")
threading.Thread(target=lambda: list(run), daemon=True).start()
reading.wait()
atexit.register(end)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) <= 20


def test_a_run_that_was_closed_at_exit_says_so_in_the_callers_thread() -> None:
    program = f"""
import atexit

def read():
    try:
        next(run)
    except Exception as error:
        print(error)

atexit.register(read)  # and called last
{ENDLESS.replace("threading.Event().wait()", "pass")}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("the process ends, and this run is closed\n", "")
