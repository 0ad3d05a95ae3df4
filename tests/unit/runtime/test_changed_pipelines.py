"""Positions of pipelines that changed since: refused, and what changed is named."""

import contextlib
import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import Dataset as D
from penstock.errors import StateError


def double(x: Any) -> Any:
    return x * 2


# Pairs of pipelines that differ in one thing, and what is said of it.
PAIRS: dict[str, tuple[Any, Any, str]] = {
    "another seed": (
        D.range(10).shuffle(4, seed=1),
        D.range(10).shuffle(4, seed=2),
        r"operator 1 was shuffle\(4, seed=1\) and is shuffle\(4, seed=2\)",
    ),
    "another buffer": (
        D.range(10).shuffle(4, seed=1),
        D.range(10).shuffle(5, seed=1),
        r"operator 1 was shuffle\(4, seed=1\) and is shuffle\(5, seed=1\)",
    ),
    "arrays of another shape": (
        D.from_tensor_slices(np.zeros((4, 2))),
        D.from_tensor_slices(np.zeros((5, 2))),
        r"operator 0 was from_tensor_slices\(4×2 float64\) and is from_tensor_slices\(5×2 float64\)",
    ),
    "another option": (
        D.range(10).batch(4),
        D.range(10).batch(4, drop_remainder=True),
        r"operator 1 was batch\(4\) and is batch\(4, drop_remainder=True\)",
    ),
    "operators that changed places": (
        D.range(10).take(5).repeat(2),
        D.range(10).repeat(2).take(5),
        r"operator 1 was take\(5\) and is repeat\(2\)",
    ),
    "one input of several": (
        D.zip((D.range(3), D.range(4))),
        D.zip((D.range(3), D.range(5))),
        r"operator 1 was range\(4\) and is range\(5\)",
    ),
}


@pytest.mark.parametrize("before, after, text", PAIRS.values(), ids=PAIRS)
def test_what_changed_is_named_with_its_operator(before: Any, after: Any, text: str) -> None:
    with before.run() as run:
        next(run)
        state = run.state_dict()
    with after.run() as other, pytest.raises(StateError, match=text):
        other.load_state_dict(state)


def test_what_only_decides_how_a_pipeline_runs_may_change() -> None:
    with D.range(10).map(double).prefetch(2).run(memory="1MB") as run:
        next(run)
        state = run.state_dict()
    with D.range(10).map(double, num_parallel_calls=2).prefetch(5).run(memory="2MB") as other:
        other.load_state_dict(state)
        assert next(other) == 2


