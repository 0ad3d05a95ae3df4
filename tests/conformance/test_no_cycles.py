"""Data of a run that is over go with it: they do not wait for Python's garbage collection, which counts no bytes.

It runs after some hundreds of new objects, and each may be a window, a cache or an array of many megabytes.
"""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.threads import our_threads

from . import on_penstock
from .normal import collect
from .on_penstock import ps
from .programs import DATASET_PROGRAMS, Program

pytestmark = pytest.mark.timeout(60)

D = ps.Dataset
# Who counts bytes, and their accounts, know each other, and nothing else by then. Specs have no data.
HARMLESS = (
    "penstock.ending",
    "penstock.memory.ledger",
    "penstock.memory.share",
    "penstock.memory.withheld",
    "penstock.spec",
)


@pytest.fixture(autouse=True)
def garbage() -> Iterator[Callable[[], list[Any]]]:
    """What only a collection would free, of penstock's objects and arrays."""
    gc.collect()
    gc.freeze()
    gc.disable()

    def found() -> list[Any]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(each) for each in gc.garbage]
        ours = [kind for kind in kinds if kind is np.ndarray or kind.__module__.startswith("penstock.")]
        return [kind for kind in ours if kind.__module__ not in HARMLESS]

    yield found
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.unfreeze()


def ended(dataset: Any, count: int, memory: Any = None) -> None:
    with dataset.run(memory=memory) as run:
        collect(run, on_penstock.normal, max_items=count)
    for thread in our_threads():
        thread.join()


@pytest.mark.parametrize("program", DATASET_PROGRAMS[::9], ids=repr)
@pytest.mark.parametrize("count", [1, None])
def test_nothing_of_a_run_waits_for_it(program: Program, count: int | None, garbage: Callable[[], list[Any]]) -> None:
    ended(on_penstock.build(program), program.max_items if count is None else count)
    assert garbage() == []


def windows(number: int) -> Any:
    return D.range(number).map(lambda i: np.full(10_000, i)).window(2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: windows(6).map(lambda w: w.reduce(np.zeros(10_000), lambda total, x: total + x)),
        lambda: windows(6).map(lambda w: np.stack(list(w))),
        lambda: windows(6).map(lambda w: w.batch(2).get_single_element()),
        lambda: D.range(6).map(lambda i: np.full(10_000, i)).cache().shuffle(4).batch(2),
        lambda: D.range(6).map(lambda i: np.full(10_000, i), num_parallel_calls=2).cache().prefetch(2),
    ],
)
@pytest.mark.parametrize("memory", [None, "600kB"])
def test_datasets_that_are_dropped_go_at_once(
    build: Callable[[], Any], memory: str | None, garbage: Callable[[], list[Any]]
) -> None:
    ended(build(), 100, memory)
    assert garbage() == []
