"""A run in a forked child: it is the parent's, who goes on with it whatever the child does."""

import subprocess
import sys
from pathlib import Path

import pytest

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
