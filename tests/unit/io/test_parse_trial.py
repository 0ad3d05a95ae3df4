"""Functions on trial may parse, pick and rearrange; whatever else they do is done for every record."""

import functools
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io.parse_trial import parsing_of
from penstock.testing import same

Fixed = ps.io.FixedLenFeature
SPEC = {"x": Fixed([4], "float32"), "y": Fixed([], "int64"), "z": Fixed([4], "float32")}
NUM_RECORDS = 12
KEY = "x"
KEYS = ("x", "y")
COUNT = 0
LAST: Any = None

Function = Callable[[Any], Any]


def parse(record: Any) -> Any:
    return ps.io.parse_single_example(record, SPEC)


@pytest.fixture
def records(tmp_path: Path) -> Any:
    with ps.io.TFRecordWriter(tmp_path / "a") as writer:
        for i in range(NUM_RECORDS):
            x = np.arange(4, dtype=np.float32) + i
            writer.write(ps.io.encode_example({"x": x, "y": i, "z": -x}))
    return ps.TFRecordDataset(tmp_path / "a")


# --- recognised ---


class Parser:
    keys = ("x", "z")

    def __init__(self) -> None:
        self.spec, self.label = SPEC, "y"

    def __call__(self, record: Any) -> Any:
        return self.picked(ps.io.parse_single_example(record, self.spec))

    def picked(self, features: Any) -> Any:
        return self.renamed(features), features[self.label]

    @staticmethod
    def renamed(features: Any) -> Any:
        return {f"{key}_new": features[key] for key in Parser.keys}

    @classmethod
    def parsed(cls, record: Any) -> Any:
        return cls()(record) if False else parse(record)


def with_defaults(record: Any, keys: Any = None, *, last: str = "y") -> Any:
    features = parse(record)
    picked = []
    for key in KEYS if keys is None else keys:
        picked.append(features[key])
    features["last"] = features.pop(last)
    del features["x"]
    return (*picked, features)


def wrapped(function: Function) -> Function:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def forgiving(record: Any) -> Any:
    try:
        return parse(record)
    except ps.errors.RecordError:
        return None


