"""Runs that are closed while a thread is in the midst of many slow elements: it leaves the rest of them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.run import Run
from tests.threads import our_threads

D = ps.Dataset
SIZE = 1000
AT = SIZE + 500  # not in a piece with elements of the first batch
DEADLINE_S = 20.0

pytestmark = pytest.mark.usefixtures("no_thread_left")


class Slow:
    """Counts calls. In the second batch one waits until the run is being closed."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.num_calls = 0
        self.begun = threading.Event()

    def __call__(self, x: Any) -> Any:
        self.num_calls += 1
        if self.num_calls == AT:
            self.begun.set()
            pause, left = threading.Event(), DEADLINE_S
            while left > 0 and not (self.run is not None and self.run.ledger.ending.is_near):
                pause.wait(0.001)
                left -= 0.001
        return x

    def numbers(self) -> Iterator[Any]:
        for i in range(100 * SIZE):
            yield self(np.int64(i))


PIPELINES: dict[str, Callable[[Slow], Any]] = {
    "map": lambda slow: D.range(100 * SIZE).map(slow),
    "arrays": lambda slow: D.range(100 * SIZE).map(lambda x: np.full(10, slow(x))),
    "pairs": lambda slow: D.range(100 * SIZE).map(lambda x: (slow(x), b"text")),
    "generator": lambda slow: D.from_generator(slow.numbers),
    "filter": lambda slow: D.range(100 * SIZE).filter(lambda x: slow(x) >= 0),
    "scan": lambda slow: D.range(100 * SIZE).scan(np.int64(0), lambda total, x: (total, slow(x))),
    "parallel": lambda slow: D.range(100 * SIZE).map(slow, 1),
    "stateful": lambda slow: D.from_generator(slow.numbers).map(lambda x: x, stateful=True),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_left_of_a_batch_is_left(name: str) -> None:
    slow = Slow()
    run = PIPELINES[name](slow).batch(SIZE).prefetch(2).run(memory="16MB")
    slow.run = run
    next(run)
    assert slow.begun.wait(DEADLINE_S)
    run.close()
    assert slow.num_calls <= AT + 1
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("calls", [None, 1, 2])
def test_a_function_that_closes_its_own_run_ends_the_data(calls: int | None) -> None:
    made: list[int] = []

    def closing(x: Any) -> Any:
        made.append(int(x))
        if x == 100:
            run.close()
        return x

    run = D.range(10_000).map(closing, calls).batch(64).run()
    found = [int(x) for batch in run for x in batch]
    assert found == list(range(len(found)))
    assert len(found) <= 128
    assert len(made) < 9_000
    assert list(run) == []
    for thread in our_threads():  # who closes a run in one of its threads waits for none of them
        thread.join(DEADLINE_S)
    assert run.ledger.charged_bytes == 0


def test_who_reads_a_run_that_another_thread_closes_comes_to_its_end() -> None:
    slow = Slow()
    slow.num_calls = AT - 10  # the tenth of its calls waits
    run = slow.run = D.range(10_000).map(slow).batch(SIZE).run()
    closing = threading.Thread(target=lambda: slow.begun.wait(DEADLINE_S) and run.close())
    closing.start()
    assert list(run) == []
    closing.join(DEADLINE_S)
    assert slow.num_calls <= AT + 1
