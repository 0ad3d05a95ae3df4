"""Filling: threads that share a batch's slot; the same elements, errors, positions and bounds as any other way."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
import penstock.memory.arena
from penstock.element import arrays_in
from penstock.ops.filling import FillingCalls
from tests.threads import our_threads
from tests.unit.fakes import all_with_errors

D = ps.Dataset
DEADLINE_S = 20.0
SIDE = 40
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("no_thread_left")]


class Bad(Exception):
    pass


def decode_image(number: Any) -> Any:
    """Stands for a decoder: by its name functions that use it are recognised."""
    return np.full((SIDE, SIDE), number, np.float32)


def load(number: Any) -> Any:
    return decode_image(number)


def load_some(number: Any) -> Any:
    if number % 13 == 5:
        raise Bad(int(number))
    return decode_image(number)


def load_unequal(number: Any) -> Any:
    return decode_image(number)[: 30 if number == 20 else SIDE]


def load_named(number: Any) -> Any:
    return decode_image(number), b"%d" % number


def load_labelled(number: Any) -> Any:
    return decode_image(number), number


def is_filled(dataset: Any) -> bool:
    return "decoded straight into the batch" in str(dataset.explain())


def comparable(element: Any) -> Any:
    if isinstance(element, Exception):
        return type(element), str(element), getattr(element, "__notes__", [])
    return [(array.shape, array.tolist()) for array in arrays_in(element)]


# Ways to make the same batches of 16: by threads that share them, by one thread, by threads of the general way.
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "filled": lambda ds, function: ds.map(function, num_parallel_calls=2).batch(16),
    "inline": lambda ds, function: ds.map(function).batch(16),
    "general": lambda ds, function: ds.map(function, num_parallel_calls=3).batch(16),
}


def test_the_ways_are_what_they_say() -> None:
    assert [is_filled(WAYS[way](D.range(30), load)) for way in ("filled", "inline", "general")] == [True, False, False]


@pytest.mark.parametrize("num_last", [1, 3, 8, 15])
@pytest.mark.parametrize("function", [load, load_labelled])
def test_a_short_last_batch_takes_no_slot_of_its_own(
    function: Any, num_last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = penstock.memory.arena.new_base
    monkeypatch.setattr(penstock.memory.arena, "new_base", lambda size, used: made.append(size) or make(size, used))
    batch_bytes = 16 * SIDE * SIDE * 4
    last = None
    for batch in WAYS["filled"](D.range(64 + num_last), function):
        last = batch  # held while the next one is made
    image = last[0] if isinstance(last, tuple) else last
    assert image[:, 0, 0].tolist() == list(range(64, 64 + num_last))
    assert [size for size in made if size > batch_bytes // 16 * 9 // 8] == [made[0], made[0]]


@pytest.mark.parametrize("function", [load, load_some, load_unequal, load_named])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100])
def test_the_same_batches_and_errors(function: Any, count: int) -> None:
    dataset = WAYS["filled"](D.range(count), function)
    expected = list(map(comparable, all_with_errors(dataset.run(optimize=False))))
    assert list(map(comparable, all_with_errors(dataset.run()))) == expected


def test_errors_left_out_before_the_batch() -> None:
    def written(parallel: int | None) -> Any:
        return D.range(100).map(load_some, num_parallel_calls=parallel).ignore_errors().batch(16)

    assert is_filled(written(2))
    assert list(map(comparable, written(2))) == list(map(comparable, written(None).run(optimize=False)))
    with written(2).run() as run:
        assert sum(len(batch) for batch in run) == 92
        assert sum(stage["failed"] for stage in run.stats()["stages"]) == 8


@pytest.mark.parametrize("function", [load, load_some, load_named])
@pytest.mark.parametrize("saved_by", WAYS)
@pytest.mark.parametrize("loaded_by", WAYS)
def test_any_position_goes_on_whichever_way_it_was_saved(function: Any, saved_by: str, loaded_by: str) -> None:
    if "filled" not in (saved_by, loaded_by):
        return
    source = D.range(70).shuffle(30, seed=1)
    first, second = WAYS[saved_by](source, function), WAYS[loaded_by](source, function)
    expected = [str(comparable(x)[:2]) for x in all_with_errors(WAYS["inline"](source, function).run(epoch=0))]
    for place in range(len(expected) + 1):
        with first.run(epoch=0) as run:
            for _ in range(place):
                try:
                    next(run)
                except Bad:
                    pass
            state = run.state_dict()
        with second.run() as run:
            run.load_state_dict(state)
            assert [str(comparable(x)[:2]) for x in all_with_errors(run)] == expected[place:]


# --- ahead ------------------------------------------------------------------------------------------------------


class Counting:
    """A function that counts its calls, and can be waited for."""

    decodes_images = True

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.num_calls = 0

    def __call__(self, number: Any) -> Any:
        with self.changed:
            self.num_calls += 1
            self.changed.notify_all()
        return np.full((SIDE, SIDE), number, np.float32)

    def reached(self, count: int, timeout: float = DEADLINE_S) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.num_calls >= count, timeout)


def after(run: Any, num_batches: int) -> Any:
    """The last of so many batches, the others dropped."""
    for _ in range(num_batches):
        batch = next(run)
    return batch


def test_the_next_batch_is_made_in_the_slot_that_was_dropped() -> None:
    function = Counting()
    with D.range(1000).map(function, num_parallel_calls=2).batch(16).run() as run:
        batch = after(run, 2)
        assert function.reached(48)
        assert not function.reached(49, timeout=0.05)
        assert batch[0, 0, 0] == 16
        assert sum(map(len, run._stages.slots._by_size.values())) == 2


def test_no_more_is_made_while_no_slot_is_free() -> None:
    function = Counting()
    with D.range(1000).map(function, num_parallel_calls=2).batch(16).run() as run:
        kept = [next(run) for _ in range(4)]
        assert not function.reached(65, timeout=0.2)
        assert [int(batch[0, 0, 0]) for batch in kept] == [0, 16, 32, 48]
        assert int(next(run)[0, 0, 0]) == 64


def test_a_source_that_may_take_long_is_not_asked_ahead() -> None:
    function, num_asked = Counting(), 0

    def numbers() -> Iterator[int]:
        nonlocal num_asked
        for number in range(1000):
            num_asked += 1
            yield number

    dataset = D.from_generator(numbers, output_signature=ps.TensorSpec((), np.int64))
    with dataset.map(function, num_parallel_calls=2).batch(16).run() as run:
        after(run, 3)
        assert not function.reached(49, timeout=0.1)
        assert num_asked <= 49


def test_blocks_end_where_batches_do_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or each batch would be cut from two blocks, and copied."""
    sizes: list[int] = []
    until_full = FillingCalls.until_full

    def noting(self: Any, *args: Any) -> Any:
        block = until_full(self, *args)
        sizes.append(block.size)
        return block

    def load_most(number: Any) -> Any:
        if number in (20, 41):
            raise Bad(int(number))
        return decode_image(number)

    monkeypatch.setattr(FillingCalls, "until_full", noting)
    with D.range(16 * 20 + 2).map(load_most, num_parallel_calls=2).ignore_errors().batch(16).run() as run:
        assert [len(batch) for batch in run] == [16] * 20
    assert sizes[:2] == [1, 15]
    assert sizes[-14:] == [16] * 14


