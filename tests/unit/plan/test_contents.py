"""Contents: equal for equal values, in every process; another where anything in them is."""

import collections
import dataclasses
import datetime
import decimal
import functools
import importlib
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan import contents
from penstock.plan.array_sample import sampled
from penstock.plan.contents import digest


@dataclasses.dataclass
class Config:
    mean: Any


class Plain:
    def __init__(self, mean: Any) -> None:
        self.mean = mean

    def apply(self, x: Any) -> Any:
        return x - self.mean


class Slotted:
    __slots__ = ("mean",)

    def __init__(self, mean: Any) -> None:
        self.mean = mean


Pair = collections.namedtuple("Pair", "a b")


def closure(mean: Any) -> Any:
    return lambda x: x - mean


def default(mean: Any) -> Any:
    return lambda x, m=mean: x - m


def keyword(mean: Any) -> Any:
    return lambda x, *, m=mean: x - m


HOLDERS: dict[str, Any] = {
    "itself": lambda a: a,
    "list": lambda a: [1, [a]],
    "dict": lambda a: {"k": {"mean": a}},
    "tuple": lambda a: (a, "x"),
    "namedtuple": lambda a: Pair(1, a),
    "deque": lambda a: collections.deque([a]),
    "dataclass": Config,
    "namespace": lambda a: types.SimpleNamespace(mean=a),
    "object": Plain,
    "slots": Slotted,
    "method": lambda a: Plain(a).apply,
    "closure": closure,
    "closure in closure": lambda a: closure(closure(a)),
    "object in closure": lambda a: closure(Plain(a)),
    "default": default,
    "keyword default": keyword,
    "partial": lambda a: functools.partial(max, a),
    "partial by name": lambda a: functools.partial(max, key=a),
    "method in C": lambda a: np.asarray(a).take,
    "lru_cache": lambda a: functools.lru_cache(closure(a)),
    "vectorize": lambda a: np.vectorize(closure(a)),
    "dataset": lambda a: ps.Dataset.range(3).map(closure(a)),
    "object array": lambda a: np.array([None, a], dtype=object),
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_an_array_is_found_wherever_it_is(hold: Any) -> None:
    mean = np.arange(6.0).reshape(2, 3)
    other = mean.copy()
    other[1, 2] += 1
    assert digest(hold(mean)) == digest(hold(mean.copy()))
    assert digest(hold(mean)) != digest(hold(other))


ARRAYS = {
    "text": np.array(["a", "bb"]),
    "bytes": np.array([b"a", b"bb"]),
    "objects": np.array([1, "a", None, 2.5], dtype=object),
    "records": np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "scalar": np.array(5),
    "empty": np.zeros((0, 3)),
    "no width": np.zeros(2, "U0"),
    "masked": np.ma.masked_array([1, 2], [False, True]),
    "repeated": np.broadcast_to(1.5, (1000, 300)),
    "large": np.arange(20_000_000, dtype=np.float32),
}


def test_arrays_differ_from_each_other() -> None:
    found = {name: digest(array) for name, array in ARRAYS.items()}
    assert len(set(found.values())) == len(ARRAYS)
    assert found == {name: digest(array.copy()) for name, array in ARRAYS.items()}


def test_how_an_array_lies_in_memory_does_not_matter() -> None:
    array = np.arange(400_000).reshape(400, 1000)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(np.repeat(array, 2, axis=1)[:, ::2])
    assert digest(array) != digest(array.T)
    assert digest(array) != digest(array.astype(np.int32))
    assert digest(array) != digest(array.ravel())


def test_of_large_arrays_a_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "WHOLE_BYTES", 1_000_000)
    array = np.zeros((1000, 1000), np.uint8)
    assert array.nbytes == 1_000_000
    changed = array.copy()
    changed[0, 1] = 1
    assert digest(array) != digest(changed)
    monkeypatch.setattr(contents, "WHOLE_BYTES", 999_999)
    assert digest(array) == digest(changed)
    changed[1] = 1  # a thousand elements in a row, and every 61st is looked at
    assert digest(array) != digest(changed)
    changed = array.copy()
    changed[-1, -1] = 1
    assert digest(array) != digest(changed)


def test_a_sample_of_long_elements_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "WHOLE_BYTES", 100_000)
    one, few = np.array(b"x" * 200_000), np.array([b"x" * 200_000, b"y"] * 20)
    many = np.array([b"x" * 1000] * 1000)
    for array in (one, few, many):
        assert digest(array) == digest(array.copy())
        assert sampled(array, 100_000, 16_384, 1).nbytes <= max(100_000, array.itemsize)
    assert digest(one) != digest(np.array(b"z" * 200_000))
    assert digest(many) != digest(np.array([b"x" * 999 + b"y"] * 1000))


