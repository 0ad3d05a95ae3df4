"""Nothing is left behind: however a run ends, its threads are gone and its ledger reads zero."""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.threads import our_threads

from . import on_penstock
from .normal import collect
from .on_penstock import Bad, L, ps
from .programs import DATASET_PROGRAMS, Program

pytestmark = pytest.mark.timeout(60)

THREADED = [program for program in DATASET_PROGRAMS if program.threads]
OTHERS = [program for program in DATASET_PROGRAMS if not program.threads][::12]
SPREAD = THREADED + OTHERS


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """What lives already need not be looked at by every collection: with TensorFlow loaded that is most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def forgotten(ledger: Any) -> None:
    """The last reference to a run is gone: its threads may take the time that they need to see it, but no more."""
    deadline = time.monotonic() + 20
    gc.collect()
    while our_threads() and time.monotonic() < deadline:
        our_threads()[0].join(timeout=0.2)
        gc.collect()  # a thread that was at work may have held the last reference
    assert_clean(ledger)


def assert_clean(ledger: Any) -> None:
    assert our_threads() == []
    assert ledger.charged_bytes == 0


def taken(run: Any, count: int) -> Any:
    return collect(run, on_penstock.normal, max_items=count)


@pytest.mark.parametrize("program", SPREAD, ids=repr)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_close(program: Program, count: int) -> None:
    run = on_penstock.build(program).run()
    taken(run, count)
    run.close()
    assert_clean(run.ledger)
    run.close()


@pytest.mark.parametrize("program", SPREAD, ids=repr)
def test_end(program: Program) -> None:
    with on_penstock.build(program).run() as run:
        taken(run, program.max_items)
    assert_clean(run.ledger)


@pytest.mark.parametrize("program", [p for p in SPREAD if "endless" not in p.name], ids=repr)
def test_break(program: Program) -> None:
    ledger = None
    with on_penstock.build(program).ignore_errors().run() as run:
        ledger = run.ledger
        for _ in run:
            break
    assert_clean(ledger)


@pytest.mark.parametrize("program", SPREAD, ids=repr)
def test_exception_in_the_loop(program: Program) -> None:
    run = on_penstock.build(program).run()

    def loop() -> None:
        with run:
            taken(run, 1)
            raise KeyError("in the user's loop")

    with pytest.raises(KeyError):
        loop()
    assert_clean(run.ledger)


@pytest.mark.parametrize("program", SPREAD, ids=repr)
@pytest.mark.parametrize("slow", [False, True])
def test_garbage_collection(program: Program, slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if slow:  # a machine on which elements are asked for one by one, so that more of them wait in between
        monkeypatch.setattr("penstock.runtime.run._BLOCK_NS", 0)
    run = on_penstock.build(program).run()
    taken(run, 2)
    ledger = run.ledger
    del run
    forgotten(ledger)


FAILING: dict[str, Callable[[], Any]] = {
    "map": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)),
    "parallel map": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4), num_parallel_calls=3),
    "parallel map, any order": lambda: L.Dataset.range(20).map(
        lambda x: L.fail_on(x, 4), num_parallel_calls=3, deterministic=False
    ),
    "prefetch": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)).prefetch(3),
    "parallel interleave": lambda: L.Dataset.range(9).interleave(
        lambda x: L.Dataset.range(L.fail_on(x, 4)), cycle_length=3, num_parallel_calls=3
    ),
    "batch": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)).batch(3),
    "parallel map, batch, prefetch": lambda: (
        L.Dataset.range(20).map(lambda x: L.fail_on(x, 4), num_parallel_calls=2).batch(3).prefetch(2)
    ),
    "shuffle": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)).shuffle(5, seed=1),
    "filter": lambda: L.Dataset.range(20).filter(lambda x: L.fail_on(x, 4) >= 0),
    "window": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)).window(3).flat_map(lambda w: w.batch(3)),
    "cache": lambda: L.Dataset.range(20).map(lambda x: L.fail_on(x, 4)).cache(),
    "group_by_window": lambda: L.Dataset.range(20).group_by_window(
        lambda x: L.fail_on(x, 4) % 2, lambda k, w: w.batch(3), window_size=3
    ),
}


@pytest.mark.parametrize("build", FAILING.values(), ids=FAILING)
def test_exception_in_the_users_function(build: Callable[[], Any]) -> None:
    run = build().run()
    with pytest.raises(Bad), run:
        for _ in run:
            pass
    assert_clean(run.ledger)


@pytest.mark.parametrize("build", FAILING.values(), ids=FAILING)
def test_exception_then_garbage_collection(build: Callable[[], Any]) -> None:
    run = build().run()
    ledger = run.ledger
    with pytest.raises(Bad):
        for _ in run:
            pass
    del run
    forgotten(ledger)


def test_iterators_of_a_dataset_that_are_dropped() -> None:
    dataset = ps.Dataset.range(1000).map(lambda x: x + 1, num_parallel_calls=2).batch(4).prefetch(2)
    for _ in range(5):
        iterator = iter(dataset)
        next(iterator)
        ledger = iterator.ledger
        del iterator
        forgotten(ledger)


def test_runs_side_by_side() -> None:
    dataset = ps.Dataset.range(100).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)
    with dataset.run() as first, dataset.run() as second:
        assert [next(first) for _ in range(5)] == [next(second) for _ in range(5)]
        first.close()
        assert next(second) == 6
    assert_clean(first.ledger)
    assert_clean(second.ledger)


def test_a_closed_run_says_so() -> None:
    run = ps.Dataset.range(5).run()
    run.close()
    with pytest.raises((ps.errors.PenstockError, StopIteration)):
        next(run)


def test_delivered_elements_outlive_the_run() -> None:
    with ps.Dataset.range(10).map(lambda x: x + 1).batch(5).run() as run:
        kept = list(run)
    assert_clean(run.ledger)
    assert [batch.tolist() for batch in kept] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
