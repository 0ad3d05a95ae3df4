"""The thread backend: parallel calls give what one call after the other gives, and are as many as were asked for."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.threads import our_threads
from tests.unit.fakes import all_with_errors

D = ps.Dataset
DEADLINE_S = 20.0
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


def square(x: Any) -> Any:
    return x * x


class Bad(Exception):
    pass


class Gauge:
    """A function that knows how many of its calls run at once.

    From the second one on its calls wait for each other, `meet` at a time. The first runs alone: it is measured. What
    it returns is large, so that elements are asked for, and the function is called, one at a time.
    """

    def __init__(self, meet: int = 1) -> None:
        self._lock = threading.Lock()
        self._barrier = threading.Barrier(meet)
        self.now = self.most = self.calls = 0

    def __call__(self, x: Any) -> Any:
        with self._lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)
            first = self.calls == 1
        if not first:
            self._barrier.wait(DEADLINE_S)  # broken, and an error, unless so many calls come together
        with self._lock:
            self.now -= 1
        return np.full(50_000, x)


# --- the same results ---


@pytest.mark.parametrize("calls", [1, 2, 3, 8, ps.AUTOTUNE])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 500])
@pytest.mark.parametrize("finish", [lambda ds: ds, lambda ds: ds.batch(4), lambda ds: ds.batch(64).prefetch(1)])
def test_parallel_calls_give_what_one_after_the_other_gives(
    calls: int, count: int, finish: Callable[[Any], Any]
) -> None:
    parallel = finish(D.range(count).map(square, num_parallel_calls=calls))
    assert repr(list(parallel)) == repr(list(finish(D.range(count).map(square))))


@pytest.mark.parametrize("calls", [1, 4, ps.AUTOTUNE])
@pytest.mark.parametrize("fix", [
    lambda ds, calls: ds.map(square, num_parallel_calls=calls, deterministic=False),
    lambda ds, calls: ds.map(square, num_parallel_calls=calls).with_options(ps.Options(deterministic=False)),
])  # fmt: skip
def test_without_an_order_to_keep_the_elements_are_the_same(fix: Callable[..., Any], calls: int) -> None:
    assert sorted(fix(D.range(300), calls)) == [i * i for i in range(300)]


def reversing(last: int) -> Callable[[Any], Any]:
    """A function whose call k ends only after call k + 1; but the first, which runs alone, at once."""
    done = [threading.Event() for _ in range(last + 1)]

    def function(x: Any) -> Any:
        if 0 < x < last:
            assert done[int(x) + 1].wait(DEADLINE_S)
        done[int(x)].set()
        return x

    return function


def test_order_is_kept_although_later_calls_end_first() -> None:
    assert list(D.range(5).map(reversing(4), num_parallel_calls=4)) == [0, 1, 2, 3, 4]


def test_what_is_ready_first_comes_first_where_no_order_is_to_be_kept() -> None:
    gate = threading.Event()

    def function(x: Any) -> Any:
        if x == 1:
            assert gate.wait(DEADLINE_S)
        return x

    with D.range(5).map(function, num_parallel_calls=2, deterministic=False).run() as run:
        first, second = next(run), next(run)
        gate.set()
        assert (first, second) == (0, 2)
        assert sorted([first, second, *run]) == [0, 1, 2, 3, 4]


def test_the_operators_own_word_on_order_beats_the_options() -> None:
    dataset = D.range(5).map(reversing(4), num_parallel_calls=4, deterministic=True)
    assert list(dataset.with_options(ps.Options(deterministic=False))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("calls", [1, 3, ps.AUTOTUNE])
def test_errors_come_in_their_places(calls: int) -> None:
    def function(x: Any) -> Any:
        if x % 5 == 0:
            raise Bad(int(x))
        return x

    with D.range(40).map(function, num_parallel_calls=calls).run() as run:
        found = all_with_errors(run)
    assert [x.args[0] if isinstance(x, Bad) else int(x) for x in found] == list(range(40))
    assert all(isinstance(x, Bad) == (i % 5 == 0) for i, x in enumerate(found))
    assert "element 35" in found[35].__notes__[0]


def test_a_failure_above_a_parallel_map_makes_a_take_go_further() -> None:
    """Workers that had come to the end of the take must hear that there is more."""
    ended = threading.Event()

    def fail(x: Any) -> Any:
        if x == 2:
            ended.wait(0.1)  # time for the workers to come to the end and fall asleep
            raise Bad
        return x

    with D.range(10).map(square, num_parallel_calls=2).map(lambda x: fail(int(x) // 2)).take(3).run() as run:
        found = all_with_errors(run)
    assert [isinstance(x, Bad) for x in found] == [False, False, True, False]


# --- how many at once ---


@pytest.mark.parametrize("deterministic", [True, False])
def test_as_many_calls_run_at_once_as_were_asked_for(deterministic: bool) -> None:
    """Each call waits for three others: fewer threads would break the barrier."""
    gauge = Gauge(meet=4)
    found = [x[0] for x in D.range(33).map(gauge, num_parallel_calls=4, deterministic=deterministic)]
    assert sorted(found) == list(range(33))
    assert gauge.most == 4


def test_never_more_than_were_asked_for() -> None:
    gauge = Gauge()
    assert len(list(D.range(2000).map(gauge, num_parallel_calls=3))) == 2000
    assert gauge.most <= 3


def test_stateful_functions_are_called_in_order_and_alone() -> None:
    gauge, seen = Gauge(), []

    def function(x: Any) -> Any:
        seen.append(int(x))
        return gauge(x)

    assert len(list(D.range(300).map(function, num_parallel_calls=4, stateful=True))) == 300
    assert gauge.most == 1
    assert seen == list(range(300))


def test_a_slow_consumer_stops_the_workers() -> None:
    """Twice as many pieces as threads may wait, and no more are begun."""
    too_far, lock, calls = threading.Event(), threading.Lock(), []

    def function(x: Any) -> Any:
        with lock:
            calls.append(int(x))
            if len(calls) > 1 + 2 * 3 + 3:
                too_far.set()
        return np.full(10_000, x)

    with D.range(1000).map(function, num_parallel_calls=3).run() as run:
        next(run)
        assert not too_far.wait(0.2)
        for expected in range(1, 5):
            assert next(run)[0] == expected


def test_a_user_who_stops_after_one_batch_stops_everything() -> None:
    gauge = Gauge()
    for batch in D.range(100_000).map(gauge, num_parallel_calls=3).batch(10):
        assert batch[:, 0].tolist() == list(range(10))
        break
    assert gauge.calls < 1000


def test_threads_start_with_the_first_element_and_are_named() -> None:
    with D.range(100).map(square, num_parallel_calls=2).run() as run:
        assert our_threads() == []
        next(run)
        assert [thread.name for thread in our_threads()] == ["penstock-map-0", "penstock-map-1"]
    assert our_threads() == []


# --- AUTOTUNE ---


def chosen(run: Any) -> Any:
    (stage,) = [stage for stage in run.stats()["stages"] if "num_parallel_calls" in stage["chosen"]]
    return stage["chosen"]["num_parallel_calls"]


def test_a_cheap_function_is_called_inline() -> None:
    choices = []
    while "inline" not in choices and len(choices) < 8:  # others at work may make any function look dear, once or twice
        with D.range(5000).map(square, num_parallel_calls=ps.AUTOTUNE).run() as run:
            assert len(list(run)) == 5000
            choices.append(chosen(run))
    assert "inline" in choices


def test_a_function_that_waits_gets_threads() -> None:
    never = threading.Event()
    callers = set()
    choices: list[Any] = []

    def wait(x: Any) -> Any:
        never.wait(0.002)
        callers.add(threading.current_thread())
        return np.full(50_000, x)

    while set(choices) <= {"inline"} and len(choices) < 8:  # others at work may make threads wait for their turn
        with D.range(120).map(wait, num_parallel_calls=ps.AUTOTUNE).run() as run:
            assert [x[0] for x in run] == list(range(120))
            choices.append(chosen(run))
    assert choices[-1] >= 2
    assert len(callers) > 2


def test_a_function_that_needs_the_interpreter_is_called_inline() -> None:
    def count(x: Any) -> int:
        return sum(range(int(x) % 10 + 20_000))

    choices = []
    while "inline" not in choices and len(choices) < 8:
        with D.range(1500).map(count, num_parallel_calls=ps.AUTOTUNE).run() as run:
            assert len(list(run)) == 1500
            choices.append(chosen(run))
    assert "inline" in choices


def test_a_number_given_is_the_number_chosen() -> None:
    with D.range(50).map(square, num_parallel_calls=3).run() as run:
        list(run)
        assert chosen(run) == 3


# --- memory ---


@pytest.mark.parametrize("calls", [2, 8])
def test_what_waits_for_the_consumer_stays_within_the_budget(calls: int) -> None:
    def load(x: Any) -> Any:
        return np.full(50_000, x, np.float64)  # 400 kB

    with D.range(60).map(load, num_parallel_calls=calls).run(memory="1.5MB") as run:
        for i, x in enumerate(run):
            assert x[0] == i
            assert run.ledger.charged_bytes <= 1_500_000
    assert 400_000 <= run.ledger.peak_bytes <= 1_500_000
    assert run.ledger.charged_bytes == 0


# --- positions ---


def test_a_position_is_that_of_what_was_delivered_not_of_what_was_begun() -> None:
    with D.range(200).map(square, num_parallel_calls=4).run() as run:
        for i in range(50):
            next(run)
            with D.range(200).map(square, num_parallel_calls=4).run() as again:
                again.load_state_dict(run.state_dict())
                assert next(again) == (i + 1) ** 2


def test_a_position_without_an_order_to_keep_has_all_that_was_not_delivered() -> None:
    def dataset() -> Any:
        return D.range(60).map(square, num_parallel_calls=4, deterministic=False)

    with dataset().run() as run:
        seen: list[int] = []
        for x in run:
            seen.append(int(x))
            if len(seen) % 11 == 0:
                with dataset().run() as again:
                    again.load_state_dict(run.state_dict())
                    assert sorted(seen + [int(x) for x in again]) == [i * i for i in range(60)]


def test_a_position_in_the_middle_of_what_came_out_of_order() -> None:
    """One element is held back while later ones come: the rest has it, and has none of those twice."""
    held = threading.Event()

    def dataset(hold: bool) -> Any:
        def function(x: Any) -> Any:
            if hold and x == 40:
                assert held.wait(DEADLINE_S)
            return x

        made = D.range(100).map(function, num_parallel_calls=4, deterministic=False)
        return made.with_options(ps.Options(resume_changed=True))  # whether it holds one back makes another function

    seen: list[int] = []
    with dataset(hold=True).run() as run:
        while len([x for x in seen if x > 40]) < 12:
            seen.append(int(next(run)))
            if seen[-1] > 40:
                with dataset(hold=False).run() as again:
                    again.load_state_dict(run.state_dict())
                    assert sorted(seen + [int(x) for x in again]) == list(range(100))
        held.set()
    assert 40 not in seen


@pytest.mark.parametrize(
    "above",
    [
        lambda ds: ds.filter(lambda x: True).shuffle(7, seed=1),
        lambda ds: ds.batch(7).unbatch(),
        lambda ds: ds.map(lambda x: x, num_parallel_calls=3, deterministic=False),
        lambda ds: ds.batch(1).map(lambda x: x[0], num_parallel_calls=3, deterministic=False).prefetch(2),
    ],
)
def test_the_order_is_kept_where_it_must_be_read_again(above: Any) -> None:
    pause = threading.Event()

    def uneven(x: Any) -> Any:
        if x % 5 == 0:
            pause.wait(0.0005)
        return x * x

    def dataset() -> Any:
        return above(D.range(60).map(uneven, num_parallel_calls=4, deterministic=False))

    with dataset().run() as run:
        seen: list[int] = []
        for x in run:
            seen.append(int(x))
            if len(seen) % 7 == 3:
                with dataset().run() as again:
                    again.load_state_dict(run.state_dict())
                    assert sorted(seen + [int(x) for x in again]) == [i * i for i in range(60)]


@pytest.mark.parametrize("build", [lambda d: d, lambda d: d.prefetch(20)], ids=["map", "map and prefetch"])
def test_an_error_of_a_piece_that_is_not_all_delivered_keeps_no_run_alive(
    build: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.runtime.run._BLOCK_NS", 0)  # elements are asked for one by one
    monkeypatch.setattr("penstock.runtime.backends.pieces.Pieces.size", lambda self, demand: 6)

    def fail_on_eight(x: Any) -> Any:
        if x == 8:
            raise Bad
        return x

    run = build(D.range(40).map(fail_on_eight, num_parallel_calls=2)).run()
    found = []
    for _ in range(10):
        try:
            found.append(int(next(run)))
        except Bad:
            found.append(-1)
    assert found == [0, 1, 2, 3, 4, 5, 6, 7, -1, 9]
    threads = our_threads()
    del run
    gc.collect()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
