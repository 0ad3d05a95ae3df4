"""Positions of pipelines that did not change: never refused, whatever their functions keep, count and write to."""

import collections
import functools
import heapq
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import penstock as ps
from penstock import Dataset as D
from penstock.errors import StateError

NUMBERS = itertools.count()


class Trainer:
    """Has much beside what its function reads, and another number each time."""

    def __init__(self) -> None:
        self.mean = 2
        self.run_number = next(NUMBERS)
        self.counts: dict[str, int] = {}

    @property
    def shift(self) -> int:
        return self.mean

    def scaled(self, x: Any) -> Any:
        return (x - self.mean) * self.shift

    def __call__(self, x: Any) -> Any:
        return self.scaled(x)

    def __str__(self) -> str:
        return f"trainer {self.run_number}"


class Counting:
    """Counts in ways that its code does not tell."""

    def __init__(self) -> None:
        self.calls, self.factor = 0, 3

    def __call__(self, x: Any) -> Any:
        setattr(self, "calls", self.calls + 1)  # noqa: B010
        vars(self)["last"] = self.calls
        return x * self.factor


def pushing() -> Any:
    best: list[int] = []
    return lambda x: heapq.heappush(best, int(x)) or x


def grouping() -> Any:
    groups: Any = collections.defaultdict(list)
    return lambda x: x + len(groups[int(x)])


def another_name() -> Any:
    seen: list[int] = []

    def noted(x: Any) -> Any:
        same = seen
        same += [int(x)]
        return x

    return noted