class Scaled:
    """A function with something to remember, and something that it counts."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor
        self.calls = 0
        self.by_value: dict[int, int] = {}

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        self.by_value[int(x)] = self.calls
        return x * self.factor

    def other(self, x: Any) -> Any:
        return x * self.factor


def scaled_by(factor: Any) -> Any:
    return lambda x: x * factor


def inner_scaled_by(factor: Any) -> Any:
    scale = scaled_by(factor)
    return lambda x: scale(x)


def scaled_through(scale: Any) -> Any:
    return lambda x: scale(x)


def with_default(factor: Any) -> Any:
    def scale(x: Any, by: Any = factor) -> Any:
        return x * by

    return scale


LARGE = np.zeros((300, 1000))
LARGER = LARGE.copy()
LARGER[100:200] = 1
NUMBERS = np.arange(8.0)
MAPS = {
    "a captured number": (scaled_by(2), scaled_by(3), r"operator 1, map\(λ\) at test_\w*.py:\d+, has another "
                          "captured factor: it was 2 and is 3"),
    "a captured array": (scaled_by(np.arange(8.0)), scaled_by(np.ones(8)), "another captured factor"),
    "a captured function's number": (inner_scaled_by(2), inner_scaled_by(3), "another captured scale"),
    "a default": (with_default(2), with_default(3), "another captured by: it was 2 and is 3"),
    "an attribute": (Scaled(2), Scaled(3), "another captured factor: it was 2 and is 3"),
    "an attribute of a method's": (Scaled(2).other, Scaled(3).other, "another captured factor"),
    "an argument": (functools.partial(np.multiply, 2), functools.partial(np.multiply, 3), "another argument 0"),
    "a captured function's argument": (
        scaled_through(functools.partial(np.multiply, 2)),
        scaled_through(functools.partial(np.multiply, 3)),
        "another captured scale",
    ),
    "other code": (lambda x: x * 2, lambda x: x * 2 + 1, "has a function with other code"),
}  # fmt: skip


def saved(dataset: Any) -> Any:
    with dataset.run() as run:
        next(run)
        return json.loads(json.dumps(run.state_dict()))


@pytest.mark.parametrize("before, after, text", MAPS.values(), ids=MAPS)
def test_another_function_is_refused_unless_it_is_accepted(before: Any, after: Any, text: str) -> None:
    state = saved(D.range(8).map(before))
    changed = D.range(8).map(after)
    with changed.run() as run, pytest.raises(StateError, match=text + r".*Options\(resume_changed=True\)"):
        run.load_state_dict(state)
    with changed.with_options(ps.Options(resume_changed=True)).run() as run:
        run.load_state_dict(state)
        next(run)


@pytest.mark.parametrize("before, after", [(NUMBERS, NUMBERS + 1), (LARGE, LARGER), (LARGE, LARGE + 1)])
def test_other_data_are_refused(before: Any, after: Any) -> None:
    state = saved(D.from_tensor_slices((before, np.arange(len(before)))).batch(2))
    for data in (before, before.copy(), np.asfortranarray(before)):
        with D.from_tensor_slices((data, np.arange(len(data)))).batch(2).run() as run:
            run.load_state_dict(state)
    changed, text = D.from_tensor_slices((after, np.arange(len(after)))).batch(2), "operator 0, from_tensor_slices"
    with changed.run() as run, pytest.raises(StateError, match=rf"{text}\(.* has other data"):
        run.load_state_dict(state)


def test_what_functions_write_to_is_not_what_they_are() -> None:
    def counting() -> Any:
        count, seen, totals, buffer = 0, [], {}, np.zeros(())

        def count_up(x: Any) -> Any:
            nonlocal count
            count += 1
            seen.append(count)
            totals[count] = x
            return np.multiply(x, 2, out=buffer).copy()

        return count_up

    for make in (counting, lambda: Scaled(2), lambda: Scaled(2).__call__):
        state = saved(D.range(8).map(make()))
        with D.range(8).map(make()).run() as run:
            run.load_state_dict(state)
            assert next(run) == 2


def fill(buffer: np.ndarray, x: Any) -> np.ndarray:
    buffer[:] = x
    return buffer


class Filling:
    def __init__(self, buffer: np.ndarray) -> None:
        self.buffer = buffer
        self.buffer.fill(0)

    def __call__(self, x: Any) -> Any:
        np.copyto(self.buffer, x)
        return self.buffer.sum()


def by_default(b: np.ndarray) -> Any:
    def add(x: Any, buffer: np.ndarray = b) -> Any:
        buffer += x
        return buffer.sum()

    return add


# Functions that write to an array which they have captured, each in another way.
BUFFERED: dict[str, Any] = {
    "copyto": lambda b: lambda x: np.copyto(b, x) or b.sum(),
    "copyto, a part": lambda b: lambda x: np.copyto(b[:2], x) or b.sum(),
    "fill": lambda b: lambda x: b.fill(x) or b.sum(),
    "fill a part": lambda b: lambda x: b[1:].fill(x) or b.sum(),
    "sort": lambda b: lambda x: (b.__setitem__(0, x), b.sort(), b.sum())[-1],
    "put": lambda b: lambda x: np.put(b, [0], x) or b.sum(),
    "putmask": lambda b: lambda x: np.putmask(b, b < 3, x) or b.sum(),
    "at": lambda b: lambda x: np.add.at(b, [0, 0], x) or b.sum(),
    "out": lambda b: lambda x: np.add(x, 1, out=b).sum(),
    "third of a ufunc": lambda b: lambda x: np.add(np.sqrt(x + 1.0), 1, b).sum(),
    "fourth of clip": lambda b: lambda x: np.clip(np.full(4, x + 0.0), 0, 3, b).sum(),
    "a function": lambda b: lambda x: fill(b, x).sum(),
    "a partial": lambda b: functools.partial(fill, b),
    "a default": by_default,
    "an attribute": Filling,
}


@pytest.mark.parametrize("make", BUFFERED.values(), ids=BUFFERED)
def test_arrays_that_a_function_writes_to_are_not_compared(make: Any) -> None:
    def dataset(buffer: np.ndarray) -> Any:
        return D.range(8).map(make(buffer))

    state = saved(dataset(np.full(4, 7.0)))
    with dataset(np.zeros(4)).run() as run:
        run.load_state_dict(state)
        next(run)


def test_arrays_that_are_only_given_to_functions_are_compared() -> None:
    def reads(mean: np.ndarray) -> Any:
        return lambda x: np.add(np.sort(mean), x) + np.clip(mean, 0, 1) + np.dot(mean, mean) + np.where(x, mean, mean)

    state = saved(D.range(8).map(reads(np.zeros(4))))
    with D.range(8).map(reads(np.ones(4))).run() as run, pytest.raises(StateError, match="another captured mean"):
        run.load_state_dict(state)


def test_objects_that_nothing_is_known_of_are_taken_as_unchanged() -> None:
    class Opaque:
        def __init__(self, value: int) -> None:
            self.value = value

    def times(opaque: Any) -> Any:
        return lambda x: x * opaque.value

    state = saved(D.range(8).map(times(Opaque(2))))
    with D.range(8).map(times(Opaque(3))).run() as run:
        run.load_state_dict(state)


def test_processes_that_share_a_dataset_may_have_captured_their_own_numbers() -> None:
    def part(rank: int, size: int = 2, factor: int = 1) -> Any:
        return D.range(16).distribute(size, rank).map(lambda x: x + rank * factor)

    state = saved(part(0))
    for other in (part(1), part(2, 3)):
        with other.run() as run:
            run.load_state_dict(state)
    with part(0, factor=2).run() as run, pytest.raises(StateError, match="captured factor: it was 1 and is 2"):
        run.load_state_dict(state)


PROGRAM = """
import json, numpy as np, penstock as ps
def made(k, names):
    return ps.Dataset.from_tensor_slices(np.arange(20.0)).map(lambda x: x * k if names else x).batch(2)
