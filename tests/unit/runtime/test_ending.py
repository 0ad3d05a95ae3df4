"""Runs that are closed while a thread is in the midst of many slow elements: it leaves the rest of them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.ending import Ended
from penstock.errors import RunError
from penstock.memory.ledger import Ledger
from penstock.runtime.channel import Threads
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


class Items:
    """A dataset as PyTorch has them."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def __len__(self) -> int:
        return 100 * SIZE

    def __getitem__(self, i: int) -> Any:
        return self.slow(np.int64(i))


PIPELINES: dict[str, Callable[[Slow], Any]] = {
    "map": lambda slow: D.range(100 * SIZE).map(slow),
    "arrays": lambda slow: D.range(100 * SIZE).map(lambda x: np.full(10, slow(x))),
    "pairs": lambda slow: D.range(100 * SIZE).map(lambda x: (slow(x), b"text")),
    "generator": lambda slow: D.from_generator(slow.numbers),
    "filter": lambda slow: D.range(100 * SIZE).filter(lambda x: slow(x) >= 0),
    "scan": lambda slow: D.range(100 * SIZE).scan(np.int64(0), lambda total, x: (total, slow(x))),
    "parallel": lambda slow: D.range(100 * SIZE).map(slow, 1),
    "items": lambda slow: ps.from_torch(Items(slow)),
    "take_while": lambda slow: D.range(100 * SIZE).take_while(lambda x: slow(x) >= 0),
    "group_by_window": lambda slow: D.range(100 * SIZE).group_by_window(
        lambda x: slow(x) % 2, lambda key, window: window, 10
    ),
    "bucket_by_sequence_length": lambda slow: (
        D.range(100 * SIZE).bucket_by_sequence_length(lambda x: slow(x) % 2 + 1, [2], [10, 10]).unbatch()
    ),
    "rejection_resample": lambda slow: (
        D.range(100 * SIZE).rejection_resample(lambda x: slow(x) * 0, [1.0], [1.0]).map(lambda kind, x: x)
    ),
    "flat_map": lambda slow: D.range(100 * SIZE).flat_map(lambda x: D.from_tensors(slow(x))),
    "interleave": lambda slow: D.range(100 * SIZE).interleave(lambda x: D.from_tensors(slow(x)), cycle_length=3),
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


CLOSING: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "scan": lambda f: D.range(1000).scan(0, lambda total, x: (total, f(x))),
    "group_by_window": lambda f: D.range(1000).group_by_window(lambda x: f(x) % 2, lambda key, window: window, 10),
    "generator": lambda f: D.from_generator(lambda: map(f, range(1000))).shuffle(100, seed=1),
    "running generator": lambda f: D.from_generator(lambda: (f(i) for i in range(1000))).shuffle(100, seed=1),
}


@pytest.mark.parametrize("name", CLOSING)
def test_nothing_is_charged_by_who_was_in_the_midst_of_something(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def closing(x: Any) -> Any:
        if x == 37:
            run.close()
        return x

    run = CLOSING[name](closing).batch(10).run()
    list(run)
    assert run.ledger.charged_bytes == 0
    assert not caplog.records


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_a_ledger_counts_ends_when_it_is_closed(is_closed: bool) -> None:
    ledger = Ledger(1000)
    share = ledger.share("a stage")
    before = share.acquire(100)
    if is_closed:
        ledger.close()
    after = share.acquire(200)
    assert ledger.charged_bytes == (100 if is_closed else 300)
    before.settle(150)
    before.release()
    assert ledger.charged_bytes == (0 if is_closed else 200)
    after.release()
    assert ledger.charged_bytes == share.charged_bytes == 0


def test_who_waits_for_threads_that_were_stopped_is_told() -> None:
    threads = Threads("test")
    threads.stop()
    with threads.changed, pytest.raises(Ended):
        threads.wait()


def test_who_reads_while_another_thread_closes_comes_to_the_end() -> None:
    run = D.range(100).run()
    next(run)
    next(run)  # the first of several that were made together

    class ClosedMeanwhile(list[Any]):
        def __getitem__(self, i: Any) -> Any:
            run.close()
            return run._rows[i]

    run._rows = ClosedMeanwhile(run._rows)
    assert run._offset < len(run._rows)
    assert list(run) == []
    assert list(run) == []


def test_who_writes_elements_does_not_take_a_closed_run_for_all_of_them() -> None:
    def closing(x: Any) -> Any:
        if x == 37:
            run.close()
        return x

    run = D.range(1000).map(closing).batch(10).run()
    assert run.pull(1) is not None
    with pytest.raises(RunError, match="closed this run while it was read"):
        list(iter(lambda: run.pull(1), None))
