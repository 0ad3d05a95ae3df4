"""Errors that reached their caller are gone with the last who has them: no garbage collection is needed for that."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)


class Bad(Exception):
    pass


class Ended(StopIteration):
    pass


class Stopped(KeyboardInterrupt):
    pass


class Raised:
    """Raises errors, and knows which are still there."""

    def __init__(self) -> None:
        self._refs: list[weakref.ref[BaseException]] = []

    def note(self, error: BaseException) -> None:
        self._refs.append(weakref.ref(error))

    def fail(self, kind: type[BaseException] = Bad) -> None:
        error = kind("bad")
        self.note(error)
        try:
            raise error
        finally:
            del error

    def some(self, x: Any) -> Any:
        if int(x) % 3 == 1:
            self.fail()
        return np.full(4, x)

    @property
    def counts(self) -> tuple[int, int]:
        return len(self._refs), sum(ref() is not None for ref in self._refs)


@pytest.fixture
def raised() -> Iterator[Raised]:
    gc.collect()
    gc.disable()
    try:
        yield Raised()
    finally:
        gc.enable()


def drain(iterator: Any, kind: type[BaseException] = Bad) -> None:
    while True:
        try:
            next(iterator)
        except StopIteration:
            return
        except kind:
            pass


def once(function: Callable[[], Any]) -> None:
    with pytest.raises(Bad):
        function()


PIPELINES: dict[str, Callable[[Raised], Any]] = {
    "map": lambda r: D.range(30).map(r.some),
    "map in threads": lambda r: D.range(30).map(r.some, num_parallel_calls=4),
    "map in any order": lambda r: D.range(30).map(r.some, num_parallel_calls=4, deterministic=False),
    "prefetch": lambda r: D.range(30).map(r.some).prefetch(4),
    "shuffle": lambda r: D.range(30).map(r.some).filter(lambda x: True).shuffle(9, seed=1),
    "window": lambda r: D.range(30).map(r.some).window(4, 2).flat_map(lambda w: w),
    "batch": lambda r: D.range(30).map(r.some).batch(4).prefetch(2),
    "padded_batch": lambda r: D.range(30).map(r.some).padded_batch(4),
    "group_by_window": lambda r: (
        D.range(30).map(r.some).group_by_window(lambda x: int(x[0]) % 2, lambda key, w: w.batch(3), window_size=3)
    ),
    "interleave": lambda r: D.range(30).interleave(lambda i: D.range(2).map(lambda j: r.some(i)), cycle_length=4),
    "interleave in threads": lambda r: D.range(30).interleave(
        lambda i: D.range(2).map(lambda j: r.some(i)), cycle_length=4, num_parallel_calls=3
    ),
    "filter": lambda r: D.range(30).filter(lambda x: r.some(x) is not None),
    "scan": lambda r: D.range(30).scan(np.int64(0), lambda state, x: (state, r.some(x))),
    "cache": lambda r: D.range(30).map(r.some).cache(),
    "zip": lambda r: D.zip((D.range(30).map(r.some), D.range(30))),
    "from_generator": lambda r: D.from_generator(lambda: map(r.some, range(30))),
    "ignore_errors": lambda r: D.range(30).map(r.some).ignore_errors(),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_errors_of_elements(raised: Raised, name: str) -> None:
    run = PIPELINES[name](raised).run(memory="1MB")
    drain(run)
    count, num_left = raised.counts
    assert count
    assert not num_left


WRITERS: dict[str, Callable[[Any, str], Any]] = {
    "list": lambda ds, path: list(ds),
    "reduce": lambda ds, path: ds.reduce(0, lambda a, b: a),
    "to_parquet": lambda ds, path: ds.to_parquet(path),
    "to_tfrecord": lambda ds, path: ds.to_tfrecord(path, encode=lambda x: b"x"),
    "save": lambda ds, path: ds.save(path),
    "cache": lambda ds, path: list(ds.cache(path)),
    "snapshot": lambda ds, path: list(ds.snapshot(path)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_error_that_ended_something(raised: Raised, name: str, tmp_path: Path) -> None:
    once(lambda: WRITERS[name](D.range(30).map(raised.some), str(tmp_path / "out")))
    assert raised.counts[0]
    assert not raised.counts[1]


def test_explain_passes_over_them(raised: Raised) -> None:
    D.range(30).map(raised.some).explain(sample=10)
    assert raised.counts[0]
    assert not raised.counts[1]


def test_map_fn(raised: Raised) -> None:
    once(lambda: ps.map_fn(raised.some, np.arange(30)))
    assert raised.counts[0]
    assert not raised.counts[1]


def test_feeds(raised: Raised) -> None:
    pytest.importorskip("jax")
    drain(iter(D.range(30).map(raised.some).to_jax()))
    assert raised.counts == (10, 0)


def test_an_error_that_would_end_the_callers_loop(raised: Raised) -> None:
    drain(D.range(5).map(lambda x: raised.fail(Ended)).run(), RuntimeError)
    assert raised.counts == (5, 0)


@pytest.mark.parametrize("name", ["inline", "threads", "prefetch"])
def test_interrupts(raised: Raised, name: str) -> None:
    def stop(x: Any) -> Any:
        if x == 3:
            raised.fail(Stopped)
        return x

    ds = D.range(9).map(stop, num_parallel_calls=2 if name == "threads" else None)
    with (ds.prefetch(2) if name == "prefetch" else ds).run() as run:
        for _ in range(6):
            try:
                next(run)
            except Stopped:
                pass
    assert raised.counts[0] > 1
    assert not raised.counts[1]


def grow(x: Any) -> Any:
    return np.zeros(100_000 if x > 3 else 1)


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "inline": lambda: D.range(9).map(grow).padded_batch(8),
    "threads": lambda: D.range(9).map(grow, num_parallel_calls=4).padded_batch(8),
    "prefetch": lambda: D.range(9).map(grow).padded_batch(8).prefetch(2),
    "datasets": lambda: D.range(9).interleave(lambda x: D.range(2).map(lambda i: grow(x)), cycle_length=8).window(8),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_ended_the_run_is_said_again_and_kept_by_nobody(raised: Raised, name: str) -> None:
    run = TOO_LARGE[name]().run(memory=300_000)
    texts = set()
    while raised.counts[0] < 4:
        try:
            next(run)
        except ps.errors.OverBudget as error:
            raised.note(error)
            texts.add(str(error))
    assert raised.counts == (4, 0)
    assert len(texts) == 1
