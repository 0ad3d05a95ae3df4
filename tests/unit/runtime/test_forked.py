"""A run in a forked child: it is the parent's, who goes on with it whatever the child does."""

import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps

PROGRAM = """
import os, sys
import numpy as np
import penstock as ps

def refused(function):
    try:
        function()
    except ps.errors.RunError as error:
        return "does not survive fork" in str(error)
    return False

def opens_its_own(dataset):
    return len(list(dataset.run(memory="2MB"))) == 60 and len(list(dataset.run())) == 60

def goes_on_from(run, state, rest):
    run.load_state_dict(state)
    return [int(x[0]) for x in run] == rest

source = ps.Dataset.from_generator(lambda: (np.full(20_000, i) for i in range(60)))
dataset = source.shuffle(40, seed=1).map(lambda x: x, num_parallel_calls=int(sys.argv[2])).prefetch(2)
options = ps.Options(spill_dir=sys.argv[3])
dataset = dataset.with_options(options)
expected = [int(x[0]) for x in dataset.run(epoch=0, memory="64MB")]
ps.set_memory("2MB")
run = dataset.run(epoch=0)
first = [int(next(run)[0]) for _ in range(3)]
state = run.state_dict()
assert run.memory()["spilled_bytes"] > 0
if (child := os.fork()) == 0:
    done = 1
    try:
        ok = {
            "close": lambda: run.close() is None and refused(lambda: next(run)),
            "next": lambda: refused(lambda: next(run)) and refused(lambda: list(run)),
            "drop": lambda: globals().pop("run") is not None,
            "open": lambda: opens_its_own(dataset),
            "load": lambda: goes_on_from(run, state, expected[3:]),
        }[sys.argv[1]]()
        done = 0 if ok else 1
    finally:
        sys.stdout.flush()
        os._exit(done)
assert os.waitpid(child, 0)[1] == 0
assert first + [int(x[0]) for x in run] == expected
assert os.listdir(sys.argv[3]) == []
"""


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("child", ["close", "next", "drop", "open", "load"])
def test_the_parent_goes_on_whatever_the_child_does(tmp_path: Path, child: str, calls: int) -> None:
    arguments = [sys.executable, "-W", "ignore", "-c", PROGRAM, child, str(calls), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


OF_PROCESS = """
import os, sys, threading
import numpy as np
import penstock as ps
import penstock.image
from penstock import forked

dataset = ps.Dataset.load(sys.argv[1])
held, go = threading.Event(), threading.Event()

def hold():
    for lock in forked._LOCKS:
        lock.acquire()
    held.set()
    go.wait()

list(dataset.run())
threading.Thread(target=hold, daemon=True).start()
held.wait()
if (child := os.fork()) == 0:
    good = [int(x) for x in dataset.map(lambda x: 10 // int(x)).ignore_errors().run(memory="1MB")]
    sums = ps.map_fn(lambda x: np.repeat(x, 100).sum(), dataset)
    os._exit(0 if (good, sums[-1]) == ([10 // x for x in range(1, 100)], 9900) else 1)
go.set()
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_waits_for_no_lock_that_a_thread_of_the_parent_holds(tmp_path: Path) -> None:
    ps.Dataset.range(100).save(str(tmp_path))
    arguments = [sys.executable, "-W", "ignore", "-c", OF_PROCESS, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


SMALL = """
import os
import penstock as ps

run = ps.Dataset.range(1000).run()
while len(run._rows) - run._offset < 2:  # several at a time, of which some wait for the next call
    next(run)
position = run.state_dict()["position"]
if (child := os.fork()) == 0:
    try:
        next(run)
    except ps.errors.RunError:
        os._exit(0 if run.state_dict()["position"] == position else 1)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert run.state_dict()["position"] == position
"""


def test_what_was_pulled_already_is_the_parents_too() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SMALL], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


LOCKED = """
import os, sys, threading
import numpy as np
import penstock as ps

def locks_of(store):
    return [store.lock, store.kept._lock, store.kept.kept._lock]

cached = ps.Dataset.range(60).map(lambda x: np.full(5_000, x)).cache(*sys.argv[2:])
with cached.run(memory="4MB") as run:
    first = [int(next(run)[0]) for _ in range(30)]
    held, release = threading.Event(), threading.Event()

    def hold():
        with locks_of(cached.node.op.store)[int(sys.argv[1])]:
            held.set()
            release.wait()

    at_work = threading.Thread(target=hold, daemon=True)
    at_work.start()
    held.wait()
    if (child := os.fork()) == 0:
        done = 1
        try:
            for memory in ("4MB", "1MB", None):
                with cached.batch(7).run(memory=memory) as own:
                    assert [int(x[0]) for batch in own for x in batch] == list(range(60))
                    assert own.ledger.charged_bytes == 0
            del run
            done = 0
        finally:
            os._exit(done)
    assert os.waitpid(child, 0)[1] == 0
    release.set()
    at_work.join()
    assert first + [int(x[0]) for x in run] == list(range(60))
"""


@pytest.mark.parametrize("which", [0, 1, 2], ids=["store", "pass", "kept elements"])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_thread_at_work_on_a_cache_is_not_waited_for_in_the_child(tmp_path: Path, which: int, is_file: bool) -> None:
    arguments = [sys.executable, "-W", "ignore", "-c", LOCKED, str(which), *([str(tmp_path / "file")] * is_file)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