RECOGNISED: dict[str, Function] = {
    "lambda": lambda r: ps.io.parse_single_example(r, SPEC),
    "by name": lambda r: ps.io.parse_single_example(serialized=r, features=SPEC),
    "a spec of its own": lambda r: ps.io.parse_single_example(r, {"x": Fixed([4], np.float32), "y": SPEC["y"]}),
    "the function itself, its spec bound": functools.partial(ps.io.parse_single_example, features=SPEC),
    "an argument bound": functools.partial(with_defaults, keys=("z",)),
    "defaults": with_defaults,
    "a key outside": lambda r: parse(r)[KEY],
    "keys outside": lambda r: [parse(r)[key] for key in KEYS[:1]],
    "added to": lambda r: {**(f := parse(r)), "w": f["x"]},
    "without a key": lambda r: {key: value for key, value in parse(r).items() if key != "y"},
    "an object": Parser(),
    "a bound method": Parser().__call__,
    "a class method": Parser.parsed,
    "errors caught": forgiving,
    "wrapped": wrapped(parse),
    "sorted": lambda r: dict(sorted(parse(r).items(), key=lambda item: item[0], reverse=True)),
    "a function inside": lambda r: (lambda f: (f["x"], f["y"]))(parse(r)),
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_what_parses_and_rearranges_is_recognised(records: Any, name: str) -> None:
    function = RECOGNISED[name]
    assert parsing_of(function) is not None
    ours, written = list(records.map(function).batch(5)), list(records.map(function, stateful=True).batch(5))
    assert len(ours) == len(written) == 3
    assert all(map(same, ours, written))


# --- opaque ---


def flipping() -> Function:
    generator = random.Random(7)

    def flip(record: Any) -> Any:
        features = parse(record)
        x = features["x"]
        if generator.random() < 0.5:
            x = x[::-1]
        return x, features["y"]

    return flip


def flipping_by_module() -> Function:
    random.seed(3)

    def flip(record: Any) -> Any:
        features = parse(record)
        return features["x" if random.random() < 0.5 else "z"]

    return flip


def giving_the_last() -> Function:
    last: list[Any] = []

    def give(record: Any) -> Any:
        last.append(parse(record)["y"])
        return last[-2] if len(last) > 1 else last[-1]

    return give


def giving_a_nonlocal() -> Function:
    last = None

    def give(record: Any) -> Any:
        nonlocal last
        before, last = last, parse(record)["y"]
        return last if before is None else before

    return give


def giving_a_global() -> Function:
    globals()["LAST"] = None

    def give(record: Any) -> Any:
        global LAST
        features = parse(record)
        before = features["y"] if LAST is None else LAST
        LAST = features["y"]
        return before

    return give


def counting() -> Function:
    globals()["COUNT"] = 0

    def count(record: Any) -> Any:
        global COUNT
        COUNT += 1
        return parse(record)["x" if COUNT % 2 else "z"]

    return count


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.by_name: dict[str, Any] = {}

    def __call__(self, record: Any) -> Any:
        self.count += 1
        return parse(record)["x" if self.count % 3 else "z"]

    def keeping(self, record: Any) -> Any:
        features = parse(record)
        self.by_name.update(features)
        return self.by_name["x"], len(self.by_name)


class Computed:
    def __init__(self) -> None:
        self.calls = 0

    @property
    def key(self) -> str:
        self.calls += 1
        return "x" if self.calls % 2 else "z"

    def __call__(self, record: Any) -> Any:
        return parse(record)[self.key]


def storing_in_a_default() -> Function:
    def store(record: Any, kept: dict[str, Any] = {}) -> Any:  # noqa: B006
        before = dict(kept)
        kept.update(parse(record))
        return {**kept, **before}

    return store


def an_attribute_of_itself() -> Function:
    def count(record: Any) -> Any:
        count.calls = getattr(count, "calls", 0) + 1  # type: ignore[attr-defined]
        return parse(record)["x" if count.calls % 2 else "z"]  # type: ignore[attr-defined]

    return count


def taking_turns() -> Function:
    keys = iter(["x", "z"] * NUM_RECORDS)
    return lambda record: parse(record)[next(keys)]


def generating() -> Function:
    def keys() -> Iterator[str]:
        while True:
            yield from ("x", "z", "z")

    turns = keys()
    return lambda record: parse(record)[next(turns)]


def importing(record: Any) -> Any:
    import random as drawn

    return parse(record)["x" if drawn.random() < 2 else "y"]


def trying_again(record: Any) -> Any:
    while True:
        try:
            if len(record):
                return parse(record)
        except ValueError:
            pass


def catching_what_is_missing(record: Any) -> Any:
    features = parse(record)
    try:
        try:
            return features["w"]
        except KeyError:
            return features["x"]
    except BaseException:
        return features["z"]


def catching_all() -> Function:
    keys = iter(["x", "z"] * NUM_RECORDS)

    def catch(record: Any) -> Any:
        features = parse(record)
        for _ in range(2):
            try:
                return features[next(keys)]
            except BaseException:
                pass
        return features["y"]

    return catch


def matching(record: Any) -> Any:
    match SPEC:
        case {"x": _}:
            return parse(record)["x"]
    return parse(record)["z"]


OPAQUE: dict[str, Callable[[], Function]] = {
    "random": flipping,
    "random as a module": flipping_by_module,
    "a list outside": giving_the_last,
    "a nonlocal": giving_a_nonlocal,
    "a global": giving_a_global,
    "a count": counting,
    "an attribute": Counter,
    "a dict of an object": lambda: Counter().keeping,
    "a property": Computed,
    "a mutable default": storing_in_a_default,
    "an attribute of the function": an_attribute_of_itself,
    "an iterator outside": taking_turns,
    "a generator outside": generating,
    "an import": lambda: importing,
    "trying again": lambda: trying_again,
    "an error that is caught": lambda: catching_what_is_missing,
    "all errors caught": catching_all,
    "match": lambda: matching,
    "identity": lambda: lambda r: parse(r)["x" if (r is KEY) else "y"],
    "the time": lambda: lambda r: parse(r)["x" if time.monotonic() >= 0 else "y"],
    "isinstance": lambda: lambda r: parse(r)["x" if isinstance(r, bytes) else "y"],
    "a cached function": lambda: functools.cache(parse),
    "a list of keys outside": lambda: functools.partial(lambda keys, r: parse(r)[keys[0]], ["x"]),
    "a spec that is made of another": lambda: lambda r: ps.io.parse_single_example(r, {**SPEC}),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_whatever_else_is_done_is_done_for_every_record(records: Any, name: str) -> None:
    assert parsing_of(OPAQUE[name]()) is None
    # An order of calls that is the records', and each in turn from the same state.
    ours = list(records.map(OPAQUE[name]()).batch(5))
    written = list(records.map(OPAQUE[name](), stateful=True).batch(5))
    assert len(ours) == len(written) == 3
    assert all(map(same, ours, written))


def test_nothing_outside_sees_a_stand_in(records: Any) -> None:
    seen: list[Any] = []
    by_name: dict[str, Any] = {}

    def noting(record: Any) -> Any:
        features = parse(record)
        seen.append(features["y"])
        by_name["last"] = features["y"]
        return features

    dataset = records.map(noting)
    dataset.explain()
    assert seen == []
    assert by_name == {}
    assert len(list(dataset)) == NUM_RECORDS
    assert sorted(map(int, seen)) == list(range(NUM_RECORDS))
    assert by_name == {"last": NUM_RECORDS - 1}


# --- what changes while it runs ---


def changing_global() -> tuple[Function, Callable[[], None]]:
    globals()["KEY"] = "x"
    return lambda r: parse(r)[KEY], lambda: globals().update(KEY="z")


def changing_flag() -> tuple[Function, Callable[[], None]]:
    flag = False

    def picked(record: Any) -> Any:
        features = parse(record)
        return features["x"] * 0 if flag else features["x"]

    def change() -> None:
        nonlocal flag
        flag = True

    return picked, change


def changing_attribute() -> tuple[Function, Callable[[], None]]:
    parser = Parser()
    return lambda r: parse(r)[parser.label], lambda: setattr(parser, "label", "x")


def changing_helper() -> tuple[Function, Callable[[], None]]:
    def helper(features: Any) -> Any:
        return features["x"]

    def change() -> None:
        nonlocal helper
        helper = lambda features: features["x"] + 1  # noqa: E731

    return lambda r: helper(parse(r)), change


def changing_spec() -> tuple[Function, Callable[[], None]]:
    spec = dict(SPEC)
    return lambda r: ps.io.parse_single_example(r, spec), lambda: spec.pop("y") and None


@pytest.mark.parametrize(
    "changing", [changing_global, changing_flag, changing_attribute, changing_helper, changing_spec]
)
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_what_changes_while_a_run_goes_on_counts(
    records: Any, changing: Callable[[], tuple[Function, Callable[[], None]]], batch: int | None
) -> None:
    results = []
    for stateful in (False, True):
        function, change = changing()
        assert parsing_of(function) is not None
        mapped = records.map(function, stateful=stateful)
        run = (mapped if batch is None else mapped.batch(batch)).run()
        found = [next(run)]  # one alone: how many are asked for later depends on how quick it is
        change()
        results.append([*found, *run])
    globals()["KEY"] = "x"
    assert len(results[0]) == len(results[1])
    assert all(map(same, *results))


def test_a_profiler_stays_as_it_was() -> None:
    before = sys.getprofile()
    assert parsing_of(parse) is not None
    assert sys.getprofile() is before
