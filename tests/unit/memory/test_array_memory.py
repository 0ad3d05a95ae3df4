"""Where arrays lie that functions make in a run: wherever they are called, and nowhere else."""

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.pressure import anonymous_bytes
from tests.native.test_array_memory import is_mapped

D = ps.Dataset
MB = 1 << 20


def made(i: Any) -> Any:
    """Whether arrays of 100 kB and of 1 MB that are made here are mapped."""
    return is_mapped(np.empty(100_000, np.uint8)), is_mapped(np.empty(MB, np.uint8))


def generated() -> Iterator[Any]:
    for i in range(4):
        yield made(i)


PIPELINES = {
    "map": lambda: D.range(4).map(made),
    "parallel map": lambda: D.range(4).map(made, num_parallel_calls=2),
    "generator": lambda: D.from_generator(generated),
    "prefetch": lambda: D.range(4).map(made).prefetch(2),
    "flat_map": lambda: D.range(4).flat_map(lambda i: D.from_tensors(made(i))),
    "parallel interleave": lambda: D.range(4).interleave(
        lambda i: D.range(1).map(lambda _: made(i)), cycle_length=2, num_parallel_calls=2
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_large_arrays_are_mapped_under_a_small_budget(name: str) -> None:
    for _ in range(2):
        with PIPELINES[name]().run(memory="32MB") as run:
            assert [tuple(map(bool, element)) for element in run] == [(False, True)] * 4
            assert not is_mapped(np.empty(MB, np.uint8))


@pytest.mark.parametrize(
    "memory, mapped", [("1MB", [False, True, True]), ("32MB", [False, False, True]), ("4GB", [False, False, True])]
)
def test_how_large_they_must_be_depends_on_the_budget(memory: str, mapped: list[bool]) -> None:
    def made(i: Any) -> Any:
        return np.array([is_mapped(np.empty(nbytes, np.uint8)) for nbytes in (100_000, 400_000, MB)])

    with D.range(2).map(made).run(memory=memory) as run:
        assert [element.tolist() for element in run] == [mapped] * 2


def doubled(x: Any) -> Any:
    return x * 2


def test_freed_arrays_are_kept_within_the_budget() -> None:
    """Twice 3 MB for each of 20 elements, without the 733 page faults that each would cost."""
    with D.range(60).map(lambda i: doubled(np.full(375_000, i, np.float64))).run(memory="64MB") as run:
        next(run)
        for _ in range(60):  # a quarter of a second at most
            run._stages.arrays.keep_some()
            if run.memory()["freed_arrays_bytes"]:
                break
            next(run)
        assert run.memory()["freed_arrays_bytes"] == 8_000_000
        assert run.memory()["held_bytes"] >= 8_000_000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _, x in zip(range(20), run, strict=False):
            assert x[0] == x[-1]  # not all: the array of answers may cost page faults, too
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 5 * 733
    assert run.ledger.charged_bytes == 0


def test_arrays_too_large_to_be_kept_do_not_keep_others_from_it() -> None:
    def first_is_large(i: Any) -> Any:
        return doubled(np.full(375_000 if i else 1_500_000, i, np.float64))[:1]

    with D.range(60).map(first_is_large).run(memory="64MB") as run:
        for _ in range(20):
            next(run)
        run._stages.arrays.keep_some()
        assert run.memory()["freed_arrays_bytes"] == 8_000_000


def test_who_needs_the_room_gets_it() -> None:
    with D.range(60).map(lambda i: doubled(np.full(375_000, i, np.float64))).run(memory="64MB") as run:
        while not run.memory()["freed_arrays_bytes"]:
            next(run)
            run._stages.arrays.keep_some()
        run.ledger.let_go(of_use=False)
        assert run.memory()["freed_arrays_bytes"] > 0
        run.ledger.let_go()
        assert run.memory()["freed_arrays_bytes"] == 0
        before = anonymous_bytes()
        next(run)
        assert anonymous_bytes() - before < MB


def test_after_an_error_and_a_stop_arrays_lie_where_they_did() -> None:
    def fails(i: Any) -> Any:
        raise ValueError("no")

    with D.range(4).map(fails).run(memory="32MB") as run, pytest.raises(ValueError, match="no"):
        next(run)
    assert not is_mapped(np.empty(MB, np.uint8))
    next(iter(PIPELINES["parallel map"]().run(memory="32MB")))
    assert not is_mapped(np.empty(MB, np.uint8))


def test_a_run_within_a_function_of_another_has_its_own() -> None:
    def inner(i: Any) -> Any:
        with PIPELINES["map"]().run(memory="2MB") as run:
            small = [bool(element[0]) for element in run]
        return np.array([*small, *made(i)])

    with D.range(2).map(inner).run(memory="32MB") as run:
        assert [element.tolist() for element in run] == [[False] * 4 + [False, True]] * 2


def test_after_a_position_was_loaded() -> None:
    dataset = PIPELINES["map"]()
    with dataset.run(memory="32MB") as run:
        next(run)
        position = run.state_dict()
    with dataset.run(memory="32MB") as run:
        run.load_state_dict(position)
        assert [bool(element[1]) for element in run] == [True] * 3


def test_runs_in_threads_of_the_user() -> None:
    seen: list[list[bool]] = []

    def work() -> None:
        with PIPELINES["map"]().run(memory="32MB") as run:
            seen.append([bool(element[1]) for element in run])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[True] * 4] * 3


FAULTS = """
import ctypes, resource, sys
import numpy as np, penstock as ps

malloc = ctypes.CDLL(None)
malloc.malloc.restype, malloc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
malloc.free.argtypes = [ctypes.c_void_p]

def steps():
    for _ in range(50):
        block = malloc.malloc(4 << 20)
        ctypes.memset(block, 1, 4 << 20)
        malloc.free(block)

if sys.argv[1] == "in a run":
    run = ps.Dataset.range(10).map(lambda i: np.full(1 << 20, i, np.float32)).run(memory="32MB")
    next(run)
steps()  # malloc has seen by now what it is asked for
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
steps()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_frameworks_take_in_each_step_costs_no_page_faults_for_a_run() -> None:
    """A threshold for the whole process would have all 50 blocks of 1,024 pages come anew from the system."""
    for when in ("alone", "in a run"):
        done = subprocess.run([sys.executable, "-c", FAULTS, when], capture_output=True, text=True, check=True)
        assert int(done.stdout) < 2048, when