run = made(2.5, {"a": [1, b"x"], "b": {3, "y", None}}).run()
next(run)
print(json.dumps(run.state_dict()))
"""


def test_other_processes_remember_the_same_wherever_lines_stand() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", "\n" * lines + PROGRAM], capture_output=True, text=True, check=True, timeout=120
        ).stdout
        for lines in (0, 3)
    ]
    assert told[0] == told[1]
    assert json.loads(told[0])["contents"][1].keys() == {"code", "python", "captured k", "captured names"}


@pytest.mark.parametrize("long", [np.array(b"x" * 2_000_000), np.array([b"x" * 2_000_000] * 3)])
def test_a_few_long_strings_are_remembered(long: np.ndarray) -> None:
    def lengths(text: np.ndarray) -> Any:
        return lambda x: x + text.size

    state = saved(D.range(8).map(lengths(long)))
    with D.range(8).map(lengths(long.copy())).run() as run:
        run.load_state_dict(state)
    other = np.full(long.shape, b"y" * 2_000_000)
    with D.range(8).map(lengths(other)).run() as run, pytest.raises(StateError, match="another captured text"):
        run.load_state_dict(state)


def test_a_position_without_what_is_remembered_still_loads() -> None:
    state = saved(D.range(8).map(scaled_by(2)))
    del state["contents"]
    with D.range(8).map(scaled_by(3)).run() as run:
        run.load_state_dict(state)
        assert next(run) == 3


def test_what_is_remembered_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = D.range(8).map(scaled_by(2)).batch(2)
    with dataset.run() as run:
        state = run.state_dict()
        monkeypatch.setattr("penstock.plan.remembered._of_operator", None)
        assert run.state_dict() == state
    with dataset.run() as run:
        run.load_state_dict(state)


@pytest.mark.parametrize("field, value, why", [
    ("epoch", None, "epoch: expected an integer from 0 on, got None"),
    ("epoch", -1, "epoch: expected an integer from 0 on, got -1"),
    ("epoch", 0.5, "epoch: expected an integer from 0 on, got 0.5"),
    ("epoch", True, "epoch: expected an integer from 0 on, got True"),
    ("plan", None, "plan: expected a list"),
    ("seeds", 3, "seeds: expected a list"),
    ("seeds", [None], "seeds: expected a list"),
    ("contents", [3], "contents: expected a list"),
    ("contents", [{"captured k": 3}] * 3, "contents: expected text, got {'captured k': 3}"),
    ("contents", [{}, {"code": None}], "contents: expected text"),
    ("parts", [[1]], "parts: expected pairs of numbers"),
    ("delivered", "x", "delivered: expected a number"),
    ("garbage", 1, "no position has 'garbage'"),
    ("position", None, "expected"),
    ("position", [None, "x"], "expected a saved position with 2 parts"),
])  # fmt: skip
def test_a_damaged_position_is_refused(field: str, value: Any, why: str) -> None:
    state = saved(D.range(8).shuffle().batch(2))
    with D.range(8).shuffle().batch(2).run() as run, pytest.raises(StateError, match=why):
        run.load_state_dict({**state, field: value})


def numbers() -> Any:
    return D.from_generator(lambda: iter(range(20)))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("value", [-1, 3, 1000])
@pytest.mark.parametrize("make", [
    lambda: D.range(5).flat_map(lambda i: D.range(4)),
    lambda: D.range(5).interleave(lambda i: D.range(4), cycle_length=3, block_length=2),
    lambda: numbers().window(4).flat_map(lambda w: w),
    lambda: numbers().shuffle(6, seed=1),
    lambda: numbers().distribute(2, 1, "pad").batch(2),
], ids=["flat_map", "interleave", "window", "shuffle", "distribute"])  # fmt: skip
def test_no_number_in_a_position_makes_a_run_endless(make: Callable[[], Any], value: int) -> None:
    with make().run() as run:
        next(run)
        next(run)
        state = json.loads(json.dumps(run.state_dict()))
    position = json.dumps(state["position"])
    for number in re.finditer(r"\b\d+\b", position):
        text = f"{position[: number.start()]}{value}{position[number.end() :]}"
        with make().run() as damaged, contextlib.suppress(StateError):
            damaged.load_state_dict({**state, "position": json.loads(text)})
            assert sum(1 for _ in itertools.islice(damaged, 100)) < 100


def of_processes(num_processes: int) -> Any:
    return D.range(60).distribute(num_processes, 0).shuffle(9, seed=1).batch(4)


def of_values(count: int) -> Any:
    return D.from_generator(lambda: iter(range(count))).shuffle(3).batch(2).prefetch(1)


@pytest.mark.parametrize("before, after", [
    (of_processes(2), of_processes(3)),
    (of_values(20), of_values(10).with_options(ps.Options(resume_changed=True))),
], ids=["another number of processes", "values that are gone"])  # fmt: skip
@pytest.mark.parametrize("num_read", [0, 2, 99])
def test_a_run_stays_where_it_was_when_a_position_is_refused(before: Any, after: Any, num_read: int) -> None:
    with before.run(epoch=7) as run:
        assert len([*itertools.islice(run, 6)]) == 6
        state = run.state_dict()
    expected = [batch.tolist() for batch in after.run(epoch=0)]
    with after.run(epoch=0) as run:
        seen = [batch.tolist() for batch in itertools.islice(run, num_read)]
        position = run.state_dict()
        with pytest.raises(StateError, match=r"the saved position is of 2 processes|the input ends at element"):
            run.load_state_dict(state)
        assert run.state_dict() == position
        assert (run.epoch, after.next_epoch) == (0, 1)
        seen += [batch.tolist() for batch in run]
        assert seen == expected
    assert run.ledger.charged_bytes == 0
