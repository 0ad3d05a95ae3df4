"""Runs in one pool, opened, read, left and closed at random by several threads: nothing is lost or hangs."""

import gc
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.ledger import Ledger
from penstock.memory.pool import Pool
from penstock.runtime import process_pool

D = ps.Dataset
DEADLINE_S = 60
NUM_ELEMENTS = 60


def elements(size: int, seen: bool) -> Any:
    def generate() -> Iterator[np.ndarray]:
        for i in range(NUM_ELEMENTS):
            yield np.full(size, float(i))

    return D.from_generator(generate, ps.TensorSpec((size,), np.float64) if seen else None)


PIPELINES: tuple[Callable[[Any], Any], ...] = (
    lambda data: data.map(lambda x: x + 1, num_parallel_calls=3).batch(4),
    lambda data: data.shuffle(30, seed=1).batch(4).prefetch(3),
    lambda data: data.cache().batch(4).prefetch(2),
    lambda data: data.batch(8).map(lambda x: x * 2, num_parallel_calls=2).prefetch(2),
    lambda data: data.map(lambda x: x + 1, num_parallel_calls=3, deterministic=False).batch(4),
    lambda data: data.padded_batch(4).prefetch(4),
    lambda data: data.shuffle(100, seed=2).map(lambda x: x - 1, num_parallel_calls=2).batch(2),
    lambda data: data.window(5).flat_map(lambda window: window.batch(5)).prefetch(2),
)


def numbers_of(batch: np.ndarray) -> list[float]:
    return batch[:, 0].tolist()


class Watched(Pool):
    """A pool that looks at every transition whether more is taken than there is."""

    def __init__(self, total_bytes: int) -> None:
        super().__init__(total_bytes)
        self.worst_bytes = 0

    def try_take(self, nbytes: int, overdraw: bool = False) -> bool:
        taken = super().try_take(nbytes, overdraw)
        self.worst_bytes = max(self.worst_bytes, self.taken_bytes - self.total_bytes)
        return taken


class Worker:
    """One thread that opens some runs, reads them in turn, and leaves some of them."""

    def __init__(self, seed: int, expected: dict[Any, list[float]]) -> None:
        self._random = random.Random(seed)
        self._expected = expected
        self.error: BaseException | None = None
        self.ledgers: list[Ledger] = []
        self.num_finished = 0

    def __call__(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def _work(self) -> None:
        runs: list[tuple[Any, Any, list[float]]] = []
        for _ in range(12):
            choice = self._random.random()
            if (choice < 0.4 and len(runs) < 3) or not runs:
                self._open(runs)
                continue
            i = self._random.randrange(len(runs))
            key, run, found = runs[i]
            if choice < 0.8:
                self._read(key, run, found, self._random.choice([1, 3, 100]))
            elif choice < 0.9:
                run.close()
            else:
                del run  # without a word
            if choice >= 0.8 or len(found) == NUM_ELEMENTS:
                del runs[i]
        for key, run, found in runs:
            self._read(key, run, found, 100)
            run.close()

    def _open(self, runs: list[tuple[Any, Any, list[float]]]) -> None:
        key = self._random.choice(sorted(self._expected))
        try:
            run = dataset_of(key).run(epoch=0)
        except ps.errors.BudgetTooSmall:
            return
        self.ledgers.append(run.ledger)
        runs.append((key, run, []))

    def _read(self, key: Any, run: Any, found: list[float], count: int) -> None:
        try:
            for _ in range(count):
                found += numbers_of(next(run))
        except StopIteration:
            expected = self._expected[key]
            assert sorted(found) == sorted(expected), key
            # Threads that may give up the order do.
            assert found == expected or key[0] == 4, key
            self.num_finished += 1
        except ps.errors.OverBudget:
            found += [np.nan] * (NUM_ELEMENTS - len(found))  # over: a pool may be too small for what was not known


def dataset_of(key: tuple[int, int, bool]) -> Any:
    pipeline, size, seen = key
    return PIPELINES[pipeline](elements(size, seen))


@contextmanager
def in_pool(pool: Pool) -> Iterator[None]:
    before = list(process_pool._POOL)
    process_pool._POOL[:] = [pool]
    try:
        yield
    finally:
        process_pool._POOL[:] = before


def stress(seed: int) -> int:
    """One round; how many runs were read to their end."""
    chance = random.Random(seed)
    keys = [
        (chance.randrange(len(PIPELINES)), chance.choice([100, 3000, 20_000]), chance.random() < 0.5) for _ in "abc"
    ]
    expected = {
        key: [n for batch in dataset_of(key).run(memory="256MB", epoch=0) for n in numbers_of(batch)] for key in keys
    }
    largest = max(size for _, size, _ in keys) * 8
    pool = Watched(chance.choice([30, 60, 200]) * largest + 200_000)
    before = set(threading.enumerate())
    workers = [Worker(chance.randrange(2**32), expected) for _ in range(chance.randint(1, 3))]
    with in_pool(pool):
        threads = [threading.Thread(target=worker, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), f"seed {seed}: hangs"
    for worker in workers:
        if worker.error is not None:
            raise AssertionError(f"seed {seed}: {worker.error!r}") from worker.error
    ledgers = [ledger for worker in workers for ledger in worker.ledgers]
    deadline = monotonic() + DEADLINE_S
    while any(ledger.charged_bytes for ledger in ledgers) and monotonic() < deadline:
        gc.collect()  # one that was dropped may be closed by the thread of another
    assert [ledger.charged_bytes for ledger in ledgers] == [0] * len(ledgers), f"seed {seed}"
    # Ledgers know their plans, and so what these have cached, which is the pool's until nobody has it.
    del ledgers
    for worker in workers:
        worker.ledgers.clear()
    while (pool.taken_bytes or set(threading.enumerate()) - before) and monotonic() < deadline:
        gc.collect()
    assert pool.worst_bytes == 0, f"seed {seed}: {pool.worst_bytes} more than the pool has"
    assert pool.taken_bytes == 0, f"seed {seed}: {pool.taken_bytes} are not given back"
    assert not set(threading.enumerate()) - before, f"seed {seed}: threads are left"
    return sum(worker.num_finished for worker in workers)


@pytest.mark.parametrize("seed", range(6))
def test_runs_that_come_and_go_give_what_they_should_and_hold_nothing_in_the_end(seed: int) -> None:
    stress(seed)