def counting_inside() -> Any:
    count = 0

    def counted(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    return lambda x: counted(x)


def compiled() -> Any:
    offset = 2
    function = numba.njit(lambda x: x + offset)
    return lambda x: function(x)


def padded(dtype: Any) -> np.ndarray:
    """An array with anything between its values."""
    places = np.random.default_rng(next(NUMBERS)).integers(0, 256, (8, np.dtype(dtype).itemsize), np.uint8)
    array = places.view(dtype)[:, 0]
    if array.dtype.names:
        for name in array.dtype.names:
            array[name] = 1
    else:
        array[:] = np.ones(8)  # converted: no more bytes are written than it has
    return array


def over(table: np.ndarray) -> Any:
    return lambda x: x + len(table)


UNCHANGED: dict[str, Callable[[], Any]] = {
    "a method": lambda: Trainer().scaled,
    "an object": Trainer,
    "a method behind a function": lambda: functools.partial(lambda scaled, x: scaled(x), Trainer().scaled),
    "setattr": Counting,
    "a list that others add to": pushing,
    "a dict that reading adds to": grouping,
    "a list by another name": another_name,
    "a function that counts": counting_inside,
    "numba's": lambda: numba.njit(lambda x: x + 1),
    "a function that calls numba's": compiled,
    "bytes between fields": lambda: over(padded(np.dtype([("a", "i1"), ("b", "f8")], align=True))),
    "bytes in long doubles": lambda: over(padded(np.longdouble)),
    "bytes in complex long doubles": lambda: over(padded(np.clongdouble)),
}


@pytest.mark.parametrize("make", UNCHANGED.values(), ids=UNCHANGED)
@pytest.mark.parametrize("has_seed", [True, False])
def test_an_unchanged_pipeline_goes_on(make: Callable[[], Any], has_seed: bool) -> None:
    def dataset() -> Any:
        return D.range(8).map(make()).shuffle(seed=1 if has_seed else None)

    with dataset().run() as run:
        next(run)
        first = json.loads(json.dumps(run.state_dict()))
        rest = list(run)
    with dataset().run() as run:
        run.load_state_dict(first)
        assert next(run) == rest[0]
        second = run.state_dict()
    with dataset().run() as run:
        run.load_state_dict(second)
        assert list(run) == rest[1:]


def test_a_function_that_was_called_in_another_dataset_goes_on() -> None:
    counting = Counting()
    list(D.range(8).map(counting))
    with D.range(8).map(counting).run() as run:
        next(run)
        state = run.state_dict()
    D.range(8).map(Counting()).run().load_state_dict(state)


def test_what_was_filled_in_an_earlier_run_goes_on() -> None:
    def filling() -> Any:
        names: Any = collections.defaultdict(int)
        return D.range(8).map(lambda x: x + names[int(x)])

    for reads in (lambda ds: list(ds), lambda ds: list(itertools.islice(ds, 8)), lambda ds: ds.element_spec):
        dataset = filling()
        reads(dataset)
        with dataset.run() as run:
            state = run.state_dict()
        filling().run().load_state_dict(state)


def test_what_others_change_between_runs_is_another_function() -> None:
    counting = Counting()
    with D.range(8).map(counting).run() as run:
        next(run)
        state = run.state_dict()
    counting.factor = 4
    with D.range(8).map(counting).run() as run, pytest.raises(StateError, match="captured factor: it was 3 and is 4"):
        run.load_state_dict(state)


def test_attributes_that_a_method_reads_count() -> None:
    def made(mean: int) -> Any:
        trainer = Trainer()
        trainer.mean = mean
        return D.range(8).map(trainer.scaled)

    with made(2).run() as run:
        next(run)
        state = run.state_dict()
    with made(3).run() as run, pytest.raises(StateError, match="another captured mean: it was 2 and is 3"):
        run.load_state_dict(state)


def test_a_file_of_a_cache_knows_what_a_method_reads(tmp_path: Any) -> None:
    for _ in range(2):
        assert list(D.range(8).map(Trainer().scaled).cache(str(tmp_path / "kept")))[4] == 4


def test_dicts_in_another_order_are_the_same_source() -> None:
    def made(keys: str) -> Any:
        columns = {key: np.full(4, ord(key), dtype) for key, dtype in zip("abc", ("i4", "f8", "u1"), strict=True)}
        return D.from_tensor_slices(({key: columns[key] for key in keys}, np.arange(4)))

    with made("abc").run() as run:
        next(run)
        state = run.state_dict()
    with made("cab").run() as run:
        run.load_state_dict(state)
        assert int(next(run)[1]) == 1


PROGRAM = """
import json, numpy as np, penstock as ps
def made(words, order):
    names = {word: len(word) for word in words}
    columns = {word: np.full(20, len(word)) for word in words}
    return ps.Dataset.from_tensor_slices(columns).map(lambda x: x if names or x in {"a", "b", "c", ("d", "e")} else 0)
run = made({"alpha", "be", "gamma", "d"}, 0).run()
next(run)
print(json.dumps(run.state_dict()))
"""


def test_other_processes_have_sets_in_another_order() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.timeout(60)
def test_functions_that_refer_to_each_other_are_looked_at_once() -> None:
    functions: list[Any] = []

    def referring(number: int) -> Any:
        a, b, c, d, e, f = functions[:6] if number > 5 else [None] * 6
        return lambda x: (a, b, c, d, e, f, number) and x

    functions += [referring(0) for _ in range(6)]
    for _ in range(20):  # each refers to six that refer to six
        functions[:0] = [referring(6) for _ in range(6)]
    with D.range(8).map(functions[0]).run() as run:
        run.state_dict()


def test_long_nested_lists_take_no_long_time() -> None:
    rows = [[float(i)] * 2000 for i in range(1000)]
    start = time.perf_counter()
    with D.range(8).map(lambda x: x + len(rows)).run() as run:
        state = run.state_dict()
    assert time.perf_counter() - start < 2
    assert "captured rows" in state["contents"][1]
    rows[500] = [0.0] * 1999
    with D.range(8).map(lambda x: x + len(rows)).run() as run, pytest.raises(StateError, match="another captured rows"):
        run.load_state_dict(state)


def test_what_an_object_says_of_itself_is_not_in_a_position() -> None:
    assert ps.Dataset.range(3).map(Trainer()).run().state_dict()["plan"][1] == "map(Trainer)"


def test_what_cannot_be_looked_at_keeps_no_run_from_beginning_or_ending() -> None:
    """Such as a dict to which another thread writes just then."""

    class Busy(dict[int, int]):
        def items(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    seen = Busy()
    ds = ps.Dataset.range(5).map(lambda x: seen.get(int(x), x))
    assert [int(x) for x in ds] == [0, 1, 2, 3, 4]
    assert [int(x) for x in ds] == [0, 1, 2, 3, 4]