# --- ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_batches", [0, 1, 3])
def test_closed_early_nothing_is_left(num_batches: int) -> None:
    run = D.range(10_000).map(load, num_parallel_calls=2).batch(16).run()
    for _ in range(num_batches):
        next(run)
    run.close()
    assert run.ledger.charged_bytes == 0


def test_closed_while_a_batch_is_made_it_waits_for_no_more_than_a_call() -> None:
    inside, go_on = threading.Semaphore(0), threading.Event()
    calls: list[int] = []

    def slow(number: Any) -> Any:
        calls.append(int(number))
        if number >= 32:
            inside.release()
            assert go_on.wait(DEADLINE_S)
        return decode_image(number)

    run = D.range(1000).map(slow, num_parallel_calls=2).batch(16).run()
    after(run, 2)
    assert inside.acquire(timeout=DEADLINE_S)  # at work on the third
    closer = threading.Thread(target=run.close)
    closer.start()
    go_on.set()
    closer.join(DEADLINE_S)
    assert not closer.is_alive()
    assert run.ledger.charged_bytes == 0


def test_a_run_that_is_dropped_ends_its_threads() -> None:
    run = D.range(10_000).map(load, num_parallel_calls=2).batch(16).run()
    next(run)
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None


def test_what_is_no_ordinary_error_reaches_the_caller() -> None:
    def leaving(number: Any) -> Any:
        if number == 20:
            raise SystemExit(3)
        return decode_image(number)

    with D.range(100).map(leaving, num_parallel_calls=2).batch(16).run() as run:
        assert len(next(run)) == 16
        with pytest.raises(SystemExit):
            next(run)


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [load, load_some])
@pytest.mark.parametrize("times_minimum", [1.0, 1.3, 2.0, 4.0])
def test_within_any_budget_that_works(function: Any, times_minimum: float) -> None:
    dataset = D.range(100).map(function, num_parallel_calls=2).ignore_errors().batch(16)
    expected = list(map(comparable, dataset.run(optimize=False)))
    budget = int(dataset.explain(sample=100).minimum_bytes * times_minimum)
    with dataset.run(memory=budget) as run:
        assert list(map(comparable, run)) == expected
        assert run.ledger.peak_bytes <= budget
    assert run.ledger.charged_bytes == 0


def test_results_that_grow_stay_within_the_budget() -> None:
    def growing(number: Any) -> Any:
        return {"image": decode_image(number), "name": bytes(int(number) * 1000)}

    dataset = D.range(100).map(growing, num_parallel_calls=2).batch(16)
    assert is_filled(dataset)
    with dataset.run(memory=8_000_000) as run:
        assert [len(batch["name"][-1]) for batch in run] == [15_000, 31_000, 47_000, 63_000, 79_000, 95_000, 99_000]
        assert run.ledger.peak_bytes <= 8_000_000


@pytest.mark.parametrize("where", ["helping", "asking"])
def test_closed_by_one_of_its_own_threads_it_does_not_wait_for_itself(where: str) -> None:
    """As a garbage collection in it may do."""
    closed, begun = threading.Event(), threading.Barrier(2)
    runs: list[Any] = []
    names: list[str] = []

    def closing(number: Any) -> Any:
        if number >= 16:
            begun.wait(DEADLINE_S)
            name = threading.current_thread().name
            names.append(name)
            if ("penstock-map" in name) == (where == "helping"):
                runs.pop().close()
                closed.set()
            assert closed.wait(DEADLINE_S)
        return decode_image(number)

    runs.append(D.range(100).map(closing, num_parallel_calls=2).batch(16).run())
    assert len(next(runs[0])) == 16  # and is dropped: the next one is begun in its slot
    assert closed.wait(DEADLINE_S)
    for thread in our_threads():
        thread.join(DEADLINE_S)
    assert sorted(names) == ["penstock-ahead-0", "penstock-map-0"]
