"""Programs that gather many small elements in a process of their own, under a budget of 48 MB.

python small_children.py "<program> <bytes>": see PROGRAMS at the end; 8 bytes are a single number. Or "at_once
<operator> <elements>", or "numbers_shuffled <MB of budget>". Each reads until its end, or until the budget has no more
room, and prints one line of JSON.
"""

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

D = ps.Dataset
BUDGET = 48 * MB
MOST = 1_000_000
NUM_ROWS = 16_000


def generated(nbytes: int, count: int = MOST) -> Any:
    """Elements of so many bytes, each an array of its own: numbers, for 8."""
    if nbytes == 8:
        return D.from_generator(lambda: map(np.int64, range(count)))

    def elements() -> Iterator[np.ndarray]:
        for i in range(count):
            yield np.full(nbytes // 8, float(i))

    return D.from_generator(elements)


def pairs(nbytes: int, count: int = MOST) -> Any:
    return generated(nbytes, count).map(lambda x: (x, x.sum()))


def rows(nbytes: int, count: int = MOST) -> Any:
    """Dicts of so many bytes of numbers, each a leaf of its own, a string, and an array: no row can be one string."""
    names = [f"column {k}" for k in range(nbytes // 4)]

    def elements() -> Iterator[dict[str, Any]]:
        for i in range(min(count, NUM_ROWS)):
            yield {"name": b"row", "pair": np.full(2, i), **{name: np.float32(i) for name in names}}

    return D.from_generator(elements)


def windowed(data: Any) -> Any:
    return data.window(MOST)


def grouped(data: Any) -> Any:
    return data.group_by_window(lambda *x: 0, lambda key, window: window.batch(4), window_size=MOST)


def grouped_by_many_keys(data: Any) -> Any:
    numbered = data.enumerate()
    return numbered.group_by_window(lambda i, x: i, lambda key, window: window.batch(4), window_size=2)


def bucketed(data: Any) -> Any:
    return data.bucket_by_sequence_length(lambda *x: 1, [10], [MOST, MOST])


def padded(data: Any) -> Any:
    return data.padded_batch(MOST)


def ragged(data: Any) -> Any:
    return data.ragged_batch(MOST)


def batched(data: Any) -> Any:
    return data.batch(MOST)


def shuffled(data: Any) -> Any:
    return data.shuffle(MOST, seed=1)


def cached(data: Any) -> Any:
    return data.cache()


def distinct(data: Any) -> Any:
    return data.unique()


def padded_some(data: Any) -> Any:
    return data.padded_batch(MOST // 4)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    build.__name__: build
    for build in (
        windowed,
        grouped,
        grouped_by_many_keys,
        bucketed,
        padded,
        ragged,
        batched,
        shuffled,
        cached,
        distinct,
        padded_some,
    )
}


def stacked(count: int) -> Any:
    """Elements that lie in one array: to look at them one by one makes objects of them."""
    return D.from_tensor_slices(np.arange(2 * count, dtype=np.int32).reshape(count, 2) % 1000)


AT_ONCE: dict[str, Callable[[Any], Any]] = {
    "unique": lambda data: data.unique(),
    "take_while": lambda data: data.take_while(lambda x: True),
    "rejection_resample": lambda data: data.rejection_resample(lambda x: x[0] % 2, [0.5, 0.5], [0.5, 0.5]),
    "sample_from_datasets": lambda data: D.sample_from_datasets([data, data.filter(lambda x: True)], seed=1),
}


def asked_at_once(name: str, count: int) -> dict[str, Any]:
    """A batch asks for all elements of a stacked source at once, by way of a stage that looks at each."""
    warm_up()
    build = AT_ONCE[name]
    read(build(stacked(2000)).batch(2000), 10 * BUDGET)
    before = settled()
    with PeakMemory(period_s=0.002) as watch:
        got, ended, ledger_peak = read(build(stacked(count)).batch(count), BUDGET)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": got, "ended": ended}


def strings_shuffled(nbytes: int) -> dict[str, Any]:
    """Byte strings that overflow to disk, many times the budget of them."""
    warm_up()

    def texts(count: int) -> Any:
        return D.range(count).filter(lambda i: True).map(lambda i: b"x" * (nbytes // 2 + int(i) * 7919 % nbytes))

    def build(count: int) -> Any:
        return texts(count).filter(lambda text: True).shuffle(count // 2, seed=1)

    for _ in D.range(99).filter(lambda i: True).map(lambda i: np.full(9000, i)).shuffle(50).run(memory=8 * MB):
        pass
    before = settled()
    with PeakMemory(period_s=0.002) as watch:
        count, ended, ledger_peak = read(build(64 * MB // nbytes), 8 * MB)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": count, "ended": ended}


def numbers_shuffled(budget: int) -> dict[str, Any]:
    """Numbers that overflow to disk and come back: what is freed, and what sorts them, is memory too."""
    warm_up()
    before = settled()
    with PeakMemory(period_s=0.002) as watch:
        numbers = D.range(500_000).filter(lambda i: True).shuffle(500_000, seed=1)
        count, ended, ledger_peak = read(numbers.batch(1000), budget * MB)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": count, "ended": ended}


def chosen(nbytes: int) -> dict[str, Any]:
    """Of six inputs each gives fewer elements than it is asked for, because they are large."""
    warm_up()

    def build(size: int) -> Any:
        inputs = [D.range(100).map(lambda i: np.full(size // 8, float(i))) for _ in range(6)]
        return D.choose_from_datasets(inputs, D.range(6).repeat(100)).batch(64)

    read(build(800), 40 * MB)
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        count, ended, ledger_peak = read(build(nbytes), 40 * MB)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": count, "ended": ended}


def read(dataset: Any, memory: int) -> tuple[int, str, int]:
    """How many elements came, what ended the run, and the most that was on the ledger."""
    count, ended = 0, ""
    with dataset.run(memory=memory) as run:
        try:
            for _ in run:
                count += 1
        except ps.errors.OverBudget as error:
            ended = str(error)
        return count, ended, run.ledger.peak_bytes


def under_watch(name: str, source: Callable[[int, int], Any], nbytes: int) -> dict[str, Any]:
    warm_up()
    build = PROGRAMS[name]
    read(build(source(8, 1000)), 100 * BUDGET)  # loads what is loaded once
    before = settled()
    with PeakMemory(period_s=0.002) as watch:
        count, ended, ledger_peak = read(build(source(nbytes, MOST)), BUDGET)
    return {"growth": watch.peak_bytes - before, "ledger_peak": ledger_peak, "count": count, "ended": ended}


def waiting(nbytes: int) -> dict[str, Any]:
    """A consumer takes one element and stops; the thread ahead of it makes all it may of those to come."""
    warm_up()
    made = 0

    def slowly() -> Iterator[np.int64]:
        nonlocal made
        for made in range(60_000):
            time.sleep(0.00005)  # else they would be made when they are asked for
            yield np.int64(made)

    before = settled()
    with PeakMemory(period_s=0.002) as watch, D.from_generator(slowly).prefetch(MOST).run(memory=8 * MB) as run:
        next(run)
        last = -1
        while last != made:  # until it waits for its consumer
            last = made
            time.sleep(0.2)
        peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "ledger_peak": peak, "count": made, "ended": ""}


if __name__ == "__main__":
    program, size = sys.argv[1].rsplit(" ", 1)
    others: dict[str, Callable[[int], dict[str, Any]]] = {
        program.__name__: program for program in (waiting, strings_shuffled, numbers_shuffled, chosen)
    }
    others |= {f"at_once {name}": functools.partial(asked_at_once, name) for name in AT_ONCE}
    if program in others:
        print(json.dumps(others[program](int(size))))
        sys.exit()
    name, _, kind = program.partition(" ")
    print(json.dumps(under_watch(name, {"": generated, "pairs": pairs, "rows": rows}[kind], int(size))))