def test_plain_values() -> None:
    values: list[Any] = [1, 1.0, "1", b"1", True, None, np.int64(1), np.float32(1), 1j, (1,), [1], {1}, frozenset({1})]
    values += [{1: 1}, {"a": 1}, [1, 2], [[1], 2], [[1, 2]], [1, None], range(1), slice(1), Path("1"), np.dtype("i4")]
    values += [datetime.date(2020, 1, 1), datetime.timedelta(1), decimal.Decimal(1), ..., int, np, "", [], (), ["", ""]]
    values += [["a, b"], ["a", "b"], lambda x: x, lambda *x: x, lambda **x: x]
    assert len({digest(value) for value in values}) == len(values)


def test_equal_dicts_are_the_same_in_any_order() -> None:
    for one, other in (({"a": 1, "b": [2]}, {"b": [2], "a": 1}), ({1: "x", None: "y"}, {None: "y", 1: "x"})):
        assert digest(one) == digest(other)
        assert digest(closure(one)) == digest(closure(other))
        assert digest(collections.OrderedDict(one)) != digest(collections.OrderedDict(other))
    assert digest({"a": 1, "b": 2}) != digest({"a": 2, "b": 1})


def test_docstrings_comments_and_lines_do_not_matter() -> None:
    def plain(x: Any) -> Any:
        if x is None:
            return None
        return x * 2

    def told(x: Any) -> Any:
        """Doubles it."""
        if x is None:
            return None

        return x * 2  # twice

    told.__qualname__ = plain.__qualname__
    assert digest(plain) == digest(told)


def test_where_a_function_takes_notes_is_not_what_it_is() -> None:
    class Noting:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def __call__(self, x: Any) -> Any:
            self.seen.append(x)
            return x

    notes: list[Any] = []
    buffer = np.zeros(3)
    function = lambda x: notes.append(x) or x  # noqa: E731
    filling = lambda x: np.copyto(buffer, x) or buffer.sum()  # noqa: E731
    noting, given = Noting(), notes.append
    before = [digest(function), digest(filling), digest(noting), digest(given)]
    function(np.ones(3))
    filling(np.ones(3))
    noting(np.ones(3))
    assert [digest(function), digest(filling), digest(noting), digest(given)] == before


def test_a_list_that_is_filled_when_an_object_is_made_is_what_it_is() -> None:
    class Words:
        def __init__(self, words: list[str]) -> None:
            self.words: list[str] = []
            for word in words:
                self.words.append(word)

        def __call__(self, x: Any) -> Any:
            return self.words[x]

    assert digest(Words(["a"])) != digest(Words(["b"]))


def test_what_contains_itself() -> None:
    def made(end: int) -> Any:
        ring: list[Any] = [1, {}]
        ring[1]["ring"] = ring
        ring.append(end)

        def again(x: Any) -> Any:
            return again(x - 1) if x > end else ring

        return again

    assert digest(made(1)) == digest(made(1)) != digest(made(2))
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert digest(deep) == digest([deep][0])


def test_objects_that_nothing_is_known_of_count_by_type() -> None:
    assert digest(threading.Lock()) == digest(threading.Lock()) != digest(object())
    assert digest(np.random.default_rng(1)) == digest(np.random.default_rng(2))


def test_pandas() -> None:
    pandas = importlib.import_module("pandas")

    def table(**changed: Any) -> Any:
        columns = {"a": [1, 2], "b": ["x", "y"], "t": pandas.to_datetime(["2020", "2021"])}
        return pandas.DataFrame({**columns, **changed})

    tables = [table(), table(a=[1, 3]), table(b=["x", "z"]), table(t=pandas.to_datetime(["2020", "2022"]))]
    tables += [table().rename(columns={"a": "c"}), table().set_index(pandas.Index([5, 6])), table()["a"], table()["b"]]
    assert len({digest(each) for each in tables}) == len(tables)
    assert digest(table()) == digest(table().copy())


def test_torch() -> None:
    torch = importlib.import_module("torch")
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.arange(6).to(dtype).reshape(2, 3)
        assert digest(tensor) == digest(tensor.clone()) != digest(tensor + 1)
    layer = torch.nn.Linear(2, 2)
    before = digest(layer)
    assert digest(layer) == before
    with torch.no_grad():
        layer.weight[0, 0] += 1
    assert digest(layer) != before


def test_an_array_in_a_large_file_is_not_read() -> None:
    class Far:
        shape, dtype, nbytes = (10**12,), np.dtype("f8"), 8 * 10**12

        def __array__(self) -> Any:
            raise AssertionError("it was read")

    assert digest(Far()) == digest(Far())


PROGRAM = """
import numpy as np, dataclasses, pathlib
from penstock.plan.contents import digest
@dataclasses.dataclass
class Config:
    names: set
    mean: object
    def __call__(self, x): return x - self.mean
class Plain:
    def __init__(self): self.lock, self.table = object(), {"a": np.arange(3), "b": frozenset("xyz")}
plain = Plain()
print(digest([Config({"a", "b", "c"}, np.array(["q", None, 1.5], object)), plain, lambda x: plain, pathlib.Path("a")]))
"""


def test_other_processes_agree() -> None:
    found = {
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2", "3"))
    }
    assert len(found) == 1
